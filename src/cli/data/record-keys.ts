import {
  collectionKeys,
  decryptRecord,
  encryptRecord,
  keyPairFromHex,
  UnreadableRecord,
  type ClearRecord,
} from '../../client/crypto.ts'
import { ClientError } from '../../client/errors.ts'
import { firefoxCollections } from '../../settings/schema.ts'
import { readRecords } from './backup-folder.ts'
import type { StoredRecord } from '../../client/collection.ts'

/** What the key shows of a record. A `plain` one is not encrypted: other programs store such records. */
export type Kind = 'living' | 'deleted' | 'plain' | 'unreadable'

/** A record as the key shows it; `clear` is null unless it could be decrypted. */
export type Opened =
  { kind: 'living' | 'deleted'; clear: ClearRecord } | { kind: 'plain' | 'unreadable'; clear: null }

type KeysOf = Awaited<ReturnType<typeof collectionKeys>>

const plain: Opened = { kind: 'plain', clear: null }
const unreadable: Opened = { kind: 'unreadable', clear: null }

/** The keys of an account, or of a backup. */
export class RecordKeys {
  private constructor(
    private readonly keysOf: KeysOf | null,
    /** The keys as they are stored, to compare. */
    readonly payload: string,
  ) {}

  /** Keys that open nothing. */
  static readonly none = new RecordKeys(null, '')

  /** Decrypts the record of `crypto` that has the keys. Rejects with the reason. */
  static async open(record: StoredRecord, syncKey: string): Promise<RecordKeys> {
    return new RecordKeys(await collectionKeys(keyPairFromHex(syncKey), record), record.payload ?? '')
  }

  /** The keys in a backup; none without a sync key. Rejects with the reason if it has none, or the sync key does not open them. */
  static async read(backup: string, syncKey: string): Promise<RecordKeys> {
    if (syncKey === '') return RecordKeys.none
    for await (const records of readRecords(backup, 'crypto')) {
      const keys = records.find(({ id }) => id === 'keys')
      if (keys) return RecordKeys.open(keys, syncKey)
    }
    throw new ClientError('The storage has no keys for this account: sync a Firefox first')
  }

  /** Whether nothing can be decrypted. */
  get isEmpty(): boolean {
    return this.keysOf === null
  }

  async kindOf(collection: string, record: StoredRecord): Promise<Kind> {
    return (await this.openRecord(collection, record)).kind
  }

  async openRecord(collection: string, record: StoredRecord): Promise<Opened> {
    // The sync key has opened `keys` already.
    if (collection === 'crypto') return plain
    const content = contentOf(record)
    // A truncated payload is a fault in the collections of Firefox, which are all encrypted.
    if (content === undefined)
      return firefoxCollections.includes(collection) && collection !== 'meta' ? unreadable : plain
    const { ciphertext, deleted } = Object(content)
    if (ciphertext === undefined)
      return deleted === true ? { kind: 'deleted', clear: { id: record.id, deleted } } : plain
    if (!this.keysOf) return unreadable
    try {
      const clear = await decryptRecord(this.keysOf(collection), record)
      return { kind: clear.deleted === true ? 'deleted' : 'living', clear }
    } catch (error) {
      if (!(error instanceof UnreadableRecord)) throw error
      return unreadable
    }
  }

  /** Encrypts a record; returns the payload. Only for keys that are not empty. */
  async seal(collection: string, clear: ClearRecord): Promise<string> {
    return encryptRecord(this.keysOf!(collection), clear)
  }
}

/** The parsed payload; undefined if it is not JSON. */
function contentOf({ payload = '' }: StoredRecord): unknown {
  try {
    return JSON.parse(payload)
  } catch {
    return undefined
  }
}
