import { UpstreamError } from '../domain/errors.ts'
import { fromSyncSeconds, type Timestamp } from '../domain/timestamp.ts'
import { jsonOf, unusable, type UpstreamResponse } from './response.ts'
import { groupIds, unmodifiedSinceHeader, type Query } from './request.ts'
import { readModified, readUploadResult, writeBsos, type UploadResult } from './bso.ts'
import type { StorageCalls, StorageWrite } from './signed-call.ts'
import type { CommitOutcome, DeletionOutcome, RecordWrite, StageOutcome } from '../domain/record-storage.ts'

const maxResultBytes = 4 * 1024 * 1024

/** Writes records in one request; see Sync 1.5 API, `POST storage/<collection>`. */
export async function write(
  calls: StorageCalls,
  collection: string,
  records: RecordWrite[],
  since: Timestamp,
): Promise<CommitOutcome> {
  const response = await post(calls, collection, [], records, since, 'upload')
  if (response.status === 412) return { outcome: 'moved' }
  return committed(response, readUploadResult(jsonOf(response), records))
}

/** Opens a batch or adds to one; a storage without batches writes at once. See Sync 1.5 API, "Batch uploads". */
export async function stage(
  calls: StorageCalls,
  collection: string,
  records: RecordWrite[],
  since: Timestamp,
  batch: string | null,
): Promise<StageOutcome> {
  const query: Query = [['batch', batch ?? 'true']]
  // If the storage has forgotten the batch, it rejects any addition, so the records are not at fault.
  const subject = batch === null ? 'upload' : 'staging'
  const response = await post(calls, collection, query, records, since, subject)
  if (response.status === 412) return { outcome: 'moved' }
  const result = readUploadResult(jsonOf(response), records)
  if (result.hasDatabaseFailed) {
    const message = 'Cannot stage the batch: the database of the storage failed'
    throw new UpstreamError('refused', message, { status: 500, applied: 'no' })
  }
  if (response.status === 200) return committed(response, result)
  if (result.batch === null) throw unusable('the batch id is missing')
  return { outcome: 'staged', batch: result.batch, rejected: result.rejected }
}

/** Makes a batch visible. Adds no records, because a record that is rejected now would not undo the rest. */
export async function commitStaged(
  calls: StorageCalls,
  collection: string,
  batch: string,
  since: Timestamp,
): Promise<CommitOutcome> {
  const query: Query = [
    ['batch', batch],
    ['commit', 'true'],
  ]
  const response = await post(calls, collection, query, [], since, 'staging')
  if (response.status === 412) return { outcome: 'moved' }
  return committed(response, readUploadResult(jsonOf(response), []))
}

/**
 * Deletes records by id in one request, on a connection of its own: the runtime would repeat a DELETE if a pooled connection died. Throws
 * if there are no ids, because the storage would then delete the whole collection.
 */
export async function remove(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  since: Timestamp,
): Promise<DeletionOutcome> {
  const [request, ...others] = deletions(collection, ids)
  if (!request || others.length > 0 || ids.includes(''))
    throw new RangeError('Cannot delete these records in one request')
  const response = await calls.send({ ...request, headers: unmodifiedSinceHeader(since) })
  if (response.status === 412) return { outcome: 'moved' }
  // A record that has a path of its own is compared by its own timestamp.
  const isAlone = request.query !== undefined
  return { outcome: 'committed', timestamp: readTimestamp(response) ?? since, isAlone }
}

/** Splits ids into groups that one request each can delete. */
export function splitDeletion(ids: string[]): string[][] {
  const { chunks, single } = groupIds(ids)
  return [...chunks, ...single.map((id) => [id])]
}

function post(
  calls: StorageCalls,
  collection: string,
  query: Query,
  records: RecordWrite[],
  since: Timestamp,
  subject: 'upload' | 'staging',
): Promise<UpstreamResponse> {
  const path = ['storage', collection]
  const headers = unmodifiedSinceHeader(since)
  const body = writeBsos(records)
  const maxBytes = maxResultBytes
  return calls.send({ method: 'POST', path, query, headers, body, subject, maxBytes })
}

function committed({ status, headers }: UpstreamResponse, result: UploadResult): CommitOutcome {
  const timestamp = result.timestamp ?? fromSyncSeconds(headers.get('x-last-modified'))
  if (status !== 200 || !timestamp) throw unusable('the timestamp is missing')
  return { outcome: 'committed', timestamp, rejected: result.rejected }
}

function deletions(collection: string, ids: string[]): StorageWrite[] {
  const path = ['storage', collection]
  const deletion = { method: 'DELETE', path, subject: 'record', maxBytes: maxResultBytes } as const
  const { chunks, single } = groupIds(ids)
  return [
    ...chunks.map((chunk): StorageWrite => ({ ...deletion, query: [['ids', chunk]] })),
    ...single.map((id) => ({ ...deletion, path: [...path, id], mayBeMissing: true })),
  ]
}

/** The collection's new timestamp, a number or part of an object in the body; null if nothing was deleted. */
function readTimestamp(response: UpstreamResponse): Timestamp | null {
  if (response.status === 404) return null
  const value = jsonOf(response)
  const modified =
    typeof value === 'object' && value !== null ? (value as { modified?: unknown }).modified : value
  const timestamp = readModified(modified) ?? fromSyncSeconds(response.headers.get('x-last-modified'))
  if (response.status === 200 && timestamp) return timestamp
  throw unusable('the timestamp of a deletion is missing')
}
