/** The format of backups, shared by `backup` and `restore`. */
import { createReadStream } from 'node:fs'
import { open, readdir, readFile, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import type { StoredRecord } from '../../client/collection.ts'

/** What a backup records about a collection. */
export interface SavedCollection {
  /** Its timestamp, in ms since 1970; 0 if nothing was ever stored. */
  lastModified: number
  /** Changes when Firefox wipes the collection; null if unknown. */
  syncId: string | null
  records: number
  /** The number of records that are not encrypted. */
  plain: number
  /** The number of records that the key opens and that are no deletions, and of those that are not encrypted; null if nothing was decrypted. */
  living: number | null
  /** The ids of the records that the key does not open. */
  unreadable: string[]
  /** The SHA-256 of its file, in hexadecimal. */
  sha256: string
  /** Whether everything that the storage had was received. */
  isWhole: boolean
}

/** What a backup records about itself, in `state.json`. */
export interface State {
  bucket: string
  keyId: string
  /** Orders the backups of a folder; clocks may be reset. */
  sequence: number
  /** Why it was not complete when it was made. */
  problems: string[]
  collections: Map<string, SavedCollection>
}

/** A backup in a folder of backups. */
export interface Backup {
  name: string
  path: string
  /** Whether its name says so: renaming an incomplete one accepts it. */
  isComplete: boolean
  state: State
}

/** Suffix of the name of an incomplete backup. */
export const incompleteMark = '-incomplete'

/**
 * Finds the backups in a folder, oldest first, and those whose state can't be read, each with the reason. Rejects with `ClientError` if the
 * folder can't be read.
 */
export async function readBackups(
  folder: string,
): Promise<{ backups: Backup[]; damaged: { path: string; reason: string }[] }> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw new ClientError(`Cannot read ${folder} (${reasonOf(error)})`)
  })
  const backups: Backup[] = []
  const damaged: { path: string; reason: string }[] = []
  for (const name of names.filter((each) => /^\+?\d{4,6}-[\d-]+T[\d.-]+Z(-incomplete)?$/.test(each))) {
    const path = join(folder, name)
    try {
      backups.push({ name, path, isComplete: !name.endsWith(incompleteMark), state: await readState(path) })
    } catch (error) {
      damaged.push({ path, reason: (error as Error).message })
    }
  }
  backups.sort((one, other) => one.state.sequence - other.state.sequence || (one.name < other.name ? -1 : 1))
  return { backups, damaged }
}

/** When a backup was made, in ms since 1970; NaN if its name has no time. */
export function timeOf(name: string): number {
  const [, day, hour, minute, second] = /^\+?([\d-]+)T(\d\d)-(\d\d)-([\d.]+Z)/.exec(name) ?? []
  return Date.parse(`${name.startsWith('+') ? '+' : ''}${day}T${hour}:${minute}:${second}`)
}

/** Reads the state of a backup. Rejects with the reason if it can't be read or is damaged. */
export async function readState(backup: string): Promise<State> {
  const text = await readFile(join(backup, 'state.json'), 'utf8').catch((error: unknown) => {
    throw new Error(`state.json: ${reasonOf(error)}`)
  })
  try {
    const { bucket, keyId, sequence, problems, collections } = JSON.parse(text)
    const saved = new Map(Object.entries(collections as Record<string, SavedCollection>))
    const isSound = [bucket, keyId, ...problems].every((each) => typeof each === 'string')
    if (isSound && Number.isInteger(sequence) && [...saved.values()].every(isSavedCollection))
      return { bucket, keyId, sequence, problems, collections: saved }
  } catch {
    // Not JSON, or of another shape.
  }
  throw new Error('state.json is damaged')
}

function isSavedCollection(saved: SavedCollection): boolean {
  const { lastModified, syncId, records, plain, living, unreadable, sha256, isWhole } = saved
  return (
    [lastModified, records, plain, living ?? 0].every((each) => Number.isInteger(each) && each >= 0) &&
    [syncId ?? '', sha256, ...unreadable].every((each) => typeof each === 'string') &&
    typeof isWhole === 'boolean'
  )
}

/** Writes the state of a backup. */
export async function writeState(backup: string, state: State): Promise<void> {
  const file = await open(join(backup, 'state.json'), 'wx', 0o600)
  try {
    const collections = Object.fromEntries(state.collections)
    await file.writeFile(`${JSON.stringify({ ...state, collections }, null, 1)}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** The SHA-256 of a file, in hexadecimal; null if it can't be read. */
export async function digestOf(path: string): Promise<string | null> {
  const hash = new Bun.CryptoHasher('sha256')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: bufferBytes }))
      hash.update(chunk as Buffer)
    return hash.digest('hex')
  } catch {
    return null
  }
}

/** Whether a backup's copy of a collection is what was written. */
export async function isIntact({ path, state }: Backup, collection: string): Promise<boolean> {
  return (await digestOf(join(path, fileOf(collection)))) === state.collections.get(collection)?.sha256
}

/**
 * Reads the records of a collection from a backup, in parts. Rejects with `ClientError` if the file can't be read or is damaged.
 */
export async function* readRecords(backup: string, collection: string): AsyncGenerator<StoredRecord[]> {
  const path = join(backup, fileOf(collection))
  const file = createReadStream(path, { encoding: 'utf8', highWaterMark: bufferBytes })
  let rest = ''
  try {
    for await (const part of file) {
      // `readline` would also split at U+2028, which JSON does not escape.
      const lines = `${rest}${part}`.split('\n')
      rest = lines.pop()!
      yield lines.map((line) => recordOf(line, path))
    }
    if (rest !== '') yield [recordOf(rest, path)]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    throw new ClientError(`Cannot read ${path} (${reasonOf(error)})`)
  } finally {
    file.destroy()
  }
}

const bufferBytes = 256 * 1024

function recordOf(line: string, path: string): StoredRecord {
  try {
    const record: Partial<StoredRecord> | null = JSON.parse(line)
    if (typeof record?.id === 'string') return record as StoredRecord
  } catch {
    // Not JSON.
  }
  throw new ClientError(`${path} is damaged`)
}

/** The file name of a collection. */
export function fileOf(collection: string): string {
  return `${collection}.jsonl`
}

/**
 * Copies the file of a collection, and verifies the copy. Not as the system copies, which may share the data on the disk. Rejects if that
 * fails.
 */
export async function copyCollection({ path, state }: Backup, name: string, target: string): Promise<void> {
  const file = await open(target, 'wx', 0o600)
  try {
    for await (const chunk of createReadStream(join(path, fileOf(name)), { highWaterMark: bufferBytes }))
      await writeBytes(file, chunk as Buffer)
    await file.sync()
  } finally {
    await file.close()
  }
  if ((await digestOf(target)) !== state.collections.get(name)?.sha256) throw damagedWrite(target)
}

/** Writes the records of a collection, one in a line, and computes the digest of the file. */
export class RecordWriter {
  readonly #hash = new Bun.CryptoHasher('sha256')
  readonly #path: string
  readonly #file: FileHandle
  #lines: string[] = []
  #characters = 0
  #isClosed = false

  private constructor(path: string, file: FileHandle) {
    this.#path = path
    this.#file = file
  }

  static async create(path: string): Promise<RecordWriter> {
    return new RecordWriter(path, await open(path, 'wx', 0o600))
  }

  async add(record: StoredRecord): Promise<void> {
    const line = `${JSON.stringify(record)}\n`
    this.#lines.push(line)
    this.#characters += line.length
    if (this.#characters >= bufferBytes) await this.#flush()
  }

  /** Syncs and closes the file, and reads it again. Resolves to its digest. */
  async finish(): Promise<string> {
    await this.#flush()
    // A power failure must not leave an empty file in a named backup.
    await this.#file.sync()
    await this.close()
    const sha256 = this.#hash.digest('hex')
    if ((await digestOf(this.#path)) !== sha256) throw damagedWrite(this.#path)
    return sha256
  }

  /** Closes the file; does nothing if it is closed. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#file.close()
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.from(this.#lines.join(''))
    this.#lines = []
    this.#characters = 0
    this.#hash.update(bytes)
    await writeBytes(this.#file, bytes)
  }
}

async function writeBytes(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let written = 0; written < bytes.length;) written += (await file.write(bytes, written)).bytesWritten
}

function damagedWrite(path: string): ClientError {
  return new ClientError(`${path} is not what was written to it: check the disk`)
}
