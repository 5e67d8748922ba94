import { isRefusal, isWithoutEffect } from '../domain/errors.ts'
import { fieldLimits } from '../domain/record.ts'
import { splitIntoUploads } from './plan.ts'
import type { BulkStorage, RecordWrite } from '../domain/record-storage.ts'
import type { AppliedChange, CollectionState } from './collection-state.ts'
import type { Pace } from './pace.ts'

// A definite refusal does not change when the write is repeated.
const maxRefusals = 5

/** The changes that are still to be undone, by record id. */
type Pending = Map<string, AppliedChange & { mayBeRemoved?: boolean }>

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
  const pending: Pending = state.applied
  // What was neither there before nor is there now needs nothing.
  for (const [id, { before, leftAt }] of pending) if (before === null && leftAt === null) pending.delete(id)
  let refusals = 0
  for (let failures = 1; ; failures += 1) {
    try {
      const end = await restore(storage, collection, pending, state)
      if (end === 'done') return true
      if (end === 'refused') refusals += 1
    } catch (error) {
      if (isRefusal(error)) refusals += 1
    }
    if (refusals >= maxRefusals || !pace.hasTimeToRetry) return false
    // The snapshot that begins the next round shows what this one has restored.
    await pace.backOff(failures)
  }
}

/** One round. `moved`: another writer changed the collection meanwhile. `refused`: the storage did not take a record back. */
async function restore(
  storage: BulkStorage,
  collection: string,
  pending: Pending,
  state: CollectionState,
): Promise<'done' | 'moved' | 'refused'> {
  const { timestamp, records } = await storage.snapshot(collection, [...pending.keys()])
  for (const [id, change] of pending) {
    const now = records.get(id)?.lastModified ?? null
    if (now === null && change.mayBeRemoved && change.before !== null) change.leftAt = null
    // Another writer's change stays, and what an earlier round has restored looks like one.
    else if (now !== change.leftAt) pending.delete(id)
  }
  let since = timestamp
  const removed = [...pending].filter(([, change]) => mustRemove(change))
  if (removed.length > 0) {
    const ids = removed.map(([id]) => id)
    const outcome = await storage.remove(collection, ids, since).catch((error: unknown) => {
      for (const [, change] of removed) change.mayBeRemoved ||= !isWithoutEffect(error)
      throw error
    })
    if (outcome.outcome === 'moved') return 'moved'
    since = outcome.timestamp
    for (const [id, change] of removed) {
      if (change.before === null) pending.delete(id)
      else Object.assign(change, { leftAt: null, wroteSortindex: false })
    }
  }
  const writes = Array.from(pending, ([id, change]) => restoration(id, change))
  for (const portion of splitIntoUploads(writes, state.limits)) {
    const outcome = await storage.write(collection, portion, since)
    if (outcome.outcome === 'moved') return 'moved'
    since = outcome.timestamp
    for (const { id } of portion) if (!outcome.rejected.has(id)) pending.delete(id)
  }
  return pending.size === 0 ? 'done' : 'refused'
}

/** Whether the row has to go: the record was not there, or has got a sortindex, which no write takes away. */
function mustRemove({ before, leftAt, wroteSortindex }: AppliedChange): boolean {
  return leftAt !== null && (before === null || (wroteSortindex && before.sortindex === undefined))
}

function restoration(id: string, { before, leftAt, wroteTtl, wroteVersion }: AppliedChange): RecordWrite {
  const expiry = wroteTtl || leftAt === null ? { ttlSeconds: fieldLimits.ttlSeconds } : {}
  if (!wroteVersion && leftAt !== null) return { id, ...expiry }
  const { payload, sortindex } = before!
  return { id, payload, ...(sortindex !== undefined && { sortindex }), ...expiry }
}
