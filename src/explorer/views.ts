import type { ClearRecord } from '../../docs/examples/sync-crypto.js'
import type { Entry } from './account.ts'
import { avatar, button, byId, copy, icon, link, longList, make, moveFocus } from './elements.ts'
import {
  ago,
  bookmarkTree,
  byTitle,
  dayName,
  devices,
  factsOf,
  flatten,
  formEntries,
  historyByDay,
  hostOf,
  login,
  otherRecord,
  preferences,
  unreadableRecord,
  webAddress,
} from './meaning.ts'
import type { Group, Item, Readable, TreeNode } from './meaning.ts'

/** A kind of data: how it is called, what it is made of, and how it is shown. */
export interface View {
  id: string
  title: string
  /** @default the id */
  icon?: string
  collections: string[]
  empty: string
  /** All that there is to show, out of the readable records of each collection. */
  groups(...records: Readable[][]): Group[]
  /** @default the number of items */
  count?(groups: Group[]): number
  /** @default a list of rows, each with a letter for its site */
  draw?(groups: Group[]): HTMLElement
}

/** The views in the order of the navigation. Any other collection gets one of its own. */
export const views: View[] = [
  {
    id: 'devices',
    title: 'Devices & tabs',
    collections: ['clients', 'tabs'],
    empty: 'No device has synced yet.',
    groups: devices,
    count: (groups) => groups.length,
    draw: drawDevices,
  },
  {
    id: 'bookmarks',
    title: 'Bookmarks',
    collections: ['bookmarks'],
    empty: 'There are no bookmarks.',
    groups(records) {
      const tree = bookmarkTree(records)
      return [{ title: null, items: flatten(tree), tree }]
    },
    draw: drawBookmarks,
  },
  {
    id: 'history',
    title: 'History',
    collections: ['history'],
    empty: 'There is no history.',
    groups: historyByDay,
    count: (groups) => new Set(groups.flatMap(({ items }) => items.map(({ entry }) => entry))).size,
  },
  {
    id: 'passwords',
    title: 'Passwords',
    collections: ['passwords'],
    empty: 'There are no passwords.',
    groups: (records) => together(records.map(login).toSorted(byTitle)),
  },
  {
    id: 'forms',
    title: 'Form entries',
    collections: ['forms'],
    empty: 'There are no form entries.',
    groups: formEntries,
    draw: (groups) => drawList('Form entries', groups, (item) => drawRow(item, null)),
  },
  {
    id: 'prefs',
    title: 'Preferences',
    collections: ['prefs'],
    empty: 'There are no preferences.',
    groups: (records) => together(records.flatMap(preferences).toSorted(byTitle)),
    draw: (groups) => drawList('Preferences', groups, (item) => drawRow(item, null, 'row code')),
  },
]

/** The view of a collection that has none of its own. */
export function otherView(collection: string): View {
  return {
    id: collection,
    title: collection[0]!.toUpperCase() + collection.slice(1),
    icon: 'other',
    collections: [collection],
    empty: 'There is nothing in this collection.',
    groups: (records) => together(records.map(otherRecord)),
  }
}

/** What could not be read, over all collections. */
export function unreadableView(entries: Entry[]): View {
  const note =
    'Records that this key does not open exist in most accounts: what an old key encrypted, or a program that is ' +
    'not Firefox. Firefox skips them, and so does this page. Downloads name them.'
  const row = (item: Item) => drawRow(item, icon('unreadable'))
  return {
    id: 'unreadable',
    title: 'Unreadable',
    collections: [],
    empty: 'Everything can be read.',
    groups: () => together(entries.map(unreadableRecord)),
    draw: (groups) =>
      make('div', {}, make('p', { class: 'note' }, note), drawList('Unreadable records', groups, row)),
  }
}

function together(items: Item[]): Group[] {
  return [{ title: null, items }]
}

/** What a search finds of these groups; all, if it is empty. It is in lower case. */
export function matching(groups: Group[], search: string): Group[] {
  if (search === '') return groups
  return groups
    .map(({ title, items, device }) => ({
      title,
      items: items.filter(({ text }) => text.includes(search)),
      device,
    }))
    .filter(
      ({ title, items, device }) => items.length > 0 || (device && `${title}`.toLowerCase().includes(search)),
    )
}

/** The number of what groups hold, as the navigation shows it. */
export function countOf({ count }: View, groups: Group[]): number {
  return count ? count(groups) : groups.reduce((sum, { items }) => sum + items.length, 0)
}

/** Draws groups that are not empty. */
export function drawView({ title, draw }: View, groups: Group[]): HTMLElement {
  return draw ? draw(groups) : drawList(title, groups)
}

function drawList(label: string, groups: Group[], row = (item: Item) => drawRow(item)): HTMLElement {
  const titled = groups.map(({ title, items }) => ({
    title: typeof title === 'number' ? dayName(title) : title,
    items,
  }))
  return longList(label, titled, row)
}

function drawDevices(groups: Group[]): HTMLElement {
  const cards = groups.map(({ title, items, device }) => {
    const { kind, about, seenMs, entry } = device!
    const open = `${items.length} ${items.length === 1 ? 'tab' : 'tabs'}`
    const state = [about, open, `synced ${ago(seenMs)}`].filter(Boolean).join(' · ')
    const head = make(
      'header',
      {},
      make('span', { class: 'device-icon' }, icon(kind)),
      make('div', {}, make('h2', {}, `${title}`), make('p', {}, state)),
      button({ class: 'quiet', onclick: () => openDetails(entry) }, 'Record'),
    )
    return make('article', { class: 'card device' }, head, drawList(`Tabs of ${title}`, together(items)))
  })
  return make('div', { class: 'devices' }, ...cards)
}

function drawBookmarks(groups: Group[]): HTMLElement {
  const [{ tree } = {}] = groups
  if (tree === undefined) return drawList('Bookmarks found', groups)
  const filled = tree.filter(({ kind, children }) => children.length > 0 || kind !== 'folder')
  const branches = filled.map((root) => drawBranch(root, filled.length < 6))
  return make('div', { class: 'tree', onkeydown: moveFocus }, ...branches)
}

/** A folder makes its contents when it is first opened. */
function drawBranch(node: TreeNode, isOpen: boolean): HTMLElement {
  if (node.kind === 'separator') return make('hr')
  if (node.kind === 'bookmark') return drawRow(node)
  const body = make('div', { class: 'branch' })
  const summary = make(
    'summary',
    { 'data-row': true },
    icon('chevron'),
    icon('folder'),
    make('span', {}, node.title || '(no title)'),
    make('small', {}, String(flatten(node.children).length)),
  )
  const folder = make('details', { open: isOpen, ontoggle: fill }, summary, body)
  function fill(): void {
    if (!folder.open || body.childElementCount > 0) return
    const children = node.children.map((child) => drawBranch(child, false))
    body.append(...(children.length > 0 ? children : [make('p', { class: 'nothing' }, 'Empty')]))
  }
  fill()
  return folder
}

function drawRow(item: Item, mark: Node | null = avatarOf(item), look = 'row'): HTMLElement {
  const { entry, title, subtitle, meta, url, secret } = item
  const end = meta?.() ?? ''
  const main = button(
    { class: 'row-main', 'data-row': true, onclick: () => openDetails(entry) },
    mark,
    make(
      'span',
      { class: 'row-text' },
      make('span', { class: 'row-title' }, title),
      subtitle !== '' && make('span', { class: 'row-subtitle' }, subtitle),
    ),
    end !== '' && make('span', { class: 'row-meta' }, end),
  )
  const controls = secret === undefined ? [] : secretOf(secret, item)
  if (url !== null) {
    const leave = { class: 'icon-button', 'aria-label': `Open ${title}`, title: url }
    controls.push(link(url, leave, icon('leave')))
  }
  return make('div', { class: look }, main, ...controls)
}

function avatarOf({ url, title }: Item): HTMLElement {
  return avatar(url === null ? title : hostOf(url))
}

const mask = '••••••••'

/** A password that is hidden, a button to show it, and one to copy it. */
function secretOf(secret: string, { title, subtitle }: Item): HTMLElement[] {
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

const momentForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })

/** Shows a record twice: as it travels and lies in the storage, and as it is meant. */
function openDetails({ collection, path, wire, clear, problem }: Entry): void {
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
  byId<HTMLDialogElement>('details').showModal()
}

function drawFacts(clear: ClearRecord): HTMLElement {
  const rows = factsOf(clear).flatMap(({ name, value }) => {
    const url = webAddress(value)
    const text = typeof value === 'number' ? momentForm.format(value) : value
    return [make('dt', {}, name), make('dd', {}, url === null ? text : link(url, {}, text))]
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
