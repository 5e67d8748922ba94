import { placesOf, rootTitles, topId } from '../bookmark-places.ts'
import { onlyNamed, type Named } from '../bookmarks.ts'
import { readBookmark } from '../record-readers.ts'
import { textOf, textsOf, type Fields } from '../fields.ts'
import type { SyncRecord } from '../collection.ts'
import type { ClearRecord } from '../crypto.ts'

/** What an item is. It never changes: Firefox stops syncing bookmarks if it does. */
export type ItemKind = 'bookmark' | 'query' | 'folder' | 'livemark' | 'separator'

/** Whether items of this kind have an address, tags and a keyword. */
export function isLink(kind: ItemKind): boolean {
  return kind === 'bookmark' || kind === 'query'
}

/** A bookmark, folder or separator, with its place in the tree. */
export interface Item {
  readonly id: string
  readonly kind: ItemKind
  /** The id of its folder; `places` for the roots. */
  readonly parent: string
  /** Its index among the items of its folder. */
  readonly place: number
  readonly title: string
  /** As stored; empty for folders and separators. */
  readonly address: string
  readonly tags: readonly string[]
  readonly keyword: string
  /** In ms since 1970; 0 if unknown. */
  readonly addedMs: number
  /** When the record was last written, in ms since 1970; 0 if it never was. */
  readonly modifiedMs: number
  /** The ids of what a folder contains, in order. */
  readonly children: readonly string[]
  /** The decrypted record, as stored; without other fields than the id if there is none. */
  readonly record: ClearRecord
  /** The timestamp of the stored record; null if there is none. */
  readonly version: number | null
}

/** The bookmarks of an account as a value. Edits return a new one. */
export interface Tree {
  /** By id. The four roots always exist. */
  readonly items: ReadonlyMap<string, Item>
  /** The timestamps of tombstones, by id. */
  readonly deleted: ReadonlyMap<string, number>
  /** The ids of records that the key can't decrypt. */
  readonly unreadable: ReadonlySet<string>
}

type Draft = { -readonly [Field in keyof Item]: Item[Field] }

/**
 * Builds the tree from all records of the collection. Accepts invalid ones; `placesOf` decides where each item is. Ids without a readable
 * record stay in `children`, at their places. Takes linear time.
 */
export function readTree(records: Iterable<SyncRecord>): Tree {
  const items = new Map<string, Draft>()
  const deleted = new Map<string, number>()
  const unreadable = new Set<string>()
  for (const { stored, clear } of records) {
    const { id, last_modified: version } = stored
    // A list that is read page by page may have a record twice.
    items.delete(id)
    deleted.delete(id)
    unreadable.delete(id)
    if (id === topId) continue
    if (clear === null) unreadable.add(id)
    else if (clear.deleted === true) deleted.set(id, version)
    else items.set(id, readItem(id, clear, version))
  }
  for (const id of rootTitles.keys()) addRoot(id, items, deleted, unreadable)
  placeAll(items, deleted, unreadable)
  return { items, deleted, unreadable }
}

function readItem(id: string, record: ClearRecord, version: number | null): Draft {
  const { title, url, tags, keyword, addedMs } = readBookmark(record)
  const kind = kindOf(record)
  const hasAddress = isLink(kind)
  return {
    id,
    kind,
    parent: '',
    place: 0,
    // Firefox writes a root's id as its title, and shows a translated one.
    title: (title !== id && title) || (rootTitles.get(id) ?? title),
    address: hasAddress ? url : '',
    tags: hasAddress ? tags : [],
    keyword: hasAddress ? keyword : '',
    addedMs,
    modifiedMs: version ?? 0,
    children: [],
    record,
    version,
  }
}

function kindOf({ type }: Fields): ItemKind {
  return type === 'folder' || type === 'separator' || type === 'query' || type === 'livemark'
    ? type
    : 'bookmark'
}

/** A root is a folder at the top, whatever its record says. */
function addRoot(
  id: string,
  items: Map<string, Draft>,
  deleted: Map<string, number>,
  unreadable: ReadonlySet<string>,
): void {
  const version = deleted.get(id) ?? null
  deleted.delete(id)
  const root = items.get(id) ?? readItem(id, { id }, version)
  items.set(id, { ...root, kind: 'folder', parent: topId, address: '', tags: [], keyword: '' })
  // Its record would have to be overwritten without having been read.
  if (unreadable.has(id)) items.delete(id)
}

function placeAll(
  items: ReadonlyMap<string, Draft>,
  deleted: ReadonlyMap<string, number>,
  unreadable: ReadonlySet<string>,
): void {
  const { parents, contents } = placesOf(items, {
    isFolder: ({ kind }) => kind === 'folder',
    childIds: ({ record }) => textsOf(record.children),
    parentId: ({ record }) => textOf(record.parentid),
    isUnreadable: (id) => unreadable.has(id),
  })
  for (const [id, item] of items) item.parent = parents.get(id)!
  for (const [id, listed] of contents) {
    const children = listed.filter((child) => !deleted.has(child))
    items.get(id)!.children = children
    let index = 0
    for (const child of children) {
      const item = items.get(child)
      if (item) item.place = index++
    }
  }
}

/** The items below a folder, each folder before its contents; without the folder itself. */
export function below(tree: Pick<Tree, 'items'>, folder: string): Item[] {
  const found: Item[] = []
  const waiting = [folder]
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const item = tree.items.get(id)
    if (!item) continue
    if (id !== folder) found.push(item)
    for (let index = item.children.length - 1; index >= 0; index -= 1) waiting.push(item.children[index]!)
  }
  return found
}

/** The titles of the folders that an item is in, outermost first. */
export function pathOf({ items }: Pick<Tree, 'items'>, { parent }: Pick<Item, 'parent'>): string[] {
  const path: string[] = []
  for (let above = items.get(parent); above; above = items.get(above.parent)) path.push(above.title)
  return path.toReversed()
}

/** The folders, as they can be named. */
export function namedFolders(tree: Pick<Tree, 'items'>): (Named & { item: Item })[] {
  const folders = [...tree.items.values()].filter(({ kind }) => kind === 'folder')
  return folders.map((item) => {
    const { id, title } = item
    // On demand: in a deep tree, all paths together are long.
    return { id, title, item, path: () => pathOf(tree, item).join(' / ') }
  })
}

/** Finds the only folder with this id or title. Throws `ClientError` if there is none, or several. */
export function folderCalled(tree: Pick<Tree, 'items'>, wanted: string): Item {
  return onlyNamed(namedFolders(tree), wanted).item
}

/** Whether two lists of tags are the same; their order has no meaning. */
export function sameTags(one: readonly string[], other: readonly string[]): boolean {
  const tags = new Set(one)
  return tags.size === new Set(other).size && other.every((tag) => tags.has(tag))
}

/** The timestamp that a write of this id depends on; null if no record has it. */
export function versionOf(tree: Tree, id: string): number | null {
  return tree.items.get(id)?.version ?? tree.deleted.get(id) ?? null
}
