import { placesOf, rootTitles, topId } from './bookmark-places.ts'
import { readBookmark, type Bookmark } from './record-readers.ts'
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

/** The ids of the root folders, which every account has. */
export const bookmarkRoots: string[] = [...rootTitles.keys()]

/**
 * Builds the tree of bookmarks, and returns its top level: the root folders, except for those that are missing and would be empty.
 * `placesOf` decides where each item is; what is in a folder that can't be decrypted is in Other Bookmarks.
 *
 * `add` returns additional fields of a node; a `title` among them replaces the record's title.
 */
export function bookmarkTree<More = unknown>(
  records: Iterable<ReadableRecord>,
  add?: (record: ReadableRecord, title: string) => More,
): BookmarkNode<More>[] {
  const nodes = new Map<string, BookmarkNode<More>>()
  for (const record of records) {
    const { id } = record.stored
    // A list that is read page by page may have a record twice.
    nodes.delete(id)
    if (id !== topId) nodes.set(id, nodeOf(record, add))
  }
  const missing = bookmarkRoots.filter((id) => !nodes.has(id))
  for (const id of missing) nodes.set(id, nodeOf(missingRoot(id), add))
  const { contents } = placesOf(nodes, {
    isFolder: ({ kind }) => kind === 'folder',
    childIds: ({ bookmark }) => bookmark.childIds,
    parentId: ({ bookmark }) => bookmark.parentId,
  })
  for (const [id, ids] of contents) {
    const folder = nodes.get(id)!
    for (const child of ids) {
      const node = nodes.get(child)
      if (node === undefined) continue
      node.parent = folder
      folder.children.push(node)
    }
  }
  const isShown = (id: string) => nodes.get(id)!.children.length > 0 || !missing.includes(id)
  const tops = bookmarkRoots.filter(isShown).map((id) => nodes.get(id)!)
  describePlaces(tops)
  return tops
}

function nodeOf<More>(
  record: ReadableRecord,
  add?: (record: ReadableRecord, title: string) => More,
): BookmarkNode<More> {
  const { id } = record.stored
  // A root is a folder, whatever its record says.
  const bookmark = readBookmark(rootTitles.has(id) ? { ...record.clear, type: 'folder' } : record.clear)
  const { kind, title: own } = bookmark
  // Firefox writes a root's id as its title, and shows a translated one.
  const title = own && own !== id ? own : (rootTitles.get(id) ?? own)
  const place = { children: [], parent: null, level: 1, position: 1, siblings: 1, count: 0, path: '' }
  return { title, ...add?.(record, title), record, bookmark, kind, ...place } as BookmarkNode<More>
}

/** An empty root folder, for an account that has no record of it. */
export function missingRoot(id: string): ReadableRecord {
  const stored = { id, last_modified: 0 }
  return { collection: 'bookmarks', stored, clear: { id, type: 'folder' }, problem: null }
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
