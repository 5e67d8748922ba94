import type { Entry } from './account.ts'
import { avatar, icon, inSections, longList, make, moveFocus } from './elements.ts'
import type { Section } from './elements.ts'
import {
  bookmarkTree,
  countBookmarks,
  devices,
  factsOf,
  flatten,
  formEntries,
  historyByDay,
  hostOf,
  logins,
  otherRecords,
  preferences,
  webAddress,
} from './meaning.ts'
import type { Device, Fact, Item, TreeNode, Visit } from './meaning.ts'

/** What the views show, and what they can make happen. */
export interface Shown {
  entriesOf(collection: string): Entry[]
  /** In lower case; empty: no search. */
  search: string
  openDetails(entry: Entry): void
  copy(text: string): void
}

/** A kind of data: how it is called, what it is made of, and how it is shown. */
export interface View {
  id: string
  title: string
  collections: string[]
  /** The number of items, or of those that match the search. */
  count(shown: Shown): number
  draw(shown: Shown): HTMLElement
  empty: string
}

const dayForm = new Intl.DateTimeFormat(undefined, {
  weekday: 'long',
  day: 'numeric',
  month: 'long',
  year: 'numeric',
})
const timeForm = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const momentForm = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const agoForm = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' })

/** The views in the order of the navigation. Any other collection gets one of its own. */
export const views: View[] = [
  {
    id: 'devices',
    title: 'Devices & tabs',
    collections: ['clients', 'tabs'],
    count: (shown) => devicesOf(shown).length,
    draw: drawDevices,
    empty: 'No device has synced yet.',
  },
  {
    id: 'bookmarks',
    title: 'Bookmarks',
    collections: ['bookmarks'],
    count: (shown) => matching(shown, derived(shown.entriesOf('bookmarks'), allBookmarks)).length,
    draw: drawBookmarks,
    empty: 'There are no bookmarks.',
  },
  {
    id: 'history',
    title: 'History',
    collections: ['history'],
    count: (shown) => new Set(visitsOf(shown).flatMap(({ visits }) => visits.map(({ entry }) => entry))).size,
    draw: drawHistory,
    empty: 'There is no history.',
  },
  {
    id: 'passwords',
    title: 'Passwords',
    collections: ['passwords'],
    count: (shown) => matching(shown, logins(shown.entriesOf('passwords'))).length,
    draw: drawPasswords,
    empty: 'There are no passwords.',
  },
  {
    id: 'forms',
    title: 'Form entries',
    collections: ['forms'],
    count: (shown) => formsOf(shown).reduce((sum, { items }) => sum + items.length, 0),
    draw: drawForms,
    empty: 'There are no form entries.',
  },
  {
    id: 'prefs',
    title: 'Preferences',
    collections: ['prefs'],
    count: (shown) => matching(shown, preferences(shown.entriesOf('prefs'))).length,
    draw: drawPreferences,
    empty: 'There are no preferences.',
  },
]

/** The view of a collection that has none of its own. */
export function otherView(collection: string): View {
  const items = (shown: Shown) => matching(shown, otherRecords(shown.entriesOf(collection)))
  return {
    id: collection,
    title: collection[0]!.toUpperCase() + collection.slice(1),
    collections: [collection],
    count: (shown) => items(shown).length,
    draw: (shown) =>
      longList(
        inSections(null, items(shown), (item) => row(shown, item)),
        collection,
      ),
    empty: 'There is nothing in this collection.',
  }
}

/** What could not be read, over all collections. */
export function unreadableView(entries: () => Entry[]): View {
  const items = ({ search }: Shown) =>
    entries().filter(({ collection, wire }) => `${collection} ${wire.id}`.toLowerCase().includes(search))
  return {
    id: 'unreadable',
    title: 'Unreadable',
    collections: [],
    count: (shown) => items(shown).length,
    draw: (shown) =>
      make(
        'div',
        {},
        make(
          'p',
          { class: 'note' },
          'Records that this key does not open exist in most accounts: what an old key encrypted, or a program that is ',
          'not Firefox. Firefox skips them, and so does this page. Downloads name them.',
        ),
        longList(
          inSections(null, items(shown), (entry) =>
            rowOf(shown, entry, {
              mark: icon('unreadable'),
              title: entry.wire.id,
              subtitle: entry.problem ?? '',
              meta: entry.collection,
            }),
          ),
          'Unreadable records',
        ),
      ),
    empty: 'Everything can be read.',
  }
}

const derivedFrom = new WeakMap<Entry[], Map<unknown, unknown>>()

/** What a function makes of entries, made once: with every letter of a search it would be made anew. */
function derived<T>(entries: Entry[], derive: (entries: Entry[]) => T): T {
  const known = derivedFrom.get(entries) ?? new Map<unknown, unknown>()
  derivedFrom.set(entries, known)
  if (!known.has(derive)) known.set(derive, derive(entries))
  return known.get(derive) as T
}

const allBookmarks = (entries: Entry[]) => flatten(derived(entries, bookmarkTree))

function matching<T extends Item>({ search }: Shown, items: T[]): T[] {
  return search === '' ? items : items.filter(({ text }) => text.includes(search))
}

function devicesOf(shown: Shown): Device[] {
  const all = devices(shown.entriesOf('clients'), shown.entriesOf('tabs'))
  if (shown.search === '') return all
  return all
    .map((device) => ({ ...device, tabs: matching(shown, device.tabs) }))
    .filter(({ name, tabs }) => tabs.length > 0 || name.toLowerCase().includes(shown.search))
}

function drawDevices(shown: Shown): HTMLElement {
  const cards = devicesOf(shown).map((device) => {
    const { name, kind, about, seenMs, entry, tabs } = device
    const open = `${tabs.length} ${tabs.length === 1 ? 'tab' : 'tabs'}`
    const head = make(
      'header',
      {},
      make('span', { class: 'device-icon' }, icon(kind)),
      make(
        'div',
        {},
        make('h2', {}, name),
        make('p', {}, [about, open, `synced ${ago(seenMs)}`].filter(Boolean).join(' · ')),
      ),
      make('button', { class: 'quiet', type: 'button', onclick: () => shown.openDetails(entry) }, 'Record'),
    )
    const rows = inSections(null, tabs, (tab) => row(shown, tab, tab.usedMs > 0 ? ago(tab.usedMs) : ''))
    return make('article', { class: 'card device' }, head, longList(rows, `Tabs of ${name}`))
  })
  return make('div', { class: 'devices' }, ...cards)
}

function drawBookmarks(shown: Shown): HTMLElement {
  const entries = shown.entriesOf('bookmarks')
  const tree = derived(entries, bookmarkTree)
  if (shown.search !== '') {
    const found = matching(shown, derived(entries, allBookmarks))
    return longList(
      inSections(null, found, (item) => row(shown, item)),
      'Bookmarks found',
    )
  }
  const filled = tree.filter((root) => root.children.length > 0 || root.kind !== 'folder')
  const list = make('div', { class: 'tree' }, ...filled.map((root) => branch(shown, root, filled.length < 6)))
  list.addEventListener('keydown', (event) => moveFocus(event, list))
  return list
}

/** A folder makes its contents when it is first opened. */
function branch(shown: Shown, node: TreeNode, isOpen: boolean): HTMLElement {
  if (node.kind === 'separator') return make('hr')
  if (node.kind === 'bookmark') return row(shown, node)
  const body = make('div', { class: 'branch' })
  const folder = make(
    'details',
    { open: isOpen },
    make(
      'summary',
      { 'data-row': true },
      icon('chevron'),
      icon('folder'),
      make('span', {}, node.title || '(no title)'),
      make('small', {}, String(countBookmarks(node))),
    ),
    body,
  )
  const fill = () => {
    if (!folder.open || body.childElementCount > 0) return
    const children = node.children.map((child) => branch(shown, child, false))
    body.append(...(children.length > 0 ? children : [make('p', { class: 'nothing' }, 'Empty')]))
  }
  folder.addEventListener('toggle', fill)
  fill()
  return folder
}

function visitsOf(shown: Shown): { day: number; visits: Visit[] }[] {
  return derived(shown.entriesOf('history'), historyByDay)
    .map(({ day, visits }) => ({ day, visits: matching(shown, visits) }))
    .filter(({ visits }) => visits.length > 0)
}

function drawHistory(shown: Shown): HTMLElement {
  const days = visitsOf(shown).flatMap(({ day, visits }): Section[] =>
    inSections(dayName(day), visits, (visit) => {
      const times = visit.count > 1 ? `${visit.count}×  ` : ''
      return row(shown, visit, times + timeForm.format(visit.atMs))
    }),
  )
  return longList(days, 'History')
}

function drawPasswords(shown: Shown): HTMLElement {
  const rows = inSections(null, matching(shown, logins(shown.entriesOf('passwords'))), (login) => {
    const secret = make('span', { class: 'secret' }, mask)
    const reveal = make(
      'button',
      { class: 'icon-button', type: 'button', 'aria-pressed': 'false' },
      icon('eye'),
    )
    const name = `password of ${login.username || 'this login'} at ${login.title}`
    reveal.setAttribute('aria-label', `Show the ${name}`)
    reveal.addEventListener('click', () => {
      const isShown = reveal.getAttribute('aria-pressed') === 'true'
      reveal.setAttribute('aria-pressed', String(!isShown))
      secret.textContent = isShown ? mask : login.password
    })
    const copy = make(
      'button',
      {
        class: 'icon-button',
        type: 'button',
        'aria-label': `Copy the ${name}`,
        onclick: () => shown.copy(login.password),
      },
      icon('copy'),
    )
    const line = row(shown, login)
    line.querySelector('.row-main')!.after(secret, reveal, copy)
    return line
  })
  return longList(rows, 'Passwords')
}

const mask = '••••••••'

function formsOf(shown: Shown): { field: string; items: Item[] }[] {
  return formEntries(shown.entriesOf('forms'))
    .map(({ field, items }) => ({ field, items: matching(shown, items) }))
    .filter(({ items }) => items.length > 0)
}

function drawForms(shown: Shown): HTMLElement {
  const fields = formsOf(shown).flatMap(({ field, items }) =>
    inSections(field, items, (item) => row(shown, item, '', null)),
  )
  return longList(fields, 'Form entries')
}

function drawPreferences(shown: Shown): HTMLElement {
  const items = matching(shown, preferences(shown.entriesOf('prefs')))
  const rows = inSections(null, items, (item) => {
    const line = row(shown, { ...item, subtitle: '' }, item.subtitle, null)
    line.classList.add('code')
    return line
  })
  return longList(rows, 'Preferences')
}

function row(shown: Shown, item: Item, meta = '', mark: Node | null = avatarOf(item)): HTMLElement {
  const { entry, title, subtitle, url } = item
  const line = rowOf(shown, entry, { mark, title, subtitle, meta })
  if (url === null) return line
  const attributes = { href: url, target: '_blank', rel: 'noopener noreferrer', class: 'icon-button' }
  line.append(make('a', { ...attributes, 'aria-label': `Open ${title}`, title: url }, icon('leave')))
  return line
}

function avatarOf({ url, title }: Item): HTMLElement {
  return avatar(url === null ? title : hostOf(url))
}

interface RowText {
  mark: Node | null
  title: string
  subtitle: string
  meta: string
}

function rowOf(shown: Shown, entry: Entry, { mark, title, subtitle, meta }: RowText): HTMLElement {
  return make(
    'div',
    { class: 'row' },
    make(
      'button',
      { class: 'row-main', type: 'button', 'data-row': true, onclick: () => shown.openDetails(entry) },
      mark,
      make(
        'span',
        { class: 'row-text' },
        make('span', { class: 'row-title' }, title),
        subtitle !== '' && make('span', { class: 'row-subtitle' }, subtitle),
      ),
      meta !== '' && make('span', { class: 'row-meta' }, meta),
    ),
  )
}

/** A day in words: the weekday for the last week, the date for all. */
function dayName(day: number): string {
  const today = new Date().setHours(0, 0, 0, 0)
  const days = Math.round((today - day) / 86_400_000)
  const name = dayForm.format(day)
  if (days > 1 || days < 0) return name
  const word = agoForm.format(-days, 'day')
  return `${word[0]!.toUpperCase()}${word.slice(1)} · ${name}`
}

function ago(moment: number): string {
  const minutes = Math.round((moment - new Date().getTime()) / 60_000)
  if (minutes > -60) return agoForm.format(Math.min(0, minutes), 'minute')
  if (minutes > -60 * 36) return agoForm.format(Math.round(minutes / 60), 'hour')
  return agoForm.format(Math.round(minutes / 1440), 'day')
}

/** A record twice: as it travels and lies in the storage, and as it is meant. */
export function drawDetails(entry: Entry, bucket: string, close: () => void): HTMLElement[] {
  const { collection, wire, clear, problem } = entry
  const path = `/v1/buckets/${bucket}/collections/${collection}/records/${encodeURIComponent(wire.id)}`
  const title = clear === null ? wire.id : titleOf(clear)
  const head = make(
    'header',
    {},
    make('div', {}, make('p', {}, collection), make('h2', { id: 'details-title' }, title)),
    make(
      'button',
      { class: 'icon-button', type: 'button', 'aria-label': 'Close', onclick: close },
      icon('close'),
    ),
  )
  const meaning = make(
    'section',
    {},
    make('h3', {}, 'What it means'),
    make('p', { class: 'hint' }, 'only in this tab'),
  )
  if (clear === null)
    meaning.append(make('p', { class: 'trouble' }, `This record can't be read. ${problem}.`))
  else meaning.append(drawFacts(factsOf(clear)), ...drawClear(clear))
  const onWire = make(
    'section',
    { class: 'wire' },
    make('h3', {}, 'On the wire'),
    make('p', { class: 'hint' }, 'what the bridge and the storage see'),
    make('pre', { class: 'path', tabindex: 0 }, `GET ${path}`),
    make('pre', { tabindex: 0 }, ...json(readable(wire))),
    make('p', { class: 'hint' }, `changed ${momentForm.format(wire.last_modified)}`),
  )
  return [head, make('div', { class: 'sides' }, meaning, onWire)]
}

function drawFacts(facts: Fact[]): HTMLElement {
  const rows = facts.flatMap(({ name, value }) => {
    const url = webAddress(value)
    const link = { href: url, target: '_blank', rel: 'noopener noreferrer' }
    const text = typeof value === 'number' ? momentForm.format(value) : value
    return [make('dt', {}, name), make('dd', {}, url === null ? text : make('a', link, text))]
  })
  return make('dl', {}, ...rows)
}

const secretField = /^(password|cc-number.*|cc-exp.*)$/

function drawClear(clear: Record<string, unknown>): HTMLElement[] {
  const hidden = (key: string, value: unknown): unknown =>
    secretField.test(key) && value !== '' && value !== null ? mask : value
  const masked = JSON.parse(JSON.stringify(clear, hidden)) as Record<string, unknown>
  const text = make('pre', { tabindex: 0 }, ...json(masked))
  if (JSON.stringify(masked) === JSON.stringify(clear)) return [text]
  const reveal = make('button', { class: 'quiet', type: 'button' }, 'Show what is hidden')
  reveal.addEventListener('click', () => {
    text.replaceChildren(...json(clear))
    reveal.remove()
  })
  return [text, reveal]
}

function titleOf(clear: Record<string, unknown>): string {
  const named = ['title', 'name', 'clientName', 'hostname', 'histUri', 'value'].map((key) => clear[key])
  const found = named.find((value) => typeof value === 'string' && value !== '')
  return typeof found === 'string' ? found : String(clear.id)
}

// The payload is JSON in a JSON string, which is hard to read.
function readable({ payload, ...wire }: Entry['wire']): object {
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
