import { addressOf, sharedFields } from '../../client/addresses.ts'
import { listOf, textOf, type Fields } from '../../client/fields.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'

/** A record to write. */
export interface Change {
  /** As in the backup. */
  saved: StoredRecord
  clear: ClearRecord
  /** Whether `clear` differs from the backup, and must be encrypted again. */
  isAdapted: boolean
  /** The record in the storage that it replaces. */
  there: StoredRecord | undefined
}

/** The existing records of a collection by id, without deleted and unreadable ones. */
export type Live = ReadonlyMap<string, ClearRecord>

/** Gives restored bookmarks the tags and keyword of other bookmarks of their address, because Firefox keeps these for the address. */
export function keepSharedFields(changes: Map<string, Change>, live: Live): void {
  const others = Map.groupBy(
    live.values().filter(({ id }) => !changes.has(id)),
    addressOf,
  )
  others.delete('')
  for (const change of changes.values()) {
    const sameAddress = others.get(addressOf(change.clear))
    if (sameAddress) adapt(change, { keyword: undefined, ...sharedFields(sameAddress) })
  }
}

/** Removes from restored folders what was moved into another folder since. */
export function leaveMovedChildren(changes: Map<string, Change>, live: Live): void {
  for (const change of changes.values()) {
    const before = listOf<string>(change.clear.children)
    const isMoved = (id: string) =>
      !changes.has(id) && live.has(id) && live.get(id)!.parentid !== change.clear.id
    const children = before.filter((id) => !isMoved(id))
    if (children.length < before.length) adapt(change, { children })
  }
}

function adapt(change: Change, fields: Fields): void {
  change.clear = { ...change.clear, ...fields }
  change.isAdapted = true
}

/** The restored and unchanged bookmarks that no folder will list, by the id of their folder. */
export function unlistedByFolder(
  changes: ReadonlyMap<string, Change>,
  unchanged: string[],
  live: Live,
): Map<string, ClearRecord[]> {
  const after = new Map(live)
  for (const [id, { clear }] of changes) after.set(id, clear)
  const listed = new Set([...after.values()].flatMap(({ children }) => listOf(children)))
  const unlisted = [...changes.keys(), ...unchanged].flatMap((id) =>
    listed.has(id) ? [] : (after.get(id) ?? []),
  )
  return Map.groupBy(unlisted, ({ parentid }) => textOf(parentid))
}

/**
 * Merges restored children into a folder: each after its former predecessor that still exists, first if there is none, and last if its
 * position is unknown.
 */
export function mergeChildren(now: string[], before: string[], back: ReadonlySet<string>): string[] {
  const present = new Set(now)
  const following = new Map<string | null, string[]>()
  let anchor: string | null = null
  const known = new Set(before)
  // Other programs may list a child twice.
  for (const id of known) {
    if (present.has(id)) anchor = id
    else if (back.has(id)) following.getOrInsertComputed(anchor, () => []).push(id)
  }
  const unknown = [...back].filter((id) => !present.has(id) && !known.has(id))
  const takeAfter = (id: string | null) => {
    const found = following.get(id) ?? []
    following.delete(id)
    return found
  }
  return [...takeAfter(null), ...now.flatMap((id) => [id, ...takeAfter(id)]), ...unknown]
}
