import { isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits, zeroTimestamp, type Timestamp } from '../domain/record.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'

/**
 * Removes the rows of records that were deleted by a write with a ttl of 0, at the moment `since` or before. Until then such a row is only
 * invisible, and would keep its expiry when another client writes it anew, which nobody would ever see.
 *
 * Resolves to whether all are gone, which they may not be when time is up, and to the moment when they went, if no other writer came in
 * between. Never rejects.
 */
export async function removeRows(
  storage: BulkStorage,
  collection: string,
  ids: string[],
  since: Timestamp,
  budget: Budget,
): Promise<{ isDone: boolean; at: Timestamp | null }> {
  let left = ids
  let at = since
  let isDoubtful = false
  for (let failures = 1; ; failures += 1) {
    try {
      const outcome = await storage.remove(collection, left, at)
      if (outcome.outcome === 'committed')
        return { isDone: true, at: at === since ? outcome.timestamp : null }
      // Somebody has written to the collection meanwhile, and perhaps one of these records: we ourselves, if an answer was lost.
      if (isDoubtful) left = await storage.rewrittenSince(collection, left, zeroTimestamp)
      if (left.length > 0) ({ left, at } = await sparingRewritten(storage, collection, left, since))
      if (left.length === 0) return { isDone: true, at: null }
    } catch (error) {
      isDoubtful ||= !isWithoutEffect(error)
    }
    if (!budget.hasTime) return { isDone: false, at: null }
    await budget.backOff(failures)
  }
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
