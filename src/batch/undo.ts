import { isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits, type SyncRecord, type Timestamp } from '../domain/record.ts'
import { ExpiredRows } from './expired-rows.ts'
import { splitIntoUploads, type CollectionState } from './collection-state.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'

/** The change to one record that must be undone. */
interface Change {
  /** The record before the transaction; null if there was none. */
  before: SyncRecord | null
  /** The version that the transaction wrote; null if it deleted the record. */
  leftAt: Timestamp | null
  /** Whether the row must be removed: the record is new, or got a sortindex, which no write can remove. */
  mustRemove: boolean
  /** Whether the row may be removed already. */
  mayBeRemoved: boolean
}

/**
 * Undoes what a transaction made visible in one collection. Keeps records that another writer has changed since. Can't restore timestamps,
 * nor the expiry of a record that had one.
 */
export class Undo {
  /** Whether any part may have been applied; then only the undo can complete the transaction. */
  hasBegun = false
  readonly #pending: Map<string, Change>
  readonly #rows: ExpiredRows

  constructor(
    private readonly storage: BulkStorage,
    private readonly collection: string,
    private readonly state: CollectionState,
    budget: Budget,
  ) {
    this.#pending = changesOf(state)
    this.#rows = new ExpiredRows(storage, collection, state.commit!.at, budget)
  }

  /** Makes one attempt, against a new snapshot. Resolves to whether everything is restored. Never rejects. */
  async attempt(): Promise<boolean> {
    try {
      return await this.#restore()
    } catch {
      return false
    }
  }

  async #restore(): Promise<boolean> {
    const { storage, collection, state } = this
    const pending = this.#pending
    const expired = state.commit!.expiredRows.filter((id) => pending.has(id))
    const rows = expired.length === 0 ? undefined : await this.#rows.inspect(expired)
    const { timestamp, records } = await storage.snapshot(collection, [...pending.keys()])
    if (rows === null || (rows && rows.timestamp !== timestamp)) return false
    for (const [id, change] of pending) {
      // Keeps changes of other writers, and what an earlier attempt has restored.
      if (!this.#isOurs(change, records.get(id) ?? null)) pending.delete(id)
    }
    const since = await this.#remove(timestamp, (id) => records.has(id))
    return since !== null && (await this.#write(since))
  }

  #isOurs({ before, leftAt, mayBeRemoved }: Change, now: SyncRecord | null): boolean {
    if (now === null) return leftAt === null || (mayBeRemoved && before !== null)
    return now.lastModified === leftAt
  }

  /** Removes rows that must go. Resolves to the collection's timestamp; null: another writer was first. */
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

  /** Restores the other records. Resolves to whether all of them are restored. */
  async #write(since: Timestamp): Promise<boolean> {
    const { storage, collection, state } = this
    const pending = this.#pending
    const writes = Array.from(pending, ([id, { before }]): RecordWrite => {
      const { payload, sortindex } = before!
      return { id, payload, sortindex, ttlSeconds: fieldLimits.ttlSeconds }
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
    const leftAt = ttlSeconds === 0 ? null : at
    const mustRemove = before === null || (sortindex !== undefined && before.sortindex === undefined)
    // A record that was absent before and after needs no undo.
    if (before !== null || leftAt !== null)
      changes.set(id, { before, leftAt, mustRemove, mayBeRemoved: false })
  }
  return changes
}
