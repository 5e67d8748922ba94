import { nameRecord, readBookmark, readVisitedPage } from '../client/engines.ts'
import { textOf, webAddress } from '../client/fields.ts'
import type { StoredRecord, SyncRecord } from '../client/collection.ts'
import type { ClearRecord } from '../client/crypto.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { editableFields, editsFor, isDeletable } from './editable-fields.ts'
import { fieldForm, type FieldForm, type SaveFields } from './edit-dialogs.ts'
import { button, byId, copy, icon, link, make, mask } from './elements.ts'
import { ago } from './dates.ts'
import { factsOf, hostOf } from './record-items.ts'
import { placeAddress } from './tab.ts'

const momentFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const dialog = byId<HTMLDialogElement>('details')
let shown: SyncRecord | null = null
/** The form for the record that is shown. */
let form: FieldForm | null = null

/** Finds a record of the same collection by id. */
type Find = (id: string) => SyncRecord | undefined

/** How a record is changed. */
interface Changes {
  /** Saves for the form, which shows why not everything was saved. */
  attempt(edits: (Edit | RecordEdit)[], what: string): Promise<string | null>
  /** Saves in the background. */
  save(edits: (Edit | RecordEdit)[], what: string): unknown
  /** The pages of its site, if it is a page in the history. */
  sameSite: SyncRecord[]
}

/** Shows a record side by side: as stored, and decrypted. */
export function showDetails(record: SyncRecord, bucket: string, find: Find, changes: Changes | null): void {
  if (record === shown) return
  const isSame = shown?.collection === record.collection && shown.stored.id === record.stored.id
  // It was closed, and its event comes later.
  if (isSame && !dialog.open) return
  shown = record
  fillIn(record, bucket, find)
  // What was typed stays, also when another device has changed the record.
  if (isSame && form !== null && changes !== null) form.update(editableFields(record))
  else byId('details-edit').replaceChildren(...(changes === null ? [] : drawForm(record, changes)))
  if (!dialog.open) dialog.showModal()
}

/** Focuses the first field that can be changed. */
export function focusFields(): void {
  form?.focus()
}

export function closeDetails(): void {
  shown = null
  dialog.close()
}

// Clears decrypted data when the dialog closes, unless it was reopened before this event.
dialog.addEventListener('close', () => {
  if (dialog.open) return
  shown = null
  form = null
  for (const part of dialog.querySelectorAll('[id^=details-]')) part.replaceChildren()
})
dialog.addEventListener('click', ({ target }) => {
  if (target === dialog) dialog.close()
})
byId('close-details').addEventListener('click', () => dialog.close())

/** The form for the fields that can be changed, and the button that deletes the record. */
function drawForm(record: SyncRecord, { attempt, save, sameSite }: Changes): HTMLElement[] {
  form = null
  if (!isDeletable(record) || record.clear === null) return []
  const name = `“${nameRecord(record.collection, record.clear)}”`
  const remove = button({ class: 'quiet', onclick: deleteIt }, 'Delete')
  const fields = editableFields(record)
  const site = hostOf(readVisitedPage(record.clear).url)
  const deleteSite = () => {
    const edits = sameSite.map(({ stored }) => ({ op: 'remove' as const, id: stored.id }))
    save(edits, `Deleted ${edits.length.toLocaleString()} pages of ${site}`)
    dialog.close()
  }
  const removeSite =
    sameSite.length > 1 &&
    button(
      { class: 'quiet', onclick: deleteSite },
      `Delete all ${sameSite.length.toLocaleString()} pages of ${site}`,
    )
  function deleteIt(): void {
    save([{ op: 'remove', id: record.stored.id }], `Deleted ${name}`)
    dialog.close()
  }
  if (fields.length === 0) return [make('div', { class: 'choices' }, remove, removeSite)]
  const send: SaveFields = async (values) => {
    const edits = editsFor(shown ?? record, values, new Date().getTime())
    return edits.length === 0 ? null : await attempt(edits, `Changed ${name}`)
  }
  form = fieldForm(fields, 'Save', send, () => dialog.close(), remove)
  return [form.element]
}

function fillIn({ collection, stored, clear, problem }: SyncRecord, bucket: string, find: Find): void {
  const path = `/v1/buckets/${bucket}/collections/${collection}/records/${encodeURIComponent(stored.id)}`
  const parts: Record<string, (Node | string)[]> = {
    collection: [collection],
    title: [clear === null ? stored.id : nameRecord(collection, clear)],
    fields:
      clear === null
        ? [make('p', { class: 'trouble' }, `This record can't be read. ${problem}.`)]
        : [drawFacts(collection, clear, find), drawClear(clear)],
    path: [`GET ${path}`],
    wire: json(unwrapped(stored)),
    changed: [`changed ${formatTime(stored.last_modified)}`],
  }
  for (const [part, shown] of Object.entries(parts)) byId(`details-${part}`).replaceChildren(...shown)
}

function drawFacts(collection: string, clear: ClearRecord, find: Find): HTMLElement {
  const rows = factsOf(clear).flatMap(({ name, value }) => {
    const url = webAddress(value)
    const text = typeof value === 'number' ? formatTime(value) : value
    return fact(name, url === null ? text : link(url, {}, text), text)
  })
  const { password } = clear
  if (textOf(password) !== '') rows.push(...fact('Password', mask, textOf(password)))
  return make('dl', {}, ...rows, ...drawRelatives(collection, clear, find))
}

function fact(name: string, shown: Node | string, text: string): HTMLElement[] {
  const label = `Copy: ${name}`
  const take = { class: 'icon-button', 'aria-label': label, title: label, onclick: () => copy(text) }
  return [make('dt', {}, name), make('dd', { dir: 'auto' }, shown, button(take, icon('copy')))]
}

function formatTime(ms: number): string {
  return `${momentFormat.format(ms)} (${ago(ms)})`
}

const maxChildren = 50

/** The titles of a bookmark's folder, or of a folder's contents, which the record only names by id. */
function drawRelatives(collection: string, clear: ClearRecord, find: Find): HTMLElement[] {
  const { parentId, childIds: ids } = readBookmark(clear)
  const recordLink = (id: string) => {
    const found = find(id)?.clear
    return found ? make('a', { href: placeAddress(collection, id) }, nameRecord(collection, found)) : id
  }
  const inside = ids.slice(0, maxChildren).map((id) => make('li', { dir: 'auto' }, recordLink(id)))
  const more = ids.length - inside.length
  if (more > 0) inside.push(make('li', {}, `and ${more.toLocaleString()} more`))
  return [
    ...(parentId === '' ? [] : [make('dt', {}, 'Inside of'), make('dd', {}, recordLink(parentId))]),
    ...(ids.length === 0 ? [] : [make('dt', {}, 'Contains'), make('dd', {}, make('ul', {}, ...inside))]),
  ]
}

const secretField = /^(password|cc-number.*|cc-exp.*)$/

function drawClear(clear: ClearRecord): HTMLElement {
  const hidden = (key: string, value: unknown): unknown =>
    secretField.test(key) && value !== '' && value !== null ? mask : value
  const masked = JSON.parse(JSON.stringify(clear, hidden)) as Record<string, unknown>
  const text = make('pre', { tabindex: 0 }, ...json(masked))
  const reveal = button({ class: 'quiet', onclick: show }, 'Show what is hidden')
  function show(): void {
    text.replaceChildren(...json(clear))
    reveal.remove()
  }
  const isHiding = JSON.stringify(masked) !== JSON.stringify(clear)
  const take = button({ class: 'quiet', onclick: () => copy(JSON.stringify(clear, null, 2)) }, 'Copy')
  return make('details', {}, make('summary', {}, 'The record as JSON'), text, take, isHiding && reveal)
}

// Parses the payload, because JSON inside a JSON string is hard to read.
function unwrapped({ payload, ...stored }: StoredRecord): object {
  try {
    return { ...stored, payload: JSON.parse(payload ?? '') as unknown }
  } catch {
    return { ...stored, payload }
  }
}

/** JSON with highlighted names, strings and other values. */
function json(value: unknown): (Node | string)[] {
  const text = JSON.stringify(value, null, 2)
  if (text.length > 50_000) return [text]
  const parts: (Node | string)[] = []
  let end = 0
  for (const match of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|\b(?:true|false|null|-?\d[\d.eE+-]*)\b/g)) {
    const [whole, quoted, colon] = match
    const kind = quoted === undefined ? 'value' : colon === undefined ? 'text' : 'name'
    parts.push(text.slice(end, match.index), make('span', { class: `json-${kind}` }, quoted ?? whole))
    end = match.index + (quoted ?? whole).length
  }
  return [...parts, text.slice(end)]
}
