import { topId } from '../bookmark-places.ts'
import { isLink, sameTags, versionOf, type Item, type Tree } from './tree.ts'
import type { ClearRecord } from '../crypto.ts'
import { addressOf } from '../addresses.ts'
import { readBookmark } from '../record-readers.ts'
import { listOf, textOf, textsOf } from '../fields.ts'
import { isRoot } from './edit.ts'

/** A record to write, on the condition that it still has this version. */
export interface RecordWrite {
  id: string
  /** Not encrypted yet; a tombstone for a deletion. */
  record: ClearRecord
  /** The timestamp of what it replaces; null if there must be no record. */
  version: number | null
}

/**
 * The records that lead from one tree to the other, as Firefox writes them: each item that differs, the folders whose contents differ, a
 * tombstone for everything that was removed. Folders come first. Pure.
 *
 * A written item must be listed by its folder and by no other, so invalid folders around it, and invalid records in a written folder, are
 * written, too; others stay as they are. `also`: items to write although they are the same.
 */
export function requestsOf(before: Tree, after: Tree, also: Iterable<string> = []): RecordWrite[] {
  const written = new Set(also)
  for (const item of after.items.values()) {
    const former = before.items.get(item.id)
    if (item !== former && (!former || !isSameItem(former, item))) written.add(item.id)
  }
  for (const id of losingTags(before, after)) written.add(id)
  addFolders(after, written)
  const writes = [...written].map((id) => {
    const item = after.items.get(id)!
    return { id, record: recordOf(after, item), version: item.version }
  })
  const isFolder = ({ id }: RecordWrite) => Number(after.items.get(id)!.kind === 'folder')
  const removed = [...before.items.keys()].filter((id) => !after.items.has(id))
  return [
    ...writes.toSorted((one, other) => isFolder(other) - isFolder(one)),
    ...removed.map((id) => ({ id, record: { id, deleted: true }, version: versionOf(before, id) })),
  ]
}

/** Whether two states of an item have the same record; its place is in the record of its folder. */
function isSameItem(one: Item, other: Item): boolean {
  const { parent, title, address, tags, keyword, children } = one
  return (
    parent === other.parent &&
    title === other.title &&
    address === other.address &&
    keyword === other.keyword &&
    sameTags(tags, other.tags) &&
    (children === other.children || isSameOrder(children, other.children))
  )
}

function isSameOrder(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((id, index) => id === other[index])
}

/** When a bookmark leaves an address, Firefox clears the tags and keyword of that address: its other bookmarks are written again. */
function losingTags(before: Tree, after: Tree): string[] {
  const left = new Set<string>()
  for (const item of before.items.values()) {
    if (item.address === '' || (item.tags.length === 0 && item.keyword === '')) continue
    const now = after.items.get(item.id)
    if (now !== item && now?.address !== item.address) left.add(addressOf({ bmkUri: item.address }))
  }
  if (left.size === 0) return []
  return [...after.items.values()]
    .filter(({ address }) => address !== '' && left.has(addressOf({ bmkUri: address })))
    .map(({ id }) => id)
}

/** Adds the folders of written items that don't list them in their stored records, and other folders that do. */
function addFolders(after: Tree, written: Set<string>): void {
  const listers = new Map<string, string[]>()
  for (const { id, kind, record } of after.items.values()) {
    if (kind !== 'folder') continue
    for (const child of new Set(textsOf(record.children))) {
      const known = listers.get(child)
      if (known) known.push(id)
      else listers.set(child, [id])
    }
  }
  /** Whether no other record says that an item is elsewhere. */
  const isSound = ({ id, parent, record }: Item) =>
    record.parentid === parent && (listers.get(id) ?? []).every((folder) => folder === parent)
  // A Set also visits what is added while it is visited.
  for (const id of written) {
    const item = after.items.get(id)!
    // What another folder lists, too, would be elsewhere once this one is written.
    for (const child of item.children) {
      const inside = after.items.get(child)
      if (inside && !isSound(inside)) written.add(child)
    }
    if (isRoot(item)) continue
    const storedIn = listers.get(id) ?? []
    if (!storedIn.includes(item.parent) && after.items.has(item.parent)) written.add(item.parent)
    for (const folder of storedIn) if (folder !== item.parent) written.add(folder)
  }
}

/** An item as a record: the stored one with the fields that differ. */
export function recordOf({ items }: Pick<Tree, 'items'>, item: Item): ClearRecord {
  const { id, kind, parent, title, address, tags, keyword, addedMs, children } = item
  const record: ClearRecord = { ...item.record, id }
  const isFolder = kind === 'folder'
  if (isFolder || textOf(record.type) === '') record.type = kind
  if (record.parentid !== parent) {
    record.parentid = parent
    record.parentName = parentNameOf(items.get(parent), parent)
  }
  if (isRoot(item)) record.title = textOf(record.title) || id
  else if (kind !== 'separator' && textOf(record.title) !== title) record.title = title
  if (isLink(kind)) {
    if (textOf(record.bmkUri) !== address) record.bmkUri = address
    // Other programs write bookmarks without tags; Firefox never does.
    const isNew = textOf(item.record.type) === ''
    if (isNew || !sameTags(textsOf(record.tags), tags)) record.tags = [...tags]
    if (keyword !== '') record.keyword = keyword
    else if (textOf(record.keyword) !== '') delete record.keyword
  }
  if (isFolder && !isSameOrder(listOf(record.children), children)) record.children = [...children]
  if (isFolder) record.children ??= []
  if (addedMs > 0 && readBookmark(record).addedMs === 0) record.dateAdded = addedMs
  return record
}

function parentNameOf(parent: Item | undefined, id: string): string {
  if (id === topId) return ''
  // Firefox stores the id of a root as its title.
  return parent && isRoot(parent) ? textOf(parent.record.title) || id : (parent?.title ?? '')
}
