/**
 * Encrypts and decrypts records like Firefox, in browsers, Node, Deno and Bun. The key never leaves the program.
 *
 * A record's payload is JSON with `ciphertext`, `IV` (both base64) and `hmac` (hex): AES-256-CBC, with an HMAC-SHA-256 over the base64 text
 * of the ciphertext. The user's sync key decrypts one record, `crypto/keys`, whose keys decrypt all others.
 */

/** An encryption key and an HMAC key. */
export interface KeyPair {
  encryption: CryptoKey
  authentication: CryptoKey
  /** Decrypts a payload synchronously, if the runtime can. Null for another key; throws for an invalid payload. */
  openNow?(payload: Payload): string | null
}

/** The parsed payload of an encrypted record. */
interface Payload {
  ciphertext: string
  IV: string
  hmac: string
}

/** The fields of a stored record that decryption needs. */
export interface EncryptedRecord {
  id: string
  payload?: string
}

/** A decrypted record; further fields depend on its collection. */
export interface ClearRecord {
  id: string
  deleted?: boolean
  [field: string]: unknown
}

/** Why a record can't be decrypted. */
export class UnreadableRecord extends Error {
  constructor(
    id: string,
    /** A sentence without the record's id. */
    readonly reason: string,
  ) {
    super(`Cannot decrypt "${id}": ${reason[0]!.toLowerCase()}${reason.slice(1)}`)
    this.name = 'UnreadableRecord'
  }
}

/** Imports a sync key: 128 hexadecimal digits, encryption key first. Throws if it is invalid. */
export function keyPairFromHex(hex: string): Promise<KeyPair> {
  if (!/^[0-9a-f]{128}$/i.test(hex)) throw new Error('The sync key must be 128 hexadecimal digits')
  const bytes = fromHex(hex)
  return importKeyPair(bytes.subarray(0, 32), bytes.subarray(32, 64))
}

/**
 * Decrypts the record `crypto/keys`, which has the keys of all collections. Resolves to a function that returns the keys of a collection.
 * Rejects if the record can't be decrypted or contains no keys.
 */
export async function collectionKeys(
  syncKeyPair: KeyPair | Promise<KeyPair>,
  keysRecord: EncryptedRecord,
): Promise<(collection: string) => Promise<KeyPair>> {
  const { default: common, collections } = await decryptRecord(syncKeyPair, keysRecord)
  if (!isKeyTexts(common))
    throw new Error('Cannot use "keys": it contains no keys. Has a Firefox of this account synced yet?')
  const own = typeof collections === 'object' && collections !== null ? Object.entries(collections) : []
  // A Map, because a collection may be called "constructor", like a property of every object.
  const pairs = new Map(own.filter((entry): entry is [string, [string, string]] => isKeyTexts(entry[1])))
  const imported = new Map<string, Promise<KeyPair>>()
  return (collection) => {
    const known = imported.get(collection)
    if (known) return known
    const [encryption, authentication] = pairs.get(collection) ?? common
    const pair = importKeyPair(fromBase64(encryption), fromBase64(authentication))
    imported.set(collection, pair)
    return pair
  }
}

/** Whether a value is a pair of keys of 32 bytes, in base64. */
function isKeyTexts(value: unknown): value is [string, string] {
  const [first, second] = Array.isArray(value) ? value : []
  return [first, second].every((text) => typeof text === 'string' && /^[A-Za-z\d+/]{43}=?$/.test(text))
}

/** Decrypts a record. Rejects with `UnreadableRecord` if it was encrypted with another key, tampered with, or belongs to another id. */
export async function decryptRecord(
  keyPair: KeyPair | Promise<KeyPair>,
  record: EncryptedRecord,
): Promise<ClearRecord> {
  const { id } = record
  const pair = await keyPair
  const payload = readPayload(record)
  let clear: string | null
  try {
    clear = pair.openNow ? pair.openNow(payload) : await open(pair, payload)
  } catch {
    throw new UnreadableRecord(id, notEncrypted)
  }
  if (clear === null) throw new UnreadableRecord(id, 'It was encrypted with another key, or tampered with')
  // Firefox for phones writes tombstones without an id.
  const content = { id, ...parseContent(id, clear, notEncrypted) }
  if (content.id === id) return content
  throw new UnreadableRecord(id, 'Its content belongs to another id')
}

/**
 * Decrypts many records. Real accounts contain records that the key can't decrypt, which Firefox skips; they are returned separately, each
 * with the reason.
 */
export async function decryptRecords(
  keyPair: KeyPair | Promise<KeyPair>,
  records: EncryptedRecord[],
): Promise<{ readable: ClearRecord[]; unreadable: { id: string; reason: string }[] }> {
  const readable: ClearRecord[] = []
  const unreadable: { id: string; reason: string }[] = []
  for (const record of records) {
    try {
      readable.push(await decryptRecord(keyPair, record))
    } catch (error) {
      const reason = error instanceof UnreadableRecord ? error.reason : String(error)
      unreadable.push({ id: record.id, reason })
    }
  }
  return { readable, unreadable }
}

async function open({ encryption, authentication }: KeyPair, payload: Payload): Promise<string | null> {
  const { ciphertext, IV, hmac } = payload
  if (!isDigest(hmac)) return null
  const text = encoder.encode(ciphertext)
  if (!(await crypto.subtle.verify('HMAC', authentication, fromHex(hmac), text))) return null
  const algorithm = { name: 'AES-CBC', iv: fromBase64(IV) }
  return decoder.decode(await crypto.subtle.decrypt(algorithm, encryption, fromBase64(ciphertext)))
}

/** Parses the content of a record. Throws `UnreadableRecord` with the reason `notJson`, or another one, if it is no record. */
export function parseContent(id: string, text: string, notJson: string): object {
  // Before parsing, because programs end, instead of reporting an error, when they process such a record.
  if (isNestedTooDeeply(text)) throw new UnreadableRecord(id, tooDeep)
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new UnreadableRecord(id, notJson)
  }
  if (typeof content === 'object' && content !== null && !Array.isArray(content)) return content
  throw new UnreadableRecord(id, 'Its content is not a record')
}

/** Firefox nests records five levels deep. */
const deepestNesting = 100
const tooDeep = `Its content is nested more than ${deepestNesting} levels deep`

function isNestedTooDeeply(json: string): boolean {
  let depth = 0
  let isInText = false
  for (let index = 0; index < json.length; index += 1) {
    const code = json.charCodeAt(index)
    if (code === quotationMark) isInText = !isInText
    else if (code === backslash) index += 1
    else if (isInText) continue
    else if (code === openBracket || code === openBrace) {
      depth += 1
      if (depth > deepestNesting) return true
    } else if (code === closeBracket || code === closeBrace) depth -= 1
  }
  return false
}

const [quotationMark, backslash, openBracket, closeBracket, openBrace, closeBrace] = Array.from(
  '"\\[]{}',
  (char) => char.charCodeAt(0),
)

/** Encrypts a record; returns the payload to PUT. To delete a record on all devices, encrypt `{ id, deleted: true }`. */
export async function encryptRecord(
  keyPair: KeyPair | Promise<KeyPair>,
  clear: ClearRecord,
): Promise<string> {
  const { encryption, authentication } = await keyPair
  const iv = crypto.getRandomValues(new Uint8Array(16))
  const bytes = encoder.encode(JSON.stringify(clear))
  const encrypted = await crypto.subtle.encrypt({ name: 'AES-CBC', iv }, encryption, bytes)
  const ciphertext = toBase64(new Uint8Array(encrypted))
  const hmac = await crypto.subtle.sign('HMAC', authentication, encoder.encode(ciphertext))
  return JSON.stringify({ ciphertext, IV: toBase64(iv), hmac: toHex(new Uint8Array(hmac)) })
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()
const notEncrypted = 'It is not encrypted in the format of Firefox'

function readPayload({ id, payload = '' }: EncryptedRecord): Payload {
  try {
    const { ciphertext, IV, hmac } = JSON.parse(payload)
    if ([ciphertext, IV, hmac].every((part) => typeof part === 'string')) return { ciphertext, IV, hmac }
  } catch {
    // Not JSON.
  }
  throw new UnreadableRecord(id, notEncrypted)
}

async function importKeyPair(encryptionKey: Bytes, hmacKey: Bytes): Promise<KeyPair> {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  return {
    encryption: await crypto.subtle.importKey('raw', encryptionKey, 'AES-CBC', false, ['encrypt', 'decrypt']),
    authentication: await crypto.subtle.importKey('raw', hmacKey, hmac, false, ['sign', 'verify']),
    openNow: nodeCrypto && ((payload) => openWith(nodeCrypto, encryptionKey, hmacKey, payload)),
  }
}

/** The part of `node:crypto` that is used. */
interface NodeCrypto {
  createHmac(algorithm: string, key: Bytes): { update(text: string): { digest(): Uint8Array } }
  createDecipheriv(
    algorithm: string,
    key: Bytes,
    iv: Bytes,
  ): { update(bytes: Bytes): Uint8Array; final(): Uint8Array }
  timingSafeEqual(left: Uint8Array, right: Uint8Array): boolean
}

interface NodeProcess {
  getBuiltinModule?(name: string): NodeCrypto
}

// Available in Node, Deno and Bun. WebCrypto takes three times as long for small records.
const nodeCrypto = (globalThis as { process?: NodeProcess }).process?.getBuiltinModule?.('node:crypto')

function openWith(
  { createHmac, createDecipheriv, timingSafeEqual }: NodeCrypto,
  encryptionKey: Bytes,
  hmacKey: Bytes,
  { ciphertext, IV, hmac }: Payload,
): string | null {
  const digest = createHmac('sha256', hmacKey).update(ciphertext).digest()
  if (!isDigest(hmac) || !timingSafeEqual(digest, fromHex(hmac))) return null
  const decipher = createDecipheriv('aes-256-cbc', encryptionKey, fromBase64(IV))
  const head = decipher.update(fromBase64(ciphertext))
  const tail = decipher.final()
  return decoder.decode(head, { stream: true }) + decoder.decode(tail)
}

function isDigest(hmac: string): boolean {
  return /^[\da-f]{64}$/i.test(hmac)
}

type Bytes = Uint8Array<ArrayBuffer>

/** Methods of newer runtimes. */
const native = Uint8Array as { fromBase64?(text: string): Bytes; fromHex?(text: string): Bytes }

function fromBase64(text: string): Bytes {
  if (native.fromBase64) return native.fromBase64(text)
  const chars = atob(text)
  const bytes = new Uint8Array(chars.length)
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = chars.charCodeAt(index)
  return bytes
}

function toBase64(bytes: Bytes): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

function fromHex(text: string): Bytes {
  return native.fromHex?.(text) ?? Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16))
}

function toHex(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Identifies a payload; short, because many are kept. */
export async function digestOf(payload: string): Promise<string> {
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(payload))
  return btoa(String.fromCharCode(...new Uint8Array(bytes, 0, 12)))
}
