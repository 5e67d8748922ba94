/**
 * The explorer shows users their own data: it reads encrypted records from the bridge that serves it, and decrypts them in the tab.
 *
 * `form.ts` reads the connect form, `tab.ts` the address and the tab's storage. `account.ts` reads and decrypts with `client/`,
 * `meaning.ts` interprets records, `contents.ts` searches and sorts them, `views.ts`, `drawing.ts` and `details.ts` draw them, and
 * `downloads.ts` saves them.
 */
import { ClientError } from '../client/errors.ts'
import { openAccount, type Credentials } from './account.ts'
import { Contents } from './contents.ts'
import { closeDetails, showDetails } from './details.ts'
import { offerDownloads } from './downloads.ts'
import { drawContent, drawFound, drawNavigation, nothing } from './drawing.ts'
import { button, byId, copy, icon, make, say } from './elements.ts'
import { fillIn, readForm, showTrouble } from './form.ts'
import { Holdings } from './holdings.ts'
import { exchange, takeCode } from './own-page.ts'
import { addressOf, forget, readPlace, recall, remember } from './tab.ts'
import { choice, offerTags, onChoice, resetTools, showTools, typed } from './tools.ts'
import { closeAllFolders } from './tree.ts'
import { viewIdOf, views, type View } from './views.ts'

const form = byId<HTMLFormElement>('credentials')
const keepsKey = document.querySelectorAll<HTMLInputElement>('[data-keeps-key]')
const pageTitle = document.title

const none = new Holdings({ collections: [], read: async () => {} })

/** The records on display. */
let holdings = none
/** The contents of `holdings`; null if more has been read since. */
let contents: Contents | null = null
let chosen = ''
/** The credentials of the current connection; null if not connected. */
let credentials: Credentials | null = null
/** Counts connections, so that late responses of an earlier one are ignored. */
let connection = 0

/** Shows what the address names, or connects with the code in it. */
function follow(): void {
  const code = takeCode()
  if (code !== null) return void openLink(code)
  if (credentials === null) return
  const { name, id } = readPlace()
  // A record is shown over the view that it was opened from.
  if (id === null || chosen !== 'unreadable') chosen = viewIdOf(name)
  show('explorer')
  draw()
  currentLink().scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

/** Navigates within the page; Back returns. */
function go(address: string): void {
  if (address !== location.hash) history.pushState({ isOver: readPlace().id === null }, '', address)
  const before = chosen
  follow()
  if (chosen !== before) scrollTo(0, 0)
}

/** Names a view in the address, without a step for Back. */
function setAddress(viewId: string): void {
  history.replaceState(null, '', addressOf(viewId))
}

/** Connects if all values are present. */
function open(values: Partial<Credentials>, isKeyKept: boolean): void {
  fillIn(values)
  tick(isKeyKept)
  byId('welcome-back').hidden = !values.token || !values.keyId || Boolean(values.syncKey)
  if (!values.token || !values.keyId || !values.syncKey) return showConnect(null)
  byId('content').replaceChildren(nothing('Connecting to the bridge …'))
  show('explorer')
  void connect()
}

/** Connects with the values that a command gives for the code of its link. */
async function openLink(code: string): Promise<void> {
  try {
    open(await exchange<Credentials>(code), false)
  } catch (error) {
    showConnect(error instanceof ClientError ? error : new ClientError(String(error)))
  }
}

function tick(isKeyKept: boolean): void {
  for (const box of keepsKey) box.checked = isKeyKept
}

function show(part: 'connect' | 'explorer'): void {
  const isNew = byId('explorer').hidden
  byId('connect').hidden = part !== 'connect'
  byId('explorer').hidden = part !== 'explorer'
  // Has no effect on a hidden title.
  if (isNew) byId('title').focus()
}

function showConnect(trouble: ClientError | null): void {
  show('connect')
  // It would cover the form; its address stays, so that it opens again after the form.
  closeDetails()
  byId('back').hidden = holdings === none
  byId<HTMLButtonElement>('open').disabled = false
  showTrouble(trouble)
}

/** Reads everything with the values of the form. The old content stays until new records arrive. */
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
    if (readPlace().name === '') setAddress(views[0]!.id)
    follow()
    await holdings.read(() => {
      contents = null
      drawSoon()
    })
  } catch (error) {
    if (current !== connection) return
    connection += 1
    contents = null
    showConnect(error instanceof ClientError ? error : new ClientError(String(error)))
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
  resetTools()
  for (const id of ['nav', 'title', 'found', 'content']) byId(id).replaceChildren()
  showConnect(null)
}

let isDrawing = false
let drawn = ''

/** Draws at most once per frame. */
function drawSoon(): void {
  if (isDrawing) return
  isDrawing = true
  requestAnimationFrame(() => {
    isDrawing = false
    // Behind the form nothing is visible, and the address may name a record that is not read yet.
    if (!byId('explorer').hidden) draw()
  })
}

function draw(): void {
  contents ??= new Contents(holdings)
  const word = typed()
  offerTags(contents.tags)
  const found = contents.choose(choice())
  const current = found.find(({ view }) => view.id === chosen) ?? found[0]!
  const { view } = current
  if (view.id !== chosen && !holdings.isReading()) {
    say('Not in this account')
    chosen = view.id
    setAddress(chosen)
  }
  const isFocused = byId('nav').contains(document.activeElement)
  byId('nav').replaceChildren(...drawNavigation(found, current, holdings))
  if (isFocused) currentLink().focus({ preventScroll: true })
  document.title = `${view.title} · ${pageTitle}`
  byId('title').textContent = view.title
  showTools(view.id)
  byId('found').replaceChildren(...(word === '' ? [] : drawFound(word, found, current, holdings)))
  // Redraws only if this view has changed, because that loses the focus.
  const shown = word === '' ? [current] : found
  const counts = shown.map(({ groups }) =>
    groups.reduce((sum, { items }) => sum + items.length, groups.length),
  )
  const reading = [holdings.isReading(view.collections), holdings.failureOf(view.collections)]
  const state = JSON.stringify([connection, view.id, word, choice(), counts, ...reading])
  if (state !== drawn)
    byId('content').replaceChildren(...drawNotices(view), ...drawContent(word, found, current, holdings))
  drawn = state
  byId('view').setAttribute('aria-busy', String(holdings.isReading(view.collections)))
  drawRecord()
}

/** Opens the record in the address once it is read, and closes any other. */
function drawRecord(): void {
  const { name, id } = readPlace()
  const record = id === null ? null : holdings.record(name, id)
  if (record === null) return closeDetails()
  if (record !== undefined)
    return showDetails(record, credentials?.bucket ?? '', (other) => holdings.record(name, other))
  if (holdings.isReading([name])) return
  setAddress(chosen)
  closeDetails()
  const isUnread = holdings.failureOf([name]) !== null
  say(isUnread ? `${name} could not be read` : `There is no record ${id} in ${name}`)
}

/** Closing a record restores the address of its view. */
function leaveRecord(): void {
  if (byId<HTMLDialogElement>('details').open || byId('explorer').hidden || readPlace().id === null) return
  if (history.state?.isOver === true) history.back()
  else setAddress(chosen)
}

function drawNotices({ title, collections }: View): HTMLElement[] {
  const failure = holdings.failureOf(collections)
  if (failure !== null) {
    const isSome = holdings.records(collections).length > 0
    const what = isSome ? `Not all of ${title} could be read` : `${title} could not be read`
    return [notice(`${what}. ${failure}`, 'Try again', connect)]
  }
  const own = new Set(collections)
  const problems = contents!.unreadable.filter(({ collection }) => own.has(collection))
  if (problems.length === 0) return []
  const records = problems.length === 1 ? '1 record' : `${problems.length} records`
  return [notice(`${records} here can’t be read.`, 'Which?', () => go(addressOf('unreadable')))]
}

function notice(text: string, label: string, act: () => unknown): HTMLElement {
  return make(
    'p',
    { class: 'notice' },
    icon('unreadable'),
    make('span', {}, text),
    button({ class: 'link', onclick: () => void act() }, label),
  )
}

function collapse(): void {
  closeAllFolders()
  drawn = ''
  draw()
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
  collapse,
})) {
  byId(id).addEventListener('click', act)
}
onChoice(drawSoon)
for (const box of keepsKey) {
  box.addEventListener('change', () => {
    tick(box.checked)
    if (credentials !== null) remember(credentials, box.checked)
  })
}
byId('details').addEventListener('close', leaveRecord)
addEventListener('popstate', follow)
document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest('a[href^="#/"]')
  // With a modifier key, the browser opens a new tab.
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  go(link.getAttribute('href')!)
})

offerDownloads(() => holdings)
const code = takeCode()
const kept = recall()
if (code !== null) void openLink(code)
else open(kept, kept.syncKey !== undefined)
