import { isRefusal, isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits, type SyncRecord, type Timestamp } from '../domain/record.ts'
import { spareRewritten } from './removal.ts'
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
 * Restores the records as they were before the transaction. A record that another writer has changed since is left as it
 * is. Two things can't be restored: the time of the last change, and the expiry of what had one; such a record lives on
 * without. Resolves to false when the storage kept failing or refused a record. Never rejects.
 */
export async function undoChanges(
  storage: BulkStorage,
  collection: string,
  state: CollectionState,
  budget: Budget,
): Promise<boolean> {
  const pending = changesOf(state)
  let refusals = 0
  for (let failures = 1; ; failures += 1) {
    try {
      const end = await restore(storage, collection, pending, state)
      if (end === 'done') return true
      if (end === 'refused') refusals += 1
    } catch (error) {
      if (isRefusal(error)) refusals += 1
    }
    if (refusals >= maxRefusals || !budget.hasTime) return false
    // The snapshot that begins the next round shows what this one has restored.
    await budget.backOff(failures)
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

/** One round. `moved`: another writer changed the collection meanwhile. `refused`: the storage did not take a record back. */
async function restore(
  storage: BulkStorage,
  collection: string,
  pending: Map<string, Change>,
  { commit, known: { limits } }: CollectionState,
): Promise<'done' | 'moved' | 'refused'> {
  const { timestamp, records } = await storage.snapshot(collection, [...pending.keys()])
  for (const [id, { before, leftAt, mayBeRemoved }] of pending) {
    const now = records.get(id)?.lastModified ?? null
    const isOurs = now === leftAt || (now === null && mayBeRemoved && before !== null)
    // Another writer's change stays, and what an earlier round has restored looks like one.
    if (!isOurs) pending.delete(id)
  }
  const { at, isExact, expiredRows } = commit!
  const expired = expiredRows.filter((id) => isExact && pending.has(id))
  // What another writer has written into a row that we left expired is seen by nobody.
  const seen = await spareRewritten(storage, collection, expired, at, timestamp)
  if (seen === null) return 'moved'
  for (const id of seen.spared) pending.delete(id)
  let since = seen.at
  const removed = [...pending].filter(([id, { mustRemove }]) => mustRemove && records.has(id))
  if (removed.length > 0) {
    const ids = removed.map(([id]) => id)
    const outcome = await storage.remove(collection, ids, since).catch((error: unknown) => {
      for (const [, change] of removed) change.mayBeRemoved ||= !isWithoutEffect(error)
      throw error
    })
    if (outcome.outcome === 'moved') return 'moved'
    since = outcome.timestamp
    for (const [id, change] of removed) {
      change.mayBeRemoved = true
      if (change.before === null) pending.delete(id)
    }
  }
  const writes = Array.from(pending, ([id, { before }]): RecordWrite => {
    const { payload, sortindex } = before!
    return { id, payload, ...(sortindex !== undefined && { sortindex }), ttlSeconds: fieldLimits.ttlSeconds }
  })
  for (const portion of splitIntoUploads(writes, limits)) {
    const outcome = await storage.write(collection, portion, since)
    if (outcome.outcome === 'moved') return 'moved'
    since = outcome.timestamp
    for (const { id } of portion) if (!outcome.rejected.has(id)) pending.delete(id)
  }
  return pending.size === 0 ? 'done' : 'refused'
}
