import { walk } from '../client/bookmarks.ts'
import { folded } from '../client/spelling.ts'
import { idOf, isFixed, outermost } from './bookmark-edits.ts'
import { addDragging } from './dragging.ts'
import { isTyping, showStatus } from './elements.ts'
import { LongList } from './long-list.ts'
import type { BookmarkItem, DrawContext, DrawnTree, Target, TreeState } from './items.ts'
import { formIn } from './rows.ts'
import { drawNode, markNode } from './tree-row.ts'

// Letters typed within a second form a prefix to search for.
const typingMs = 1000

/** A tree of folders that open and close, by mouse or with the standard keys of trees. Without an editor, it can't be changed. */
export function drawTree(tops: BookmarkItem[], given: DrawContext): DrawnTree {
  const { tree: state } = given
  const editor = given.editor?.canEdit('bookmarks') === true ? given.editor : null
  const context = { ...given, editor }
  const isOpen = (node: BookmarkItem) => node.kind === 'folder' && state.open.has(idOf(node))
  const visible = () => walk(tops, isOpen)
  forgetGone(tops, state)
  let nodes = visible()
  let typed = ''
  let typedAtMs = -Infinity
  const list = new LongList('Bookmarks', 'tree', [{ title: null, items: nodes }], drawRow, ({ record }) =>
    formIn(record, context),
  )
  const { element } = list
  if (editor !== null) element.querySelector('[role=tree]')?.setAttribute('aria-multiselectable', 'true')
  element.addEventListener('keydown', onKey)
  element.addEventListener('click', onClick)
  element.addEventListener('focusin', onFocus)
  if (editor !== null)
    addDragging(element, { nodeAt, chosenAt, move: (moved, target) => editor.move(moved, target) })
  return { element, chosen, place, all: () => walk(tops), focus }

  function drawRow(node: BookmarkItem): HTMLElement {
    return drawNode(node, isOpen(node), context)
  }

  function nodeAt({ target }: Event): BookmarkItem | undefined {
    return nodes[Number((target as Element).closest<HTMLElement>('[data-index]')?.dataset.index)]
  }

  function onFocus(event: Event): void {
    const node = nodeAt(event)
    if (node === undefined) return
    state.current = idOf(node)
    state.currentIndex = nodes.indexOf(node)
  }

  function current(): BookmarkItem | null {
    return nodes.find((node) => idOf(node) === state.current) ?? null
  }

  function place(): BookmarkItem {
    return current() ?? tops.find((top) => idOf(top) === 'unfiled') ?? tops[0]!
  }

  function focus(): boolean {
    if (state.current === null) return false
    const index = nodes.findIndex((node) => idOf(node) === state.current)
    // The row that has taken the place of one that is gone.
    list.focus(index >= 0 ? index : state.currentIndex)
    return true
  }

  function chosen(): BookmarkItem[] {
    return editor === null ? [] : editor.chosen(walk(tops), current())
  }

  function onClick(event: MouseEvent): void {
    const node = nodeAt(event)
    const target = event.target as Element
    if (node === undefined || target.closest('form, .icon-button') !== null) return
    if (target.closest('input') !== null) return select(node, event.shiftKey ? 'range' : 'toggle')
    if (editor !== null && (event.ctrlKey || event.metaKey || event.shiftKey)) {
      event.preventDefault()
      event.stopPropagation()
      return select(node, event.shiftKey ? 'range' : 'toggle')
    }
    if (node.kind === 'folder' && target.closest('a') === null) toggle(node)
  }

  /** Selects or deselects an item, or all from the last one to this one. */
  function select(node: BookmarkItem, how: 'toggle' | 'range'): void {
    if (isFixed(node)) return showStatus('A root folder can’t be changed')
    const { selected } = state
    const from = nodes.findIndex((each) => idOf(each) === state.anchor)
    if (how === 'range' && from >= 0) {
      const [first, last] = [from, nodes.indexOf(node)].toSorted((one, other) => one - other)
      for (const each of nodes.slice(first, last! + 1)) if (!isFixed(each)) selected.add(idOf(each))
    } else if (!selected.delete(idOf(node))) selected.add(idOf(node))
    state.anchor = idOf(node)
    markAll()
  }

  /** Shows what is selected and cut. */
  function markAll(): void {
    for (const [node, row] of list.rendered()) markNode(row, node, state)
    state.onSelect()
  }

  function toggle(node: BookmarkItem): void {
    if (!state.open.delete(idOf(node))) state.open.add(idOf(node))
    list.rowOf(node)?.setAttribute('aria-expanded', String(isOpen(node)))
    nodes = visible()
    list.update(nodes)
  }

  function onKey(event: KeyboardEvent): void {
    const node = nodeAt(event)
    if (node === undefined || event.altKey || isTyping(event)) return
    // A link, button or box inside a row has two keys of its own.
    const isInner = (event.target as Element).closest('a, button, input') !== null
    if (isInner && (event.key === 'Enter' || event.key === ' ')) return
    if (event.ctrlKey || event.metaKey) return onEditKey(node, event)
    const act = {
      ArrowRight: () => goToChild(node),
      ArrowLeft: () => goToParent(node),
      Enter: () => press(node),
      ' ': () => (editor === null ? press(node) : select(node, 'toggle')),
      ...(editor !== null && {
        Delete: () => editor.remove(chosenAt(node)),
        F2: () => editor.change(node.record),
        Escape: deselect,
        ...(event.shiftKey && {
          ArrowDown: () => extend(node, 1),
          ArrowUp: () => extend(node, -1),
        }),
      }),
    }[event.key]
    if (act === undefined) return typeAhead(node, event)
    event.preventDefault()
    act()
  }

  function chosenAt(node: BookmarkItem): BookmarkItem[] {
    return editor!.chosen(walk(tops), node)
  }

  function deselect(): void {
    state.selected.clear()
    state.cut.clear()
    markAll()
  }

  /** Moves to the next row and selects both. */
  function extend(node: BookmarkItem, step: number): void {
    const next = nodes[nodes.indexOf(node) + step]
    if (next === undefined) return
    for (const each of [node, next]) if (!isFixed(each)) state.selected.add(idOf(each))
    state.anchor = idOf(next)
    markAll()
    list.focus(nodes.indexOf(next))
  }

  function onEditKey(node: BookmarkItem, event: KeyboardEvent): void {
    if (editor === null) return
    const act = {
      x: () => {
        state.cut = new Set(chosenAt(node).map(idOf))
        markAll()
        showStatus(state.cut.size === 0 ? 'This can’t be moved' : 'Cut: go to another place and press Ctrl+V')
      },
      v: () => {
        const moved = outermost(walk(tops), state.cut)
        const target: Target = { node, where: node.kind === 'folder' ? 'into' : 'after' }
        if (!editor.move(moved, target))
          showStatus(moved.length === 0 ? 'Nothing was cut' : 'It can’t be moved there')
      },
      a: () => {
        for (const each of nodes) if (!isFixed(each)) state.selected.add(idOf(each))
        markAll()
      },
    }[event.key.toLowerCase()]
    if (act === undefined) return
    event.preventDefault()
    act()
  }

  /** Moves to the next row that begins with the typed text; repeating a letter moves on. */
  function typeAhead(node: BookmarkItem, { key, timeStamp }: KeyboardEvent): void {
    // The slash focuses the search.
    if ([...key].length !== 1 || key === '/') return
    typed = timeStamp - typedAtMs < typingMs ? typed + folded(key) : folded(key)
    typedAtMs = timeStamp
    const isRepeated = typed.length > 1 && typed === typed[0]!.repeat(typed.length)
    const word = isRepeated ? typed[0]! : typed
    const from = nodes.indexOf(node) + (word.length === 1 ? 1 : 0)
    const inOrder = [...nodes.slice(from), ...nodes.slice(0, from)]
    const found = inOrder.find(({ title, kind }) => kind !== 'separator' && folded(title).startsWith(word))
    if (found !== undefined) list.focus(nodes.indexOf(found))
  }

  function goToChild(node: BookmarkItem): void {
    if (node.kind === 'folder' && !isOpen(node)) toggle(node)
    else if (node.children.length > 0) list.focus(nodes.indexOf(node) + 1)
  }

  function goToParent(node: BookmarkItem): void {
    if (isOpen(node)) toggle(node)
    else if (node.parent !== null) list.focus(nodes.indexOf(node.parent))
  }

  function press(node: BookmarkItem): void {
    if (node.kind === 'folder') toggle(node)
    else list.rowOf(node)?.querySelector<HTMLElement>('[data-main]')?.click()
  }
}

/** What is selected or cut, and was deleted since, counts no more. */
function forgetGone(tops: BookmarkItem[], { selected, cut }: TreeState): void {
  if (selected.size + cut.size === 0) return
  const there = new Set(walk(tops).map(idOf))
  for (const ids of [selected, cut]) for (const id of ids) if (!there.has(id)) ids.delete(id)
}
