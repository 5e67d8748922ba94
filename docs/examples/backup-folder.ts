/** What `backup.ts` and `restore.ts` both know of a folder with backups in it, and of the files of a backup. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoredRecord } from './bridge.js'

/** What a backup says of a collection. */
export interface Collection {
  etag: string
  /** Another one when Firefox has wiped the collection, to begin anew; null where it gives none. */
  syncId: string | null
  records: number
  /** How many of them the key does not open. */
  unreadable: number
}

/** What a backup says of its collections, by their names. */
export type State = Map<string, Collection>

/** What the name of a backup ends in when something is missing in it. */
export const incompleteMark = '-incomplete'

/** The names of the backups in a folder, the oldest first: of all, and of those that are complete. */
export async function backupNames(folder: string): Promise<{ all: string[]; complete: string[] }> {
  const names = await readdir(folder)
  const all = names.filter((name) => /^\d{4}-[\d-]+T[\d.-]+Z(-incomplete)?$/.test(name)).toSorted()
  return { all, complete: all.filter((name) => !name.endsWith(incompleteMark)) }
}

/** What a backup has. */
export async function readState(backup: string): Promise<State> {
  try {
    return new Map(Object.entries(JSON.parse(await readFile(join(backup, 'state.json'), 'utf8'))))
  } catch (error) {
    throw new Error(
      `Cannot read ${backup}: ${(error as Error).message}. Remove it, and the one before takes its place`,
      { cause: error },
    )
  }
}

/** The records of a file, a record a line. */
export async function readRecords(file: string): Promise<StoredRecord[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line) as StoredRecord)
}
