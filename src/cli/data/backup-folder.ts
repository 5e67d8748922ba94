/** The format of backups, shared by `backup` and `restore`. */
import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
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

/** Reads the state of a backup. Rejects with `ClientError` if that fails. */
export async function readState(backup: string): Promise<State> {
  try {
    return new Map(Object.entries(JSON.parse(await readFile(join(backup, 'state.json'), 'utf8'))))
  } catch (error) {
    const remedy = 'Remove it to use the previous backup'
    throw new ClientError(`Cannot read ${backup}: ${(error as Error).message}. ${remedy}`, { cause: error })
  }
}

/** Reads the records of a collection from a backup; none if it has no such file. */
export async function* readRecords(backup: string, collection: string): AsyncGenerator<StoredRecord> {
  const file = createReadStream(join(backup, fileOf(collection)), 'utf8')
  try {
    for await (const line of createInterface({ input: file, crlfDelay: Infinity }))
      if (line !== '') yield JSON.parse(line)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  } finally {
    file.destroy()
  }
}

/** The file name of a collection. */
export function fileOf(collection: string): string {
  return `${collection}.jsonl`
}
