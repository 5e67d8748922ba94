import { collectionKeys, decryptRecord, type KeyPair } from '../crypto.ts'
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
  /** The records that were overwritten; none for those that were added. */
  before: SavedRecord[]
  after: SavedRecord[]
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
  const open = async ({ id, payload }: SavedRecord): Promise<SyncRecord> => {
    const clear = await decryptRecord(keysOf(collection), { id, payload }).catch(() => null)
    return { collection, stored: { id, last_modified: 0, payload }, clear, problem: null }
  }
  const before = await Promise.all(saved.before.map(open))
  const after = await Promise.all(saved.after.map(open))
  const model = modelOf(collection)
  const touched = new Map(after.map((record) => [record.stored.id, record]))
  // The others are what the undone bookmarks must fit into.
  const now = await model.load(
    client,
    [...touched.keys()].map((id) => ({ op: 'remove', id })),
    signal,
  )
  const others = [...now.values()].filter(({ stored }) => !touched.has(stored.id))
  const shown = [...others, ...after]
  return { edits: model.between(model.read(shown), model.read([...others, ...before])), shown }
}

interface UndoClient extends KeyClient {
  collection(name: string): {
    storedPages(): AsyncIterable<{ records: StoredRecord[] }>
    records(options?: ReadOptions): AsyncIterable<SyncRecord>
  }
}
