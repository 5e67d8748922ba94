import { isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits } from '../domain/record.ts'
import { whole } from './simulate.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { splitIntoUploads, type Visible } from './collection-changes.ts'
import type { BulkStorage, KnownRecord, RecordWrite } from '../domain/record-storage.ts'
import type { KnownCollection } from './known-collection.ts'

/** The change to one record that must be undone. */
interface Change {
  /** The record before the transaction; null if there was none. */
  before: KnownRecord | null
  /** The version that the transaction wrote; null if the record was gone after it. */
  leftAt: Timestamp | null
  /** Whether the row must be removed: the record is new, or got a sortindex, which no write can remove. */
  mustRemove: boolean
  /** Whether the row may be removed already. */
  mayBeRemoved: boolean
}

/**
 * Undoes what a transaction made visible in one collection, the deletions first. Keeps records that another writer has changed since. Can't
 * restore timestamps, nor the expiry of a record that had one.
 */
export class Undo {
  /** Whether any part may have been applied; then only the undo can complete the transaction. */
  hasBegun = false
  readonly #pending: Map<string, Change>

  constructor(
    private readonly storage: BulkStorage,
    private readonly known: KnownCollection,
    visible: Visible,
  ) {
    this.#pending = changesOf(visible, known.facts.view.records)
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
    const pending = this.#pending
    const { timestamp, records } = await this.known.snapshot([...pending.keys()], () => false)
    for (const [id, change] of pending) {
      // Keeps changes of other writers, and what an earlier attempt has restored.
      if (!this.#isOurs(change, records.get(id) ?? null)) pending.delete(id)
    }
    const restored = await this.#write(({ leftAt }) => leftAt === null, timestamp)
    const removed = restored && (await this.#remove(restored, (id) => records.has(id)))
    return removed !== null && (await this.#write(() => true, removed)) !== null && pending.size === 0
  }

  #isOurs({ before, leftAt, mayBeRemoved }: Change, now: KnownRecord | null): boolean {
    if (now === null) return leftAt === null || (mayBeRemoved && before !== null)
    return now.lastModified === leftAt
  }

  /** Removes rows that must go. Resolves to the collection's timestamp; null: another writer was first. */
  async #remove(since: Timestamp, isThere: (id: string) => boolean): Promise<Timestamp | null> {
    const { storage, known } = this
    const removed = new Map([...this.#pending].filter(([id, { mustRemove }]) => mustRemove && isThere(id)))
    let timestamp = since
    for (const ids of storage.splitDeletion([...removed.keys()])) {
      const changes = ids.map((id) => removed.get(id)!)
      const outcome = await storage.remove(known.collection, ids, timestamp).catch((error: unknown) => {
        for (const change of changes) change.mayBeRemoved ||= !isWithoutEffect(error)
        return this.#fail(error)
      })
      if (outcome.outcome === 'moved') return null
      this.hasBegun = true
      timestamp = outcome.timestamp
      for (const change of changes) change.mayBeRemoved = true
      for (const id of ids) if (removed.get(id)!.before === null) this.#pending.delete(id)
    }
    return timestamp
  }

  /** Restores those records. Resolves to the collection's timestamp; null: another writer was first. */
  async #write(isMeant: (change: Change) => boolean, since: Timestamp): Promise<Timestamp | null> {
    const { storage, known } = this
    const pending = this.#pending
    const writes = [...pending].flatMap(([id, change]): RecordWrite[] => {
      if (change.before === null || !isMeant(change)) return []
      const { payload, sortindex } = whole(change.before)!
      return [{ id, payload, sortindex, ttlSeconds: fieldLimits.ttlSeconds }]
    })
    let timestamp = since
    for (const portion of splitIntoUploads(writes, known.facts.limits)) {
      const outcome = await storage
        .write(known.collection, portion, timestamp)
        .catch((error: unknown) => this.#fail(error))
      if (outcome.outcome === 'moved') return null
      this.hasBegun = true
      timestamp = outcome.timestamp
      for (const { id } of portion) if (!outcome.rejected.has(id)) pending.delete(id)
    }
    return timestamp
  }

  #fail(error: unknown): never {
    this.hasBegun ||= !isWithoutEffect(error)
    throw error
  }
}

function changesOf({ uploadedAt, writes, deleted }: Visible, view: Map<string, KnownRecord>) {
  const changes = new Map<string, Change>()
  for (const [id, before] of deleted) {
    // What another writer has deleted stays deleted.
    if (before !== null) changes.set(id, { before, leftAt: null, mustRemove: false, mayBeRemoved: false })
  }
  for (const { id, sortindex, ttlSeconds } of writes) {
    const before = view.get(id) ?? null
    // A ttl of 0 comes from a client: the record is gone at once.
    const leftAt = ttlSeconds === 0 ? null : uploadedAt
    const mustRemove = before === null || (sortindex !== undefined && before.sortindex === undefined)
    // A record that was absent before and after needs no undo.
    if (before !== null || leftAt !== null)
      changes.set(id, { before, leftAt, mustRemove, mayBeRemoved: false })
  }
  return changes
}
