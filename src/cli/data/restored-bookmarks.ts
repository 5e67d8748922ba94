import { addressOf, sharedFields } from '../../client/addresses.ts'
import { bookmarkRoots } from '../../client/bookmarks.ts'
import { textOf, textsOf, type Fields } from '../../client/fields.ts'
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

/**
 * Keeps the tags and keywords of bookmarks that are not restored. Firefox keeps tags for an address, and each keyword for one address. So a
 * restored bookmark gets what the others of its address have, and no keyword that another address has. When a bookmark leaves an address,
 * Firefox clears the tags and keyword of that address, so its other bookmarks are written again. Removes changes that an earlier restore has
 * written already.
 */
export function keepSharedFields(
  changes: Map<string, Change>,
  live: Live,
  current: ReadonlyMap<string, StoredRecord>,
): void {
  const others = [...live.values()].filter(({ id }) => !changes.has(id))
  const byAddress = Map.groupBy(others, addressOf)
  byAddress.delete('')
  const keywords = new Set(others.map(keywordOf))
  keywords.delete('')
  const left = new Set<string>()
  for (const change of changes.values()) {
    const now = live.get(change.clear.id)
    const sameAddress = byAddress.get(addressOf(change.clear))
    if (sameAddress) {
      const shared = sharedFields(sameAddress)
      // A keyword of null is none, and stays.
      if (!Bun.deepEquals(shared, sharedFields([change.clear])))
        adapt(change, { keyword: undefined, ...shared })
    } else if (keywords.has(keywordOf(change.clear))) adapt(change, { keyword: undefined })
    if (now && addressOf(now) !== addressOf(change.clear)) left.add(addressOf(now))
  }
  left.delete('')
  // Firefox leaves out empty tags, and takes the name of the folder from the folder.
  const inOneForm = (clear: ClearRecord) => ({
    ...clear,
    parentName: undefined,
    keyword: undefined,
    ...sharedFields([clear]),
  })
  for (const [id, { clear }] of changes) {
    const now = live.get(id)
    const isThere = now && Bun.deepEquals(inOneForm(clear), inOneForm(now))
    if (isThere && !left.has(addressOf(clear))) changes.delete(id)
  }
  for (const clear of others) {
    if (!left.has(addressOf(clear))) continue
    const there = current.get(clear.id)!
    changes.set(clear.id, { saved: there, clear, isAdapted: true, there })
  }
}

/** Firefox ignores the case of keywords. */
function keywordOf({ keyword }: Fields): string {
  return textOf(keyword).toLowerCase()
}

/**
 * Leaves folders as they are that would be inside themselves, because their former folder is in them now: Firefox would sync no bookmarks
 * any more. Returns these folders, each with its former one; and those that are inside themselves in the backup, which it moves to Other
 * Bookmarks.
 */
export function leaveCycles(
  changes: Map<string, Change>,
  live: Live,
): { left: Map<string, string>; cut: string[] } {
  const left = new Map<string, string>()
  const parentOf = (id: string) => textOf((changes.get(id)?.clear ?? live.get(id))?.parentid)
  const isInItself = (id: string) => {
    const passed = new Set<string>()
    let above = parentOf(id)
    for (; above !== id && !passed.has(above); above = parentOf(above)) passed.add(above)
    return above === id
  }
  const next = () => [...changes.keys()].find((id) => live.has(id) && isInItself(id))
  // Each may close another cycle where it is.
  for (let id = next(); id !== undefined; id = next()) {
    left.set(id, parentOf(id))
    changes.delete(id)
  }
  const cut: string[] = []
  for (const [id, change] of changes) {
    if (!isInItself(id)) continue
    moveToOther(change, changes)
    cut.push(id)
  }
  return { left, cut }
}

/**
 * Removes from restored folders what was moved into another folder since or remains deleted, and adds what is new in them or no folder lists;
 * each once, because Firefox syncs no bookmarks any more if a folder lists one twice, or is listed by a folder inside it.
 */
export function fitChildren(changes: Map<string, Change>, live: Live): void {
  const listed = new Set([...changes.values()].flatMap(({ clear }) => textsOf(clear.children)))
  const unlisted = Map.groupBy(
    [...changes.keys()].filter((id) => !listed.has(id)),
    (id) => textOf(changes.get(id)!.clear.parentid),
  )
  for (const change of changes.values()) {
    const { id, children } = change.clear
    const isHere = (child: string) => live.get(child)?.parentid === id
    const isRestored = (child: string) => {
      const restored = changes.get(child)
      return restored !== undefined && !(isFolder(restored.clear) && isMovedFrom(id, restored))
    }
    const kept = textsOf(children).filter((child) => isRestored(child) || isHere(child))
    const added = textsOf(live.get(id)?.children).filter((child) => !changes.has(child) && isHere(child))
    const fitting = [...new Set([...kept, ...added, ...(unlisted.get(id) ?? [])])]
    if (fitting.join() !== textsOf(children).join()) adapt(change, { children: fitting })
  }
}

/**
 * Moves bookmarks whose former folder is gone to Other Bookmarks, where Firefox puts them; it deletes such queries. Bookmarks that were
 * deleted themselves, or are in that folder now, stay there: it may be restored later. Returns the ids of those that were moved, each with its
 * former folder.
 */
export function keepOrphans(changes: ReadonlyMap<string, Change>, live: Live): Map<string, string> {
  const folders = [...live.values()].filter(isFolder).map(({ id }) => id)
  const known = new Set(['', 'places', ...bookmarkRoots, ...changes.keys(), ...folders])
  const gone = new Map<string, string>()
  for (const [id, change] of changes) {
    const { type, parentid } = change.clear
    const folder = textOf(parentid)
    const now = live.get(id)
    if (known.has(folder) || (type !== 'query' && (!now || now.parentid === parentid))) continue
    moveToOther(change, changes)
    gone.set(id, folder)
  }
  return gone
}

/** Moves a restored record to the end of Other Bookmarks; `unlistedByFolder` lists it if that folder is not restored. */
function moveToOther(change: Change, changes: ReadonlyMap<string, Change>): void {
  adapt(change, { parentid: 'unfiled' })
  const other = changes.get('unfiled')
  if (other) adapt(other, { children: [...textsOf(other.clear.children), change.clear.id] })
}

/** Changes fields of a restored record. */
export function adapt(change: Change, fields: Fields): void {
  change.clear = { ...change.clear, ...fields }
  change.isAdapted = true
}

export function isFolder({ type }: Fields): boolean {
  return type === 'folder'
}

/** Whether a record can't replace the other in Firefox. A bookmark may become a query, and the reverse. */
export function hasOtherType(one: Fields, other: Fields): boolean {
  const [type, otherType] = [one.type, other.type].map((each) => (each === 'query' ? 'bookmark' : each))
  return type !== otherType
}

/** Whether a child of that folder will be in another one. */
export function isMovedFrom(folder: string, child: Change | undefined): boolean {
  return child !== undefined && child.clear.parentid !== folder
}

/**
 * The folders that must change, by id, each with those of the given bookmarks that it does not list yet. The list is empty for a folder that
 * only loses bookmarks. Folders that are restored themselves are left out.
 */
export function unlistedByFolder(
  changes: ReadonlyMap<string, Change>,
  ids: string[],
  live: Live,
): Map<string, ClearRecord[]> {
  const after = new Map(live)
  for (const [id, { clear }] of changes) after.set(id, clear)
  const listed = new Set<string>()
  const unlisted = new Map<string, ClearRecord[]>()
  for (const folder of after.values()) {
    for (const child of textsOf(folder.children))
      if (!isMovedFrom(folder.id, changes.get(child))) listed.add(child)
      else unlisted.set(folder.id, [])
  }
  for (const id of ids) {
    const bookmark = after.get(id)
    if (bookmark && !listed.has(id)) unlisted.getOrInsert(textOf(bookmark.parentid), []).push(bookmark)
  }
  for (const id of changes.keys()) unlisted.delete(id)
  return unlisted
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
  return [...takeAfter(null), ...[...present].flatMap((id) => [id, ...takeAfter(id)]), ...unknown]
}
