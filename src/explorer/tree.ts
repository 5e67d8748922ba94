import { walk, type TreeNode } from './bookmarks.ts'
import { icon, make } from './elements.ts'
import { LongList } from './long-list.ts'
import { detailsLink, drawText, mainLink, markOf } from './rows.ts'

/** Ids of folders that are not as they are at first, which is open at the top and closed below. */
const toggled = new Set<string>()

function isOpen({ entry, kind, parent }: TreeNode): boolean {
  return kind === 'folder' && toggled.has(entry.wire.id) !== (parent === null)
}

/** Folders that open and close, with what is in them, by mouse or with the keys that trees have. */
export function drawTree(tops: TreeNode[]): HTMLElement {
  const visible = () => walk(tops, isOpen)
  let nodes = visible()
  const list = new LongList('Bookmarks', 'tree', [{ title: null, items: nodes }], drawNode)
  list.element.addEventListener('keydown', onKey)
  list.element.addEventListener('click', (event) => {
    const node = nodeAt(event)
    if (node?.kind === 'folder' && !(event.target as Element).closest('a')) toggle(node)
  })
  return list.element

  function nodeAt({ target }: Event): TreeNode | undefined {
    return nodes[Number((target as Element).closest<HTMLElement>('[data-index]')?.dataset.index)]
  }

  function toggle(node: TreeNode): void {
    if (!toggled.delete(node.entry.wire.id)) toggled.add(node.entry.wire.id)
    list.rowOf(node)?.setAttribute('aria-expanded', String(isOpen(node)))
    nodes = visible()
    list.update(nodes)
  }

  function onKey(event: KeyboardEvent): void {
    const node = nodeAt(event)
    if (node === undefined || event.ctrlKey || event.altKey || event.metaKey) return
    const act = {
      ArrowRight: () => goIn(node),
      ArrowLeft: () => goOut(node),
      Enter: () => press(node),
      ' ': () => press(node),
    }[event.key]
    // What is in a row has keys of its own.
    const isInner = (event.target as Element).closest('a') !== null && !event.key.startsWith('Arrow')
    if (act === undefined || isInner) return
    event.preventDefault()
    act()
  }

  function goIn(node: TreeNode): void {
    if (node.kind === 'folder' && !isOpen(node)) toggle(node)
    else if (node.children.length > 0) list.focus(nodes.indexOf(node) + 1)
  }

  function goOut(node: TreeNode): void {
    if (isOpen(node)) toggle(node)
    else if (node.parent !== null) list.focus(nodes.indexOf(node.parent))
  }

  function press(node: TreeNode): void {
    if (node.kind === 'folder') toggle(node)
    else list.rowOf(node)?.querySelector<HTMLElement>('[data-main]')?.click()
  }
}

// Deeper ones are not moved further, but say how deep they are.
const deepestIndent = 7

function drawNode(node: TreeNode): HTMLElement {
  const { entry, kind, title, level, position, siblings, count } = node
  const name = `name-${entry.wire.id}`
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
