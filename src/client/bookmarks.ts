import { readBookmark, type Bookmark } from './engines.ts'
import { ClientError } from './errors.ts'
import { composed, folded } from './spelling.ts'
import type { ReadableRecord } from './collection.ts'

/** A bookmark, or a folder with its contents. `More` is the type of the fields that the caller adds. */
export type BookmarkNode<More = unknown> = More & {
  record: ReadableRecord
  /** The fields of the record. */
  bookmark: Bookmark
  kind: Bookmark['kind']
  /** Of a root folder, the one that Firefox shows. */
  title: string
  children: BookmarkNode<More>[]
  /** Null at level 1. */
  parent: BookmarkNode<More> | null
  level: number
  /** Its position among its siblings, starting at 1. */
  position: number
  siblings: number
  /** The number of bookmarks in a folder, including subfolders. */
  count: number
  /** The titles of its parent folders, separated by slashes; empty at the top level. */
  path: string
}

/** The ids of the root folders with the titles that Firefox shows. */
export const rootTitles: ReadonlyMap<string, string> = new Map([
  ['toolbar', 'Bookmarks Toolbar'],
  ['menu', 'Bookmarks Menu'],
  ['unfiled', 'Other Bookmarks'],
  ['mobile', 'Mobile Bookmarks'],
])

/** The ids of the root folders, which every account has. */
export const bookmarkRoots: string[] = [...rootTitles.keys()]

/**
 * Builds the tree of bookmarks, and returns its top level. A folder's `children` decides its contents and their order. A record that no
 * folder lists goes to the end of its parent folder; without an existing parent, to the top level.
 *
 * `add` returns additional fields of a node; a `title` among them replaces the record's title.
 */
export function bookmarkTree<More = unknown>(
  records: ReadableRecord[],
  add?: (record: ReadableRecord, title: string) => More,
): BookmarkNode<More>[] {
  type Node = BookmarkNode<More>
  const nodes = new Map(records.map((record) => [record.stored.id, nodeOf(record, add)]))
  const roots = new Set([...rootTitles.keys()].flatMap((id) => nodes.get(id) ?? []))
  function place(child: Node | undefined, parent: Node | undefined): void {
    if (child === undefined || child.parent !== null || roots.has(child)) return
    if (parent?.kind !== 'folder' || parent === child) return
    child.parent = parent
    parent.children.push(child)
  }
  for (const node of nodes.values()) {
    for (const id of node.bookmark.childIds) place(nodes.get(id), node)
  }
  for (const node of nodes.values()) place(node, nodes.get(node.bookmark.parentId))
  const strays = [...nodes.values()].filter((node) => node.parent === null && !roots.has(node))
  const tops = [...roots, ...strays]
  const seen = new Set(walk(tops))
  // Folders that contain each other are reachable from no root, so one folder of each cycle moves to the top level.
  for (const node of nodes.values()) {
    if (seen.has(node)) continue
    const top = cutCircle(node)
    tops.push(top)
    for (const found of walk([top])) seen.add(found)
  }
  describePlaces(tops)
  return tops
}

function nodeOf<More>(
  record: ReadableRecord,
  add?: (record: ReadableRecord, title: string) => More,
): BookmarkNode<More> {
  const bookmark = readBookmark(record.clear)
  const { kind, title: own } = bookmark
  const { id } = record.stored
  // Firefox writes a root's id as its title, and shows a translated one.
  const title = own && own !== id ? own : (rootTitles.get(id) ?? own)
  const place = { children: [], parent: null, level: 1, position: 1, siblings: 1, count: 0, path: '' }
  return { title, ...add?.(record, title), record, bookmark, kind, ...place } as BookmarkNode<More>
}

/** Follows the parents of a node to a cycle, and breaks it. */
function cutCircle<More>(from: BookmarkNode<More>): BookmarkNode<More> {
  const passed = new Set<BookmarkNode<More>>()
  let node = from
  for (; !passed.has(node); node = node.parent!) passed.add(node)
  const { children } = node.parent!
  children.splice(children.indexOf(node), 1)
  node.parent = null
  return node
}

function describePlaces<More>(tops: BookmarkNode<More>[]): void {
  const all = walk(tops)
  tops.forEach((top, index) => Object.assign(top, { position: index + 1, siblings: tops.length }))
  for (const { title, path, level, children } of all) {
    const inner = path === '' ? title : `${path} / ${title}`
    children.forEach((child, index) => {
      const place = { path: inner, level: level + 1, position: index + 1, siblings: children.length }
      Object.assign(child, place)
    })
  }
  for (const { parent, kind, count } of all.toReversed()) {
    if (parent !== null) parent.count += kind === 'bookmark' ? 1 : count
  }
}

/** Lists the nodes of a tree in order, without the contents of closed folders. Not recursive, so any depth works. */
export function walk<More>(
  tops: BookmarkNode<More>[],
  isOpen: (node: BookmarkNode<More>) => boolean = () => true,
): BookmarkNode<More>[] {
  const found: BookmarkNode<More>[] = []
  const waiting = tops.toReversed()
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    found.push(node)
    if (!isOpen(node)) continue
    for (let index = node.children.length - 1; index >= 0; index--) waiting.push(node.children[index]!)
  }
  return found
}

/** Deeper than a person nests folders; many programs fail at a few thousand levels. */
export const deepestLevel = 200

/** A node at its place in an export. */
export interface Placed<More = unknown> {
  node: BookmarkNode<More>
  /** 1 at the top of the export; never above `deepestLevel`. */
  level: number
  /** Its position in its list, starting at 0. */
  index: number
  /** The titles of its folders, separated by slashes; empty at the top. */
  path: string
}

/** Lists the nodes of an export in order. What is deeper than `deepestLevel` is at that level, after its folder. */
export function flattened<More>(tops: BookmarkNode<More>[]): Placed<More>[] {
  const placed: Placed<More>[] = []
  const waiting = tops.map((node, index) => ({ node, level: 1, index, path: node.path })).toReversed()
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { node, level, path } = next
    placed.push(next)
    const isDeepest = level === deepestLevel
    const inside = path === '' ? node.title : `${path} / ${node.title}`
    const place = { level: level + Number(!isDeepest), path: isDeepest ? path : inside }
    waiting.push(...node.children.map((child, index) => ({ node: child, index, ...place })).toReversed())
  }
  return placed
}

/** Whether a node is that root folder. */
export function isRoot({ record }: BookmarkNode, id: string): boolean {
  return record.stored.id === id && rootTitles.has(id)
}

/** Finds folders by id, or else by title, however its accents are composed and whatever kinds of spaces it has. */
export function foldersNamed<More>(tops: BookmarkNode<More>[], wanted: string): BookmarkNode<More>[] {
  return named(foldersOf(tops), wanted).map(({ node }) => node)
}

/** Finds the only folder with this id or title; `where` says where. Throws `ClientError` if there is none, or several. */
export function folderNamed<More>(
  tops: BookmarkNode<More>[],
  wanted: string,
  where = '',
): BookmarkNode<More> {
  return onlyNamed(foldersOf(tops), wanted, where).node
}

/** A folder that can be named by its id or title. */
export interface Named {
  id: string
  title: string
  /** The titles of its folders, separated by slashes. */
  path(): string
}

/** Finds the only one of these folders with this id or title. Throws `ClientError` if there is none, or several. */
export function onlyNamed<Folder extends Named>(folders: Folder[], wanted: string, where = ''): Folder {
  const found = named(folders, wanted)
  if (found.length === 1) return found[0]!
  const name = JSON.stringify(wanted)
  if (found.length > 1) {
    const ids = found.map((folder) => folder.id + inPath(folder.path())).join(', ')
    throw new ClientError(`There are ${found.length} folders ${name}${where}: use one of these ids: ${ids}`)
  }
  const meant = folders.find(({ title }) => folded(title) === folded(wanted))
  const hint = meant ? `: did you mean ${JSON.stringify(meant.title)}?` : ''
  throw new ClientError(`There is no folder ${name}${where}${hint}`)
}

function inPath(path: string): string {
  return path && ` (in ${path})`
}

/** The one of these folders with this id, or else all with this title. */
export function named<Folder extends Named>(folders: Folder[], wanted: string): Folder[] {
  const byId = folders.filter(({ id }) => id === wanted)
  return byId.length > 0 ? byId : folders.filter(({ title }) => composed(title) === composed(wanted))
}

function foldersOf<More>(tops: BookmarkNode<More>[]): (Named & { node: BookmarkNode<More> })[] {
  return walk(tops)
    .filter(({ kind }) => kind === 'folder')
    .map((node) => ({ id: node.record.stored.id, title: node.title, path: () => node.path, node }))
}
