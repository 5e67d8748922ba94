/**
 * A page that shows users their own data: asks the bridge that it comes from for encrypted records and decrypts them in
 * the tab. Identity and key are kept in this module's variables, and nowhere else.
 *
 * `account.ts` asks and decrypts, `meaning.ts` says what records mean, `views.ts` draws them with `elements.ts`.
 */
import { bucketOf, openAccount, readLines, Trouble } from './account.ts'
import type { Account, Credentials, Entry } from './account.ts'
import { button, byId, copy, icon, make, say } from './elements.ts'
import { bookmarksFile, bookmarkTree, everythingFile, readable } from './meaning.ts'
import type { Group } from './meaning.ts'
import { countOf, drawView, matching, otherView, unreadableView, views } from './views.ts'
import type { View } from './views.ts'

/** A view and what it shows. */
interface Content {
  view: View
  groups: Group[]
}

const form = byId<HTMLFormElement>('credentials')
const main = byId('view')
const search = byId<HTMLInputElement>('search')
const details = byId<HTMLDialogElement>('details')

let entries = new Map<string, Entry[]>()
/** Made once for what has been read so far, because a search looks through it with every letter. */
let contents: Content[] | null = null
let chosen = 'devices'
let reading = new Set<string>()
/** What kept a collection from being read. */
const failures = new Map<string, string>()
/** Counts connections, so that the answers of one that was left are not shown in the next. */
let connection = 0

function start(): void {
  const given = readLines(location.hash.slice(1).replaceAll('&', '\n'))
  // The link's secrets go out of sight, and out of what is copied from the address bar.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search)
  fillIn(given)
  if (!given.token || !given.keyId || !given.syncKey) return showConnect(null)
  main.replaceChildren(nothing('Asking the bridge …'))
  show('explorer')
  void connect()
}

function fillIn(values: Partial<Credentials>): void {
  for (const [name, value] of Object.entries(values)) field(name).value = value
  if (values.keyId && !values.bucket) field('bucket').value = bucketOf(values.keyId)
}

function field(name: string): HTMLInputElement {
  return form.elements.namedItem(name) as HTMLInputElement
}

function show(part: 'connect' | 'explorer'): void {
  byId('connect').hidden = part !== 'connect'
  byId('explorer').hidden = part !== 'explorer'
}

function showConnect(trouble: Trouble | null): void {
  const place = byId('trouble')
  place.hidden = trouble === null
  place.textContent = trouble?.message ?? ''
  show('connect')
  byId('back').hidden = entries.size === 0
  byId<HTMLButtonElement>('open').disabled = false
  field(trouble?.kind === 'key' ? 'syncKey' : 'token').focus()
  if (trouble?.kind === 'expired') field('token').select()
}

/** Reads everything with what the form holds; what was shown before stays until the new answers come. */
async function connect(): Promise<void> {
  const current = ++connection
  byId<HTMLButtonElement>('open').disabled = true
  try {
    const account = await openAccount(new FormData(form))
    if (current !== connection) return
    setEntries(new Map())
    reading = new Set(account.collections)
    failures.clear()
    show('explorer')
    draw()
    const waiting = [...reading]
    await Promise.all(Array.from({ length: readsAtOnce }, () => readSome(account, waiting, current)))
  } catch (error) {
    if (current !== connection) return
    connection += 1
    showConnect(error instanceof Trouble ? error : new Trouble(String(error)))
  }
}

// A bridge sends a user only a few lists at a time.
const readsAtOnce = 3

/** Reads collections until none is waiting. One that fails leaves the others readable; a token that is refused ends it. */
async function readSome(account: Account, waiting: string[], current: number): Promise<void> {
  for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
    const collection = id
    try {
      await account.read(collection, (more) => {
        if (current === connection) setEntries(entries.set(collection, [...entriesOf(collection), ...more]))
      })
    } catch (error) {
      if (!(error instanceof Trouble) || error.kind === 'expired') throw error
      failures.set(collection, error.message)
    }
    if (current !== connection) return
    reading.delete(collection)
    drawSoon()
  }
}

function entriesOf(collection: string): Entry[] {
  return entries.get(collection) ?? []
}

function setEntries(all: Map<string, Entry[]>): void {
  entries = all
  contents = null
}

function leave(): void {
  connection += 1
  setEntries(new Map())
  form.reset()
  for (const part of [main, byId('nav')]) part.replaceChildren()
  showConnect(null)
}

function readContents(): Content[] {
  const known = new Set(['crypto', ...views.flatMap(({ collections }) => collections)])
  const others = [...entries.keys()].filter((collection) => !known.has(collection)).toSorted()
  const unreadable = [...entries.values()].flat().filter(({ clear }) => clear === null)
  const problems = unreadable.length > 0 ? [unreadableView(unreadable)] : []
  return [...views, ...others.map(otherView), ...problems].map((view) => ({
    view,
    groups: view.groups(...view.collections.map((collection) => readable(entriesOf(collection)))),
  }))
}

let isDrawing = false

/** Draws once for all that arrives within a frame. */
function drawSoon(): void {
  if (isDrawing) return
  isDrawing = true
  requestAnimationFrame(() => {
    isDrawing = false
    draw()
  })
}

function draw(): void {
  contents ??= readContents()
  const word = search.value.trim().toLowerCase()
  const found = contents.map(({ view, groups }) => ({ view, groups: matching(groups, word) }))
  const { view, groups } = found.find((each) => each.view.id === chosen) ?? found[0]!
  const focused = document.activeElement?.getAttribute('data-view')
  byId('nav').replaceChildren(...found.map((each) => navigationButton(each, each.view === view)))
  if (focused) focusNavigation(focused)
  main.replaceChildren(make('h1', {}, view.title), ...notices(view))
  if (countOf(view, groups) > 0) main.append(drawView(view, groups))
  else if (isReading(view)) main.append(nothing('Reading and decrypting …'))
  else main.append(nothing(word === '' ? view.empty : nothingFound(view)))
  main.setAttribute('aria-busy', String(isReading(view)))
}

function isReading({ collections }: View): boolean {
  return collections.some((collection) => reading.has(collection))
}

function nothing(text: string): HTMLElement {
  return make('p', { class: 'nothing' }, text)
}

function nothingFound({ title }: View): string {
  return `Nothing in ${title.toLowerCase()} has “${search.value.trim()}” in it.`
}

function notices({ collections }: View): HTMLElement[] {
  const failed = collections.flatMap((collection) => failures.get(collection) ?? [])
  if (failed.length > 0) return [notice(`Not everything could be read. ${failed[0]}`, 'Try again', connect)]
  const problems = collections.flatMap(entriesOf).filter(({ clear }) => clear === null)
  if (problems.length === 0) return []
  const records = problems.length === 1 ? '1 record' : `${problems.length} records`
  return [notice(`${records} here can’t be read.`, 'Which?', () => choose('unreadable'))]
}

function notice(text: string, label: string, act: () => unknown): HTMLElement {
  const more = button({ class: 'link', onclick: () => void act() }, label)
  return make('p', { class: 'notice' }, icon('unreadable'), make('span', {}, text), more)
}

function navigationButton({ view, groups }: Content, isCurrent: boolean): HTMLElement {
  const count = countOf(view, groups)
  return button(
    {
      class: search.value.trim() !== '' && count === 0 ? 'faint' : '',
      'aria-current': isCurrent ? 'page' : null,
      'data-view': view.id,
      onclick: () => choose(view.id),
    },
    icon(view.icon ?? view.id),
    make('span', {}, view.title),
    make('small', {}, isReading(view) ? '…' : count.toLocaleString()),
  )
}

function choose(id: string): void {
  chosen = id
  draw()
  scrollTo(0, 0)
  focusNavigation(id)
}

function focusNavigation(id: string): void {
  const found = document.querySelector<HTMLElement>(`[data-view="${CSS.escape(id)}"]`)
  found?.focus({ preventScroll: true })
  found?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  make('a', { href: url, download: name }).click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
  byId<HTMLDetailsElement>('download').open = false
  say(`Saved ${name}`)
}

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void connect()
})
form.addEventListener('paste', (event) => {
  const values = readLines(event.clipboardData?.getData('text') ?? '')
  if (Object.keys(values).length === 0) return
  event.preventDefault()
  fillIn(values)
})
field('keyId').addEventListener('input', () => {
  field('bucket').value = bucketOf(field('keyId').value.trim()) || field('bucket').value
})
for (const [id, act] of Object.entries({
  'copy-recipe': () => copy(byId('recipe').textContent ?? ''),
  leave,
  back: () => show('explorer'),
  refresh: connect,
  'close-details': () => details.close(),
  'save-bookmarks': () =>
    save('bookmarks.html', 'text/html', bookmarksFile(bookmarkTree(readable(entriesOf('bookmarks'))))),
  'save-everything': () =>
    save('firefox-sync.json', 'application/json', everythingFile([...entries.values()].flat(), new Date())),
})) {
  byId(id).addEventListener('click', act)
}
search.addEventListener('input', drawSoon)
// What was decrypted goes with the dialog.
details.addEventListener('close', () => {
  for (const part of details.querySelectorAll('[id^=details-]')) part.replaceChildren()
})
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target instanceof HTMLInputElement || byId('explorer').hidden) return
  event.preventDefault()
  search.focus()
})
document.addEventListener('click', (event) => {
  const menu = byId<HTMLDetailsElement>('download')
  if (menu.open && !menu.contains(event.target as Node)) menu.open = false
  if (event.target === details) details.close()
})

start()
