import { onlyNamed, rootTitles, type Named } from '../bookmarks.ts'
import { readBookmark } from '../engines.ts'
import { textOf, textsOf, type Fields } from '../fields.ts'
import type { SyncRecord } from '../collection.ts'
import type { ClearRecord } from '../crypto.ts'

/** What an item is. It never changes: Firefox stops syncing bookmarks if it does. */
export type ItemKind = 'bookmark' | 'query' | 'folder' | 'livemark' | 'separator'

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

/** The parent of the roots. It is no item. */
export const topId = 'places'

/** Where Firefox puts what has no folder. */
const strayFolder = 'unfiled'

type Draft = { -readonly [Field in keyof Item]: Item[Field] }

/**
 * Builds the tree from all records of the collection. Accepts invalid ones, and places each record once: in the folder that it names if that
 * folder lists it, else in the first folder that lists it, else at the end of the folder that it names, else at the end of Other Bookmarks.
 * A folder keeps its place among ids without a readable record, which stay in `children`. Takes linear time.
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
  const isLink = kind === 'bookmark' || kind === 'query'
  return {
    id,
    kind,
    parent: '',
    place: 0,
    // Firefox writes a root's id as its title, and shows a translated one.
    title: (title !== id && title) || (rootTitles.get(id) ?? title),
    address: isLink ? url : '',
    tags: isLink ? tags : [],
    keyword: isLink ? keyword : '',
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
  const parents = listedParents(items)
  const contents = new Map<string, string[]>()
  for (const folder of items.values()) {
    if (folder.kind !== 'folder') continue
    const listed = new Set(textsOf(folder.record.children))
    const own = [...listed].filter((id) => parents.get(id) === folder.id && !deleted.has(id))
    contents.set(folder.id, own)
    for (const id of own) setParent(items.get(id), folder.id)
  }
  const place = (item: Draft, folder: string) => {
    item.parent = folder
    contents.get(folder)?.push(item.id)
  }
  for (const item of items.values()) {
    if (item.parent !== '') continue
    const named = textOf(item.record.parentid)
    // What is in an unreadable folder stays there, below no root.
    const exists = (contents.has(named) && named !== item.id) || unreadable.has(named)
    place(item, exists ? named : strayFolder)
  }
  for (const id of cycles(items)) {
    const item = items.get(id)!
    const former = contents.get(item.parent)!
    contents.set(
      item.parent,
      former.filter((child) => child !== id),
    )
    place(item, strayFolder)
  }
  for (const [id, children] of contents) {
    items.get(id)!.children = children
    let index = 0
    for (const child of children) {
      const item = items.get(child)
      if (item) item.place = index++
    }
  }
}

function setParent(item: Draft | undefined, folder: string): void {
  if (item) item.parent = folder
}

/** The folder of each listed id: the one that it names, else the first that lists it. */
function listedParents(items: ReadonlyMap<string, Draft>): Map<string, string> {
  const parents = new Map<string, string>()
  for (const { id: folder, kind, record } of items.values()) {
    if (kind !== 'folder') continue
    for (const id of textsOf(record.children)) {
      if (id === folder || id === topId || rootTitles.has(id)) continue
      if (!parents.has(id) || textOf(items.get(id)?.record.parentid) === folder) parents.set(id, folder)
    }
  }
  return parents
}

/** One folder of each cycle: folders that contain each other are in no root. */
function cycles(items: ReadonlyMap<string, Draft>): string[] {
  const isRooted = new Set(rootTitles.keys())
  const cut: string[] = []
  for (const { id } of items.values()) {
    const passed = new Set<string>()
    let above = id
    while (!isRooted.has(above) && !passed.has(above) && items.has(above)) {
      passed.add(above)
      above = items.get(above)!.parent
    }
    if (passed.has(above)) cut.push(above)
    for (const each of passed) isRooted.add(each)
  }
  return cut
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
