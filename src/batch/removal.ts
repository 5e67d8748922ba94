import { isWithoutEffect } from '../domain/errors.ts'
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
  let isDoubtful = false
  for (let failures = 1; left.length > 0; failures += 1) {
    try {
      // An answer that was lost may be to our own removal.
      if (isDoubtful) left = await storage.rewrittenSince(collection, left, zeroTimestamp)
      // Seen later than it was done, or after a failure, the collection may have been written to, and one of these records as well.
      const mayBeRewritten = left.length > 0 && (failures > 1 || since > deletedAt)
      if (mayBeRewritten) ({ left, at } = await sparingRewritten(storage, collection, left, deletedAt))
      if (left.length === 0) break
      const outcome = await storage.remove(collection, left, at)
      if (outcome.outcome === 'committed')
        return { left: kept, at: at === deletedAt ? outcome.timestamp : null }
    } catch (error) {
      isDoubtful ||= !isWithoutEffect(error)
    }
    if (!budget.hasTime) break
    await budget.backOff(failures)
  }
  return { left: [...kept, ...left], at: null }
}

/**
 * The ids whose rows are still to be removed, and the collection's timestamp as of which that is so. A record that somebody
 * has written anew is left alone, and gets a new expiry where it has kept that of the deleted one.
 */
async function sparingRewritten(
  storage: BulkStorage,
  collection: string,
  ids: string[],
  since: Timestamp,
): Promise<{ left: string[]; at: Timestamp }> {
  const { timestamp, records } = await storage.snapshot(collection, ids)
  const invisible = ids.filter((id) => !records.has(id))
  const rewritten = new Set(await storage.rewrittenSince(collection, invisible, since))
  const left = invisible.filter((id) => !rewritten.has(id))
  if (rewritten.size === 0) return { left, at: timestamp }
  const revived = Array.from(rewritten, (id): RecordWrite => ({ id, ttlSeconds: fieldLimits.ttlSeconds }))
  const outcome = await storage.write(collection, revived, timestamp)
  if (outcome.outcome === 'committed') return { left, at: outcome.timestamp }
  return { left: invisible, at: timestamp }
}
