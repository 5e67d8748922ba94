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
import { join } from 'node:path'
import { fieldsOf, listOf, numberOf, textOf, textsOf, type Fields } from '../../client/fields.ts'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import { stateFolder } from './user-folders.ts'
import { writeWhole } from './whole-file.ts'
import type { Account } from '../../client/account.ts'
import type { Saved, SavedRecord, WrittenRecord } from '../../client/edit/saved.ts'
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
  /** Whether `undo` has taken it back, except for what it named: the next one takes the command before it. */
  isUndone: boolean
  /** Whether a part was taken back, and another was named or interrupted. */
  isPartlyUndone: boolean
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
export const maxUndoBytes = 200_000_000

type Owner = Pick<Account, 'bucket' | 'keyId'>

/** The folder of an account, readable only for its owner. Throws `ClientError` if the environment names no place for it. */
export function undoFolder({ bucket, keyId }: Owner, host: Pick<Host, 'environment'>): string {
  const state = stateFolder(host.environment)
  if (state !== null) return join(state, bucket, keyId)
  throw new ClientError(
    'Cannot save what this changes: neither HOME nor XDG_STATE_HOME is set. Use --no-undo to change it without a way back',
  )
}

/** Removes everything that was saved for an account, also under its former keys. Throws `ClientError`. */
export function forgetUndo(bucket: string, host: Pick<Host, 'environment'>): void {
  const state = stateFolder(host.environment)
  // Without a bucket, this would be the folder of all accounts.
  if (!/^[\da-f]{32}$/.test(bucket) || state === null) return
  const folder = join(state, bucket)
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
export function entriesOf(command: string, folder: string): UndoEntry[] {
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
      isPartlyUndone: entry.isPartlyUndone === true,
      intent: { digest: textOf(fieldsOf(entry.intent).digest), ids: textsOf(fieldsOf(entry.intent).ids) },
      saved: saved.map(({ keyId, collection, keys, asOfMs, before, after }) => ({
        keyId: textOf(keyId),
        asOfMs: numberOf(asOfMs),
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

/** Says how far an entry was taken back. Throws `ClientError`. */
export function markUndone(
  owner: Owner,
  { number }: UndoEntry,
  marks: Pick<UndoEntry, 'isUndone' | 'isPartlyUndone'>,
  host: Host,
): void {
  addLine(undoFolder(owner, host), number, marks)
}

/** Adds to an entry: each line replaces fields of the ones before it, and adds to what was saved. Throws `ClientError`. */
export function addLine(folder: string, number: number, line: Partial<UndoEntry>): void {
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

/** Replaces the file of an entry. Throws `ClientError`. */
export function writeEntry(
  folder: string,
  { number, ...entry }: UndoEntry,
  host: Pick<Host, 'environment'>,
): void {
  const path = pathOf(folder, number)
  try {
    writeWhole(path, [JSON.stringify({ version: 1, ...entry })], host)
  } catch (error) {
    throw new ClientError(`Cannot write ${path} (${reasonOf(error)})`)
  }
}

/** Takes the next free number of a folder, with an empty file. */
export function takeNumber(folder: string): number {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (let number = (numbersIn(folder).at(-1) ?? 0) + 1; ; number += 1) {
    try {
      closeSync(openSync(pathOf(folder, number), 'wx', 0o600))
      return number
    } catch (error) {
      // Another command has taken it meanwhile.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

export function removeEntry(folder: string, number: number): void {
  rmSync(pathOf(folder, number), { force: true })
}

/** Removes the oldest entries beyond the limits. */
export function removeOldest(folder: string, maxBytes: number): void {
  let [count, bytes] = [0, 0]
  for (const number of numbersIn(folder).toReversed()) {
    count += 1
    bytes += statSync(pathOf(folder, number), { throwIfNoEntry: false })?.size ?? 0
    // The newest has just been promised.
    if (count > maxEntries || (bytes > maxBytes && count > 1)) removeEntry(folder, number)
  }
}
