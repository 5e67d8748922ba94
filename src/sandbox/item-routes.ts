import { formatRecord } from './bso.ts'
import { checkQuota, quotaHeaders, type Operation } from './operation.ts'
import { Refusal, jsonReply, type Reply } from './reply.ts'
import { formatSeconds } from './timestamps.ts'

/** Answers GET /storage/<collection>/<id>. */
export function getItem({ storage, uid, collection, id, nowMs }: Operation): Reply {
  const record = storage.get(uid, collection, id, nowMs)
  if (record === null) throw new Refusal(404)
  return jsonReply(formatRecord(record, JSON.stringify(record.payload)))
}

/** Answers PUT /storage/<collection>/<id> with the new timestamp. */
export function putItem(operation: Operation): Reply {
  const { storage, uid, collection, id, fields, timestamp } = operation
  checkQuota(operation)
  storage.put(uid, collection, { id, ...fields }, timestamp)
  storage.touch(uid, collection, timestamp)
  return { ...jsonReply(formatSeconds(timestamp), timestamp), headers: quotaHeaders(operation) }
}

/**
 * Answers DELETE /storage/<collection>/<id>. The body has the new timestamp of the collection; X-Last-Modified remains
 * the one that the record had.
 */
export function deleteItem({ storage, uid, collection, id, nowMs, timestamp }: Operation): Reply {
  if (storage.get(uid, collection, id, nowMs) === null) throw new Refusal(404)
  storage.deleteItems(uid, collection, [id])
  storage.touch(uid, collection, timestamp)
  return jsonReply(`{"modified":${formatSeconds(timestamp)}}`)
}
