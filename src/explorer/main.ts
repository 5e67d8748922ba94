/**
 * The explorer shows users their own data: it reads encrypted records from the bridge that serves it, and decrypts them in the tab.
 *
 * `state.ts` is what the page knows and shows. `form.ts` reads the connect form, `tab.ts` the address and the tab's storage. `opened-account.ts` reads and decrypts with `client/`,
 * `record-items.ts` turns records into what lists show, `contents.ts` searches and sorts them, `views.ts`, `drawing.ts` and `details.ts` draw them, and
 * `downloads.ts` saves them.
 */
import { ClientError } from '../client/errors.ts'
import { openAccount, type Credentials, type OpenedAccount } from './opened-account.ts'
import { Contents } from './contents.ts'
import { isReadable, type SyncRecord } from '../client/collection.ts'
import { readVisitedPage } from '../client/engines.ts'
import { drawChanges } from './change-bar.ts'
import { Editing } from './editing.ts'
import { Editor } from './editor.ts'
import { hostOf } from './record-items.ts'
import { closeDetails, showDetails } from './details.ts'
import { offerDownloads } from './downloads.ts'
import { drawContent, drawFound, drawNavigation, nothing } from './drawing.ts'
import { button, byId, copy, icon, isTyping, make, showStatus } from './elements.ts'
import { fillIn, readForm, showTrouble } from './form.ts'
import { LoadedRecords } from './loaded-records.ts'
import { exchange, takeCode } from './own-page.ts'
import { initialState, isOutdated } from './state.ts'
import { placeAddress, forget, readPlace, recall, remember } from './tab.ts'
import { choice, offerTags, onChoice, resetTools, showTools, typed } from './tools.ts'
import type { DrawnTree } from './items.ts'
import { viewIdOf, views, type View } from './views.ts'

const form = byId<HTMLFormElement>('credentials')
const keepsKey = document.querySelectorAll<HTMLInputElement>('[data-keeps-key]')
const pageTitle = document.title

const state = initialState()
const editor = new Editor(state, draw)

/** Shows what the address names, or connects with the code in it. */
function follow(): void {
  state.isLeavingRecord = false
  const code = takeCode()
  if (code !== null) return void openLink(code)
  if (state.credentials === null) return
  const { name, id } = readPlace()
  // A record is shown over the view that it was opened from.
  if (id === null || state.chosen !== 'unreadable') state.chosen = viewIdOf(name)
  show('explorer')
  draw()
  currentLink().scrollIntoView({ block: 'nearest', inline: 'nearest' })
}

/** Navigates within the page; Back returns. */
function go(address: string): void {
  if (address !== location.hash) history.pushState({ isOver: readPlace().id === null }, '', address)
  const before = state.chosen
  follow()
  if (state.chosen !== before) scrollTo(0, 0)
}

/** Names a view in the address, without a step for Back. */
function setAddress(viewId: string): void {
  history.replaceState(null, '', placeAddress(viewId))
}

/** Connects if all values are present. */
function open(values: Partial<Credentials>, isKeyKept: boolean): void {
  fillIn(values)
  setKeepsKey(isKeyKept)
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

function setKeepsKey(isKeyKept: boolean): void {
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
  byId('back').hidden = state.editing === null
  byId<HTMLButtonElement>('open').disabled = false
  showTrouble(trouble)
}

/** Reads everything with the values of the form. The old content stays until new records arrive. */
async function connect(): Promise<void> {
  const current = ++state.connection
  byId('trouble').hidden = true
  byId<HTMLButtonElement>('open').disabled = true
  try {
    const asked = readForm()
    const account = await openAccount(asked)
    if (current !== state.connection) return
    state.credentials = asked
    remember(asked, keepsKey[0]!.checked)
    hold(account)
    if (readPlace().name === '') setAddress(views[0]!.id)
    follow()
    await state.loaded.read(() => {
      state.isOutdated = true
      drawSoon()
    })
  } catch (error) {
    if (current !== state.connection) return
    state.connection += 1
    state.contents = null
    showConnect(error instanceof ClientError ? error : new ClientError(String(error)))
  }
}

function hold(account: OpenedAccount): void {
  state.loaded.stop()
  state.loaded = new LoadedRecords(account)
  state.contents = null
  state.editing = new Editing(account, state.loaded, (hasNewRecords) => {
    if (hasNewRecords) state.isOutdated = true
    drawSoon()
  })
}

function leave(): void {
  state.loaded.stop()
  const { onSelect } = state.tree
  Object.assign(state, initialState(), { connection: state.connection + 1 })
  state.tree.onSelect = onSelect
  forget()
  history.replaceState(null, '', location.pathname + location.search)
  document.title = pageTitle
  form.reset()
  setKeepsKey(false)
  byId('welcome-back').hidden = true
  resetTools()
  for (const id of ['nav', 'title', 'found', 'content']) byId(id).replaceChildren()
  showConnect(null)
}

/** Draws at most once per frame. */
function drawSoon(): void {
  if (state.isDrawing) return
  state.isDrawing = true
  requestAnimationFrame(() => {
    state.isDrawing = false
    // Behind the form nothing is visible, and the address may name a record that is not read yet.
    if (!byId('explorer').hidden) draw()
  })
}

function draw(): void {
  if (state.contents === null || state.isOutdated) state.contents = new Contents(state.loaded, state.contents)
  state.isOutdated = false
  const word = typed()
  offerTags(state.contents.tags)
  const found = state.contents.choose(choice())
  const current = found.find(({ view }) => view.id === state.chosen) ?? found[0]!
  const { view } = current
  if (view.id !== state.chosen && !state.loaded.isReading()) {
    showStatus('Not in this account')
    state.chosen = view.id
    setAddress(state.chosen)
  }
  const isFocused = byId('nav').contains(document.activeElement)
  byId('nav').replaceChildren(...drawNavigation(found, current, state.loaded))
  if (isFocused) currentLink().focus({ preventScroll: true })
  document.title = `${view.title} · ${pageTitle}`
  byId('title').textContent = view.title
  showTools(view.id)
  byId('found').replaceChildren(...(word === '' ? [] : drawFound(word, found, current, state.loaded)))
  const { loaded } = state
  const { order, tag } = choice()
  // Redraws only if this view has changed, because that loses the focus.
  const shown = word === '' && view.collections.length > 0 ? view.collections : loaded.collections
  const drawAll = () => {
    state.drawnTree = null
    const isInside = byId('content').contains(document.activeElement)
    const context = { tree: state.tree, editor, onTree: (drawn: DrawnTree) => (state.drawnTree = drawn) }
    const content = drawContent(word, found, current, loaded, context)
    byId('content').replaceChildren(...drawNotices(view), ...content)
    if (isInside) focusAgain()
  }
  const reading = [loaded.isReading(view.collections), loaded.failureOf(view.collections)]
  if (isOutdated(state, [loaded, view.id, word, order, tag, loaded.changesOf(shown), ...reading])) drawAll()
  drawTools(view)
  drawChanges(state.editing, state.troubles)
  byId('view').setAttribute('aria-busy', String(state.loaded.isReading(view.collections)))
  drawRecord()
}

/** Opens the record in the address once it is read, and closes any other. */
function drawRecord(): void {
  if (state.isLeavingRecord) return
  const { name, id } = readPlace()
  const record = id === null ? null : state.loaded.record(name, id)
  if (record === null) return closeDetails()
  if (record !== undefined)
    return showDetails(
      record,
      state.credentials?.bucket ?? '',
      (other) => state.loaded.record(name, other),
      editor.canEdit(name)
        ? {
            attempt: (edits, what) => editor.attempt(name, edits, what),
            save: (edits, what) => editor.save(name, edits, what),
            sameSite: pagesOfSite(record),
          }
        : null,
    )
  if (state.loaded.isReading([name])) return
  setAddress(state.chosen)
  closeDetails()
  const isUnread = state.loaded.failureOf([name]) !== null
  showStatus(isUnread ? `${name} could not be read` : `There is no record ${id} in ${name}`)
}

/** The pages in the history that have the same host as this one. */
function pagesOfSite({ collection, clear }: SyncRecord): SyncRecord[] {
  const host = collection === 'history' ? hostOf(readVisitedPage(clear ?? {}).url) : ''
  if (host === '') return []
  const pages = state.loaded.records([collection]).filter(isReadable)
  return pages.filter((page) => hostOf(readVisitedPage(page.clear).url) === host)
}

/** Closing a record restores the address of its view. */
function leaveRecord(): void {
  if (byId<HTMLDialogElement>('details').open || byId('explorer').hidden || readPlace().id === null) return
  // The address changes later.
  if (history.state?.isOver === true) {
    state.isLeavingRecord = true
    history.back()
  } else setAddress(state.chosen)
}

function drawNotices({ title, collections }: View): HTMLElement[] {
  const failure = state.loaded.failureOf(collections)
  if (failure !== null) {
    const isSome = state.loaded.records(collections).length > 0
    const what = isSome ? `Not all of ${title} could be read` : `${title} could not be read`
    return [notice(`${what}. ${failure}`, 'Try again', connect)]
  }
  const own = new Set(collections)
  const problems = state.contents!.unreadable.filter(({ collection }) => own.has(collection))
  if (problems.length === 0) return []
  const records = problems.length === 1 ? '1 record' : `${problems.length} records`
  return [notice(`${records} here can’t be read.`, 'Which?', () => go(placeAddress('unreadable')))]
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

/** The controls that change bookmarks; only where the tree is shown and can be changed. */
function drawTools({ id }: View): void {
  const isShown = id === 'bookmarks' && state.drawnTree !== null && editor.canEdit('bookmarks')
  byId('edit-tools').hidden = !isShown
  const count = state.tree.selected.size
  byId('selected').textContent = isShown && count > 0 ? `${count.toLocaleString()} selected` : ''
}

/** After a redraw the focus is on the row where it was, or on the title. */
function focusAgain(): void {
  if (state.drawnTree?.focus() !== true) byId('title').focus({ preventScroll: true })
}

/** Runs an action on the selected or focused rows of the tree. */
function onTree(act: (drawn: DrawnTree) => unknown): () => void {
  return () => {
    if (state.drawnTree !== null) void act(state.drawnTree)
  }
}

function collapse(): void {
  state.tree.open.clear()
  state.drawnFrom = []
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
  'new-bookmark': onTree((drawn) => editor.create('bookmark', drawn.current())),
  'new-folder': onTree((drawn) => editor.create('folder', drawn.current())),
  'new-separator': onTree((drawn) => editor.create('separator', drawn.current())),
  move: onTree((drawn) => editor.moveToFolder(drawn.chosen(), drawn.all())),
  delete: onTree((drawn) => editor.remove(drawn.chosen())),
  undo: () => editor.undo(),
  'close-troubles': () => {
    state.troubles = []
    draw()
  },
})) {
  byId(id).addEventListener('click', act)
}
onChoice(drawSoon)
for (const box of keepsKey) {
  box.addEventListener('change', () => {
    setKeepsKey(box.checked)
    if (state.credentials !== null) remember(state.credentials, box.checked)
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

document.addEventListener('keydown', (event) => {
  if (event.key.toLowerCase() !== 'z' || !(event.ctrlKey || event.metaKey) || event.shiftKey) return
  if (isTyping(event)) return
  if (byId('explorer').hidden || state.editing === null) return
  event.preventDefault()
  void editor.undo()
})
addEventListener('beforeunload', (event) => {
  if (state.editing?.isSaving === true) event.preventDefault()
})
state.tree.onSelect = () => drawTools(views.find(({ id }) => id === state.chosen) ?? views[0]!)

offerDownloads(() => state.loaded)
const code = takeCode()
const kept = recall()
if (code !== null) void openLink(code)
else open(kept, kept.syncKey !== undefined)
