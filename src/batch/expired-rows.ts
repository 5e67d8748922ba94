import { isWithoutEffect, UpstreamError } from '../domain/errors.ts'
import { fieldLimits, zeroTimestamp, type SyncRecord, type Timestamp } from '../domain/record.ts'
import type { BulkStorage, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'
import type { CollectionState } from './collection-state.ts'

/** Another bridge that has just deleted such a record usually removes its row within this time. */
const secondCheckMs = 50
/** A row is revealed only when there is time to remove it again, should it be empty. */
const minRevealMs = 2000

/** What a look at rows has shown, and the collection's timestamp as of which that is so. */
interface Look {
  /** These records are other clients'. */
  theirs: Set<string>
  /** These rows were written by others, and there was no time to see what they hold. */
  unseen: string[]
  timestamp: Timestamp
}

/**
 * The rows of records that were deleted by a write. Five rules keep other clients' records in them:
 *
 * 1. A deletion is a write with an empty payload and a ttl of 0: the record is gone at once, its row stays, expired.
 * 2. A row is removed only on the condition that nobody has written to the collection since the last look at it.
 * 3. A row that is newer than the deletion was written by somebody else. Nobody sees it, because it keeps its expiry, so it is
 *    revealed: one commit gives it a new expiry and a new version.
 * 4. If a revealed row is empty, it was deleted through another bridge, and is removed. Anything else is a client's record, and stays.
 * 5. Before a record is created that must not exist, its row is looked for if others have just changed the collection; see
 *    `other-writers.ts`.
 */
export class ExpiredRows {
  /** Records whose rows were revealed, or may have been when the answer was lost. */
  readonly #revealed = new Set<string>()

  constructor(
    private readonly storage: BulkStorage,
    private readonly collection: string,
    private readonly deletedAt: Timestamp,
    private readonly budget: Budget,
  ) {}

  /** Whether a visible record is only the empty row of a deleted one, which was revealed to see what it holds. */
  isEmptyRow({ id, payload }: SyncRecord): boolean {
    return payload === '' && this.#revealed.has(id)
  }

  /** Looks whether the rows of these records hold records of other clients now. Null: the collection has changed meanwhile. */
  async look(ids: string[]): Promise<Look | null> {
    const { storage, collection, budget } = this
    let snapshot: Snapshot | null = await storage.snapshot(collection, ids)
    const { records, timestamp } = snapshot
    const rewritten = await this.#rewritten(ids.filter((id) => !records.has(id)))
    const canReveal = budget.leftMs >= minRevealMs
    if (rewritten.length > 0 && canReveal) snapshot = await this.#reveal(rewritten, ids, timestamp)
    if (snapshot === null) return null
    const theirs = [...snapshot.records.values()].filter((record) => !this.isEmptyRow(record))
    return {
      theirs: new Set(theirs.map(({ id }) => id)),
      unseen: canReveal ? [] : rewritten,
      timestamp: snapshot.timestamp,
    }
  }

  async #rewritten(ids: string[]): Promise<string[]> {
    const { storage, collection, deletedAt, budget } = this
    const rewritten = await storage.rewrittenSince(collection, ids, deletedAt)
    if (rewritten.length === 0) return rewritten
    await budget.wait(secondCheckMs)
    return await storage.rewrittenSince(collection, rewritten, deletedAt)
  }

  /** Staged, because only a staged commit gives a record a new version of which nothing but the ttl is written. */
  async #reveal(rewritten: string[], ids: string[], since: Timestamp): Promise<Snapshot | null> {
    const { storage, collection } = this
    const writes = rewritten.map((id): RecordWrite => ({ id, ttlSeconds: fieldLimits.ttlSeconds }))
    const staged = await storage.stage(collection, writes, since, null)
    for (const id of rewritten) this.#revealed.add(id)
    const outcome =
      staged.outcome === 'staged' ? await storage.commitStaged(collection, staged.batch, since) : staged
    if (outcome.outcome === 'moved') return null
    const snapshot = await storage.snapshot(collection, ids)
    return snapshot.timestamp === outcome.timestamp ? snapshot : null
  }
}

/**
 * Removes the rows of the records that a commit has deleted by writing them. Resolves to the ids whose rows are left, because the
 * storage does not find them or time is up, and to the moment when the others went, if no other writer came in between. Never rejects.
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
  // Seen later than it was done, the collection may have been written to since, and one of these records as well.
  let mustLook = seenAt > deletedAt
  let isDoubtful = false
  for (let failures = 1; left.length > 0; failures += 1) {
    try {
      if (mustLook) {
        const seen = await rows.look(left)
        if (seen !== null) {
          kept.push(...seen.unseen)
          left = left.filter((id) => !seen.theirs.has(id) && !seen.unseen.includes(id))
          since = seen.timestamp
          mustLook = false
        }
      }
      if (left.length > 0 && !mustLook) {
        const outcome = await storage.remove(collection, left, since)
        if (outcome.outcome === 'committed')
          return { left: kept, at: since === deletedAt ? outcome.timestamp : null }
        mustLook = true
        // It may have been our own removal that changed the collection.
        if (isDoubtful) left = await storage.rewrittenSince(collection, left, zeroTimestamp)
      }
    } catch (error) {
      const isMoved = error instanceof UpstreamError && error.status === 412
      mustLook ||= isMoved
      isDoubtful ||= !isMoved && !isWithoutEffect(error)
    }
    if (left.length === 0 || !budget.hasTime) break
    await budget.backOff(failures)
  }
  return { left: [...kept, ...left], at: null }
}
