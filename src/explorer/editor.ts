import { ClientError } from '../client/errors.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import { idOf, isTarget, movesTo, named, outermost, placeFor, removals } from './bookmark-edits.ts'
import { askForItem, askForFolder } from './edit-dialogs.ts'
import { say } from './elements.ts'
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
    return this.#state.holdings.writable.has(collection) && !this.#state.holdings.isReading([collection])
  }

  /** Saves edits; `what` says what was done. Resolves to an error, or null. */
  async save(
    collection: string,
    edits: readonly (Edit | RecordEdit)[],
    what: string,
  ): Promise<ClientError | null> {
    const { editing } = this.#state
    return editing === null ? null : this.#watch(editing.save(collection, edits, what))
  }

  async undo(): Promise<void> {
    const { editing } = this.#state
    if (editing === null || editing.undoable === null) return say('Nothing to undo')
    await this.#watch(editing.undo())
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
    const folders = all.filter((node) => node.kind === 'folder' && isTarget(moved, { node, where: 'into' }))
    const node = moved.length > 0 ? await askForFolder(`Move ${named(moved)} to`, folders) : null
    if (node !== null) this.move(moved, { node, where: 'into' })
  }

  remove(removed: BookmarkItem[]): void {
    if (removed.length === 0) return
    this.#state.tree.selected.clear()
    void this.save('bookmarks', removals(removed), `Deleted ${named(removed)}`)
  }

  /** Asks for the fields of a new item, and adds it behind a row. */
  async create(kind: 'bookmark' | 'folder' | 'separator', row: BookmarkItem | null): Promise<void> {
    const place = placeFor(row, row !== null && this.#state.tree.open.has(idOf(row)))
    this.#state.tree.open.add(place.folder)
    const add = (fields: { title?: string; address?: string }) =>
      this.save('bookmarks', [{ op: 'add', kind, ...place, ...fields }], `Added a ${kind}`)
    if (kind === 'separator') await add({})
    else await askForItem(kind, add)
  }

  /** The selected items, or the row if it is not selected itself. */
  chosen(all: BookmarkItem[], row: BookmarkItem | null): BookmarkItem[] {
    const { selected } = this.#state.tree
    const isAlone = row !== null && !selected.has(idOf(row))
    return outermost(all, isAlone ? new Set([idOf(row)]) : selected)
  }

  async #watch(saving: Promise<{ problems: { message: string }[] } | null>): Promise<ClientError | null> {
    try {
      const result = await saving
      this.#state.troubles = (result?.problems ?? []).map(({ message }) => message)
      return null
    } catch (error) {
      const failure = error instanceof ClientError ? error : new ClientError(String(error))
      this.#state.troubles = failure.message.split('\n')
      return failure
    } finally {
      this.#draw()
    }
  }
}
