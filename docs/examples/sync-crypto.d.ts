/** A pair of keys: one that encrypts, one that authenticates. */
export interface KeyPair {
  encryption: CryptoKey
  authentication: CryptoKey
}

/** A record as the bridge gives it, as far as decrypting needs it. */
export interface EncryptedRecord {
  id: string
  payload: string
}

/** A record as Firefox means it: what else is in it depends on its collection. */
export interface ClearRecord {
  id: string
  deleted?: boolean
  [field: string]: unknown
}

/** A pair of keys from 64 bytes, encryption key first: the sync key as 128 hexadecimal digits. */
export function keyPairFromHex(hex: string): Promise<KeyPair>

/** The keys of all collections, out of the record `keys` of the collection `crypto`. */
export function collectionKeys(
  syncKeyPair: KeyPair | Promise<KeyPair>,
  keysRecord: EncryptedRecord,
): Promise<(collection: string) => Promise<KeyPair>>

/** The clear record; rejects when it was encrypted with another key, was changed, or belongs to another id. */
export function decryptRecord(
  keyPair: KeyPair | Promise<KeyPair>,
  record: EncryptedRecord,
): Promise<ClearRecord>

/** The clear records, and apart from them those that the key does not open. */
export function decryptRecords(
  keyPair: KeyPair | Promise<KeyPair>,
  records: EncryptedRecord[],
): Promise<{ readable: ClearRecord[]; unreadable: { id: string; reason: string }[] }>

/** The payload to PUT for a clear record. */
export function encryptRecord(keyPair: KeyPair | Promise<KeyPair>, clear: ClearRecord): Promise<string>
