import { isWithoutEffect, UpstreamError } from '../domain/errors.ts'
import { fieldLimits, zeroTimestamp, type Timestamp } from '../domain/record.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'
import type { CollectionState } from './collection-state.ts'

/**
 * Removes the rows of records that were deleted by a write with a ttl of 0. Until then such a row is only invisible, and would keep its
 * expiry when another client writes it anew, which nobody would ever see.
 *
 * Resolves to the ids whose rows are left, because the storage does not find them, time is up, or nobody can tell whether somebody has
 * written there, and to the moment when the others went, if no other writer came in between. Never rejects.
 */
export async function removeRows(
  storage: BulkStorage,
  collection: string,
  { commit, since }: CollectionState,
  budget: Budget,
): Promise<{ left: string[]; at: Timestamp | null }> {
  const { at: deletedAt, expiredRows, isExact } = commit!
  const mayBeRemoved = (id: string) => isExact && storage.removesExpired(id)
  let left = expiredRows.filter(mayBeRemoved)
  const kept = expiredRows.filter((id) => !mayBeRemoved(id))
  let at = since
  // Seen later than it was done, the collection may have been written to since, and one of these records as well.
  let mayBeRewritten = since > deletedAt
  let isDoubtful = false
  for (let failures = 1; left.length > 0; failures += 1) {
    try {
      if (mayBeRewritten) {
        const { timestamp, records } = await storage.snapshot(collection, left)
        const expired = left.filter((id) => !records.has(id))
        const seen = await spareRewritten(storage, collection, expired, deletedAt, timestamp)
        if (seen !== null) {
          left = expired.filter((id) => !seen.spared.has(id))
          at = seen.at
          mayBeRewritten = false
        }
      }
      if (left.length > 0 && !mayBeRewritten) {
        const outcome = await storage.remove(collection, left, at)
        if (outcome.outcome === 'committed')
          return { left: kept, at: at === deletedAt ? outcome.timestamp : null }
        mayBeRewritten = true
        // It may have been our own removal that changed the collection.
        if (isDoubtful) left = await storage.rewrittenSince(collection, left, zeroTimestamp)
      }
    } catch (error) {
      const isMoved = error instanceof UpstreamError && error.status === 412
      mayBeRewritten ||= isMoved
      isDoubtful ||= !isMoved && !isWithoutEffect(error)
    }
    if (left.length === 0 || !budget.hasTime) break
    await budget.backOff(failures)
  }
  return { left: [...kept, ...left], at: null }
}

/**
 * Which of these expired rows hold what somebody has written since, which is newer than ours, and the collection's timestamp as of which
 * that is so; they were all invisible as of `timestamp`. What was written gets a new expiry: it has kept that of the deleted record. Null:
 * another writer was first.
 */
export async function spareRewritten(
  storage: BulkStorage,
  collection: string,
  ids: string[],
  deletedAt: Timestamp,
  timestamp: Timestamp,
): Promise<{ spared: Set<string>; at: Timestamp } | null> {
  const spared = new Set(await storage.rewrittenSince(collection, ids, deletedAt))
  if (spared.size === 0) return { spared, at: timestamp }
  const revived = Array.from(spared, (id): RecordWrite => ({ id, ttlSeconds: fieldLimits.ttlSeconds }))
  const outcome = await storage.write(collection, revived, timestamp)
  return outcome.outcome === 'moved' ? null : { spared, at: outcome.timestamp }
}
