import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { newId } from '../client/edit/models.ts'
import type { SaveResult } from '../client/edit/save.ts'
import { idOf, isTarget, movesTo, named, outermost, placeFor, removals } from './bookmark-edits.ts'
import { askForItem, askForFolder } from './edit-dialogs.ts'
import { showStatus } from './elements.ts'
import type { BookmarkItem, Target, TreeEditor } from './items.ts'
import type { State } from './state.ts'

/** What a user can do to the records on display. Saves in the background, and tells what could not be changed. */
export class Editor implements TreeEditor {
  readonly #state: State
  readonly #draw: () => void

  constructor(state: State, draw: () => void) {
    this.#state = state
    this.#draw = draw
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
    return editing === null ? null : reasonOf(editing.save(collection, edits, what))
  }

  /** Saves edits in the background, and shows why not all of them were saved. */
  async save(collection: string, edits: readonly (Edit | RecordEdit)[], what: string): Promise<void> {
    this.#show(await this.attempt(collection, edits, what))
  }

  async undo(): Promise<void> {
    const { editing } = this.#state
    if (editing === null || editing.undoable === null) return showStatus('Nothing to undo')
    this.#show(await reasonOf(editing.undo()))
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

  /** Asks for the fields of a new item, adds it behind a row, and goes there. */
  async create(kind: 'bookmark' | 'folder' | 'separator', row: BookmarkItem | null): Promise<void> {
    const { tree } = this.#state
    const place = placeFor(row, row !== null && tree.open.has(idOf(row)))
    const id = newId()
    const add = (fields: { title?: string; address?: string }) =>
      this.attempt('bookmarks', [{ op: 'add', id, kind, ...place, ...fields }], `Added a ${kind}`)
    if (kind === 'separator') this.#show(await add({}))
    else await askForItem(kind, add)
    if (this.#state.loaded.record('bookmarks', id) === undefined) return
    tree.open.add(place.folder)
    tree.current = id
    this.#state.drawnFrom = []
    this.#draw()
    this.#state.drawnTree?.focus()
  }

  /** The selected items, or the row if it is not selected itself. */
  chosen(all: BookmarkItem[], row: BookmarkItem | null): BookmarkItem[] {
    const { selected } = this.#state.tree
    const isAlone = row !== null && !selected.has(idOf(row))
    return outermost(all, isAlone ? new Set([idOf(row)]) : selected)
  }

  #show(reason: string | null): void {
    this.#state.troubles = reason?.split('\n') ?? []
    this.#draw()
  }
}

const nothingSelected = 'Select a bookmark or folder first; root folders can’t be changed'

/** Why not everything was saved, a line for each problem; null if it was. */
async function reasonOf(saving: Promise<SaveResult | null>): Promise<string | null> {
  try {
    const problems = (await saving)?.problems ?? []
    return problems.length === 0 ? null : problems.map(({ message }) => message).join('\n')
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
