import { hostOf, itemOf, listOf, tagsOf, textOf, type Item, type Readable } from './meaning.ts'

/** A bookmark or a folder with its contents. */
export interface TreeNode extends Item {
  entry: Readable
  kind: 'folder' | 'bookmark' | 'separator'
  children: TreeNode[]
  /** Null at the top, which is level 1. */
  parent: TreeNode | null
  level: number
  /** Its number among `siblings`, itself included; the first is 1. */
  position: number
  siblings: number
  /** How many bookmarks are in there, and in the folders below. */
  count: number
}

const rootTitles = new Map([
  ['toolbar', 'Bookmarks Toolbar'],
  ['menu', 'Bookmarks Menu'],
  ['unfiled', 'Other Bookmarks'],
  ['mobile', 'Mobile Bookmarks'],
])

/**
 * Bookmarks as their folders have them: a folder's `children` decides about order. What no folder lists is shown in
 * the folder that it names, and what names none that exists at the end. Answers what is at the top.
 */
export function bookmarkTree(entries: Readable[]): TreeNode[] {
  const nodes = new Map(entries.map((entry) => [entry.wire.id, nodeOf(entry)]))
  const roots = new Set([...rootTitles.keys()].flatMap((id) => nodes.get(id) ?? []))
  function place(child: TreeNode | undefined, parent: TreeNode | undefined): void {
    if (child === undefined || child.parent !== null || roots.has(child)) return
    if (parent?.kind !== 'folder' || parent === child) return
    child.parent = parent
    parent.children.push(child)
  }
  for (const node of nodes.values()) {
    for (const id of listOf(node.entry.clear.children)) place(nodes.get(textOf(id)), node)
  }
  for (const node of nodes.values()) place(node, nodes.get(textOf(node.entry.clear.parentid)))
  const strays = [...nodes.values()].filter((node) => node.parent === null && !roots.has(node))
  const tops = [...roots, ...strays]
  const seen = new Set(walk(tops))
  // Folders that hold one another hang on nothing: one of each such circle comes to the top.
  for (const node of nodes.values()) {
    if (seen.has(node)) continue
    const top = cutCircle(node)
    tops.push(top)
    for (const found of walk([top])) seen.add(found)
  }
  describePlaces(tops)
  return tops
}

function nodeOf(entry: Readable): TreeNode {
  const { type, title, bmkUri, keyword, description } = entry.clear
  const tags = tagsOf(entry.clear).map((tag) => `#${tag}`)
  const subtitle = [hostOf(textOf(bmkUri)), ...tags].filter(Boolean).join('  ')
  const name = textOf(title) || rootTitles.get(entry.wire.id) || ''
  const item = itemOf(entry, name, subtitle, textOf(bmkUri), keyword, description)
  const kind = type === 'folder' || type === 'separator' ? type : 'bookmark'
  const place = { parent: null, level: 1, position: 1, siblings: 1 }
  return { ...item, ...(kind === 'folder' && { icon: kind }), entry, kind, children: [], ...place, count: 0 }
}

/** Climbs from a node until one comes again, and takes that out of its folder. */
function cutCircle(from: TreeNode): TreeNode {
  const passed = new Set<TreeNode>()
  let node = from
  for (; !passed.has(node); node = node.parent!) passed.add(node)
  const { children } = node.parent!
  children.splice(children.indexOf(node), 1)
  node.parent = null
  return node
}

function describePlaces(tops: TreeNode[]): void {
  const all = walk(tops)
  tops.forEach((top, index) => Object.assign(top, { position: index + 1, siblings: tops.length }))
  for (const { title, path = '', level, children } of all) {
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

/** The nodes of a tree in their order, without what is in folders that are not open. A tree may be of any depth. */
export function walk(tops: TreeNode[], isOpen: (node: TreeNode) => boolean = () => true): TreeNode[] {
  const found: TreeNode[] = []
  const waiting = tops.toReversed()
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    found.push(node)
    if (!isOpen(node)) continue
    for (let index = node.children.length - 1; index >= 0; index--) waiting.push(node.children[index]!)
  }
  return found
}

/** The bookmarks and folders among them. */
export function findable(nodes: TreeNode[]): TreeNode[] {
  return nodes.filter(({ kind }) => kind !== 'separator')
}
