import { isReadable, type SyncRecord } from '../client/collection.ts'
import { readVisitedPage } from '../client/record-readers.ts'
import { emptyDetails, showDetails } from './details.ts'
import type { Editor } from './editor.ts'
import { byId, showStatus } from './elements.ts'
import { hostOf } from './record-items.ts'
import type { State } from './state.ts'
import { readPlace, setAddress } from './tab.ts'

const dialog = byId<HTMLDialogElement>('details')

/** Shows the record that the address names, over the view that it was opened from. */
export class RecordDialog {
  readonly #state: State
  readonly #editor: Editor
  /** Whether a record was closed whose address is still that of the page. */
  #isLeaving = false

  constructor(state: State, editor: Editor) {
    this.#state = state
    this.#editor = editor
  }

  /** The address has changed. */
  follow(): void {
    this.#isLeaving = false
  }

  /** Opens the record in the address once it is read, and closes any other. */
  draw(): void {
    if (this.#isLeaving) return
    const { loaded, credentials, record: before } = this.#state
    const { name, id } = readPlace()
    const record = id === null ? null : loaded.record(name, id)
    if (record === null) return this.close()
    if (record !== undefined) {
      const canEdit = this.#editor.canEdit(name)
      const isSame = before?.record.collection === name && before.record.stored.id === id
      // If it was closed, its event comes later.
      if (isSame && !dialog.open) return
      if (record === before?.record && canEdit === before.canEdit) return
      this.#state.record = { record, canEdit }
      const changes = {
        save: this.#editor.save.bind(this.#editor, name),
        change: () => this.#change(record),
        sameSite: this.#pagesOfSite(record),
      }
      const find = (other: string) => loaded.record(name, other)
      return showDetails(record, credentials?.bucket ?? '', find, canEdit ? changes : null)
    }
    if (loaded.isReading([name])) return
    setAddress(this.#state.chosen)
    this.close()
    const isUnread = loaded.failureOf([name]) !== null
    showStatus(isUnread ? `${name} could not be read` : `There is no record ${id} in ${name}`)
  }

  close(): void {
    this.#state.record = null
    dialog.close()
  }

  /** It was closed: removes its content, and restores the address of its view. */
  leave(): void {
    // It was opened again before this event.
    if (dialog.open) return
    this.#state.record = null
    emptyDetails()
    if (byId('explorer').hidden || readPlace().id === null) return
    // The address changes later.
    if (history.state?.isOver === true) {
      this.#isLeaving = true
      history.back()
    } else setAddress(this.#state.chosen)
  }

  /** Changes the record in its row. */
  #change(record: SyncRecord): void {
    setAddress(this.#state.chosen)
    this.#editor.change(record)
  }

  /** The pages in the history that have the same host as this one. */
  #pagesOfSite({ collection, clear }: SyncRecord): SyncRecord[] {
    const host = collection === 'history' ? hostOf(readVisitedPage(clear ?? {}).url) : ''
    if (host === '') return []
    const pages = this.#state.loaded.records([collection]).filter(isReadable)
    return pages.filter((page) => hostOf(readVisitedPage(page.clear).url) === host)
  }
}
