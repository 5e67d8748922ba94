import type { SyncRecord } from '../client/collection.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { newId } from '../client/edit/models.ts'
import type { SaveResult } from '../client/edit/save.ts'
import { nameRecord } from '../client/engine-records.ts'
import { ClientError } from '../client/errors.ts'
import { idOf, isTarget, movesTo, named, outermost, placeFor, removals } from './bookmark-edits.ts'
import { bookmarkFields, editableFields, editsFor, itemFields } from './editable-fields.ts'
import { showStatus } from './elements.ts'
import { fieldForm, type Field, type FormOptions } from './field-form.ts'
import { askForFolder } from './folder-picker.ts'
import type { BookmarkItem, Draft, RowEditor, Target } from './items.ts'
import type { State } from './state.ts'

/** What an editor needs of its page. */
interface EditorPage {
  draw(): void
  /** Shows the form of the draft, in its row. */
  showDraft(): void
  /** Focuses the row where the focus was, or the current one of the tree. */
  focusAgain(): void
  /** Asks for another token, because this one was rejected. */
  askForToken(error: ClientError): void
}

/** What a user can do to the records on display. Saves in the background, and tells what could not be changed. */
export class Editor implements RowEditor {
  readonly #state: State
  readonly #page: EditorPage

  constructor(state: State, page: EditorPage) {
    this.#state = state
    this.#page = page
  }

  canEdit(collection: string): boolean {
    return this.#state.loaded.writable.has(collection) && !this.#state.loaded.isReading([collection])
  }

  /** Saves edits for a form, which shows why not all of them were saved: resolves to that, or to null. `what` says what was done. */
  async attempt(
    collection: string,
    edits: readonly (Edit | RecordEdit)[],
    what: string,
  ): Promise<string | null> {
    const { editing } = this.#state
    return editing === null ? null : this.#reasonOf(editing.save(collection, edits, what))
  }

  /** Saves edits in the background, and shows why not all of them were saved. */
  async save(collection: string, edits: readonly (Edit | RecordEdit)[], what: string): Promise<void> {
    this.#show(await this.attempt(collection, edits, what))
  }

  async undo(): Promise<void> {
    const { editing } = this.#state
    if (editing === null || editing.undoable === null) return showStatus('Nothing to undo')
    this.#show(await this.#reasonOf(editing.undo()))
  }

  /** Moves items; false if they can't go there. */
  move(moved: BookmarkItem[], target: Target): boolean {
    if (moved.length === 0 || !isTarget(moved, target)) return false
    this.#state.tree.cut.clear()
    void this.save('bookmarks', movesTo(moved, target), `Moved ${named(moved)}`)
    return true
  }

  /** Asks for a folder, and moves the items to its end. */
  async moveToFolder(moved: BookmarkItem[], all: BookmarkItem[]): Promise<void> {
    if (moved.length === 0) return showStatus(nothingSelected)
    const folders = all.filter((node) => node.kind === 'folder' && isTarget(moved, { node, where: 'into' }))
    const node = await askForFolder(`Move ${named(moved)} to`, folders)
    if (node !== null) this.move(moved, { node, where: 'into' })
  }

  remove(removed: BookmarkItem[]): void {
    if (removed.length === 0) return showStatus(nothingSelected)
    this.#state.tree.selected.clear()
    void this.save('bookmarks', removals(removed), `Deleted ${named(removed)}`)
  }

  change(record: SyncRecord): void {
    const { collection, stored, clear } = record
    const fields = editableFields(record)
    if (clear === null || fields.length === 0) return showStatus('This can’t be changed')
    const name = `“${nameRecord(collection, clear)}”`
    this.#open({ collection, id: stored.id, isNew: false }, fields, {
      name: `Change ${name}`,
      submit: 'Save',
      save: async (typed) => {
        const edits = editsFor(record, typed, new Date().getTime())
        return edits.length === 0 ? null : await this.attempt(collection, edits, `Changed ${name}`)
      },
      onSaved: () => {},
    })
  }

  /** Adds a new item behind a row, after its fields were typed there, and goes there. */
  async create(kind: 'bookmark' | 'folder' | 'separator', row: BookmarkItem): Promise<void> {
    const { tree } = this.#state
    const place = placeFor(row, tree.open.has(idOf(row)))
    const id = newId()
    const save = (typed: Record<string, string>) =>
      this.attempt('bookmarks', [{ op: 'add', id, kind, ...place, ...itemFields(typed) }], `Added a ${kind}`)
    const onSaved = () => {
      tree.open.add(place.folder)
      tree.current = id
    }
    if (kind !== 'separator')
      return this.#open(
        { collection: 'bookmarks', id: idOf(row), isNew: true },
        bookmarkFields({ type: kind }),
        {
          name: `New ${kind}`,
          submit: 'Add',
          save,
          onSaved,
        },
      )
    const reason = await save({})
    if (reason === null) onSaved()
    this.#show(reason)
    this.#page.focusAgain()
  }

  /** The selected items, or the row if it is not selected itself. */
  chosen(all: BookmarkItem[], row: BookmarkItem | null): BookmarkItem[] {
    const { selected } = this.#state.tree
    const isAlone = row !== null && !selected.has(idOf(row))
    return outermost(all, isAlone ? new Set([idOf(row)]) : selected)
  }

  /** Opens a form in a row, unless another one has something that is not saved. */
  #open(
    place: Omit<Draft, 'form'>,
    fields: Field[],
    { onSaved, ...options }: Omit<FormOptions, 'onClose'> & { onSaved(): void },
  ): void {
    if (this.#state.draft?.form.isTyped() === true) {
      showStatus('Save or cancel this first')
      return this.#page.showDraft()
    }
    const onClose = (isSaved: boolean) => {
      this.#state.draft = null
      if (isSaved) onSaved()
      this.#page.draw()
      this.#page.focusAgain()
    }
    this.#state.draft = { ...place, form: fieldForm(fields, { ...options, onClose }) }
    this.#page.showDraft()
  }

  #show(reason: string | null): void {
    this.#state.troubles = reason?.split('\n') ?? []
    this.#page.draw()
  }

  /** Why not everything was saved, a line for each problem; null if it was. */
  async #reasonOf(saving: Promise<SaveResult | null>): Promise<string | null> {
    try {
      const problems = (await saving)?.problems ?? []
      return problems.length === 0 ? null : problems.map(({ message }) => message).join('\n')
    } catch (error) {
      if (!(error instanceof ClientError)) return String(error)
      if (error.field !== 'token') return error.message
      this.#page.askForToken(error)
      return 'Nothing was saved, because the token had expired. Try again'
    }
  }
}

const nothingSelected = 'Select a bookmark or folder first; root folders can’t be changed'
