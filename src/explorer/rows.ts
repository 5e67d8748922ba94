import type { SyncRecord } from '../client/collection.ts'
import { avatar, button, copy, icon, link, make, mask } from './elements.ts'
import { LongList } from './long-list.ts'
import { dayName } from './dates.ts'
import { hostOf } from './record-items.ts'
import type { Group, Item } from './items.ts'
import { placeAddress } from './tab.ts'

/** Draws groups as a list with headings. `mark` returns the icon of a row. */
export function drawList(
  label: string,
  groups: Group[],
  mark: (item: Item) => Element | null = markOf,
  look = 'row',
): HTMLElement {
  const sections = groups.map(({ title, items }) => ({
    title: typeof title === 'number' ? dayName(title) : title,
    items,
  }))
  const list = new LongList(label, 'list', sections, (item) => {
    const end = item.meta?.() ?? ''
    return make(
      'div',
      { class: look, role: 'listitem' },
      mainLink(
        item,
        mark(item),
        drawText(item),
        end !== '' && make('span', { class: 'row-meta', dir: 'auto' }, end),
      ),
      ...(item.secret === undefined ? [] : drawSecret(item.secret, item)),
      item.url !== null && siteLink(item.url, item),
    )
  })
  return list.element
}

/** The main link of a row, to its record. */
export function mainLink({ record }: Item, ...content: (Node | string | null | false)[]): HTMLAnchorElement {
  return make('a', { class: 'row-main', 'data-main': true, href: recordAddress(record) }, ...content)
}

/** Opens the site of a row in another tab. */
export function siteLink(url: string, { title }: Item): HTMLAnchorElement {
  return link(url, { class: 'icon-button', 'aria-label': `Open ${title}`, title: url }, icon('open'))
}

/** Links to the record of a row that does something else. */
export function detailsLink({ record, title }: Item): HTMLAnchorElement {
  const name = { 'aria-label': `Details of ${title}`, title: 'Details' }
  return make('a', { class: 'icon-button', href: recordAddress(record), ...name }, icon('details'))
}

export function recordAddress({ collection, stored }: SyncRecord): string {
  return placeAddress(collection, stored.id)
}

/** Page titles may be in any language; each line has its own text direction, but all are aligned to the same side. */
export function drawText({ title, subtitle, path = '' }: Item): HTMLElement {
  const below = [path, subtitle].filter(Boolean).join('  ·  ')
  return make(
    'span',
    { class: 'row-text' },
    make('span', { class: 'row-title', dir: 'auto' }, title),
    below !== '' && make('span', { class: 'row-subtitle', dir: 'auto' }, below),
  )
}

/** The icon of an item's kind, or a letter for its site. */
export function markOf({ url, title, icon: name }: Item): Element {
  return name !== undefined ? icon(name) : avatar(url === null ? title : hostOf(url))
}

/** A hidden password, with buttons to show and copy it. */
function drawSecret(secret: string, { title, subtitle }: Item): HTMLElement[] {
  const name = `password of ${subtitle || 'this login'} at ${title}`
  const text = make('span', { class: 'secret' }, mask)
  const reveal = button(
    { class: 'icon-button', 'aria-pressed': 'false', 'aria-label': `Show the ${name}`, onclick: toggle },
    icon('eye'),
  )
  function toggle(): void {
    const isShown = reveal.getAttribute('aria-pressed') === 'true'
    reveal.setAttribute('aria-pressed', String(!isShown))
    text.textContent = isShown ? mask : secret
  }
  const take = { class: 'icon-button', 'aria-label': `Copy the ${name}`, onclick: () => copy(secret) }
  return [text, reveal, button(take, icon('copy'))]
}
