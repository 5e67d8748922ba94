import { isReadable } from '../client/collection.ts'
import type { ClientError } from '../client/errors.ts'
import { idOf } from './bookmark-edits.ts'
import { drawChanges } from './change-bar.ts'
import { Contents } from './contents.ts'
import { drawContent, drawFound, drawNavigation } from './drawing.ts'
import { editableFields } from './editable-fields.ts'
import { Editor } from './editor.ts'
import { button, byId, icon, make, showStatus } from './elements.ts'
import type { BookmarkItem, Draft, DrawnTree, Group, Item } from './items.ts'
import { focusPlace, placeOf, renderLists } from './long-list.ts'
import { RecordDialog } from './record-dialog.ts'
import { isOutdated, type State } from './state.ts'
import { placeAddress, readPlace, setAddress } from './tab.ts'
import { choice, offerTags, resetChoice, showTools, typed } from './tools.ts'
import { viewIdOf, type View } from './views.ts'

const pageTitle = document.title

/** What the page needs to connect again. */
interface Connector {
  connect(): unknown
  /** Shows the connect form, and why. */
  ask(trouble: ClientError): void
}

/** Draws what the state is, and follows the address. */
export class Page {
  readonly editor: Editor
  /** The dialog over a view. */
  readonly record: RecordDialog
  readonly #state: State
  readonly #connector: Connector
  /** Whether it will be drawn before the next frame. */
  #isDrawing = false
  /** The draft on display. */
  #drawnDraft: Draft | null = null

  constructor(state: State, connector: Connector) {
    this.#state = state
    this.#connector = connector
    this.editor = new Editor(state, {
      draw: () => this.draw(),
      showDraft: () => this.#showDraft(),
      focusAgain: () => this.#focusAgain(),
      askForToken: (trouble) => connector.ask(trouble),
    })
    this.record = new RecordDialog(state, this.editor)
    byId('content').addEventListener('focusin', (event) => (state.row = placeOf(event)))
  }

  show(part: 'connect' | 'explorer'): void {
    const isNew = byId('explorer').hidden
    byId('connect').hidden = part !== 'connect'
    byId('explorer').hidden = part !== 'explorer'
    // Has no effect on a hidden title.
    if (isNew) byId('title').focus()
  }

  /** Shows what the address names. */
  follow(): void {
    const state = this.#state
    this.record.follow()
    if (state.credentials === null) return
    const { name, id } = readPlace()
    // A record is shown over the view that it was opened from.
    if (id === null || state.chosen !== 'unreadable') state.chosen = viewIdOf(name)
    this.show('explorer')
    this.draw()
    currentLink().scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }

  /** Navigates within the page; Back returns. */
  go(address: string): void {
    if (address !== location.hash) history.pushState({ isOver: readPlace().id === null }, '', address)
    const before = this.#state.chosen
    this.follow()
    if (this.#state.chosen !== before) scrollTo(0, 0)
  }

  /** Removes everything that was drawn. */
  clear(): void {
    document.title = pageTitle
    resetChoice()
    offerTags(new Map())
    for (const id of ['nav', 'title', 'found', 'content']) byId(id).replaceChildren()
  }

  /** Draws at most once per frame. */
  drawSoon(): void {
    if (this.#isDrawing) return
    this.#isDrawing = true
    requestAnimationFrame(() => {
      this.#isDrawing = false
      // Behind the form nothing is visible, and the address may name a record that is not read yet.
      if (!byId('explorer').hidden) this.draw()
    })
  }

  draw(): void {
    const state = this.#state
    const { loaded } = state
    const contents = this.#contents()
    const word = typed()
    const found = contents.choose(choice())
    const current = found.find(({ view }) => view.id === state.chosen) ?? found[0]!
    const { view } = current
    if (view.id !== state.chosen && !loaded.isReading()) {
      showStatus('Not in this account')
      state.chosen = view.id
      setAddress(state.chosen)
    }
    const isFocused = byId('nav').contains(document.activeElement)
    byId('nav').replaceChildren(...drawNavigation(found, current, loaded))
    if (isFocused) currentLink().focus({ preventScroll: true })
    document.title = `${view.title} · ${pageTitle}`
    byId('title').textContent = view.title
    showTools(view.id)
    byId('found').replaceChildren(...(word === '' ? [] : drawFound(word, found, current, loaded)))
    this.#updateDraft()
    const { order, tag } = choice()
    // Redraws only if this view has changed, because that loses the focus.
    const shown = word === '' && view.collections.length > 0 ? view.collections : loaded.collections
    const reading = [loaded.isReading(view.collections), loaded.failureOf(view.collections)]
    const from = [loaded, view.id, word, order, tag, this.#isGone(), loaded.changesOf(shown), ...reading]
    const isRedrawn = isOutdated(state, from)
    if (isRedrawn) {
      const context = {
        tree: state.tree,
        editor: this.editor,
        draft: () => state.draft,
        onTree: (drawn: DrawnTree) => (state.drawnTree = drawn),
      }
      state.drawnTree = null
      this.#replaceContent(() => [
        ...this.#drawNotices(view),
        ...drawContent(word, found, current, loaded, context),
      ])
    }
    if (state.draft !== this.#drawnDraft || (isRedrawn && state.draft !== null)) renderLists()
    this.#drawnDraft = state.draft
    this.drawTools()
    drawChanges(state.editing, state.troubles)
    byId('view').setAttribute('aria-busy', String(loaded.isReading(view.collections)))
    this.record.draw()
  }

  /** The controls that change bookmarks; only where the tree is shown and can be changed. */
  drawTools(): void {
    const { chosen, drawnTree, tree } = this.#state
    const isShown = chosen === 'bookmarks' && drawnTree !== null && this.editor.canEdit('bookmarks')
    byId('edit-tools').hidden = !isShown
    const count = tree.selected.size
    byId('selected').textContent = isShown && count > 0 ? `${count.toLocaleString()} selected` : ''
  }

  collapse(): void {
    this.#state.tree.open.clear()
    this.#state.drawnFrom = []
    this.draw()
  }

  #contents(): Contents {
    const state = this.#state
    if (state.contents === null || state.isOutdated) {
      state.contents = new Contents(state.loaded, state.contents)
      offerTags(state.contents.tags)
    }
    state.isOutdated = false
    return state.contents
  }

  /** Replaces what is on display; the focus stays where it was. */
  #replaceContent(drawAnew: () => HTMLElement[]): void {
    const before = document.activeElement as HTMLElement
    const isInside = byId('content').contains(before)
    // The title has it while no row is left, such as until a deletion is taken back.
    const isLost = before === byId('title') && this.#state.row !== null
    byId('content').replaceChildren(...drawAnew())
    if (!isInside && !isLost) return
    renderLists()
    // A form is kept, unless its row has gone.
    if (byId('content').contains(before)) before.focus({ preventScroll: true })
    else this.#focusAgain()
  }

  /** Focuses the row where the focus was, or the one that has taken its place; without any, the title. */
  #focusAgain(): void {
    const { drawnTree, row } = this.#state
    const isFocused = drawnTree === null ? row !== null && focusPlace(row) : drawnTree.focus()
    if (!isFocused) byId('title').focus({ preventScroll: true })
  }

  /** Shows what has changed elsewhere in the form that is open. */
  #updateDraft(): void {
    const { draft, loaded } = this.#state
    const record = draft && !draft.isNew && loaded.record(draft.collection, draft.id)
    if (record) draft.form.update(editableFields(record))
  }

  /** Goes to the row of the draft, which may be in another view, in a closed folder or hidden by a search. */
  #showDraft(): void {
    const state = this.#state
    const { collection, id, form } = state.draft!
    state.chosen = viewIdOf(collection)
    setAddress(state.chosen)
    if (this.#itemOf(id) === undefined) resetChoice()
    if (this.#currentGroups()[0]?.whole !== undefined) this.#openFoldersOf(id)
    this.draw()
    form.focus()
  }

  #currentGroups(): Group[] {
    const contents = this.#contents().choose(choice())
    return contents.find(({ view }) => view.id === this.#state.chosen)?.groups ?? []
  }

  /** The item of a record in the current view, unless a search or a filter excludes it. */
  #itemOf(id: string): Item | undefined {
    const found = this.#currentGroups().map(({ items }) =>
      items.find(({ record }) => record.stored.id === id),
    )
    return found.find(Boolean)
  }

  /** Opens the folders of a row of the tree. */
  #openFoldersOf(id: string): void {
    const { tree } = this.#state
    tree.current = id
    const { parent } = (this.#itemOf(id) ?? {}) as Partial<BookmarkItem>
    for (let above = parent ?? null; above !== null; above = above.parent) {
      // It is drawn again only if a folder was closed.
      if (!tree.open.has(idOf(above))) this.#state.drawnFrom = []
      tree.open.add(idOf(above))
    }
  }

  #drawNotices({ id, title, collections }: View): HTMLElement[] {
    const { loaded, draft } = this.#state
    const failure = loaded.failureOf(collections)
    if (failure !== null) {
      const isSome = loaded.records(collections).length > 0
      const what = isSome ? `Not all of ${title} could be read` : `${title} could not be read`
      return [notice(`${what}. ${failure}`, 'Try again', () => this.#connector.connect())]
    }
    const own = new Set(collections)
    const problems = this.#state.contents!.unreadable.filter(({ collection }) => own.has(collection))
    const records = problems.length === 1 ? '1 record' : `${problems.length} records`
    return [
      ...(draft !== null && viewIdOf(draft.collection) === id && this.#isGone()
        ? [make('section', { class: 'card' }, draft.form.element)]
        : []),
      ...(problems.length > 0
        ? [notice(`${records} here can’t be read.`, 'Which?', () => this.go(placeAddress('unreadable')))]
        : []),
    ]
  }

  /** Whether the record whose row a form was in was deleted; the form stays, with what was typed. */
  #isGone(): boolean {
    const { loaded, draft } = this.#state
    if (draft === null || loaded.isReading([draft.collection])) return false
    const record = loaded.record(draft.collection, draft.id)
    return record === undefined || !isReadable(record)
  }
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

function currentLink(): HTMLElement {
  return byId('nav').querySelector<HTMLElement>('[aria-current]')!
}
