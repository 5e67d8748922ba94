/** The edits that a user means by selecting, moving and deleting rows of the tree. Pure. */
import type { Edit } from '../client/edit/edit.ts'
import type { BookmarkItem, Target } from './items.ts'

export function idOf({ record }: BookmarkItem): string {
  return record.stored.id
}

/** A root folder can't be changed, moved or deleted; nor can an item that is outside of the roots until Firefox has repaired it. */
export function isFixed(node: BookmarkItem): boolean {
  return node.parent === null
}

/** The selected items without those inside of other selected ones, in the order of the tree. */
export function outermost(nodes: BookmarkItem[], selected: ReadonlySet<string>): BookmarkItem[] {
  return nodes.filter((node) => {
    if (!selected.has(idOf(node)) || isFixed(node)) return false
    for (let above = node.parent; above !== null; above = above.parent)
      if (selected.has(idOf(above))) return false
    return true
  })
}

/** Whether items can go there: nothing goes beside a root, or into itself. */
export function isTarget(moved: BookmarkItem[], { node, where }: Target): boolean {
  if (where === 'into' ? node.kind !== 'folder' : isFixed(node)) return false
  const own = new Set(moved.map(idOf))
  for (let above: BookmarkItem | null = where === 'into' ? node : node.parent; above; above = above.parent)
    if (own.has(idOf(above))) return false
  return true
}

/** Moves items, which keep their order. */
export function movesTo(moved: BookmarkItem[], target: Target): Edit[] {
  const { node, where } = target
  if (where === 'into') return moved.map((each) => ({ op: 'move', id: idOf(each), folder: idOf(node) }))
  const folder = idOf(node.parent!)
  const own = new Set(moved.map(idOf))
  // A neighbour that moves along is no place.
  const siblings = node.parent!.children.filter((each) => each === node || !own.has(idOf(each)))
  const index = siblings.indexOf(node) - (where === 'before' ? 1 : 0)
  const isPlace = (each: BookmarkItem) => !own.has(idOf(each))
  let after = siblings.slice(0, index + 1).findLast(isPlace)
  // Counts if another device has moved or deleted the one before.
  const next = siblings.slice(index + 1).find(isPlace)
  const before = next ? idOf(next) : null
  return moved.map((each) => {
    const edit: Edit = { op: 'move', id: idOf(each), folder, after: after ? idOf(after) : null, before }
    after = each
    return edit
  })
}

/** Deletes items with everything that is shown in them. */
export function removals(removed: BookmarkItem[]): Edit[] {
  return removed.map((node) => {
    const shown: string[] = []
    const waiting = [node]
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      shown.push(idOf(next))
      waiting.push(...next.children)
    }
    return { op: 'remove', id: idOf(node), shown }
  })
}

/** Where a new item goes: behind the row, or to the end of it if it is an open or a root folder. */
export function placeFor(node: BookmarkItem, isOpen: boolean): { folder: string; after?: string } {
  if (node.kind === 'folder' && (isOpen || isFixed(node))) return { folder: idOf(node) }
  return isFixed(node) ? { folder: 'unfiled' } : { folder: idOf(node.parent!), after: idOf(node) }
}

/** "1 bookmark", "3 bookmarks and folders". */
export function named(nodes: BookmarkItem[]): string {
  const [first] = nodes
  if (nodes.length === 1) return first!.kind === 'separator' ? 'a separator' : `“${first!.title}”`
  const hasFolder = nodes.some(({ kind }) => kind === 'folder')
  return `${nodes.length.toLocaleString()} ${hasFolder ? 'bookmarks and folders' : 'bookmarks'}`
}
