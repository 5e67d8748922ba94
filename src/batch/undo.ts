import { isRefusal, isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits, type SyncRecord, type Timestamp } from '../domain/record.ts'
import { ExpiredRows } from './expired-rows.ts'
import { splitIntoUploads, type CollectionState } from './collection-state.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'

// A definite refusal does not change when the write is repeated.
const maxRefusals = 5

/** The change of one record that is still to be undone. */
interface Change {
  /** The record as it was; null when there was none. */
  before: SyncRecord | null
  /** The version that the transaction left; null when it left no record. */
  leftAt: Timestamp | null
  /** Whether the row has to go: the record was not there, or has got a sortindex, which no write takes away. */
  mustRemove: boolean
  /** Whether the row may be gone by now. */
  mayBeRemoved: boolean
}

/**
 * The undo of what a transaction has made visible in one collection. It restores the records as they were before. A record that another
 * writer has changed since is left as it is. Two things can't be restored: the time of the last change, and the expiry of what had
 * one; such a record lives on without.
 */
export class Undo {
  /** Whether anything of it may have been carried out, after which only the undo can complete the transaction. */
  hasBegun = false
  readonly #pending: Map<string, Change>
  readonly #rows: ExpiredRows
  #refusals = 0

  constructor(
    private readonly storage: BulkStorage,
    private readonly collection: string,
    private readonly state: CollectionState,
    budget: Budget,
  ) {
    this.#pending = changesOf(state)
    this.#rows = new ExpiredRows(storage, collection, state.commit!.at, budget)
  }

  /** Whether the storage does not take a record back. */
  get isRefused(): boolean {
    return this.#refusals >= maxRefusals
  }

  /**
   * One attempt. Resolves to whether everything is restored. A snapshot begins it, which shows what attempts before have restored.
   * Never rejects.
   */
  async attempt(): Promise<boolean> {
    try {
      return await this.#restore()
    } catch (error) {
      if (isRefusal(error)) this.#refusals += 1
      return false
    }
  }

  async #restore(): Promise<boolean> {
    const { storage, collection, state } = this
    const pending = this.#pending
    const expired = state.commit!.expiredRows.filter((id) => pending.has(id))
    const rows = expired.length === 0 ? undefined : await this.#rows.look(expired)
    const { timestamp, records } = await storage.snapshot(collection, [...pending.keys()])
    if (rows === null || (rows && rows.timestamp !== timestamp)) return false
    const unseen = new Set(rows?.unseen)
    for (const [id, change] of pending) {
      // Another writer's change stays, and what an attempt before has restored looks like one.
      if (rows?.theirs.has(id) || unseen.has(id) || !this.#isOurs(change, records.get(id) ?? null))
        pending.delete(id)
    }
    const since = await this.#remove(timestamp, (id) => records.has(id))
    return since !== null && (await this.#write(since))
  }

  #isOurs({ before, leftAt, mayBeRemoved }: Change, now: SyncRecord | null): boolean {
    if (now === null) return leftAt === null || (mayBeRemoved && before !== null)
    return now.lastModified === leftAt || this.#rows.isEmptyRow(now)
  }

  /** Removes the rows that have to go. Resolves to the collection's timestamp; null: another writer was first. */
  async #remove(since: Timestamp, isThere: (id: string) => boolean): Promise<Timestamp | null> {
    const { storage, collection } = this
    const removed = [...this.#pending].filter(([id, { mustRemove }]) => mustRemove && isThere(id))
    if (removed.length === 0) return since
    const ids = removed.map(([id]) => id)
    const outcome = await storage.remove(collection, ids, since).catch((error: unknown) => {
      for (const [, change] of removed) change.mayBeRemoved ||= !isWithoutEffect(error)
      return this.#fail(error)
    })
    if (outcome.outcome === 'moved') return null
    this.hasBegun = true
    for (const [id, change] of removed) {
      change.mayBeRemoved = true
      if (change.before === null) this.#pending.delete(id)
    }
    return outcome.timestamp
  }

  /** Writes the others as they were. Resolves to whether all of them are restored. */
  async #write(since: Timestamp): Promise<boolean> {
    const { storage, collection, state } = this
    const pending = this.#pending
    const writes = Array.from(pending, ([id, { before }]): RecordWrite => {
      const { payload, sortindex } = before!
      return {
        id,
        payload,
        ...(sortindex !== undefined && { sortindex }),
        ttlSeconds: fieldLimits.ttlSeconds,
      }
    })
    let timestamp = since
    for (const portion of splitIntoUploads(writes, state.known.limits)) {
      const outcome = await storage
        .write(collection, portion, timestamp)
        .catch((error: unknown) => this.#fail(error))
      if (outcome.outcome === 'moved') return false
      this.hasBegun = true
      timestamp = outcome.timestamp
      for (const { id } of portion) if (!outcome.rejected.has(id)) pending.delete(id)
    }
    if (pending.size > 0) this.#refusals += 1
    return pending.size === 0
  }

  #fail(error: unknown): never {
    this.hasBegun ||= !isWithoutEffect(error)
    throw error
  }
}

function changesOf({ commit, known: { view } }: CollectionState): Map<string, Change> {
  const { at, writes } = commit!
  const changes = new Map<string, Change>()
  for (const { id, sortindex, ttlSeconds } of writes) {
    const before = view.records.get(id) ?? null
    const leftAt = ttlSeconds !== undefined && ttlSeconds <= 0 ? null : at
    const mustRemove = before === null || (sortindex !== undefined && before.sortindex === undefined)
    // What was neither there before nor is there now needs nothing.
    if (before !== null || leftAt !== null)
      changes.set(id, { before, leftAt, mustRemove, mayBeRemoved: false })
  }
  return changes
}
