import { walk } from '../client/bookmarks.ts'
import { folded } from '../client/spelling.ts'
import { icon, make } from './elements.ts'
import { LongList } from './long-list.ts'
import type { BookmarkItem } from './meaning.ts'
import { detailsLink, drawText, mainLink, markOf } from './rows.ts'

/** Ids of the open folders: at first only the first folder, so that there is something to see. */
const open = new Set(['toolbar'])

function isOpen({ record, kind }: BookmarkItem): boolean {
  return kind === 'folder' && open.has(record.stored.id)
}

/** Closes all folders; visible when the tree is drawn again. */
export function closeAllFolders(): void {
  open.clear()
}

// Letters typed within a second form a prefix to search for.
const typingMs = 1000

/** A tree of folders that open and close, by mouse or with the standard keys of trees. */
export function drawTree(tops: BookmarkItem[]): HTMLElement {
  const visible = () => walk(tops, isOpen)
  let nodes = visible()
  let typed = ''
  let typedAtMs = -Infinity
  const list = new LongList('Bookmarks', 'tree', [{ title: null, items: nodes }], drawNode)
  list.element.addEventListener('keydown', onKey)
  list.element.addEventListener('click', (event) => {
    const node = nodeAt(event)
    if (node?.kind === 'folder' && !(event.target as Element).closest('a')) toggle(node)
  })
  return list.element

  function nodeAt({ target }: Event): BookmarkItem | undefined {
    return nodes[Number((target as Element).closest<HTMLElement>('[data-index]')?.dataset.index)]
  }

  function toggle(node: BookmarkItem): void {
    if (!open.delete(node.record.stored.id)) open.add(node.record.stored.id)
    list.rowOf(node)?.setAttribute('aria-expanded', String(isOpen(node)))
    nodes = visible()
    list.update(nodes)
  }

  function onKey(event: KeyboardEvent): void {
    const node = nodeAt(event)
    if (node === undefined || event.ctrlKey || event.altKey || event.metaKey) return
    const act = {
      ArrowRight: () => goToChild(node),
      ArrowLeft: () => goToParent(node),
      Enter: () => press(node),
      ' ': () => press(node),
    }[event.key]
    // Controls inside a row handle their own keys.
    const isInner = (event.target as Element).closest('a') !== null && !event.key.startsWith('Arrow')
    if (isInner) return
    if (act === undefined) return typeAhead(node, event)
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

// Deeper rows are not indented further, but state their level.
const deepestIndent = 7

function drawNode(node: BookmarkItem): HTMLElement {
  const { record, kind, title, level, position, siblings, count } = node
  const name = `name-${record.stored.id}`
  const row = make('div', {
    class: `row node ${kind}`,
    role: 'treeitem',
    'aria-level': level,
    'aria-posinset': position,
    'aria-setsize': siblings,
    'aria-expanded': kind === 'folder' ? String(isOpen(node)) : null,
    ...(kind === 'separator' ? { 'aria-label': 'Separator' } : { 'aria-labelledby': name }),
  })
  row.style.setProperty('--level', String(Math.min(level, deepestIndent)))
  const depth = level > deepestIndent && make('small', { class: 'level', 'data-text': level })
  if (kind === 'separator') row.append(make('hr'))
  else if (kind === 'folder') {
    const text = make('span', { class: 'row-title', dir: 'auto' }, title)
    const size = make('small', {}, count.toLocaleString())
    const content = [depth, icon('chevron'), icon('folder'), text, size]
    row.append(make('span', { class: 'row-main', id: name }, ...content), detailsLink(node))
  } else {
    const main = mainLink(node, depth, markOf(node), drawText({ ...node, path: '' }))
    main.id = name
    row.append(main, detailsLink(node))
  }
  return row
}
