/**
 * A page that shows users their own data: asks the bridge that it comes from for encrypted records and decrypts them in
 * the tab.
 *
 * `credentials.ts` reads what the form holds, `tab.ts` knows where one is and what a reload needs, `account.ts` asks and
 * decrypts, `meaning.ts` says what records mean, `views.ts` and `details.ts` draw them with `elements.ts`, `downloads.ts` saves
 * them.
 */
import { openAccount } from './account.ts'
import { Trouble, type Credentials } from './credentials.ts'
import { showDetails } from './details.ts'
import { offerDownloads } from './downloads.ts'
import { button, byId, copy, icon, make, say } from './elements.ts'
import { fillIn, readForm, showTrouble } from './form.ts'
import { Holdings } from './holdings.ts'
import { readable, type Group } from './meaning.ts'
import { addressOf, forget, readPlace, recall, remember, takeLink } from './tab.ts'
import {
  countOf,
  drawView,
  matching,
  otherView,
  unreadableView,
  viewIdOf,
  views,
  type View,
} from './views.ts'

/** A view and what it shows. */
interface Content {
  view: View
  groups: Group[]
}

const form = byId<HTMLFormElement>('credentials')
const main = byId('view')
const search = byId<HTMLInputElement>('search')
const keepsKey = document.querySelectorAll<HTMLInputElement>('[data-keeps-key]')
const pageTitle = document.title

const none = new Holdings({ collections: [], read: async () => {} })

/** What is shown. */
let holdings = none
/** Made once for what has been read so far, because a search looks through it with every letter. */
let contents: Content[] | null = null
let chosen = ''
/** With what the bridge was asked last; null when nobody is connected. */
let credentials: Credentials | null = null
/** Counts connections, so that the answers of one that was left are not shown in the next. */
let connection = 0

/** Shows what the address names, or connects with what it holds. */
function follow(): void {
  const given = takeLink()
  if (Object.keys(given).length > 0) return open(given)
  if (credentials === null) return
  const { name, id } = readPlace()
  // A record lies over the view in which it was found.
  if (id === null || chosen !== 'unreadable') chosen = viewIdOf(name)
  show('explorer')
  draw()
  currentLink().scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

/** Goes to another place of the page, from which Back returns. */
function go(address: string): void {
  if (address !== location.hash) history.pushState({ isOver: readPlace().id === null }, '', address)
  const before = chosen
  follow()
  if (chosen !== before) scrollTo(0, 0)
}

/** Connects if nothing is missing. */
function open(values: Partial<Credentials>): void {
  fillIn(values)
  tick(values.syncKey !== undefined && values.syncKey === recall().syncKey)
  byId('welcome-back').hidden = !values.token || !values.keyId || Boolean(values.syncKey)
  if (!values.token || !values.keyId || !values.syncKey) return showConnect(null)
  byId('content').replaceChildren(nothing('Asking the bridge …'))
  show('explorer')
  void connect()
}

function tick(isKeyKept: boolean): void {
  for (const box of keepsKey) box.checked = isKeyKept
}

function show(part: 'connect' | 'explorer'): void {
  byId('connect').hidden = part !== 'connect'
  byId('explorer').hidden = part !== 'explorer'
}

function showConnect(trouble: Trouble | null): void {
  show('connect')
  byId('back').hidden = holdings === none
  byId<HTMLButtonElement>('open').disabled = false
  showTrouble(trouble)
}

/** Reads everything with what the form holds; what was shown before stays until the new answers come. */
async function connect(): Promise<void> {
  const current = ++connection
  byId('trouble').hidden = true
  byId<HTMLButtonElement>('open').disabled = true
  try {
    const asked = readForm()
    const account = await openAccount(asked)
    if (current !== connection) return
    credentials = asked
    remember(asked, keepsKey[0]!.checked)
    hold(new Holdings(account))
    if (readPlace().name === '') history.replaceState(null, '', addressOf(views[0]!.id))
    follow()
    await holdings.read(() => {
      contents = null
      drawSoon()
    })
  } catch (error) {
    if (current !== connection) return
    connection += 1
    contents = null
    showConnect(error instanceof Trouble ? error : new Trouble(String(error)))
  }
}

function hold(next: Holdings): void {
  holdings.stop()
  holdings = next
  contents = null
}

function leave(): void {
  connection += 1
  credentials = null
  forget()
  hold(none)
  history.replaceState(null, '', location.pathname + location.search)
  document.title = pageTitle
  form.reset()
  tick(false)
  byId('welcome-back').hidden = true
  search.value = ''
  for (const id of ['nav', 'title', 'found', 'content']) byId(id).replaceChildren()
  showConnect(null)
}

function readContents(): Content[] {
  const known = new Set(views.flatMap(({ collections }) => collections))
  const others = holdings.collections.filter((collection) => !known.has(collection)).toSorted()
  const unreadable = holdings.entries().filter(({ clear }) => clear === null)
  const problems = unreadable.length > 0 ? [unreadableView(unreadable)] : []
  return [...views, ...others.map(otherView), ...problems].map((view) => ({
    view,
    groups: view.groups(...view.collections.map((name) => readable(holdings.entries([name])))),
  }))
}

let isDrawing = false
let drawn = ''

/** Draws once for all that arrives within a frame. */
function drawSoon(): void {
  if (isDrawing) return
  isDrawing = true
  requestAnimationFrame(() => {
    isDrawing = false
    // Behind the form nothing is shown, and the address stays that of a record which is read next time.
    if (!byId('explorer').hidden) draw()
  })
}

function draw(): void {
  contents ??= readContents()
  const word = search.value.trim()
  const found = contents.map(({ view, groups }) => ({ view, groups: matching(groups, word.toLowerCase()) }))
  const current = found.find((each) => each.view.id === chosen) ?? found[0]!
  const { view } = current
  const isFocused = byId('nav').contains(document.activeElement)
  byId('nav').replaceChildren(...found.map((each) => navigationLink(each, each === current, word)))
  if (isFocused) currentLink().focus({ preventScroll: true })
  document.title = `${view.title} · ${pageTitle}`
  byId('title').textContent = view.title
  byId('found').replaceChildren(...(word === '' ? [] : drawFound(found, current, word)))
  const state = stateOf(current, word)
  if (state !== drawn) byId('content').replaceChildren(...drawNotices(current), ...drawContent(current, word))
  drawn = state
  main.setAttribute('aria-busy', String(holdings.isReading(view.collections)))
  drawRecord()
}

/** What the content depends on: what is read for other views leaves it as it is, and the focus in it. */
function stateOf({ view: { id, collections }, groups }: Content, word: string): string {
  const count = groups.reduce((sum, { items }) => sum + items.length, groups.length)
  const reading = [holdings.isReading(collections), holdings.failureOf(collections)]
  return JSON.stringify([connection, id, word, count, ...reading])
}

function drawContent({ view, groups }: Content, word: string): HTMLElement[] {
  if (countOf(view, groups, word !== '') > 0) return [drawView(view, groups)]
  if (holdings.isReading(view.collections)) return [nothing('Reading and decrypting …')]
  // That there is nothing can only be said of what was read.
  if (holdings.failureOf(view.collections) !== null) return []
  return [nothing(word === '' ? view.empty : `Nothing in ${view.title} has “${word}” in it.`)]
}

function nothing(text: string): HTMLElement {
  return make('p', { class: 'nothing' }, text)
}

/** Where a word was found, and where nobody could look for it. */
function drawFound(found: Content[], current: Content, word: string): HTMLElement[] {
  const counts = found.map((each) => ({ ...each, count: countOf(each.view, each.groups, true) }))
  const links = counts
    .filter(({ count, view }) => count > 0 && view !== current.view)
    .map(({ count, view }) =>
      make('a', { class: 'link', href: addressOf(view.id) }, `${count.toLocaleString()} in ${view.title}`),
    )
  const here = countOf(current.view, current.groups, true)
  const unread = found.filter(({ view }) => holdings.failureOf(view.collections) !== null)
  const tell = (text: string) => make('span', {}, text)
  return [
    make('strong', { dir: 'auto' }, word),
    ...(here > 0 ? [tell(`${here.toLocaleString()} here`)] : []),
    ...links,
    ...(here === 0 && links.length === 0 ? [tell('found nowhere')] : []),
    ...(holdings.isReading() ? [tell('still reading …')] : []),
    ...unread.map(({ view }) => tell(`${view.title} could not be read`)),
  ]
}

/** Opens the record that the address names, as soon as it is read, and closes any other. */
function drawRecord(): void {
  const { name, id } = readPlace()
  const entry = id === null ? null : holdings.entries([name]).find(({ wire }) => wire.id === id)
  if (entry !== undefined) return showDetails(entry)
  if (holdings.isReading([name])) return
  history.replaceState(null, '', addressOf(chosen))
  showDetails(null)
  const isUnread = holdings.failureOf([name]) !== null
  say(isUnread ? `${name} could not be read` : `There is no record ${id} in ${name}`)
}

/** After a record was closed the address is again that of the view below it. */
function leaveRecord(): void {
  if (byId<HTMLDialogElement>('details').open || readPlace().id === null) return
  if (history.state?.isOver === true) history.back()
  else history.replaceState(null, '', addressOf(chosen))
}

function drawNotices({ view, groups }: Content): HTMLElement[] {
  const failure = holdings.failureOf(view.collections)
  if (failure !== null) {
    const what =
      groups.length > 0 ? `Not all of ${view.title} could be read` : `${view.title} could not be read`
    return [notice(`${what}. ${failure}`, 'Try again', connect)]
  }
  const problems = holdings.entries(view.collections).filter(({ clear }) => clear === null)
  if (problems.length === 0) return []
  const records = problems.length === 1 ? '1 record' : `${problems.length} records`
  return [notice(`${records} here can’t be read.`, 'Which?', () => go(addressOf('unreadable')))]
}

function notice(text: string, label: string, act: () => unknown): HTMLElement {
  const more = button({ class: 'link', onclick: () => void act() }, label)
  return make('p', { class: 'notice' }, icon('unreadable'), make('span', {}, text), more)
}

function navigationLink({ view, groups }: Content, isCurrent: boolean, word: string): HTMLElement {
  const count = countOf(view, groups, word !== '')
  const isUnread = count === 0 && holdings.failureOf(view.collections) !== null
  return make(
    'a',
    {
      class: word !== '' && count === 0 ? 'faint' : '',
      'aria-current': isCurrent ? 'page' : null,
      'data-view': view.id,
      href: addressOf(view.id),
    },
    icon(view.icon ?? view.id),
    make('span', {}, view.title),
    make(
      'small',
      {},
      isUnread && icon('unreadable'),
      isUnread && make('span', { class: 'unseen' }, 'could not be read'),
      !isUnread && (holdings.isReading(view.collections) ? '…' : count.toLocaleString()),
    ),
  )
}

function currentLink(): HTMLElement {
  return byId('nav').querySelector<HTMLElement>('[aria-current]')!
}

form.addEventListener('submit', (event) => {
  event.preventDefault()
  void connect()
})
for (const [id, act] of Object.entries({
  'copy-recipe': () => copy(byId('recipe').textContent ?? ''),
  leave,
  back: follow,
  refresh: connect,
})) {
  byId(id).addEventListener('click', act)
}
search.addEventListener('input', drawSoon)
for (const box of keepsKey) {
  box.addEventListener('change', () => {
    tick(box.checked)
    if (credentials !== null) remember(credentials, box.checked)
  })
}
byId('details').addEventListener('close', leaveRecord)
addEventListener('popstate', follow)
search.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape') return
  if (search.value === '') search.blur()
  search.value = ''
  drawSoon()
})
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target instanceof HTMLInputElement || byId('explorer').hidden) return
  event.preventDefault()
  search.focus()
})
document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest('a[href^="#/"]')
  // With a key held down the browser opens a tab of its own.
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  go(link.getAttribute('href')!)
})

offerDownloads(() => holdings)
const linked = takeLink()
open(Object.keys(linked).length > 0 ? linked : recall())
