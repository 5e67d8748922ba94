import { UpstreamError } from '../domain/errors.ts'
import { fromSyncSeconds } from '../domain/timestamp.ts'
import { discard, readJson } from './answer.ts'
import { readModified } from './bso.ts'
import { chunkIds, isListable, unmodifiedSinceHeader } from './wire.ts'
import type { CommitOutcome } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls, StorageWrite } from './storage-calls.ts'

const maxResultBytes = 65_536

/**
 * Deletes records by their ids, in as many requests as that takes, each conditional on the timestamp that the one
 * before left. Ids that such a request can't name are deleted one by one, conditional on their own timestamp. Throws when there are no
 * ids: the storage would take a request without ids for the whole collection.
 */
export async function removeRecords(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  unmodifiedSince: Timestamp,
): Promise<CommitOutcome> {
  if (ids.length === 0 || ids.includes('')) throw new RangeError('Cannot delete records: an id is missing')
  let timestamp = unmodifiedSince
  let hasRemoved = false
  for (const request of deletions(collection, ids)) {
    try {
      const answer = await calls.write({ ...request, headers: unmodifiedSinceHeader(timestamp) })
      if (answer.status === 412) {
        if (!hasRemoved) return { outcome: 'moved' }
        throw new UpstreamError('refused', 'Cannot delete all records: the collection changed', {
          status: 412,
        })
      }
      timestamp = (await readTimestamp(answer)) ?? timestamp
    } catch (error) {
      throw hasRemoved ? partly(error) : error
    }
    hasRemoved = true
  }
  return { outcome: 'committed', timestamp, rejected: new Map() }
}

function deletions(collection: string, ids: string[]): StorageWrite[] {
  const listed = ids.filter(isListable)
  const single = ids.filter((id) => !isListable(id))
  const path = ['storage', collection]
  const method = 'DELETE'
  return [
    ...chunkIds(listed).map((chunk): StorageWrite => ({
      method,
      path,
      query: [['ids', chunk]],
      subject: 'record',
    })),
    ...single.map((id): StorageWrite => ({
      method,
      path: [...path, id],
      subject: 'record',
      mayBeMissing: true,
    })),
  ]
}

/** The collection's new timestamp, in the body as a number or in an object; null when there was nothing to delete. */
async function readTimestamp(answer: UpstreamAnswer): Promise<Timestamp | null> {
  if (answer.status === 404) {
    await discard(answer)
    return null
  }
  const value = await readJson(answer, maxResultBytes)
  const modified =
    typeof value === 'object' && value !== null ? (value as { modified?: unknown }).modified : value
  const timestamp = readModified(modified) ?? fromSyncSeconds(answer.headers.get('x-last-modified'))
  if (answer.status === 200 && timestamp) return timestamp
  throw new UpstreamError('bad-response', 'Cannot use an answer to a deletion: it tells no timestamp')
}

/** Whatever stopped the later requests, the earlier ones have been carried out. */
function partly(cause: unknown): UpstreamError {
  const { retryAfterSeconds = null } = cause instanceof UpstreamError ? cause : {}
  return new UpstreamError('refused', 'Cannot delete all records: some are gone', {
    applied: 'unknown',
    retryAfterSeconds,
    cause,
  })
}
