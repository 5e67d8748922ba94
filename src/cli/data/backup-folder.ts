/** The format of backups, shared by `backup` and `restore`. */
import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import type { StoredRecord } from '../../client/collection.ts'

/** What a backup records about a collection. */
export interface SavedCollection {
  /** Its timestamp, in ms since 1970 in quotes. */
  etag: string
  /** Changes when Firefox wipes the collection; null if unknown. */
  syncId: string | null
  records: number
  /** The SHA-256 of its file, in hexadecimal. */
  sha256: string
  /** The number of records that the key does not decrypt. */
  unreadable: number
}

/** The state of a backup's collections, by name. */
export type State = Map<string, SavedCollection>

/** Suffix of the name of an incomplete backup. */
export const incompleteMark = '-incomplete'

/** The names of the backups in a folder, oldest first: all, and the complete ones. */
export async function backupNames(folder: string): Promise<{ all: string[]; complete: string[] }> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw new ClientError(`Cannot read ${folder} (${reasonOf(error)})`)
  })
  const all = names.filter((name) => /^\d{4}-[\d-]+T[\d.-]+Z(-incomplete)?$/.test(name)).toSorted()
  return { all, complete: all.filter((name) => !name.endsWith(incompleteMark)) }
}

/** The time that a backup is named after, in ms since 1970; 0 if its name has none. */
export function timeOf(name: string): number {
  const [, day, hour, minute, second] = /^([\d-]+)T(\d\d)-(\d\d)-([\d.]+Z)/.exec(name) ?? []
  return Date.parse(`${day}T${hour}:${minute}:${second}`) || 0
}

/** Reads the state of a backup. Rejects with `ClientError` if that fails. */
export async function readState(backup: string): Promise<State> {
  try {
    const state: State = new Map(
      Object.entries(JSON.parse(await readFile(join(backup, 'state.json'), 'utf8'))),
    )
    if (![...state.values()].every((saved) => typeof saved?.etag === 'string'))
      throw new Error('state.json is damaged')
    return state
  } catch (error) {
    const remedy = 'Remove it to use the previous backup'
    throw new ClientError(`Cannot read ${backup}: ${(error as Error).message}. ${remedy}`, { cause: error })
  }
}

/** The SHA-256 of a collection's file, in hexadecimal; null if it can't be read. */
export async function digestOf(backup: string, collection: string): Promise<string | null> {
  const hash = new Bun.CryptoHasher('sha256')
  try {
    for await (const chunk of createReadStream(join(backup, fileOf(collection)))) hash.update(chunk as Buffer)
    return hash.digest('hex')
  } catch {
    return null
  }
}

/**
 * Reads the records of a collection from a backup; none if it has no such file. Skips damaged lines: the state says how many records there
 * should be. Rejects with `ClientError` if the file can't be read.
 */
export async function* readRecords(backup: string, collection: string): AsyncGenerator<StoredRecord> {
  const path = join(backup, fileOf(collection))
  const file = createReadStream(path, 'utf8')
  try {
    for await (const line of linesOf(file)) {
      const record = recordOf(line)
      if (record) yield record
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    if (code !== 'ENOENT') throw new ClientError(`Cannot read ${path} (${reasonOf(error)})`)
  } finally {
    file.destroy()
  }
}

/** Splits a text at line feeds. `readline` also splits at U+2028, which JSON does not escape. */
async function* linesOf(parts: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = ''
  for await (const part of parts) {
    const lines = `${rest}${part}`.split('\n')
    rest = lines.pop()!
    yield* lines
  }
  yield rest
}

function recordOf(line: string): StoredRecord | null {
  try {
    const record: Partial<StoredRecord> | null = JSON.parse(line)
    return typeof record?.id === 'string' ? (record as StoredRecord) : null
  } catch {
    return null
  }
}

/** The file name of a collection. */
export function fileOf(collection: string): string {
  return `${collection}.jsonl`
}
