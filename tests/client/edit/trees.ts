import * as fc from 'fast-check'
import type { SyncRecord } from '../../../src/client/collection.ts'
import type { ClearRecord } from '../../../src/client/crypto.ts'
import { requestsOf } from '../../../src/client/edit/edit-requests.ts'
import { below, readTree, type Item, type Tree } from '../../../src/client/edit/tree.ts'

/** A bookmark, folder or separator, as an object of its own, which a test can change without any of our code. */
export interface Node {
  id: string
  type: 'bookmark' | 'folder' | 'separator'
  title?: string
  bmkUri?: string
  children: Node[]
}

/** A forest below the four roots, and what belongs to its addresses. */
export interface Forest {
  roots: Node[]
  /** Tags and keyword by address. */
  shared: Map<string, { tags: string[]; keyword?: string }>
}

/** A whole number below `below`, from a random stream. */
export type Draw = (below: number) => number

/** Draws for a test, which fast-check shrinks. */
export const draws = fc
  .array(fc.nat({ max: 999 }), { minLength: 60, maxLength: 250, size: 'max' })
  .map((values): Draw => {
    let index = 0
    return (below) => (values[index++] ?? 0) % below
  })

const rootIds = ['menu', 'toolbar', 'unfiled', 'mobile']
const addresses = ['a', 'b', 'c', 'd', 'e'].map((name) => `https://${name}.example/`)
const tagNames = ['one', 'two', 'Three']

/** A valid forest of up to 25 items. */
export function randomForest(draw: Draw): Forest {
  const roots = rootIds.map((id): Node => ({ id, type: 'folder', title: id, children: [] }))
  const forest: Forest = { roots, shared: new Map() }
  for (const [index, url] of addresses.entries()) {
    const tags = tagNames.filter(() => draw(3) === 0)
    forest.shared.set(url, { tags, ...(draw(3) === 0 && { keyword: `key${index}` }) })
  }
  for (let count = draw(22); count > 0; count -= 1) addNode(forest, `i${count}`, draw)
  return forest
}

function addNode(forest: Forest, id: string, draw: Draw): void {
  const folders = nodesOf(forest).filter(({ type }) => type === 'folder')
  const folder = folders[draw(folders.length)]!
  folder.children.splice(draw(folder.children.length + 1), 0, newNode(id, draw))
}

function newNode(id: string, draw: Draw): Node {
  const kind = draw(8)
  if (kind === 0) return { id, type: 'separator', children: [] }
  const title = `title ${draw(9)}`
  if (kind < 4) return { id, type: 'folder', title, children: [] }
  return { id, type: 'bookmark', title, bmkUri: addresses[draw(addresses.length)]!, children: [] }
}

/** All nodes, each before its contents. */
export function nodesOf({ roots }: Forest): Node[] {
  const found: Node[] = []
  const visit = (node: Node) => {
    found.push(node)
    node.children.forEach(visit)
  }
  roots.forEach(visit)
  return found
}

/** A copy with up to `most` random changes: added, moved, removed, renamed, retagged, with another address. `name` begins the ids of new items. */
export function changed(forest: Forest, draw: Draw, name: string, most = 6): Forest {
  const copy = structuredClone(forest)
  for (let count = draw(most + 1); count > 0; count -= 1) changeOnce(copy, draw, `${name}${count}`)
  return copy
}

function changeOnce(forest: Forest, draw: Draw, id: string): void {
  const nodes = nodesOf(forest).filter((node) => !forest.roots.includes(node))
  const node = nodes[draw(nodes.length || 1)]
  const kind = draw(7)
  if (kind === 0 || !node) addNode(forest, id, draw)
  else if (kind < 3) {
    takeOut(forest, node)
    const folders = nodesOf(forest).filter(({ type }) => type === 'folder')
    const folder = folders[draw(folders.length)]!
    folder.children.splice(draw(folder.children.length + 1), 0, node)
  } else if (kind === 3) takeOut(forest, node)
  else if (node.type === 'separator') return
  else if (kind === 4) node.title = `new ${draw(9)}`
  else if (node.bmkUri === undefined) return
  else if (kind === 5) {
    const before = forest.shared.get(node.bmkUri)!
    forest.shared.set(node.bmkUri, { ...before, tags: tagNames.filter(() => draw(2) === 0) })
  } else {
    // What is new has no other bookmark, so that nothing has to be merged.
    const url = `https://${id}.example/`
    forest.shared.set(url, { ...forest.shared.get(node.bmkUri)! })
    const isLast = nodes.filter(({ bmkUri }) => bmkUri === node.bmkUri).length === 1
    // A keyword belongs to one address: it goes along with the last bookmark.
    delete forest.shared.get(isLast ? node.bmkUri : url)!.keyword
    node.bmkUri = url
  }
}

function takeOut(forest: Forest, node: Node): void {
  for (const { children } of nodesOf(forest))
    if (children.includes(node)) children.splice(children.indexOf(node), 1)
}

/** The records that Firefox would have stored, at this version. */
export function recordsOf(forest: Forest, version = 1000): SyncRecord[] {
  const records: SyncRecord[] = []
  const visit = ({ id, type, title, bmkUri, children }: Node, parentid: string, parentName: string) => {
    const shared = bmkUri === undefined ? {} : forest.shared.get(bmkUri)!
    const more = type === 'folder' ? { children: children.map((child) => child.id) } : {}
    const clear: ClearRecord = {
      id,
      type,
      parentid,
      parentName,
      dateAdded: 1_600_000_000_000,
      title,
      ...more,
    }
    records.push(recordAt({ ...clear, ...(bmkUri !== undefined && { bmkUri, ...shared }) }, version))
    for (const child of children) visit(child, id, title!)
  }
  for (const root of forest.roots) visit(root, 'places', '')
  return records
}

export function recordAt(clear: ClearRecord, version = 1000): SyncRecord {
  const stored = { id: clear.id, last_modified: version, payload: JSON.stringify(clear) }
  return { collection: 'bookmarks', stored, clear, problem: null }
}

export const treeOf = (forest: Forest) => readTree(recordsOf(forest))

/** A tree as text, to compare: each item with its place and fields; without what only its records say. */
export function shapeOf({ items }: Pick<Tree, 'items'>): string {
  const line = ({ id, kind, title, address, tags, keyword }: Item) =>
    [id, kind, kind === 'separator' ? '' : title, address, tags.toSorted(), keyword].join('|')
  const lines: string[] = []
  const visit = (id: string, indent: string) => {
    const item = items.get(id)
    if (!item) return
    lines.push(indent + line(item))
    for (const child of item.children) visit(child, `${indent}  `)
  }
  for (const id of rootIds) visit(id, '')
  return lines.join('\n')
}

/** The records after these writes; their conditions are met. */
export function written(records: SyncRecord[], before: Tree, after: Tree, version = 2000): SyncRecord[] {
  const now = new Map(records.map((record) => [record.stored.id, record]))
  for (const { id, record, version: expected } of requestsOf(before, after)) {
    if ((now.get(id)?.stored.last_modified ?? null) !== expected)
      throw new Error(`a wrong condition of ${id}`)
    now.set(id, recordAt(record, version))
  }
  return [...now.values()]
}

/** What Firefox's validator complains about: items that are unlisted, listed twice or elsewhere, and folders that are in no root. */
export function complaints(records: SyncRecord[]): string[] {
  const live = new Map(records.flatMap(({ clear }) => (clear && !clear.deleted ? [[clear.id, clear]] : [])))
  const listed = new Map<string, string>()
  const found: string[] = []
  for (const { id, children } of live.values())
    for (const child of (children as string[] | undefined) ?? []) {
      if (listed.has(child)) found.push(`${child} is listed twice`)
      if (!live.has(child)) found.push(`${child} is listed and does not exist`)
      else if (live.get(child)!.parentid !== id) found.push(`${child} is listed by another folder`)
      listed.set(child, id)
    }
  for (const { id, parentid } of live.values())
    if (parentid !== 'places' && !listed.has(id)) found.push(`${id} is not listed`)
  const tree = readTree(records)
  const reached = rootIds.reduce((count, id) => count + 1 + below(tree, id).length, 0)
  if (reached !== tree.items.size) found.push('an item is in no root')
  return found
}
