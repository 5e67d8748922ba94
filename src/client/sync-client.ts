import { checkAccount, type Account } from './account.ts'
import {
  readCollections,
  readInfo,
  readRecord,
  type BridgeInfo,
  type CollectionInfo,
  type TransactionResponse,
} from './answers.ts'
import { changes, type WatchOptions } from './changes.ts'
import { Collection, type SyncRecord } from './collection.ts'
import { collectionKeys, encryptRecord, keyPairFromHex, type ClearRecord, type KeyPair } from './crypto.ts'
import { ClientError } from './errors.ts'
import { Requests, type ClientOptions } from './requests.ts'
import { loadTree, save, undo, type Edits, type SaveOptions, type SaveResult } from './edit/save.ts'
import { sendTransaction, type TransactionRequest } from './transaction.ts'
import type { Saved } from './edit/saved.ts'
import type { Tree } from './edit/tree.ts'

export type { BridgeInfo, TransactionResponse } from './answers.ts'
export type { TransactionRequest } from './transaction.ts'

/** A client for one account. */
export class SyncClient {
  readonly requests: Requests
  // Private, so that a logged client shows no key and no token.
  readonly #account: Account
  #keys: ((collection: string) => Promise<KeyPair>) | null = null

  /** Throws `ClientError` if a value of the account is invalid. */
  constructor(account: Partial<Account>, options: ClientOptions = {}) {
    this.#account = checkAccount(account)
    this.requests = new Requests(this.#account, options)
  }

  get account(): Account {
    return this.#account
  }

  /** The account's collections, sorted by name. */
  async collections(signal?: AbortSignal): Promise<CollectionInfo[]> {
    const { body, headers } = await this.requests.ask(this.#path('/collections'), { signal })
    return readCollections(body, headers).toSorted((left, right) => (left.name < right.name ? -1 : 1))
  }

  /** A collection; it need not exist. */
  collection(name: string): Collection {
    return new Collection(name, this, this.#path(`/collections/${encodeURIComponent(name)}/records`))
  }

  /**
   * The keys of a collection; the first call fetches those of the account. The keys of `crypto` are the sync key. Rejects with
   * `ClientError` if the sync key is wrong, or the account has no keys yet.
   */
  async keysOf(collection: string, signal?: AbortSignal): Promise<KeyPair> {
    if (collection === 'crypto') return this.#syncKeyPair()
    this.#keys ??= await this.#readKeys(signal)
    return this.#keys(collection)
  }

  /** Fetches the keys again before their next use, because a reset client has created new ones. */
  forgetKeys(): void {
    this.#keys = null
  }

  /** Encrypts a record; returns the payload to write. */
  async encrypt(collection: string, clear: ClearRecord): Promise<string> {
    return encryptRecord(await this.keysOf(collection), clear)
  }

  /**
   * Sends requests as one transaction: all writes become visible at once, or none. A request that fails on its own (a failed condition, a
   * write that is not enabled) has its own status and does not affect the others. Rejects with `ClientError`.
   */
  async transaction(requests: TransactionRequest[]): Promise<TransactionResponse[]> {
    return (await sendTransaction(this.requests, this.#path('/collections/'), requests)).responses
  }

  /** The same, but if a request fails on its own, nothing is written. `isStrict` is false for a bridge that does not support this. */
  async strictTransaction(
    requests: TransactionRequest[],
  ): Promise<{ responses: TransactionResponse[]; isStrict: boolean }> {
    return sendTransaction(this.requests, this.#path('/collections/'), requests, { strict: true })
  }

  /** Reads all bookmarks as a tree. */
  async tree(signal?: AbortSignal): Promise<Tree> {
    return loadTree(this, signal)
  }

  /**
   * Applies edits to the bookmarks, or to another collection, and writes the result in one transaction. What other devices have changed
   * meanwhile stays, and is named in `problems`. Rejects with `ClientError`.
   */
  async edit(edits: Edits, options: SaveOptions = {}): Promise<SaveResult> {
    return save(this, edits, options)
  }

  /** Deletes records on all devices; a folder of bookmarks with everything in it. */
  async remove(collection: string, ids: readonly string[], options: SaveOptions = {}): Promise<SaveResult> {
    return this.edit(
      ids.map((id) => ({ op: 'remove', id })),
      { ...options, collection },
    )
  }

  /** Takes back what `edit`, `remove` or `undo` has saved, except for what was changed since. Rejects with `ClientError`. */
  async undo(saved: Saved, options: SaveOptions = {}): Promise<SaveResult> {
    return undo(this, saved, options)
  }

  /** Yields changed records, as the function `changes` does. */
  changes(options: WatchOptions = {}): AsyncGenerator<SyncRecord> {
    return changes(this, options)
  }

  /** Reads the root view. */
  async info(): Promise<BridgeInfo> {
    const { body } = await this.requests.ask('')
    return readInfo(body)
  }

  #syncKeyPair(): Promise<KeyPair> {
    const { syncKey } = this.account
    if (syncKey !== '') return keyPairFromHex(syncKey)
    throw new ClientError('The sync key is missing: nothing can be decrypted.', { field: 'syncKey' })
  }

  async #readKeys(signal?: AbortSignal) {
    const syncKeyPair = this.#syncKeyPair()
    const path = this.#path('/collections/crypto/records/keys')
    const { body } = await this.requests.ask(path, { signal }).catch((error: ClientError) => {
      // errno 110: the record does not exist. Other servers also return 404.
      if (error.errno !== 110) throw error
      throw new ClientError('This account has no keys yet: has any Firefox synced to it?', {
        status: 404,
      })
    })
    return collectionKeys(syncKeyPair, readRecord(body)).catch(({ name, message }: Error) => {
      const outdated =
        'This sync key does not decrypt the account: it is outdated, or belongs to another account.'
      throw new ClientError(name === 'UnreadableRecord' ? outdated : message, { field: 'syncKey' })
    })
  }

  #path(path: string): string {
    return `/buckets/${this.account.bucket}${path}`
  }
}

/** Creates a client, and checks that the sync key decrypts the account. Rejects with `ClientError`. */
export async function connect(account: Partial<Account>, options: ClientOptions = {}): Promise<SyncClient> {
  const client = new SyncClient(account, options)
  await client.keysOf('bookmarks')
  return client
}
