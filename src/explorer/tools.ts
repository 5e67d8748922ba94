import { wordsOf } from '../client/spelling.ts'
import type { Choice } from './contents.ts'
import { byId, isTyping, make } from './elements.ts'
import type { Order } from './order.ts'

const search = byId<HTMLInputElement>('search')
const order = byId<HTMLSelectElement>('order')
const tag = byId<HTMLSelectElement>('tag')

/** The text in the search field. */
export function typed(): string {
  return search.value.trim()
}

export function choice(): Choice {
  return { words: wordsOf(typed()), order: order.value as Order, tag: tag.value }
}

/** Clears search, order and filter. */
export function resetChoice(): void {
  for (const field of [search, order, tag]) field.value = ''
}

/** Fills the menu of tags; keeps the selected tag if it still exists. */
export function offerTags(tags: Map<string, number>): void {
  const chosen = tag.value
  const names = [...tags].map(([name, count]) => make('option', { value: name }, `${name} (${count})`))
  tag.replaceChildren(make('option', { value: '' }, 'any'), ...names)
  tag.value = tags.has(chosen) ? chosen : ''
}

/** Shows the controls for this view. */
export function showTools(viewId: string): void {
  const isBookmarks = viewId === 'bookmarks'
  byId('tagged').hidden = !isBookmarks || tag.options.length < 2
  byId('collapse').hidden = !isBookmarks || [search, order, tag].some(({ value }) => value.trim() !== '')
}

/** Calls `act` when search, order or filter change. */
export function onChoice(act: () => void): void {
  for (const field of [search, order, tag]) field.addEventListener('input', act)
  search.addEventListener('keydown', ({ key }) => {
    if (key !== 'Escape') return
    if (search.value === '') search.blur()
    search.value = ''
    act()
  })
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || isTyping(event) || byId('explorer').hidden) return
    event.preventDefault()
    search.focus()
  })
}
