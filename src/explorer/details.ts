import type { ClearRecord } from '../../docs/examples/sync-crypto.js'
import type { Entry } from './account.ts'
import { button, byId, link, make, mask } from './elements.ts'
import { factsOf, webAddress } from './meaning.ts'

const momentForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

const dialog = byId<HTMLDialogElement>('details')
let shown: Entry | null = null

/** Shows a record twice: as it travels and lies in the storage, and as it is meant; null shows none. */
export function showDetails(entry: Entry | null): void {
  if (entry === shown) return
  shown = entry
  if (entry === null) return dialog.close()
  fillIn(entry)
  if (!dialog.open) dialog.showModal()
}

// What was decrypted goes with the dialog, unless it was opened again before this event came.
dialog.addEventListener('close', () => {
  if (dialog.open) return
  shown = null
  for (const part of dialog.querySelectorAll('[id^=details-]')) part.replaceChildren()
})
dialog.addEventListener('click', ({ target }) => {
  if (target === dialog) dialog.close()
})
byId('close-details').addEventListener('click', () => dialog.close())

function fillIn({ collection, path, wire, clear, problem }: Entry): void {
  const parts: Record<string, (Node | string)[]> = {
    collection: [collection],
    title: [clear === null ? wire.id : titleOf(clear)],
    meaning:
      clear === null
        ? [make('p', { class: 'trouble' }, `This record can't be read. ${problem}.`)]
        : [drawFacts(clear), ...drawClear(clear)],
    path: [`GET ${path}`],
    wire: json(unwrapped(wire)),
    changed: [`changed ${momentForm.format(wire.last_modified)}`],
  }
  for (const [part, shown] of Object.entries(parts)) byId(`details-${part}`).replaceChildren(...shown)
}

function drawFacts(clear: ClearRecord): HTMLElement {
  const rows = factsOf(clear).flatMap(({ name, value }) => {
    const url = webAddress(value)
    const text = typeof value === 'number' ? momentForm.format(value) : value
    return [make('dt', {}, name), make('dd', { dir: 'auto' }, url === null ? text : link(url, {}, text))]
  })
  return make('dl', {}, ...rows)
}

const secretField = /^(password|cc-number.*|cc-exp.*)$/

function drawClear(clear: ClearRecord): HTMLElement[] {
  const hidden = (key: string, value: unknown): unknown =>
    secretField.test(key) && value !== '' && value !== null ? mask : value
  const masked = JSON.parse(JSON.stringify(clear, hidden)) as Record<string, unknown>
  const text = make('pre', { tabindex: 0 }, ...json(masked))
  if (JSON.stringify(masked) === JSON.stringify(clear)) return [text]
  const reveal = button({ class: 'quiet', onclick: show }, 'Show what is hidden')
  function show(): void {
    text.replaceChildren(...json(clear))
    reveal.remove()
  }
  return [text, reveal]
}

function titleOf(clear: ClearRecord): string {
  const named = ['title', 'name', 'clientName', 'hostname', 'histUri', 'value'].map((key) => clear[key])
  const found = named.find((value) => typeof value === 'string' && value !== '')
  return String(found ?? clear.id)
}

// The payload is JSON in a JSON string, which is hard to read.
function unwrapped({ payload, ...wire }: Entry['wire']): object {
  try {
    return { ...wire, payload: JSON.parse(payload ?? '') as unknown }
  } catch {
    return { ...wire, payload }
  }
}

/** JSON with its names, texts and other values told apart. */
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
