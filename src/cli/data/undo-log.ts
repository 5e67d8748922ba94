import { createHash } from 'node:crypto'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { isConfirmed } from './ask.ts'
import {
  addLine,
  entriesOf,
  maxUndoBytes,
  removeEntry,
  removeOldest,
  takeNumber,
  undoFolder,
  writeEntry,
  type Intent,
  type UndoEntry,
} from './undo-entries.ts'
import type { Edits, SaveOptions, SaveResult } from '../../client/edit/save.ts'
import type { Saved } from '../../client/edit/saved.ts'
import type { Session } from './session.ts'

/** Keeps what one command overwrites. */
export class UndoLog {
  readonly #session: Session
  readonly #command: string
  readonly #maxBytes: number
  /** Whether what is overwritten is kept. */
  #isOn: boolean
  #entry: UndoEntry | null = null
  readonly #folder: string

  #intent: Intent | undefined
  /** What the parts need. */
  #bytes = 0
  /** What the interrupted command has kept. */
  #former: Saved[] = []

  /** Throws `ClientError` if the environment names no place for it. */
  constructor(session: Session, command: string, isOn: boolean, maxBytes = maxUndoBytes) {
    this.#session = session
    this.#command = command
    this.#isOn = isOn
    this.#maxBytes = maxBytes
    this.#folder = isOn ? undoFolder(session.client.account, session.host) : ''
  }

  /**
   * Continues the same command if it was interrupted. Returns the ids of what it adds, none if it is new, so that what it may have added is not
   * added again. `isOnce`: also after it was done.
   */
  resume(what: unknown, { isOnce = false } = {}): readonly string[] {
    const digest = createHash('sha256').update(JSON.stringify(what)).digest('hex')
    const entries = this.#isOn ? entriesOf(this.#command, this.#folder) : []
    const same = entries.filter(({ intent }) => intent?.digest === digest)
    const interrupted = same.findLast(({ summary }) => summary === '')
    const known = interrupted ?? (isOnce ? same.at(-1) : undefined)
    this.#entry = interrupted ?? null
    this.#former = interrupted?.saved ?? []
    this.#intent = { digest, ids: known?.intent?.ids ?? [] }
    return this.#intent.ids
  }

  /** Says which ids the command adds, after `resume`. */
  adds(ids: string[]): void {
    if (this.#intent) this.#intent.ids = ids
  }

  /** Saves edits, and keeps what they overwrite. Rejects with `ClientError`. */
  async save(edits: Edits, options: SaveOptions = {}): Promise<SaveResult> {
    const onWrite = (saved: Saved, written: number) => this.#replace(saved, written > 0)
    try {
      return await this.#session.client.edit(edits, { ...options, onWrite })
    } catch (error) {
      // What an interrupted run may have written can still be taken back.
      const mayBeApplied = !(error instanceof ClientError) || error.mayBeApplied || this.#former.length > 0
      if (!mayBeApplied) this.#drop()
      throw error
    }
  }

  /** Keeps what is about to be overwritten. Throws `ClientError` if that fails, or the user declines to go on without. */
  #replace(saved: Saved, isPartly: boolean): void {
    if (!this.#isOn) return
    const effect = isPartly ? 'Only a part was written' : 'Nothing was written'
    const bytes = JSON.stringify(saved).length
    if (bytes > this.#maxBytes) {
      this.#askWithout(bytes, effect, isPartly)
      // Of what was refused, nothing is there to be taken back.
      if (!isPartly && this.#former.length === 0) this.#drop()
      return
    }
    try {
      const { number } = (this.#entry ??= this.#begin())
      this.#entry = { ...this.#newEntry(number), saved: [saved, ...this.#former] }
      writeEntry(this.#folder, this.#entry, this.#session.host)
    } catch (error) {
      throw this.#cannotKeep(error, effect, isPartly)
    }
  }

  /** Saves some of the edits of a command, and keeps what they overwrite, beside what others of it did. Rejects with `ClientError`. */
  savePart(edits: Edits, options: SaveOptions): Promise<SaveResult> {
    const onWrite = (saved: Saved, written: number) => {
      this.expect(JSON.stringify(saved).length, saved.collection, written > 0)
      this.keep(saved, written > 0)
    }
    return this.#session.client.edit(edits, { ...options, onWrite })
  }

  /** Asks whether to go on without a way back if what is to be kept of a part is too large. Throws `ClientError` if not. */
  expect(bytes: number, part: string, isPartly = false): void {
    if (!this.#isOn) return
    this.#bytes += bytes
    const effect = isPartly ? `Only a part of ${part} was written` : `${part} is not written`
    if (this.#bytes > this.#maxBytes) this.#askWithout(this.#bytes, effect, isPartly)
  }

  /** Keeps a part of what is about to be overwritten. Throws `ClientError`. */
  keep(saved: Saved, isPartly = false): void {
    if (!this.#isOn) return
    try {
      if (this.#entry === null) {
        this.#entry = this.#begin()
        writeEntry(this.#folder, this.#entry, this.#session.host)
      }
      addLine(this.#folder, this.#entry.number, { saved: [saved] })
    } catch (error) {
      throw this.#cannotKeep(error, 'Not written', isPartly)
    }
  }

  #cannotKeep(error: unknown, effect: string, isPartly: boolean): ClientError {
    const reason = error instanceof ClientError ? error.message : `${this.#folder} (${reasonOf(error)})`
    return new ClientError(
      `${effect}: what this changes cannot be saved: ${reason}. Use --no-undo to change it without a way back`,
      { mayBeApplied: isPartly },
    )
  }

  #askWithout(bytes: number, effect: string, isPartly: boolean): void {
    const size = `${Math.ceil(bytes / 1_000_000)} MB`
    const question = `What this changes is too large to be saved (${size}): it cannot be undone. Change it anyway?`
    const remedy = 'Use --no-undo to change it without a way back'
    try {
      if (!isConfirmed(question, `${question.replace(' Change it anyway?', '')} ${remedy}`, effect))
        throw new ClientError(effect)
    } catch (error) {
      throw new ClientError((error as Error).message, { mayBeApplied: isPartly })
    }
    this.#isOn = false
  }

  /** Keeps what was written in the end, and says how to take it back. `summary` says in numbers what was done. */
  finish(saved: Saved | null, summary: string): void {
    const all = [...(saved ? [saved] : []), ...this.#former]
    // What is too large is not kept, but a part before it may be.
    const kept = this.#isOn ? all : (this.#entry?.saved ?? [])
    const isDone = summary !== '' && kept.length > 0
    this.#close(isDone, ({ number }) =>
      writeEntry(this.#folder, { ...this.#newEntry(number), summary, saved: kept }, this.#session.host),
    )
  }

  /** The same for parts that were kept; an empty `summary` says that nothing was written. */
  end(summary: string): void {
    this.#close(summary !== '', ({ number }) => addLine(this.#folder, number, { summary }))
  }

  #close(isDone: boolean, write: (entry: UndoEntry) => void): void {
    if (this.#entry === null) return
    const { tell } = this.#session
    if (isDone) {
      try {
        write(this.#entry)
      } catch (error) {
        // It is kept already, as what an interrupted command may have written.
        tell((error as Error).message)
      }
      const what = this.#isOn ? 'this' : 'the part of this that was saved'
      tell(`To take ${what} back: sync-bridge undo ${this.#entry.number} --write`)
    } else this.#drop()
    removeOldest(this.#folder, this.#maxBytes)
  }

  #newEntry(number: number): UndoEntry {
    const atMs = this.#session.host.now()
    const intent = this.#intent
    const isUndone = { isUndone: false, isPartlyUndone: false }
    return { number, command: this.#command, summary: '', atMs, ...isUndone, saved: [], intent }
  }

  #drop(): void {
    if (this.#entry) removeEntry(this.#folder, this.#entry.number)
    this.#entry = null
  }

  #begin(): UndoEntry {
    return this.#newEntry(takeNumber(this.#folder))
  }
}
