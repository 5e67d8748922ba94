import { bookmarkTree, foldersNamed, walk } from '../../client/bookmarks.ts'
import {
  collectionKeys,
  decryptRecord,
  encryptRecord,
  keyPairFromHex,
  type ClearRecord,
} from '../../client/crypto.ts'
import { ClientError } from '../../client/errors.ts'
import { listOf, textOf } from '../../client/fields.ts'
import { readRecords } from './backup-folder.ts'
import type { StoredRecord } from '../../client/collection.ts'
import type { SyncClient, TransactionRequest } from '../../client/sync-client.ts'

/** Which records of a backup to restore. */
export interface Wanted {
  /** Ids, or null for all. */
  ids: ReadonlySet<string> | null
  /** Only records deleted after this time, in ms since 1970; null for all. */
  deletedSince: number | null
  /** Whether to overwrite records that differ in the storage. */
  overwrites: boolean
}

/** The changes to restore in a collection. */
export interface Plan {
  /** The ids of all its records in the backup. */
  saved: Set<string>
  requests: TransactionRequest[]
  /** Records that are missing in the storage. */
  missing: ClearRecord[]
  /** Records that were deleted since the backup. */
  deleted: ClearRecord[]
  /** Records that differ in the storage; written only if `overwrites`. */
  different: ClearRecord[]
  /** Folders that get back their children. */
  repaired: ClearRecord[]
  /** The number of restored bookmarks whose folder remains deleted, by its id. */
  orphans: Map<string, number>
  /** Ids of records that must be encrypted again but can't be decrypted. */
  unreadable: string[]
}

/** Decrypts the records of a backup, and encrypts them for the current keys. */
export class Translator {
  private constructor(
    private readonly client: SyncClient,
    private readonly backup: string,
    private readonly keysOfBackup: Awaited<ReturnType<typeof collectionKeys>>,
    /** Whether the account has other keys than the backup. */
    readonly hasNewKeys: boolean,
  ) {}

  /** `backupKey`: the sync key of the backup, as hexadecimal digits. Rejects with `ClientError`. */
  static async create(client: SyncClient, backup: string, backupKey: string): Promise<Translator> {
    const saved = await find(readRecords(backup, 'crypto'), 'keys')
    if (!saved) throw new ClientError('The backup has no keys: it cannot be decrypted')
    let current: StoredRecord | null = null
    for await (const { records } of client.collection('crypto').storedPages())
      current = records.find(({ id }) => id === 'keys') ?? current
    if (!current) throw new ClientError('The storage has no keys for this account: sync a Firefox first')
    const keysOfBackup = await collectionKeys(keyPairFromHex(backupKey), saved).catch(() => {
      const remedy = 'Set BACKUP_SYNC_KEY in the environment to the sync key of that time'
      throw new ClientError(
        `The sync key does not decrypt the backup, which is from before a password reset. ${remedy}`,
      )
    })
    return new Translator(client, backup, keysOfBackup, current.payload !== saved.payload)
  }

  /** Plans the changes that restore a collection. */
  async plan(collection: string, wanted: Wanted): Promise<Plan> {
    const current = new Map<string, StoredRecord>()
    for await (const { records } of this.client.collection(collection).storedPages({ pageSize: null }))
      for (const record of records) current.set(record.id, record)
    const plan: Plan = {
      saved: new Set(),
      requests: [],
      missing: [],
      deleted: [],
      different: [],
      repaired: [],
      orphans: new Map(),
      unreadable: [],
    }
    const restored = new Map<string, ClearRecord>()
    for await (const record of readRecords(this.backup, collection)) {
      plan.saved.add(record.id)
      if (wanted.ids && !wanted.ids.has(record.id)) continue
      const there = current.get(record.id)
      if (there?.payload === record.payload) continue
      const readable = await this.#readSaved(collection, record)
      if (!readable && this.hasNewKeys) {
        plan.unreadable.push(record.id)
        continue
      }
      // With unchanged keys, an unreadable record is restored as it is.
      const clear = readable ?? { id: record.id }
      const now = there && (await this.#readCurrent(collection, there))
      if (now && JSON.stringify(now) === JSON.stringify(clear)) continue
      if (clear.deleted === true && (!there || now?.deleted === true)) continue
      const change = now?.deleted === true ? 'deleted' : 'different'
      const kind = there ? change : 'missing'
      if (wanted.deletedSince !== null && (kind !== 'deleted' || there!.last_modified <= wanted.deletedSince))
        continue
      plan[kind].push(clear)
      if (kind === 'different' && !wanted.overwrites) continue
      restored.set(record.id, clear)
      plan.requests.push(await this.#put(collection, record, clear, there))
    }
    if (collection === 'bookmarks') await this.#mend(plan, restored, current)
    return plan
  }

  /** The ids of a folder in the backup and everything in it. Rejects with `ClientError` unless there is exactly one such folder. */
  async idsOfFolder(wanted: string): Promise<Set<string>> {
    const records = []
    for await (const stored of readRecords(this.backup, 'bookmarks')) {
      const clear = await this.#readSaved('bookmarks', stored)
      if (clear && clear.deleted !== true)
        records.push({ collection: 'bookmarks', stored, clear, problem: null })
    }
    const found = foldersNamed(bookmarkTree(records), wanted)
    if (found.length === 0)
      throw new ClientError(`There is no folder ${JSON.stringify(wanted)} in the backup`)
    if (found.length > 1) {
      const ids = found.map(({ record, path }) => `${record.stored.id} (in ${path})`).join(', ')
      throw new ClientError(
        `The backup has ${found.length} folders ${JSON.stringify(wanted)}: use one of these ids: ${ids}`,
      )
    }
    return new Set(walk(found).map(({ record }) => record.stored.id))
  }

  /** Adds restored records to their existing folders at the former position; otherwise Firefox shows them at the end. */
  async #mend(
    plan: Plan,
    restored: Map<string, ClearRecord>,
    current: Map<string, StoredRecord>,
  ): Promise<void> {
    const lost = Map.groupBy(restored.values(), ({ parentid }) => textOf(parentid))
    const saved = new Map<string, StoredRecord>()
    if (lost.size > 0) {
      for await (const record of readRecords(this.backup, 'bookmarks'))
        if (lost.has(record.id)) saved.set(record.id, record)
    }
    for (const [parentId, children] of lost) {
      if (restored.has(parentId)) continue
      const there = current.get(parentId)
      const parent = there && (await this.#readCurrent('bookmarks', there))
      const savedParent = saved.get(parentId)
      const before = savedParent && (await this.#readSaved('bookmarks', savedParent))
      const isGone = !there || parent?.deleted === true
      if (isGone && before?.type === 'folder') plan.orphans.set(parentId, children.length)
      if (!there || parent?.type !== 'folder') continue
      const ids = new Set(children.map(({ id }) => id))
      const merged = mergeChildren(listOf(parent.children), listOf(before?.children), ids)
      if (merged.length === listOf(parent.children).length) continue
      const repaired = { ...parent, children: merged }
      plan.repaired.push(repaired)
      plan.requests.push(await this.#putClear('bookmarks', repaired, there))
    }
  }

  async #put(collection: string, record: StoredRecord, clear: ClearRecord, there: StoredRecord | undefined) {
    if (this.hasNewKeys && collection !== 'meta')
      return this.#putClear(collection, clear, there, record.sortindex)
    return putOf(collection, record, there)
  }

  async #putClear(
    collection: string,
    clear: ClearRecord,
    there: StoredRecord | undefined,
    sortindex = there?.sortindex,
  ) {
    const payload = await encryptRecord(await this.client.keysOf(collection), clear)
    return putOf(collection, { id: clear.id, payload, sortindex }, there)
  }

  async #readSaved(collection: string, record: StoredRecord): Promise<ClearRecord | null> {
    return decryptRecord(this.keysOfBackup(collection), record).catch(() => null)
  }

  async #readCurrent(collection: string, record: StoredRecord): Promise<ClearRecord | null> {
    return decryptRecord(await this.client.keysOf(collection), record).catch(() => null)
  }
}

/** A write on the condition that the record has not changed since it was read. */
function putOf(
  collection: string,
  { id, payload, sortindex }: Pick<StoredRecord, 'id' | 'payload' | 'sortindex'>,
  there: StoredRecord | undefined,
): TransactionRequest {
  return {
    method: 'PUT',
    collection,
    id,
    headers: there ? { 'If-Match': `"${there.last_modified}"` } : { 'If-None-Match': '*' },
    data: { payload, ...(sortindex !== undefined && { sortindex }) },
  }
}

/**
 * Merges restored children into a folder: each after its former predecessor that still exists, first if there is none, and last if its
 * position is unknown.
 */
export function mergeChildren(now: string[], before: string[], back: ReadonlySet<string>): string[] {
  const present = new Set(now)
  const following = new Map<string | null, string[]>()
  let anchor: string | null = null
  const known = new Set(before)
  // Other programs may list a child twice.
  for (const id of known) {
    if (present.has(id)) anchor = id
    else if (back.has(id)) following.getOrInsertComputed(anchor, () => []).push(id)
  }
  const unknown = [...back].filter((id) => !present.has(id) && !known.has(id))
  const takeAfter = (id: string | null) => {
    const found = following.get(id) ?? []
    following.delete(id)
    return found
  }
  return [...takeAfter(null), ...now.flatMap((id) => [id, ...takeAfter(id)]), ...unknown]
}

async function find(records: AsyncIterable<StoredRecord>, id: string): Promise<StoredRecord | null> {
  for await (const record of records) if (record.id === id) return record
  return null
}
