/**
 * A page that shows users their own data: asks the bridge that it comes from for encrypted records and decrypts them in
 * the tab. Identity and key are kept in this module's variables, and nowhere else.
 *
 * `account.ts` asks and decrypts, `meaning.ts` says what records mean, `views.ts` draws them with `elements.ts`.
 */
import { bucketOf, openAccount, readLines, Trouble } from './account.ts'
import type { Account, Credentials, Entry } from './account.ts'
import { byId, icon, make } from './elements.ts'
import { bookmarksFile, bookmarkTree, everythingFile } from './meaning.ts'
import { drawDetails, otherView, unreadableView, views } from './views.ts'
import type { Shown, View } from './views.ts'

const form = byId<HTMLFormElement>('credentials')
const view = byId('view')
const search = byId<HTMLInputElement>('search')
const details = byId<HTMLDialogElement>('details')

let credentials: Credentials = { token: '', keyId: '', bucket: '', syncKey: '' }
let entries = new Map<string, Entry[]>()
let chosen = 'devices'
let reading = new Set<string>()
/** What kept a collection from being read. */
const failures = new Map<string, string>()
/** Counts connections, so that the answers of one that was left are not shown in the next. */
let connection = 0

const shown: Shown = {
  entriesOf: (collection) => entries.get(collection) ?? [],
  search: '',
  openDetails(entry) {
    details.replaceChildren(...drawDetails(entry, credentials.bucket, () => details.close()))
    details.showModal()
  },
  copy(text) {
    void navigator.clipboard.writeText(text).then(
      () => say('Copied'),
      () => say('This browser does not let the page copy'),
    )
  },
}

const unreadable = unreadableView(() => [...entries.values()].flat().filter(({ clear }) => clear === null))

function start(): void {
  const given = readLines(location.hash.slice(1).replaceAll('&', '\n'))
  // The link's secrets go out of sight, and out of what is copied from the address bar.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search)
  fillIn(given)
  if (!given.token || !given.keyId || !given.syncKey) return showConnect(null)
  view.replaceChildren(make('p', { class: 'nothing' }, 'Asking the bridge …'))
  byId('explorer').hidden = false
  void connect()
}

function fillIn(values: Partial<Credentials>): void {
  for (const [name, value] of Object.entries(values)) field(name).value = value
  if (values.keyId && !values.bucket) field('bucket').value = bucketOf(values.keyId)
}

function field(name: string): HTMLInputElement {
  return form.elements.namedItem(name) as HTMLInputElement
}

function showConnect(trouble: Trouble | null): void {
  const place = byId('trouble')
  place.hidden = trouble === null
  place.textContent = trouble === null ? '' : adviceFor(trouble)
  byId('connect').hidden = false
  byId('explorer').hidden = true
  byId('back').hidden = entries.size === 0
  byId<HTMLButtonElement>('open').disabled = false
  const first = trouble?.kind === 'key' ? 'syncKey' : 'token'
  field(first).focus()
  if (trouble?.kind === 'expired') field('token').select()
}

function adviceFor({ kind, message, retryAfterSeconds }: Trouble): string {
  if (kind === 'expired') {
    return `${message} Tokens live for some hours at most: get a new one the way you got this, and paste it here.`
  }
  return retryAfterSeconds === null ? message : `${message} Try again in ${retryAfterSeconds} s.`
}

/** Reads everything with what the form holds; what was shown before stays until the new answers come. */
async function connect(): Promise<void> {
  const current = ++connection
  credentials = Object.fromEntries(
    ['token', 'keyId', 'bucket', 'syncKey'].map((name) => [name, field(name).value.trim()]),
  ) as unknown as Credentials
  credentials.bucket ||= bucketOf(credentials.keyId)
  byId<HTMLButtonElement>('open').disabled = true
  try {
    const account = await openAccount(credentials)
    if (current !== connection) return
    entries = new Map()
    reading = new Set(account.collections.map(({ id }) => id))
    byId('connect').hidden = true
    byId('explorer').hidden = false
    draw()
    failures.clear()
    const waiting = [...reading]
    await Promise.all(Array.from({ length: readsAtOnce }, () => readSome(account, waiting, current)))
  } catch (error) {
    if (current !== connection) return
    connection += 1
    showConnect(error instanceof Trouble ? error : new Trouble('unavailable', String(error)))
  }
}

// A bridge sends a user only a few lists at a time.
const readsAtOnce = 3

/** Reads collections until none is waiting. One that fails leaves the others readable; a token that is refused ends it. */
async function readSome(account: Account, waiting: string[], current: number): Promise<void> {
  for (let collection = waiting.shift(); collection !== undefined; collection = waiting.shift()) {
    const id = collection
    try {
      await account.read(id, (more) => {
        if (current === connection) entries.set(id, [...(entries.get(id) ?? []), ...more])
      })
    } catch (error) {
      if (!(error instanceof Trouble) || error.kind === 'expired') throw error
      failures.set(id, adviceFor(error))
    }
    if (current !== connection) return
    reading.delete(id)
    drawSoon()
  }
}

function leave(): void {
  connection += 1
  credentials = { token: '', keyId: '', bucket: '', syncKey: '' }
  entries = new Map()
  form.reset()
  for (const part of [view, details, byId('nav')]) part.replaceChildren()
  showConnect(null)
}

function allViews(): View[] {
  const known = new Set(['crypto', ...views.flatMap(({ collections }) => collections)])
  const others = [...entries.keys()].filter((collection) => !known.has(collection)).toSorted()
  const problems = unreadable.count({ ...shown, search: '' }) > 0 ? [unreadable] : []
  return [...views, ...others.map(otherView), ...problems]
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
  const all = allViews()
  const current = all.find(({ id }) => id === chosen) ?? all[0]!
  const focused = document.activeElement?.getAttribute('data-view')
  byId('nav').replaceChildren(...all.map((each) => navigationButton(each, each === current)))
  if (focused) focusNavigation(focused)
  const isReading = current.collections.some((collection) => reading.has(collection))
  const count = current.count(shown)
  const title = make('h1', {}, current.title)
  view.replaceChildren(title, ...notices(current))
  if (count > 0) view.append(current.draw(shown))
  else if (isReading) view.append(make('p', { class: 'nothing' }, 'Reading and decrypting …'))
  else view.append(make('p', { class: 'nothing' }, nothingFound(current)))
  view.setAttribute('aria-busy', String(isReading))
}

function nothingFound({ title, empty }: View): string {
  return shown.search === '' ? empty : `Nothing in ${title.toLowerCase()} has “${search.value.trim()}” in it.`
}

function notices({ collections }: View): HTMLElement[] {
  const failed = collections.flatMap((collection) => failures.get(collection) ?? [])
  if (failed.length > 0) return [notice(`Not everything could be read. ${failed[0]}`, 'Try again', connect)]
  const problems = collections
    .flatMap((collection) => shown.entriesOf(collection))
    .filter(({ clear }) => !clear)
  if (problems.length === 0) return []
  const text =
    problems.length === 1 ? '1 record here can’t be read.' : `${problems.length} records here can’t be read.`
  return [notice(text, 'Which?', () => choose(unreadable.id))]
}

function notice(text: string, label: string, act: () => unknown): HTMLElement {
  const button = make('button', { class: 'link', type: 'button', onclick: () => void act() }, label)
  return make('p', { class: 'notice' }, icon('unreadable'), make('span', {}, text), button)
}

function navigationButton(each: View, isCurrent: boolean): HTMLElement {
  const image = ['devices', 'bookmarks', 'history', 'passwords', 'forms', 'prefs', 'unreadable'].includes(
    each.id,
  )
  const isReading = each.collections.some((collection) => reading.has(collection))
  const count = each.count(shown)
  return make(
    'button',
    {
      type: 'button',
      class: shown.search !== '' && count === 0 ? 'faint' : '',
      'aria-current': isCurrent ? 'page' : null,
      'data-view': each.id,
      onclick: () => choose(each.id),
    },
    icon(image ? each.id : 'other'),
    make('span', {}, each.title),
    make('small', {}, isReading ? '…' : count.toLocaleString()),
  )
}

function choose(id: string): void {
  chosen = id
  draw()
  scrollTo(0, 0)
  focusNavigation(id)
}

function focusNavigation(id: string): void {
  const button = document.querySelector<HTMLElement>(`[data-view="${CSS.escape(id)}"]`)
  button?.focus({ preventScroll: true })
  button?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

let silence = 0

function say(text: string): void {
  const status = byId('status')
  status.textContent = text
  status.classList.add('said')
  clearTimeout(silence)
  silence = window.setTimeout(() => status.classList.remove('said'), 2500)
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
byId('copy-recipe').addEventListener('click', () => shown.copy(byId('recipe').textContent ?? ''))
byId('leave').addEventListener('click', leave)
byId('back').addEventListener('click', () => {
  byId('connect').hidden = true
  byId('explorer').hidden = false
})
byId('refresh').addEventListener('click', () => void connect())
byId('save-bookmarks').addEventListener('click', () =>
  save('bookmarks.html', 'text/html', bookmarksFile(bookmarkTree(shown.entriesOf('bookmarks')))),
)
byId('save-everything').addEventListener('click', () =>
  save('firefox-sync.json', 'application/json', everythingFile([...entries.values()].flat(), new Date())),
)
search.addEventListener('input', () => {
  shown.search = search.value.trim().toLowerCase()
  drawSoon()
})
document.addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof HTMLInputElement
  if (event.key === '/' && !isTyping && !byId('explorer').hidden) {
    event.preventDefault()
    search.focus()
  }
})
document.addEventListener('click', (event) => {
  const menu = byId<HTMLDetailsElement>('download')
  if (menu.open && !menu.contains(event.target as Node)) menu.open = false
  if (event.target === details) details.close()
})

start()
