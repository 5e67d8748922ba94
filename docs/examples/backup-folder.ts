/** What `backup.ts` and `restore.ts` both know of a folder with backups in it, and of the files of a backup. */
import { readdir, readFile } from 'node:fs/promises'
import type { StoredRecord } from './bridge.js'

/** The names of the backups in a folder, the oldest first. */
export async function backupNames(folder: string): Promise<string[]> {
  const names = await readdir(folder)
  return names.filter((name) => /^\d{4}-[\d-]+T[\d.-]+Z$/.test(name)).toSorted()
}

/** The records of a file, a record a line. */
export async function readRecords(file: string): Promise<StoredRecord[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line) as StoredRecord)
}
