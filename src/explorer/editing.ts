import type { SyncRecord } from '../client/collection.ts'
import type { Edit, RecordEdit } from '../client/edit/edit.ts'
import type { SaveResult } from '../client/edit/save.ts'
import type { Saved } from '../client/edit/saved.ts'
import type { OpenedAccount } from './opened-account.ts'
import type { LoadedRecords } from './loaded-records.ts'

/** Saves the edits of a page one after the other, and can take the last one back. */
export class Editing {
  readonly #account: Pick<OpenedAccount, 'edit' | 'undo'>
  readonly #loaded: LoadedRecords
  readonly #onChange: (hasNewRecords: boolean) => void
  #queue: Promise<unknown> = Promise.resolve()
  #inFlight = 0
  /** What was shown when edits were made that wait for the saves before them. */
  readonly #waiting = new Set<{ collection: string; shown: Map<string, SyncRecord> }>()
  #last: { saved: Saved; what: string } | null

  /**
   * `onChange` is called when records have changed, and when a save begins or ends. `before`: what has edited the same account; its last
   * save can be taken back.
   */
  constructor(
    account: Pick<OpenedAccount, 'edit' | 'undo'>,
    loaded: LoadedRecords,
    onChange: (hasNewRecords: boolean) => void,
    before: Editing | null = null,
  ) {
    this.#last = before === null ? null : before.#last
    this.#account = account
    this.#loaded = loaded
    this.#onChange = onChange
  }

  get isSaving(): boolean {
    return this.#inFlight > 0
  }

  /** What `undo` would take back, such as "2 deleted"; null if there is nothing. */
  get undoable(): string | null {
    return this.#last?.what ?? null
  }

  /** Saves edits of what is shown now. Rejects with `ClientError`; the page then shows what it did before. */
  save(collection: string, edits: readonly (Edit | RecordEdit)[], what: string): Promise<SaveResult> {
    const records = this.#loaded.records([collection])
    const shown = new Map(records.map((record) => [record.stored.id, record]))
    const waiting = { collection, shown }
    this.#waiting.add(waiting)
    const edit = () => {
      this.#waiting.delete(waiting)
      return this.#account.edit(collection, edits, [...shown.values()])
    }
    return this.#next(collection, edit, what)
  }

  /** Takes the last save back, except for what was changed since. Rejects with `ClientError`; it can be tried again then. */
  async undo(): Promise<SaveResult | null> {
    // A save in flight is the last one.
    await this.#queue
    if (this.#last === null) return null
    const { saved } = this.#last
    const { collection } = saved
    const undo = () => this.#account.undo(saved, this.#loaded.records([collection]))
    return this.#next(collection, undo, null)
  }

  /** Runs after the saves before it, because each has to see what the one before has written. */
  #next(collection: string, run: () => Promise<SaveResult>, what: string | null): Promise<SaveResult> {
    const result = this.#queue.then(async () => {
      const saved = await run()
      this.#loaded.take(collection, saved.records)
      // The next edits were made for what these have written, and not for what others have.
      for (const { id } of saved.saved?.after ?? [])
        for (const next of this.#waiting)
          if (next.collection === collection) next.shown.set(id, this.#loaded.record(collection, id)!)
      // What wrote nothing because of others' changes leaves the last change as it is.
      if (saved.saved !== null) this.#last = what === null ? null : { saved: saved.saved, what }
      else if (what === null && saved.problems.length === 0) this.#last = null
      this.#onChange(true)
      return saved
    })
    this.#inFlight += 1
    this.#onChange(false)
    this.#queue = result
      .catch(() => {})
      .finally(() => {
        this.#inFlight -= 1
        this.#onChange(false)
      })
    return result
  }
}
