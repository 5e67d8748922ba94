import { isWithoutEffect, UpstreamError } from '../domain/errors.ts'
import { fieldLimits, zeroTimestamp, type Timestamp } from '../domain/record.ts'
import type { BulkStorage, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'
import type { CollectionState } from './collection-state.ts'

/** Another bridge usually removes the row of a record that it deleted within this time. */
const secondCheckMs = 50

/**
 * The rows of records that were deleted by a write. These rules protect other clients' records in them:
 *
 * 1. A deletion writes a tombstone with a ttl of 0: the record is gone at once, its expired row remains.
 * 2. A row is removed only if the collection has not changed since it was inspected.
 * 3. A row newer than the deletion was written by another client and is invisible, because it keeps its expiry. It is revealed: one commit
 *    gives it a new expiry and version.
 * 4. A revealed row with a tombstone was deleted through another bridge, and is removed. Any other is a client's record and stays.
 * 5. Before creating a record that must be absent, its row is checked if others have just changed the collection; see `other-writers.ts`.
 */
export class ExpiredRows {
  constructor(
    private readonly storage: BulkStorage,
    private readonly collection: string,
    private readonly deletedAt: Timestamp,
    private readonly budget: Budget,
  ) {}

  /** Other clients' records in the rows of these records, now visible. Null: the collection has changed meanwhile. */
  async inspect(ids: string[]): Promise<Snapshot | null> {
    const snapshot = await this.storage.snapshot(this.collection, ids)
    const rewritten = await this.#rewritten(ids.filter((id) => !snapshot.records.has(id)))
    return rewritten.length === 0 ? snapshot : await this.#reveal(rewritten, ids, snapshot.timestamp)
  }

  async #rewritten(ids: string[]): Promise<string[]> {
    const { storage, collection, deletedAt, budget } = this
    const rewritten = await storage.rewrittenSince(collection, ids, deletedAt)
    if (rewritten.length === 0) return rewritten
    await budget.wait(secondCheckMs)
    return await storage.rewrittenSince(collection, rewritten, deletedAt)
  }

  /** Staged, because only a staged commit that writes just the ttl gives a record a new version. */
  async #reveal(rewritten: string[], ids: string[], since: Timestamp): Promise<Snapshot | null> {
    const { storage, collection } = this
    const writes = rewritten.map((id): RecordWrite => ({ id, ttlSeconds: fieldLimits.ttlSeconds }))
    const staged = await storage.stage(collection, writes, since, null)
    const outcome =
      staged.outcome === 'staged' ? await storage.commitStaged(collection, staged.batch, since) : staged
    if (outcome.outcome === 'moved') return null
    const snapshot = await storage.snapshot(collection, ids)
    return snapshot.timestamp === outcome.timestamp ? snapshot : null
  }
}

/**
 * Removes the rows of records that a commit has deleted by writing them. Resolves to the ids whose rows remain, and to the timestamp of the
 * removal if no other writer came in between. Never rejects.
 */
export async function removeRows(
  storage: BulkStorage,
  collection: string,
  { commit, since: seenAt }: CollectionState,
  budget: Budget,
): Promise<{ left: string[]; at: Timestamp | null }> {
  const { at: deletedAt, expiredRows } = commit!
  const rows = new ExpiredRows(storage, collection, deletedAt, budget)
  const kept = expiredRows.filter((id) => !storage.deletesExpired(id))
  let left = expiredRows.filter((id) => storage.deletesExpired(id))
  let since = seenAt
  // If the commit was seen only later, others may have written to these records since.
  let mustInspect = seenAt > deletedAt
  let isDoubtful = false
  for (let failures = 1; left.length > 0; failures += 1) {
    try {
      if (mustInspect) {
        const seen = await rows.inspect(left)
        if (seen !== null) {
          left = left.filter((id) => !seen.records.has(id))
          since = seen.timestamp
          mustInspect = false
        }
      }
      if (left.length > 0 && !mustInspect) {
        const outcome = await storage.remove(collection, left, since)
        if (outcome.outcome === 'committed')
          return { left: kept, at: since === deletedAt ? outcome.timestamp : null }
        mustInspect = true
        // Our own removal may have changed the collection.
        if (isDoubtful) left = await storage.rewrittenSince(collection, left, zeroTimestamp)
      }
    } catch (error) {
      const isMoved = error instanceof UpstreamError && error.status === 412
      mustInspect ||= isMoved
      isDoubtful ||= !isMoved && !isWithoutEffect(error)
    }
    if (left.length === 0 || !budget.hasTime) break
    await budget.backOff(failures)
  }
  return { left: [...kept, ...left], at: null }
}
