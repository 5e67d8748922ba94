import { describeRecord } from '../../client/engine-records.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { ClearRecord } from '../../client/crypto.ts'
import type { Fields } from '../../client/fields.ts'
import type { SyncClient } from '../../client/sync-client.ts'
import type { Opened, RecordKeys } from './record-keys.ts'
import type { SavedFile } from './saved-file.ts'

/** Which records of a backup to restore. */
export interface Wanted {
  /** Ids, or null for all. */
  ids: ReadonlySet<string> | null
  /** Only records deleted after this time, in ms since 1970; null for all. */
  deletedSince: number | null
  /** Whether to overwrite records that differ in the storage. */
  overwrites: boolean
}

/** A collection to restore. */
export interface Source {
  collection: string
  client: SyncClient
  file: SavedFile
  /** The keys of the backup. */
  savedKeys: RecordKeys
  /** The present keys of the account. */
  keys: RecordKeys
}

/** A record to write. */
export interface Write {
  id: string
  /** Its id in the backup. */
  savedId: string
  kind: 'missing' | 'deleted' | 'differs' | 'repaired'
  /** The version that it replaces; null if there is none. */
  version: number | null
  /** What to write instead of the record in the backup. */
  clear?: ClearRecord
  /** Fields to write instead of those in the backup. */
  changes?: Fields
  /** For the preview: which fields differ in the storage. */
  differences?: string
}

/** The changes that restore a collection. */
export interface Plan {
  writes: Write[]
  /** Records that differ in the storage and are left, each as a line. */
  different: { title: string; differences: string }[]
  /** What to say about it, one line each. */
  notes: string[]
  /** What can't be restored, one line each. */
  problems: string[]
  /** The ids of records that can't be decrypted, and so not be restored. */
  unreadable: string[]
  /** The ids of records that are not what their engine writes, and so not restored. */
  faulty: string[]
}

export function emptyPlan(): Plan {
  return { writes: [], different: [], notes: [], problems: [], unreadable: [], faulty: [] }
}

/** A record as it was saved, and its content to write or show; null if the key does not open it. */
export async function contentOf(
  { collection, file, savedKeys }: Source,
  { savedId, clear, changes }: Write,
): Promise<{ saved: StoredRecord; clear: ClearRecord | null }> {
  if (clear) return { saved: { id: clear.id, last_modified: 0 }, clear }
  const saved = await file.read(savedId)
  const opened = await savedKeys.openRecord(collection, saved)
  return { saved, clear: opened.clear && { ...opened.clear, ...changes } }
}

/** What to do about a record that the storage has, too. */
export type Comparison = 'equal' | 'deleted' | 'differs' | 'unreadable'

/** Compares a record of the backup with the stored one; a restore deletes nothing. */
export function compare(saved: Opened, now: Opened, isSamePayload: boolean, hasNewKeys: boolean): Comparison {
  if (saved.kind === 'deleted') return 'equal'
  if (saved.clear === null) {
    if (isSamePayload) return 'equal'
    // What the key can't open never replaces what it can, and can't be encrypted again.
    return now.clear !== null || (saved.kind === 'unreadable' && hasNewKeys) ? 'unreadable' : 'differs'
  }
  if (now.kind === 'deleted') return 'deleted'
  return now.clear !== null && Bun.deepEquals(saved.clear, now.clear) ? 'equal' : 'differs'
}

/** A record in the preview. */
export function recordLabel(collection: string, clear: ClearRecord | null, id: string): string {
  return (clear && describeRecord(collection, clear)) || id
}

export function isWanted(id: string, { ids }: Wanted): boolean {
  return ids === null || ids.has(id)
}

/** Whether a record was deleted since the time from which on deletions are wanted. */
export function isInTime(
  kind: Write['kind'],
  there: StoredRecord | undefined,
  { deletedSince }: Wanted,
): boolean {
  return deletedSince === null || (kind === 'deleted' && there!.last_modified > deletedSince)
}
