import { walk } from '../client/bookmarks.ts'
import { folded } from '../client/spelling.ts'
import { idOf, isFixed, isTarget, outermost } from './bookmark-edits.ts'
import { focusFields } from './details.ts'
import { icon, make, showStatus } from './elements.ts'
import { LongList } from './long-list.ts'
import type { BookmarkItem, DrawnTree, Target, TreeEditor, TreeState } from './items.ts'
import { detailsLink, drawText, mainLink, markOf, siteLink } from './rows.ts'

// Letters typed within a second form a prefix to search for.
const typingMs = 1000

/** A tree of folders that open and close, by mouse or with the standard keys of trees. `editor`: null if it can't be changed. */
export function drawTree(tops: BookmarkItem[], state: TreeState, editor: TreeEditor | null): DrawnTree {
  const isOpen = (node: BookmarkItem) => node.kind === 'folder' && state.open.has(idOf(node))
  const visible = () => walk(tops, isOpen)
  forgetGone(tops, state)
  let nodes = visible()
  let typed = ''
  let typedAtMs = -Infinity
  const list = new LongList('Bookmarks', 'tree', [{ title: null, items: nodes }], drawRow)
  const { element } = list
  if (editor !== null) element.querySelector('[role=tree]')?.setAttribute('aria-multiselectable', 'true')
  element.addEventListener('keydown', onKey)
  element.addEventListener('click', onClick)
  element.addEventListener('focusin', onFocus)
  if (editor !== null) addDragging(element, editor)
  return { element, chosen, current, all: () => walk(tops), focus }

  function drawRow(node: BookmarkItem): HTMLElement {
    return drawNode(node, isOpen(node), editor === null ? null : state)
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
    if (node === undefined) return
    const target = event.target as Element
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
    for (const [node, row] of list.rendered()) setSelected(row, node, state)
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
    if (node === undefined || event.altKey) return
    // A link or box inside a row has two keys of its own.
    const isInner = (event.target as Element).closest('a, input') !== null
    if (isInner && (event.key === 'Enter' || event.key === ' ')) return
    if (event.ctrlKey || event.metaKey) return onEditKey(node, event)
    const act = {
      ArrowRight: () => goToChild(node),
      ArrowLeft: () => goToParent(node),
      Enter: () => press(node),
      ' ': () => (editor === null ? press(node) : select(node, 'toggle')),
      ...(editor !== null && {
        Delete: () => editor.remove(chosenAt(node)),
        F2: () => change(node),
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

  /** Opens the details at the first field. */
  function change(node: BookmarkItem): void {
    list.rowOf(node)?.querySelector<HTMLElement>('a:not([target])')?.click()
    focusFields()
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

  /** Moves rows with the mouse: beside a row, or into a folder. */
  function addDragging(area: HTMLElement, mover: TreeEditor): void {
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
      const target = targetAt(event)
      unmark()
      if (target === null || dragged.length === 0 || !isTarget(dragged, target)) return
      event.preventDefault()
      over = (event.target as Element).closest<HTMLElement>('[data-index]')
      over?.setAttribute('data-drop', target.where)
    })
    area.addEventListener('dragleave', unmark)
    area.addEventListener('dragend', () => {
      unmark()
      dragged = []
    })
    area.addEventListener('drop', (event) => {
      const target = targetAt(event)
      unmark()
      event.preventDefault()
      if (target !== null) mover.move(dragged, target)
      dragged = []
    })
  }

  /** The place under the pointer: the edges of a row are beside it, the middle of a folder is in it. */
  function targetAt(event: DragEvent): Target | null {
    const node = nodeAt(event)
    const row = (event.target as Element).closest<HTMLElement>('[data-index]')
    if (node === undefined || row === null) return null
    const { top, height } = row.getBoundingClientRect()
    const part = (event.clientY - top) / height
    if (node.kind === 'folder' && (isFixed(node) || (part > 0.25 && part < 0.75)))
      return { node, where: 'into' }
    return { node, where: part < 0.5 ? 'before' : 'after' }
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

// Deeper rows are not indented further, but state their level.
const deepestIndent = 7

/** `editable`: null if the tree can't be changed. */
function drawNode(node: BookmarkItem, isOpen: boolean, editable: TreeState | null): HTMLElement {
  const { record, kind, title, level, position, siblings, count } = node
  const name = `name-${record.stored.id}`
  const row = make('div', {
    class: `row node ${kind}`,
    role: 'treeitem',
    'aria-level': level,
    'aria-posinset': position,
    'aria-setsize': siblings,
    'aria-expanded': kind === 'folder' ? String(isOpen) : null,
    draggable: editable !== null && !isFixed(node) ? 'true' : null,
    ...(kind === 'separator' ? { 'aria-label': 'Separator' } : { 'aria-labelledby': name }),
  })
  row.style.setProperty('--level', String(Math.min(level, deepestIndent)))
  const depth = level > deepestIndent && make('small', { class: 'level', 'data-text': level })
  if (editable !== null && !isFixed(node))
    row.append(
      make('input', {
        type: 'checkbox',
        class: 'pick',
        tabindex: -1,
        'aria-label': `Select ${title || 'separator'}`,
      }),
    )
  if (kind === 'separator') row.append(make('hr'))
  else if (kind === 'folder') {
    const text = make('span', { class: 'row-title', dir: 'auto' }, title)
    const size = make('small', {}, count.toLocaleString())
    const content = [depth, icon('chevron'), icon('folder'), text, size]
    row.append(make('span', { class: 'row-main', id: name }, ...content), detailsLink(node))
  } else {
    const main = mainLink(node, depth, markOf(node), drawText({ ...node, path: '' }))
    main.id = name
    row.append(main)
    if (node.url !== null) row.append(siteLink(node.url, node))
  }
  if (editable !== null) setSelected(row, node, editable)
  return row
}

function setSelected(row: HTMLElement, node: BookmarkItem, { selected, cut }: TreeState): void {
  const isSelected = selected.has(idOf(node))
  if (isFixed(node)) row.removeAttribute('aria-selected')
  else row.setAttribute('aria-selected', String(isSelected))
  row.classList.toggle('cut', cut.has(idOf(node)))
  const box = row.querySelector<HTMLInputElement>('.pick')
  if (box !== null) box.checked = isSelected
}
