import { walk, type BookmarkNode } from '../../src/client/bookmarks.ts'
import type { ReadableRecord, SyncRecord } from '../../src/client/collection.ts'
import type { ClearRecord } from '../../src/client/crypto.ts'

/** A decrypted record. */
export function record(
  clear: { id: string; [field: string]: unknown },
  collection = 'bookmarks',
): ReadableRecord {
  const stored = { id: clear.id, last_modified: 1_700_000_000_000 }
  return { collection, stored, clear, problem: null }
}

/** A record that the key does not decrypt. */
export const unreadable: SyncRecord = {
  collection: 'bookmarks',
  stored: { id: 'foreign', last_modified: 1 },
  clear: null,
  problem: 'It was encrypted with another key',
}

/** The content of a folder and of a bookmark, as Firefox writes them, with other fields, too. */
export const clearFolder = (id: string, parentid: string, children: unknown, more: object = {}) => {
  return { id, type: 'folder', title: id, parentid, children, ...more }
}
export const clearBookmark = (id: string, parentid: string, more: object = {}) => {
  return { id, type: 'bookmark', title: id, bmkUri: `https://${id}.example/`, tags: [], parentid, ...more }
}

export const folder = (id: string, parentid: string, children: unknown) =>
  record(clearFolder(id, parentid, children))
export const bookmark = (id: string, parentid: string, more: object = {}) =>
  record(clearBookmark(id, parentid, more))

/**
 * The contents of the records of a tree as `shape` writes it, and further fields by id. A question mark stands before what its folder does
 * not list.
 */
export function clearTree(text: string, more: Record<string, object> = {}): ClearRecord[] {
  const records: ClearRecord[] = []
  const path: { id: string; children: string[] }[] = []
  for (const [, mark, id, bracket] of text.matchAll(/(\??)([\w-]*)([()]?)/g)) {
    const parent = path.at(-1)
    if (id && mark === '') parent?.children.push(id)
    if (bracket === '(') {
      const children: string[] = []
      records.push(clearFolder(id!, parent?.id ?? 'places', children))
      path.push({ id: id!, children })
    } else if (id) records.push(clearBookmark(id, parent!.id))
    if (bracket === ')') path.pop()
  }
  return records.map((clear) => ({ ...clear, ...more[clear.id] }))
}

/** The same as decrypted records. */
export const recordsOf = (text: string, more?: Record<string, object>) =>
  clearTree(text, more).map((clear) => record(clear))

/** A tree as text: a folder with its contents in brackets. */
export function shape(nodes: BookmarkNode[]): string {
  return nodes
    .map(({ record: { stored }, kind, children }) =>
      kind === 'folder' ? `${stored.id}(${shape(children)})` : stored.id,
    )
    .join(' ')
}

export const titlesOf = (nodes: BookmarkNode[]) => walk(nodes).map(({ title }) => title)
