import { isRefusal, UpstreamError } from '../domain/errors.ts'
import { fieldLimits } from '../domain/record.ts'
import { splitIntoUploads } from './plan.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { AppliedChange, CollectionState } from './collection-state.ts'
import type { Pace } from './pace.ts'

// A definite refusal does not change when the write is repeated.
const maxRefusals = 5

/**
 * Restores the records as they were before the transaction. A record that another writer has changed since is left as it
 * is. Two things can't be restored: the time of the last change, and the expiry where a ttl was written or the record
 * deleted; such a record lives on without one. Resolves to false when the storage kept failing or refused a record. Never
 * rejects.
 */
export async function undoChanges(
  storage: BulkStorage,
  collection: string,
  state: CollectionState,
  pace: Pace,
): Promise<boolean> {
  const undo = new Undo(storage, collection, state)
  let failures = 0
  let refusals = 0
  do {
    try {
      const end = await undo.run()
      if (end === 'done') return true
      if (end === 'refused') refusals += 1
      await pace.pause()
    } catch (error) {
      // The snapshot that begins the next round shows whether the failed step was applied.
      if (isRefusal(error)) refusals += 1
      failures += 1
      await pace.backOff(failures)
    }
  } while (refusals < maxRefusals && pace.hasTimeToRetry)
  return false
}

/** A record that is not restored yet. */
interface Pending extends AppliedChange {
  /**
   * A sortindex can't be removed, so such a record is deleted first and written again. True when the answer to that
   * deletion was lost.
   */
  isBeingReset: boolean
}

class Undo {
  readonly #pending = new Map<string, Pending>()
  #since: Timestamp
  #isStale: boolean

  constructor(
    private readonly storage: BulkStorage,
    private readonly collection: string,
    private readonly state: CollectionState,
  ) {
    this.#since = state.since
    this.#isStale = state.mayHaveConcurrentWrites
    for (const [id, change] of state.applied) {
      const hadNothing = change.before === null && change.leftAt === null
      if (!hadNothing) this.#pending.set(id, { ...change, isBeingReset: false })
    }
  }

  /**
   * One round. `moved`: another writer changed the collection meanwhile. `refused`: the storage did not take a record
   * back.
   */
  async run(): Promise<'done' | 'moved' | 'refused'> {
    const { storage, collection } = this
    if (this.#isStale)
      this.#dropConcurrentWrites(await storage.snapshot(collection, [...this.#pending.keys()]))
    // If this round ends early, the state of the collection is unknown.
    this.#isStale = true

    const resets = this.#idsWhere((change) => mustReset(change))
    if (resets.length > 0) {
      if (!this.#note(await this.#removeForReset(resets))) return 'moved'
      for (const id of resets) Object.assign(this.#pending.get(id)!, { leftAt: null, wroteSortindex: false })
    }
    const restored = [...this.#pending].flatMap(([id, change]) => restoration(id, change) ?? [])
    for (const records of splitIntoUploads(restored, this.state.limits)) {
      if (!this.#note(await storage.write(collection, records, this.#since), records)) return 'moved'
    }
    const created = this.#idsWhere(({ before }) => before === null)
    if (created.length > 0) {
      if (!this.#note(await storage.remove(collection, created, this.#since))) return 'moved'
      for (const id of created) this.#pending.delete(id)
    }
    return this.#pending.size === 0 ? 'done' : 'refused'
  }

  async #removeForReset(ids: string[]): Promise<CommitOutcome> {
    try {
      return await this.storage.remove(this.collection, ids, this.#since)
    } catch (error) {
      const mayHaveWorked = !(error instanceof UpstreamError) || error.applied === 'unknown'
      if (mayHaveWorked) for (const id of ids) this.#pending.get(id)!.isBeingReset = true
      throw error
    }
  }

  #idsWhere(holds: (change: Pending) => boolean): string[] {
    return [...this.#pending].filter(([, change]) => holds(change)).map(([id]) => id)
  }

  #note(outcome: CommitOutcome, records: RecordWrite[] = []): boolean {
    if (outcome.outcome === 'moved') return false
    this.#since = outcome.timestamp
    for (const { id } of records) if (!outcome.rejected.has(id)) this.#pending.delete(id)
    return true
  }

  /** Keeps only the records that are still as the transaction left them. */
  #dropConcurrentWrites(snapshot: Snapshot): void {
    this.#since = snapshot.timestamp
    for (const [id, change] of this.#pending) {
      const now = snapshot.records.get(id) ?? null
      const isReset = now === null && change.leftAt !== null && change.isBeingReset
      if (isReset) Object.assign(change, { leftAt: null, wroteSortindex: false })
      else if ((now?.lastModified ?? null) !== change.leftAt) this.#pending.delete(id)
    }
  }
}

function mustReset({ before, wroteSortindex }: Pending): boolean {
  return before !== null && wroteSortindex && before.sortindex === undefined
}

function restoration(id: string, change: Pending): RecordWrite | null {
  const { before, leftAt, wroteTtl, wroteVersion } = change
  if (before === null) return null
  const expiry = wroteTtl || leftAt === null ? { ttlSeconds: fieldLimits.ttlSeconds } : {}
  if (!wroteVersion && leftAt !== null) return { id, ...expiry }
  return { id, payload: before.payload, sortindex: before.sortindex, ...expiry }
}
