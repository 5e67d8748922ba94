import { nameRecord } from '../client/engine-records.ts'
import { readBookmark, readVisitedPage } from '../client/record-readers.ts'
import { textOf } from '../client/fields.ts'
import type { StoredRecord, SyncRecord } from '../client/collection.ts'
import type { ClearRecord } from '../client/crypto.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { editableFields, isDeletable } from './editable-fields.ts'
import { button, byId, copy, icon, link, make, mask } from './elements.ts'
import { ago } from './dates.ts'
import { factsOf, hostOf, webAddress } from './record-items.ts'
import { placeAddress } from './tab.ts'

const momentFormat = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** Finds a record of the same collection by id. */
type Find = (id: string) => SyncRecord | undefined

/** How a record is changed. */
export interface RecordChanges {
  /** Saves in the background. */
  save(edits: (Edit | RecordEdit)[], what: string): unknown
  /** Opens the form for its fields in its row. */
  change(record: SyncRecord): void
  /** The pages of its site, if it is a page in the history. */
  sameSite: SyncRecord[]
}

const parts = ['collection', 'title', 'edit', 'fields', 'path', 'wire', 'changed'] as const

/** Shows a record side by side: as stored, and decrypted. `changes`: null if it can't be changed. */
export function showDetails(
  record: SyncRecord,
  bucket: string,
  find: Find,
  changes: RecordChanges | null,
): void {
  const dialog = byId<HTMLDialogElement>('details')
  const shown = {
    ...drawRecord(record, bucket, find),
    edit: changes === null ? [] : drawChoices(record, changes, () => dialog.close()),
  }
  for (const part of parts) byId(`details-${part}`).replaceChildren(...shown[part])
  if (!dialog.open) dialog.showModal()
}

/** Removes what is decrypted. */
export function emptyDetails(): void {
  for (const part of parts) byId(`details-${part}`).replaceChildren()
}

/** The buttons that change and delete a record. */
function drawChoices(
  record: SyncRecord,
  { save, change, sameSite }: RecordChanges,
  close: () => void,
): HTMLElement[] {
  const { collection, stored, clear } = record
  if (!isDeletable(record) || clear === null) return []
  const choice = (label: string, act: () => void) => {
    const onclick = () => {
      act()
      close()
    }
    return button({ class: 'quiet', onclick }, label)
  }
  const site = hostOf(readVisitedPage(clear).url)
  const count = sameSite.length.toLocaleString()
  const remove = () => save([{ op: 'remove', id: stored.id }], `Deleted “${nameRecord(collection, clear)}”`)
  const removeSite = () =>
    save(
      sameSite.map((page) => ({ op: 'remove' as const, id: page.stored.id })),
      `Deleted ${count} pages of ${site}`,
    )
  return [
    ...(editableFields(record).length > 0 ? [choice('Edit', () => change(record))] : []),
    choice('Delete', remove),
    ...(sameSite.length > 1 ? [choice(`Delete all ${count} pages of ${site}`, removeSite)] : []),
  ]
}

function drawRecord({ collection, stored, clear, problem }: SyncRecord, bucket: string, find: Find) {
  const path = `/v1/buckets/${bucket}/collections/${collection}/records/${encodeURIComponent(stored.id)}`
  return {
    collection: [collection],
    title: [clear === null ? stored.id : nameRecord(collection, clear)],
    fields:
      clear === null
        ? [make('p', { class: 'trouble' }, `This record can't be read. ${problem}.`)]
        : [drawFacts(collection, clear, find), drawClear(clear)],
    path: [`GET ${path}`],
    wire: json(unwrapped(stored)),
    changed: [`changed ${formatTime(stored.last_modified)}`],
  } satisfies Record<string, (Node | string)[]>
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
