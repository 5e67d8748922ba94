import { collectionKeys, decryptRecord, digestOf, type ClearRecord, type KeyPair } from '../crypto.ts'
import { ClientError } from '../errors.ts'
import { modelOf } from './models.ts'
import type { ReadOptions, StoredRecord, SyncRecord } from '../collection.ts'
import type { TransactionRequest } from '../transaction.ts'
import type { Edit, RecordEdit } from './edit.ts'

/** What undoes saved edits: the records before and after, encrypted as stored. Can be kept as JSON. */
export interface Saved {
  /** The account: another one can't undo it. */
  keyId: string
  collection: string
  /** The record `crypto/keys` of that time, encrypted with the sync key. */
  keys: SavedRecord
  /** The timestamp of the newest record that there was: what is newer was written since. */
  asOfMs: number
  /** The records that were overwritten; none for those that were added. */
  before: SavedRecord[]
  after: WrittenRecord[]
}

/** A record that was written. A digest of its payload is enough for one that was added and does not depend on others. */
export interface WrittenRecord {
  id: string
  payload?: string
  digest?: string
}

/** A record as it was stored. */
export interface SavedRecord {
  id: string
  payload: string
}

interface KeyClient {
  readonly account: { keyId: string }
  collection(name: string): { storedPages(): AsyncIterable<{ records: StoredRecord[] }> }
  keysOf(collection: string): Promise<KeyPair>
}

/** Collects what undoes the writes of one save. */
export class Savings {
  readonly #client: KeyClient
  readonly #collection: string
  #keys: SavedRecord | null = null
  #asOfMs: number | null = null
  #written = new Map<string, Change>()
  /** What was sent, but may have been refused. */
  #sent = new Map<string, Change>()

  constructor(client: KeyClient, collection: string) {
    this.#client = client
    this.#collection = collection
  }

  /** Null if nothing was sent. */
  get saved(): Saved | null {
    const changes = [...new Map([...this.#written, ...this.#sent]).values()]
    if (this.#keys === null || changes.length === 0) return null
    return {
      keyId: this.#client.account.keyId,
      collection: this.#collection,
      keys: this.#keys,
      asOfMs: this.#asOfMs ?? 0,
      before: changes.flatMap(({ before }) => before ?? []),
      after: changes.map(({ after }) => after),
    }
  }

  /** Keeps of what was sent only what is stored now. */
  settle(records: ReadonlyMap<string, SyncRecord>): void {
    for (const [id, change] of this.#sent)
      if (records.get(id)?.stored.payload === change.after.payload) this.#written.set(id, change)
    this.#sent = new Map()
  }

  /** Adds what is about to be sent; `records` are those that it replaces. */
  async add(requests: TransactionRequest[], records: ReadonlyMap<string, SyncRecord>): Promise<Saved> {
    this.#keys ??= await readKeys(this.#client)
    // Of the first transaction, because the next ones have timestamps of their own.
    this.#asOfMs ??= [...records.values()].reduce((ms, { stored }) => Math.max(ms, stored.last_modified), 0)
    for (const { id, data } of requests) {
      const payload = records.get(id)?.stored.payload
      // What an earlier transaction of the same edits has overwritten is what to go back to.
      const before = this.#written.has(id)
        ? this.#written.get(id)!.before
        : payload === undefined
          ? null
          : { id, payload }
      this.#sent.set(id, { before, after: { id, payload: data!.payload! } })
    }
    return this.saved!
  }
}

interface Change {
  /** Null if there was no record. */
  before: SavedRecord | null
  after: SavedRecord
}

async function readKeys(client: KeyClient): Promise<SavedRecord> {
  for await (const { records } of client.collection('crypto').storedPages())
    for (const { id, payload } of records) if (id === 'keys' && payload !== undefined) return { id, payload }
  throw new ClientError('This account has no keys yet: has any Firefox synced to it?', { status: 404 })
}

/** The edits that undo saved ones, and the records as they were then, which these edits were made for. */
export interface Undoing {
  edits: (Edit | RecordEdit)[]
  shown: SyncRecord[]
  /** The ids of records that stay as they are because the key does not decrypt what was overwritten or written. */
  unreadable: string[]
}

/**
 * Finds the edits that undo what was saved. Saving them keeps what was changed since, and names it. Rejects with `ClientError` if it belongs to
 * another account, or can't be decrypted.
 */
export async function undoing(client: UndoClient, saved: Saved, signal?: AbortSignal): Promise<Undoing> {
  if (saved.keyId !== client.account.keyId)
    throw new ClientError('Cannot undo this: it was saved for another account, or before a password reset')
  const { collection } = saved
  const keysOf = await collectionKeys(client.keysOf('crypto'), saved.keys).catch(() => {
    throw new ClientError('Cannot undo this: the sync key does not decrypt what was saved', {
      field: 'syncKey',
    })
  })
  const model = modelOf(collection)
  const touched = new Set(saved.after.map(({ id }) => id))
  // The others are what the undone bookmarks must fit into.
  const now = await model.load(
    client,
    [...touched].map((id) => ({ op: 'remove', id })),
    signal,
  )
  const recordOf = (id: string, clear: ClearRecord | null): SyncRecord => {
    return { collection, stored: { id, last_modified: 0 }, clear, problem: null }
  }
  const open = async ({ id, payload, digest }: WrittenRecord): Promise<SyncRecord> => {
    if (digest === undefined)
      return recordOf(id, await decryptRecord(keysOf(collection), { id, payload }).catch(() => null))
    const found = now.get(id)
    const isAsWritten = found && (await digestOf(found.stored.payload ?? '')) === digest
    // Any other record differs from an empty one, and so stays.
    return isAsWritten ? found : recordOf(id, { id })
  }
  const before = await Promise.all(saved.before.map(open))
  const after = await Promise.all(saved.after.map(open))
  const unreadable = new Set(
    [...before, ...after].filter(({ clear }) => clear === null).map(({ stored }) => stored.id),
  )
  const isReadable = ({ stored }: SyncRecord) => !unreadable.has(stored.id)
  const isOther = ({ stored }: SyncRecord) => !touched.has(stored.id) || unreadable.has(stored.id)
  const others = [...now.values()].filter(isOther).map((other) => withoutLater(other, saved.asOfMs))
  const shown = [...others, ...after.filter(isReadable)]
  const wanted = [...others, ...before.filter(isReadable)]
  return {
    edits: model.back(model.read(shown), model.read(wanted)),
    shown,
    unreadable: [...unreadable],
  }
}

/** What was written later may have got its address, its tags and its keyword since: they are not what was shown then. */
export function withoutLater(record: SyncRecord, asOfMs: number): SyncRecord {
  const { stored, clear } = record
  if (stored.last_modified <= asOfMs || typeof clear?.bmkUri !== 'string') return record
  return { ...record, clear: { ...clear, bmkUri: '', tags: [], keyword: '' } }
}

/** How many records are found by their ids at once; for more, reading everything is faster. */
export const maxNamedRecords = 400

/**
 * What to undo one after the other, of what was saved, newest first: bookmarks together, because they depend on each other, and other records
 * in parts that are found by their ids.
 */
export function undoSteps(newestFirst: readonly Saved[]): Saved[] {
  const steps: Saved[] = []
  for (const saved of newestFirst) {
    const last = steps.at(-1)
    if (saved.collection === 'bookmarks' && last?.collection === 'bookmarks' && isOfOneTime(saved, last))
      steps[steps.length - 1] = joined(saved, last)
    else if (saved.collection === 'bookmarks') steps.push(saved)
    else steps.push(...partsOf(saved))
  }
  return steps
}

function isOfOneTime(one: Saved, other: Saved): boolean {
  return one.keyId === other.keyId && one.keys.payload === other.keys.payload
}

function joined(older: Saved, newer: Saved): Saved {
  const before = new Map(newer.before.map((record) => [record.id, record]))
  const after = new Map(newer.after.map((record) => [record.id, record]))
  const former = new Map(older.before.map((record) => [record.id, record]))
  for (const written of older.after) {
    const { id } = written
    // What the newer write did not find there was never applied.
    if (after.has(id) && before.get(id)?.payload !== written.payload) continue
    const first = former.get(id)
    if (first) before.set(id, first)
    else before.delete(id)
    if (!after.has(id)) after.set(id, written)
  }
  return { ...newer, asOfMs: older.asOfMs, before: [...before.values()], after: [...after.values()] }
}

function partsOf(saved: Saved): Saved[] {
  const before = new Map(saved.before.map((record) => [record.id, record]))
  const parts: Saved[] = []
  for (let from = 0; from < saved.after.length; from += maxNamedRecords) {
    const after = saved.after.slice(from, from + maxNamedRecords)
    parts.push({ ...saved, after, before: after.flatMap(({ id }) => before.get(id) ?? []) })
  }
  return parts
}

interface UndoClient extends KeyClient {
  collection(name: string): {
    storedPages(): AsyncIterable<{ records: StoredRecord[] }>
    records(options?: ReadOptions): AsyncIterable<SyncRecord>
  }
}
