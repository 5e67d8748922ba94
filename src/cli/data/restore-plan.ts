import { bookmarkTree, folderNamed, walk } from '../../client/bookmarks.ts'
import {
  collectionKeys,
  decryptRecord,
  encryptRecord,
  keyPairFromHex,
  type ClearRecord,
} from '../../client/crypto.ts'
import { ClientError } from '../../client/errors.ts'
import { textOf, textsOf, type Fields } from '../../client/fields.ts'
import { readRecords } from './backup-folder.ts'
import {
  adapt,
  fitChildren,
  hasOtherType,
  keepOrphans,
  isFolder,
  isMovedFrom,
  keepSharedFields,
  leaveCycles,
  mergeChildren,
  unlistedByFolder,
  type Change,
  type Live,
} from './restored-bookmarks.ts'
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
  /** The ids of folders that are left as they are, because their former folder is in them now, and the id of that. */
  unmoved: Map<string, string>
  /** The ids of folders that are inside themselves in the backup, and are moved to Other Bookmarks. */
  cut: string[]
  /** The ids of bookmarks that are left as they are, because Firefox syncs none any more if one changes its type. */
  retyped: string[]
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
      throw new ClientError(
        backupKey === client.account.syncKey
          ? 'The sync key does not decrypt the backup, which is from before a password reset. Set BACKUP_SYNC_KEY in the environment to the sync key of that time'
          : `BACKUP_SYNC_KEY does not decrypt ${backup}: unset it if the backup is from after the password reset, or name an older one`,
      )
    })
    return new Translator(client, backup, keysOfBackup, current.payload !== saved.payload)
  }

  /** Plans the changes that restore a collection. */
  async plan(collection: string, wanted: Wanted): Promise<Plan> {
    const current = new Map<string, StoredRecord>()
    for await (const { records } of this.client.collection(collection).storedPages())
      for (const record of records) current.set(record.id, record)
    // In these collections, a restored record must fit those that are there.
    const live: Live = related.has(collection) ? await this.#readLive(collection, current) : new Map()
    const keyOf = uniqueKeys.get(collection) ?? (() => '')
    const existing = Map.groupBy(live.values(), keyOf)
    existing.delete('')
    const plan: Plan = {
      saved: new Set(),
      requests: [],
      missing: [],
      deleted: [],
      different: [],
      repaired: [],
      orphans: new Map(),
      unmoved: new Map(),
      cut: [],
      retyped: [],
      unreadable: [],
    }
    const changes = new Map<string, Change>()
    /** The ids of bookmarks that a folder must list: they exist now, or will after the restore. */
    const ids: string[] = []
    /** By the id of a record that a restored one replaces: the id of the restored one in the backup, which stays unused. */
    const freed = new Map<string, string>()
    // A record takes the place of one other, even if the backup has several for it.
    const take = (target: string, id: string) => {
      if (target !== id) freed.set(target, id)
      const key = keyOf(live.get(target) ?? {})
      existing.set(key, existing.get(key)?.filter((each) => each.id !== target) ?? [])
    }
    const inBackup = readRecords(this.backup, collection)
    const isLive = ({ id }: StoredRecord) => Number(live.has(id))
    // Missing records come first: one may replace another login's record, and that login then gets the unused id.
    const records = uniqueKeys.has(collection)
      ? (await Array.fromAsync(inBackup)).toSorted((one, other) => isLive(one) - isLive(other))
      : inBackup
    for await (const saved of records) {
      const { id } = saved
      plan.saved.add(id)
      if (wanted.ids && !wanted.ids.has(id)) continue
      const isEqual = current.get(id)?.payload === saved.payload
      if (isEqual && !this.hasNewKeys) {
        ids.push(id)
        continue
      }
      const readable = await this.#readSaved(collection, saved)
      const same = readable && sameRecord(existing.get(keyOf(readable)) ?? [], readable)
      let target = same?.id ?? id
      let free = same ? undefined : freed.get(id)
      while (free !== undefined) {
        freed.delete(target)
        target = free
        free = freed.get(target)
      }
      const there = current.get(target)
      const now = there && (await this.#readCurrent(collection, there))
      // With unchanged keys, an unreadable record is restored as it is, but not over a readable one.
      if (!readable && (this.hasNewKeys || now)) {
        if (!isEqual) plan.unreadable.push(id)
        continue
      }
      const clear = { ...readable, id: target }
      if (now && JSON.stringify(now) === JSON.stringify(clear)) {
        ids.push(id)
        take(target, id)
        continue
      }
      // A restore brings back, and never deletes.
      if (clear.deleted === true) continue
      const change = now?.deleted === true ? 'deleted' : 'different'
      const kind = there ? change : 'missing'
      if (wanted.deletedSince !== null && (kind !== 'deleted' || there!.last_modified <= wanted.deletedSince))
        continue
      plan[kind].push(clear)
      ids.push(id)
      if (kind === 'different' && !wanted.overwrites) continue
      if (kind === 'different' && collection === 'bookmarks' && now && hasOtherType(now, clear)) {
        plan.retyped.push(id)
        continue
      }
      changes.set(id, { saved, clear, isAdapted: clear.id !== id, there })
      take(target, id)
    }
    if (collection === 'bookmarks') {
      const { left, cut } = leaveCycles(changes, live)
      Object.assign(plan, { unmoved: left, cut })
      const orphans = keepOrphans(changes, live)
      // First, because `keepSharedFields` adds bookmarks that stay where they are.
      fitChildren(changes, live)
      keepSharedFields(changes, live, current)
      for (const [id, folder] of orphans)
        if (changes.has(id)) plan.orphans.set(folder, (plan.orphans.get(folder) ?? 0) + 1)
      await this.#mend(plan, changes, ids, live, current)
    }
    if (collection === 'history' && changes.size > 0)
      keepTitles(changes, await this.#readLive(collection, current))
    // Folders first: after an interruption, Firefox puts bookmarks that no folder lists into Other Bookmarks.
    const ordered = [...changes.values()].toSorted(
      (a, b) => Number(isFolder(b.clear)) - Number(isFolder(a.clear)),
    )
    for (const change of ordered) plan.requests.push(await this.#put(collection, change))
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
    const found = folderNamed(bookmarkTree(records), wanted, ' in the backup')
    return new Set(walk([found]).map(({ record }) => record.stored.id))
  }

  /**
   * Adds restored bookmarks to their existing folders at the former position, and removes them from others; otherwise Firefox shows them at
   * the end, or where they are now. Also adds those that an earlier restore has written, but whose folder it has not.
   */
  async #mend(
    plan: Plan,
    changes: ReadonlyMap<string, Change>,
    ids: string[],
    live: Live,
    current: ReadonlyMap<string, StoredRecord>,
  ): Promise<void> {
    const lost = unlistedByFolder(changes, ids, live)
    const saved = new Map<string, StoredRecord>()
    if (lost.size > 0) {
      for await (const record of readRecords(this.backup, 'bookmarks'))
        if (lost.has(record.id)) saved.set(record.id, record)
    }
    for (const [parentId, children] of lost) {
      const there = current.get(parentId)
      const savedParent = saved.get(parentId)
      const before = savedParent && (await this.#readSaved('bookmarks', savedParent))
      const parent = live.get(parentId)
      if (there && parent?.type === 'folder') {
        const ids = new Set(children.map(({ id }) => id))
        const kept = textsOf(parent.children).filter((id) => !isMovedFrom(parentId, changes.get(id)))
        const repaired = { ...parent, children: mergeChildren(kept, textsOf(before?.children), ids) }
        plan.repaired.push(repaired)
        plan.requests.push(await this.#putClear('bookmarks', repaired, there))
        continue
      }
      const restored = children.filter(({ id }) => changes.has(id)).length
      const isGone = !there || (await this.#readCurrent('bookmarks', there))?.deleted === true
      if (isGone && before?.type === 'folder' && restored > 0)
        plan.orphans.set(parentId, (plan.orphans.get(parentId) ?? 0) + restored)
    }
  }

  async #put(collection: string, { saved, clear, isAdapted, there }: Change): Promise<TransactionRequest> {
    if (isAdapted || this.hasNewKeys) return this.#putClear(collection, clear, there, saved.sortindex)
    return putOf(collection, saved, there)
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

  /** The readable records that are not deleted. */
  async #readLive(
    collection: string,
    current: ReadonlyMap<string, StoredRecord>,
  ): Promise<Map<string, ClearRecord>> {
    const live = new Map<string, ClearRecord>()
    for (const [id, stored] of current) {
      const clear = await this.#readCurrent(collection, stored)
      if (clear && clear.deleted !== true) live.set(id, clear)
    }
    return live
  }

  async #readSaved(collection: string, record: StoredRecord): Promise<ClearRecord | null> {
    return decryptRecord(this.keysOfBackup(collection), record).catch(() => null)
  }

  async #readCurrent(collection: string, record: StoredRecord): Promise<ClearRecord | null> {
    return decryptRecord(await this.client.keysOf(collection), record).catch(() => null)
  }
}

/** What Firefox has at most one record for, by collection; an empty string for none. It keeps the one that comes last. */
const uniqueKeys = new Map<string, (clear: Fields) => string>([
  ['passwords', loginOf],
  ['extension-storage', ({ extId }) => textOf(extId)],
])

/** The collections whose records depend on each other. */
const related = new Set(['bookmarks', ...uniqueKeys.keys()])

function loginOf({ hostname, httpRealm, username }: Fields): string {
  return textOf(hostname) && JSON.stringify([hostname, httpRealm, username])
}

/** The existing record, of those with its key, that Firefox takes for the same. An empty form address of a login is equal to any. */
function sameRecord(existing: ClearRecord[], record: ClearRecord): ClearRecord | undefined {
  const found = existing.filter(({ formSubmitURL: form }) => {
    return form === record.formSubmitURL || form === '' || record.formSubmitURL === ''
  })
  return found.find(({ id }) => id === record.id) ?? found[0]
}

/**
 * Gives deleted pages that were visited again, under other ids, their present titles: Firefox takes the one that it receives last. Removes
 * changes that an earlier restore has written so.
 */
function keepTitles(changes: Map<string, Change>, live: Live): void {
  const others = [...live.values()].filter(({ id }) => !changes.has(id))
  const titles = new Map(others.map(({ histUri, title }) => [histUri, textOf(title)]))
  for (const [id, change] of changes) {
    const title = titles.get(change.clear.histUri)
    const now = live.get(id)
    if (!title || (now && now.title !== title)) continue
    adapt(change, { title })
    if (Bun.deepEquals(change.clear, now)) changes.delete(id)
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

async function find(records: AsyncIterable<StoredRecord>, id: string): Promise<StoredRecord | null> {
  for await (const record of records) if (record.id === id) return record
  return null
}
