import type { Batches } from './batches.ts'
import { type Bso, formatRecord, payloadBytes } from './bso.ts'
import type { Dialect } from './dialect.ts'
import { selectPage, renderPage } from './listing.ts'
import { configurationDocument, type Switches } from './options.ts'
import { code, jsonReply, Refusal, type Reply } from './reply.ts'
import type { InfoPage, StorageRequest } from './storage-request.ts'
import type { Storage } from './storage.ts'
import { formatSeconds } from './timestamps.ts'

/** One storage request inside its transaction. */
export interface Operation extends StorageRequest {
  storage: Storage
  batches: Batches
  switches: Switches
  dialect: Dialect
  uid: number
  /** The time of the transaction in milliseconds: exact, and rounded to the timestamp of its writes. */
  nowMs: number
  timestamp: number
  /** The timestamp of the requested resource before the request. */
  resource: number
}

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
  return jsonReply(formatSeconds(timestamp), timestamp)
}

/**
 * Answers DELETE /storage/<collection>/<id>. The body has the new timestamp of the collection; X-Last-Modified is that of
 * the deleted record.
 */
export function deleteItem({ storage, uid, collection, id, nowMs, timestamp }: Operation): Reply {
  if (storage.get(uid, collection, id, nowMs) === null) throw new Refusal(404)
  storage.deleteItems(uid, collection, [id])
  storage.touch(uid, collection, timestamp)
  return jsonReply(`{"modified":${formatSeconds(timestamp)}}`)
}

/** Answers GET /storage/<collection>. */
export function listCollection(operation: Operation): Reply {
  const { storage, query, format, switches } = operation
  const page = selectPage(storage, { ...operation, listCap: switches.listCap }, query)
  const headers: Record<string, string> = { 'X-Weave-Records': String(page.rows.length) }
  if (page.nextOffset !== null) headers['X-Weave-Next-Offset'] = page.nextOffset
  const body = renderPage(storage, page, query.full, format)
  return { status: 200, body, headers, contentType: `application/${format}` }
}

/** Answers POST /storage/<collection>: an upload, or part of a batch. */
export function postCollection(operation: Operation): Reply {
  switch (operation.batch.kind) {
    case 'none':
      checkQuota(operation)
      return store(operation)
    case 'start':
    case 'append':
      return stage(operation, operation.batch)
    case 'commit':
      return commit(operation, operation.batch.id)
    default:
      return operation.batch satisfies never
  }
}

/** Answers DELETE /storage/<collection>, with or without ids. */
export function deleteCollection(operation: Operation): Reply {
  const { storage, batches, uid, collection, query, timestamp } = operation
  if (query.ids === null) {
    storage.deleteCollection(uid, collection, timestamp)
    batches.discard(uid, collection)
    return jsonReply(formatSeconds(storage.storeTimestamp(uid)))
  }
  storage.deleteItems(uid, collection, query.ids)
  storage.touch(uid, collection, timestamp)
  return jsonReply(formatSeconds(timestamp), timestamp)
}

function store(operation: Operation, staged: readonly Bso[] = []): Reply {
  const { storage, uid, collection, timestamp, upload } = operation
  for (const bso of staged) storage.put(uid, collection, bso, timestamp, true)
  for (const bso of upload.valid) storage.put(uid, collection, bso, timestamp)
  storage.touch(uid, collection, timestamp)
  const body = `{"modified":${formatSeconds(timestamp)},${formatOutcome(upload)}}`
  return jsonReply(body, timestamp)
}

// If the database fails, the status is still 202, and every record of the request is reported as failed.
function stage(operation: Operation, request: { kind: 'start' } | { kind: 'append'; id: string }): Reply {
  const { batches, uid, collection, nowMs, upload, limits, dialect } = operation
  const id = request.kind === 'start' ? batches.start(uid, collection, nowMs) : request.id
  const batch = batches.find(id, uid, collection, nowMs)
  checkQuota(operation, new Map([...batch.staged, ...upload.valid.map((bso) => [bso.id, bso] as const)]))
  const isStaged = batches.append(batch, upload.valid, limits)
  // The whole transaction is rolled back, including a batch that it started.
  if (!isStaged && request.kind === 'start' && !dialect.keepsRecordsBeforeFailure) batches.take(id)
  const outcome = isStaged
    ? upload
    : { valid: [], failed: { ...upload.failed, ...databaseErrors(upload.valid) } }
  return { status: 202, body: `{"batch":${JSON.stringify(id)},${formatOutcome(outcome)}}` }
}

// A commit may contain more records. A ttl counts from the commit.
function commit(operation: Operation, id: string): Reply {
  const { batches, uid, collection, nowMs, timestamp, upload, dialect } = operation
  batches.find(id, uid, collection, nowMs)
  const failing = upload.valid.findIndex(({ payload = '' }) => !dialect.canStore(payload))
  if (failing < 0) return store(operation, batches.take(id))
  // Everything is rolled back, and the server still returns 200.
  if (dialect.keepsRecordsBeforeFailure) {
    store({ ...operation, upload: { valid: upload.valid.slice(0, failing), failed: {} } }, batches.take(id))
  }
  const outcome = { valid: [], failed: { ...upload.failed, ...databaseErrors(upload.valid) } }
  return jsonReply(`{"modified":${formatSeconds(timestamp)},${formatOutcome(outcome)}}`, timestamp)
}

function databaseErrors(bsos: readonly Bso[]): Record<string, string> {
  return Object.fromEntries(bsos.map(({ id }) => [id, 'db error']))
}

function formatOutcome({ valid, failed }: Operation['upload']): string {
  return `"success":${JSON.stringify(valid.map(({ id }) => id))},"failed":${JSON.stringify(failed)}`
}

/** Answers GET /info/<page>; see Sync 1.5 API, "General Info". */
export function readInfo(page: InfoPage, operation: Operation): Reply {
  const { storage, uid, nowMs, switches } = operation
  switch (page) {
    case 'collections':
      return mapReply(
        storage.collectionTimestamps(uid).map(([name, modified]) => [name, formatSeconds(modified)]),
      )
    case 'collection_counts':
      return mapReply(storage.usage(uid, nowMs).map(({ collection, count }) => [collection, String(count)]))
    case 'collection_usage':
      return mapReply(
        storage.usage(uid, nowMs).map(({ collection, bytes }) => [collection, formatFloat(bytes / 1024)]),
      )
    case 'quota':
      return jsonReply(`[${formatFloat(usedKilobytes(operation))},null]`)
    case 'configuration':
      return jsonReply(JSON.stringify(configurationDocument(switches)), 0)
    default:
      return page satisfies never
  }
}

/** Answers the DELETE of the whole store. */
export function deleteStore({ storage, batches, uid }: Operation): Reply {
  storage.deleteStore(uid)
  batches.discard(uid)
  return jsonReply('null')
}

function mapReply(entries: [name: string, json: string][]): Reply {
  const members = entries.map(([name, json]) => `${JSON.stringify(name)}:${json}`)
  return { ...jsonReply(`{${members.join()}}`), headers: { 'X-Weave-Records': String(entries.length) } }
}

function formatFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

// Throws 403 if the store has reached its quota, with these records of a batch.
function checkQuota(operation: Operation, staged: ReadonlyMap<string, Bso> = new Map()): void {
  const { quotaKilobytes } = operation.switches
  const stagedBytes = [...staged.values()].reduce((sum, bso) => sum + payloadBytes(bso), 0)
  if (quotaKilobytes !== null && usedKilobytes(operation) + stagedBytes / 1024 >= quotaKilobytes) {
    throw new Refusal(403, code.overQuota)
  }
}

/** The total size of unexpired payloads in the store. */
export function usedKilobytes({ storage, uid, nowMs }: Operation): number {
  return storage.usage(uid, nowMs).reduce((sum, { bytes }) => sum + bytes, 0) / 1024
}
