import { idOf, isFixed } from './bookmark-edits.ts'
import { icon, make } from './elements.ts'
import type { BookmarkItem, DrawContext, TreeState } from './items.ts'
import { changeButton, detailsLink, drawDraft, drawText, mainLink, markOf, siteLink } from './rows.ts'

// Deeper rows are not indented further, but state their level.
const deepestIndent = 7

/** The row of an item. Without an editor, it has no controls that change something. */
export function drawNode(node: BookmarkItem, isOpen: boolean, context: DrawContext): HTMLElement {
  const { record, kind, title, level, position, siblings, count } = node
  const name = `name-${record.stored.id}`
  const draft = drawDraft(record, context)
  const isMovable = context.editor !== null && !isFixed(node)
  const row = make('div', {
    class: `row node ${kind}`,
    role: 'treeitem',
    'aria-level': level,
    'aria-posinset': position,
    'aria-setsize': siblings,
    'aria-expanded': kind === 'folder' ? String(isOpen) : null,
    // In a row that can be dragged, Firefox selects no text.
    draggable: isMovable && draft === null ? 'true' : null,
    // A row with a form has the name of its content, because a name has to contain what is visible.
    ...(draft === null &&
      (kind === 'separator' ? { 'aria-label': 'Separator' } : { 'aria-labelledby': name })),
  })
  row.style.setProperty('--level', String(Math.min(level, deepestIndent)))
  const depth = level > deepestIndent && make('small', { class: 'level', 'data-text': level })
  if (isMovable)
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
  const change = changeButton(node, context)
  if (change !== null) row.append(change)
  if (draft !== null) {
    row.classList.add(draft.className)
    row.append(draft.form)
  }
  if (context.editor !== null) markNode(row, node, context.tree)
  return row
}

/** Shows whether a row is selected, and whether it is cut. */
export function markNode(row: HTMLElement, node: BookmarkItem, { selected, cut }: TreeState): void {
  const isSelected = selected.has(idOf(node))
  if (isFixed(node)) row.removeAttribute('aria-selected')
  else row.setAttribute('aria-selected', String(isSelected))
  row.classList.toggle('cut', cut.has(idOf(node)))
  const box = row.querySelector<HTMLInputElement>('.pick')
  if (box !== null) box.checked = isSelected
}
