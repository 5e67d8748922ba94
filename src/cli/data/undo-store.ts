import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { createHash } from 'node:crypto'
import { dirname, join } from 'node:path'
import { fieldsOf, listOf, numberOf, textOf, textsOf, type Fields } from '../../client/fields.ts'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { writeWhole } from './whole-file.ts'
import { isConfirmed } from './ask.ts'
import type { Account } from '../../client/account.ts'
import type { Edits, SaveOptions, SaveResult } from '../../client/edit/save.ts'
import type { Saved, SavedRecord, WrittenRecord } from '../../client/edit/saved.ts'
import type { Session } from './session.ts'
import type { Host } from '../host.ts'

/** What a command has changed. */
export interface UndoEntry {
  /** Names it: `sync-bridge undo NUMBER`. */
  number: number
  /** The command, without its arguments, which may be private. */
  command: string
  /** What it did, in numbers. */
  summary: string
  /** In ms since 1970. */
  atMs: number
  /** Whether `undo` has taken it back. */
  isUndone: boolean
  saved: Saved[]
  /** What was to be done, so that the same command continues it after an interruption. */
  intent?: Intent
}

/** Identifies what a command adds. */
export interface Intent {
  /** A digest of its arguments. */
  digest: string
  /** The ids of what it adds, in its order. */
  ids: string[]
}

const maxEntries = 20
/** Of all entries of an account. */
const maxUndoBytes = 200_000_000

type Owner = Pick<Account, 'bucket' | 'keyId'>

/** The folder of an account, readable only for its owner. Throws `ClientError` if the environment names no place for it. */
export function undoFolder({ bucket, keyId }: Owner, host: Pick<Host, 'environment'>): string {
  const { XDG_STATE_HOME, HOME } = host.environment
  const state = XDG_STATE_HOME || (HOME && join(HOME, '.local', 'state'))
  if (state) return join(state, 'sync-bridge', bucket, keyId)
  throw new ClientError(
    'Cannot save what this changes: neither HOME nor XDG_STATE_HOME is set. Use --no-undo to change it without a way back',
  )
}

/** Removes everything that was saved for an account, also under its former keys. Throws `ClientError`. */
export function forgetUndo(bucket: string, host: Pick<Host, 'environment'>): void {
  const { XDG_STATE_HOME, HOME } = host.environment
  // Without a bucket, this would be the folder of all accounts.
  if (!/^[\da-f]{32}$/.test(bucket) || !(XDG_STATE_HOME || HOME)) return
  const folder = dirname(undoFolder({ bucket, keyId: 'any' }, host))
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch (error) {
    throw new ClientError(`Cannot remove ${folder} (${reasonOf(error)}): remove it yourself`)
  }
}

/** The entries of an account, oldest first. Ignores files of other programs and damaged ones. */
export function readEntries(owner: Owner, host: Host): UndoEntry[] {
  const folder = undoFolder(owner, host)
  return numbersIn(folder).flatMap((number) => readEntry(folder, number) ?? [])
}

/** The entries of one command. Those of others are not read, because a restore may have kept 200 MB. */
function entriesOf(command: string, folder: string): UndoEntry[] {
  const isIts = (number: number) => beginningOf(folder, number).includes(`"command":"${command}"`)
  return numbersIn(folder)
    .filter(isIts)
    .flatMap((number) => readEntry(folder, number) ?? [])
}

/** The beginning of a file, which has the command; empty if it can't be read. */
function beginningOf(folder: string, number: number): string {
  const bytes = Buffer.alloc(64)
  try {
    const file = openSync(pathOf(folder, number), 'r')
    try {
      return bytes.toString('utf8', 0, readSync(file, bytes))
    } finally {
      closeSync(file)
    }
  } catch {
    return ''
  }
}

function numbersIn(folder: string): number[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .flatMap((name) => /^(\d{1,9})\.json$/.exec(name)?.[1] ?? [])
    .map(Number)
    .toSorted((one, other) => one - other)
}

function pathOf(folder: string, number: number): string {
  return join(folder, `${number}.json`)
}

function readEntry(folder: string, number: number): UndoEntry | null {
  try {
    const bytes = statSync(pathOf(folder, number)).size
    // A command that writes in parts only estimates its size.
    if (bytes > 2 * maxUndoBytes) return null
    const [first = '', ...more] = readFileSync(pathOf(folder, number), 'utf8').split('\n')
    const lines = [fieldsOf(JSON.parse(first)), ...more.map(readLine)]
    // Newest first, as an interrupted command that was continued keeps them.
    const saved = lines.toReversed().flatMap((line) => listOf(line.saved).map(fieldsOf))
    const entry: Fields = Object.assign({}, ...lines)
    return {
      number,
      command: textOf(entry.command),
      summary: textOf(entry.summary),
      atMs: numberOf(entry.atMs),
      isUndone: entry.isUndone === true,
      intent: { digest: textOf(fieldsOf(entry.intent).digest), ids: textsOf(fieldsOf(entry.intent).ids) },
      saved: saved.map(({ keyId, collection, keys, before, after }) => ({
        keyId: textOf(keyId),
        collection: textOf(collection),
        keys: savedRecord(keys),
        before: listOf(before).map(savedRecord),
        after: listOf(after).map(writtenRecord),
      })),
    }
  } catch {
    return null
  }
}

function savedRecord(value: unknown): SavedRecord {
  const { id, payload } = fieldsOf(value)
  return { id: textOf(id), payload: textOf(payload) }
}

function writtenRecord(value: unknown): WrittenRecord {
  const { id, digest } = fieldsOf(value)
  return typeof digest === 'string' ? { id: textOf(id), digest } : savedRecord(value)
}

/** A line that was added to an entry; empty if writing it was interrupted: nothing was sent then. */
function readLine(text: string): Fields {
  try {
    return fieldsOf(JSON.parse(text))
  } catch {
    return {}
  }
}

/** Marks an entry as taken back, so that the next `undo` takes the one before it. Throws `ClientError`. */
export function markUndone(owner: Owner, entry: UndoEntry, host: Host): void {
  addLine(undoFolder(owner, host), entry.number, { isUndone: true })
}

/** Adds to an entry: each line replaces fields of the ones before it, and adds to what was saved. Throws `ClientError`. */
function addLine(folder: string, number: number, line: Partial<UndoEntry>): void {
  const path = pathOf(folder, number)
  try {
    const file = openSync(path, 'a', 0o600)
    try {
      writeSync(file, `\n${JSON.stringify(line)}`)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    throw new ClientError(`Cannot write ${path} (${reasonOf(error)})`)
  }
}

function writeEntry(folder: string, { number, ...entry }: UndoEntry, host: Pick<Host, 'environment'>): void {
  const path = pathOf(folder, number)
  try {
    writeWhole(path, [JSON.stringify({ version: 1, ...entry })], host)
  } catch (error) {
    throw new ClientError(`Cannot write ${path} (${reasonOf(error)})`)
  }
}

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
    this.#rotate()
  }

  #newEntry(number: number): UndoEntry {
    const atMs = this.#session.host.now()
    const intent = this.#intent
    return { number, command: this.#command, summary: '', atMs, isUndone: false, saved: [], intent }
  }

  #drop(): void {
    if (this.#entry) rmSync(pathOf(this.#folder, this.#entry.number), { force: true })
    this.#entry = null
  }

  /** Takes the next free number. */
  #begin(): UndoEntry {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
    for (let number = (numbersIn(this.#folder).at(-1) ?? 0) + 1; ; number += 1) {
      try {
        closeSync(openSync(pathOf(this.#folder, number), 'wx', 0o600))
        return this.#newEntry(number)
      } catch (error) {
        // Another command has taken it meanwhile.
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      }
    }
  }

  /** Removes the oldest entries beyond the limits. */
  #rotate(): void {
    let [count, bytes] = [0, 0]
    for (const number of numbersIn(this.#folder).toReversed()) {
      const path = pathOf(this.#folder, number)
      count += 1
      bytes += statSync(path, { throwIfNoEntry: false })?.size ?? 0
      // The newest has just been promised.
      if (count > maxEntries || (bytes > this.#maxBytes && count > 1)) rmSync(path, { force: true })
    }
  }
}
