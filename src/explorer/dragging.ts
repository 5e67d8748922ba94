import { isFixed, isTarget } from './bookmark-edits.ts'
import { rowAt } from './long-list.ts'
import type { BookmarkItem, Target } from './items.ts'

/** What dragging needs of the tree. */
interface DraggedTree {
  nodeAt(event: Event): BookmarkItem | undefined
  /** The items that move along with one: the selected ones, if it is one of them. */
  chosenAt(node: BookmarkItem): BookmarkItem[]
  move(moved: BookmarkItem[], target: Target): unknown
}

/** Moves rows with the mouse: beside a row, or into a folder. */
export function addDragging(area: HTMLElement, { nodeAt, chosenAt, move }: DraggedTree): void {
  let dragged: BookmarkItem[] = []
  let over: HTMLElement | null = null
  const unmark = () => {
    over?.removeAttribute('data-drop')
    over = null
  }
  area.addEventListener('dragstart', (event) => {
    const node = nodeAt(event)
    dragged = node === undefined ? [] : chosenAt(node)
    if (dragged.length === 0) return event.preventDefault()
    event.dataTransfer!.effectAllowed = 'move'
    event.dataTransfer!.setData('text/plain', dragged.map(({ title }) => title).join('\n'))
  })
  area.addEventListener('dragover', (event) => {
    const target = targetAt(event, nodeAt(event))
    unmark()
    if (target === null || dragged.length === 0 || !isTarget(dragged, target)) return
    event.preventDefault()
    over = rowAt(event)
    over?.setAttribute('data-drop', target.where)
  })
  area.addEventListener('dragleave', unmark)
  area.addEventListener('dragend', () => {
    unmark()
    dragged = []
  })
  area.addEventListener('drop', (event) => {
    const target = targetAt(event, nodeAt(event))
    unmark()
    event.preventDefault()
    if (target !== null) move(dragged, target)
    dragged = []
  })
}

/** The place under the pointer: the edges of a row are beside it, the middle of a folder is in it. */
function targetAt(event: DragEvent, node: BookmarkItem | undefined): Target | null {
  const row = rowAt(event)
  if (node === undefined || row === null) return null
  const { top, height } = row.getBoundingClientRect()
  const part = (event.clientY - top) / height
  if (node.kind === 'folder' && (isFixed(node) || (part > 0.25 && part < 0.75)))
    return { node, where: 'into' }
  return { node, where: part < 0.5 ? 'before' : 'after' }
}
