/** What `backup` and `restore` both know of a folder with backups in it, and of the files of a backup. */
import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ClientError } from '../../client/errors.ts'
import { reasonOf } from '../../settings/readers.ts'
import type { StoredRecord } from '../../client/collection.ts'

/** What a backup says of a collection. */
export interface SavedCollection {
  /** When it had changed last, in ms since 1970 in quotes. */
  etag: string
  /** Another one when Firefox has wiped the collection, to begin anew; null where it gives none. */
  syncId: string | null
  records: number
  /** How many of them the key does not open. */
  unreadable: number
}

/** What a backup says of its collections, by their names. */
export type State = Map<string, SavedCollection>

/** What the name of a backup ends in when something is missing in it. */
export const incompleteMark = '-incomplete'

/** The names of the backups in a folder, the oldest first: of all, and of those that are complete. */
export async function backupNames(folder: string): Promise<{ all: string[]; complete: string[] }> {
  const names = await readdir(folder).catch((error: unknown) => {
    throw new ClientError(`Cannot read ${folder} (${reasonOf(error)})`)
  })
  const all = names.filter((name) => /^\d{4}-[\d-]+T[\d.-]+Z(-incomplete)?$/.test(name)).toSorted()
  return { all, complete: all.filter((name) => !name.endsWith(incompleteMark)) }
}

/** What a backup has. Rejects with `ClientError` when it can't be read. */
export async function readState(backup: string): Promise<State> {
  try {
    return new Map(Object.entries(JSON.parse(await readFile(join(backup, 'state.json'), 'utf8'))))
  } catch (error) {
    const remedy = 'Remove it, and the one before takes its place'
    throw new ClientError(`Cannot read ${backup}: ${(error as Error).message}. ${remedy}`, { cause: error })
  }
}

/** The records of a collection in a backup, one by one; none where there is no such file. */
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

/** The name of a collection's file. */
export function fileOf(collection: string): string {
  return `${collection}.jsonl`
}
