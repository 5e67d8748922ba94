import type { SyncRecord } from '../client/collection.ts'
import { avatar, button, copy, icon, link, make, mask } from './elements.ts'
import { LongList } from './long-list.ts'
import { dayName } from './dates.ts'
import { hostOf } from './record-items.ts'
import { editableFields } from './editable-fields.ts'
import type { FieldForm } from './field-form.ts'
import type { DrawContext, Group, Item } from './items.ts'
import { placeAddress } from './tab.ts'

/** Draws groups as a list with headings. `mark` returns the icon of a row. */
export function drawList(
  label: string,
  groups: Group[],
  context: DrawContext,
  mark: (item: Item) => Element | null = markOf,
  look = 'row',
): HTMLElement {
  const sections = groups.map(({ title, items }) => ({
    title: typeof title === 'number' ? dayName(title) : title,
    items,
  }))
  const drawRow = (item: Item) => {
    const end = item.meta?.() ?? ''
    const draft = drawDraft(item.record, context)
    return make(
      'div',
      { class: draft === null ? look : `${look} ${draft.className}`, role: 'listitem' },
      mainLink(
        item,
        mark(item),
        drawText(item),
        end !== '' && make('span', { class: 'row-meta', dir: 'auto' }, end),
      ),
      ...(item.secret === undefined ? [] : drawSecret(item.secret, item)),
      item.url !== null && siteLink(item.url, item),
      changeButton(item, context),
      draft !== null && draft.form,
    )
  }
  const { element } = new LongList(label, 'list', sections, drawRow, ({ record }) => formIn(record, context))
  element.addEventListener('keydown', ({ key, target }) => {
    if (key === 'F2') (target as Element).closest('.row')?.querySelector<HTMLElement>('.edit')?.click()
  })
  return element
}

/** Opens the form of a row; null if it has none. */
export function changeButton(
  { record, title, subtitle, secret }: Item,
  { editor }: DrawContext,
): HTMLButtonElement | null {
  if (editor?.canEdit(record.collection) !== true || editableFields(record).length === 0) return null
  // A site may have several logins.
  const login = subtitle ? `login of ${subtitle}` : 'login without a user name'
  const name = secret === undefined ? `Edit ${title}` : `Edit the ${login} at ${title}`
  const change = {
    class: 'icon-button edit',
    'aria-label': name,
    title: 'Edit (F2)',
    onclick: () => editor.change(record),
  }
  return button(change, icon('edit'))
}

/** The form that is open in the row of a record, and the class of the row; null if none is. */
export function drawDraft(
  record: SyncRecord,
  context: DrawContext,
): { form: HTMLElement; className: string } | null {
  const form = formIn(record, context)
  return form && { form: form.element, className: context.draft()!.isNew ? 'adding' : 'changing' }
}

/** The form that is open in the row of a record; null if none is. */
export function formIn({ collection, stored }: SyncRecord, { draft, editor }: DrawContext): FieldForm | null {
  const open = draft()
  if (open === null || open.id !== stored.id || open.collection !== collection) return null
  return editor?.canEdit(collection) === true ? open.form : null
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
