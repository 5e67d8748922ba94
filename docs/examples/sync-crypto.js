/**
 * What a client of Sync Bridge needs to read the records that it gets: WebCrypto only, so that it runs in browsers, Bun, Deno and
 * Node. The key never goes to the bridge.
 *
 * A record's payload is JSON of `ciphertext`, `IV` (both base64) and `hmac` (hex): AES-256-CBC, with an HMAC-SHA-256 over the
 * base64 text of the ciphertext. The user's sync key opens one record, `crypto/keys`; the keys in there open all others.
 */

/** A pair of keys from 64 bytes, encryption key first: the sync key as hexadecimal digits. */
export function keyPairFromHex(hex) {
  if (!/^[0-9a-f]{128}$/i.test(hex)) throw new Error('The sync key has to be 128 hexadecimal digits')
  const bytes = Uint8Array.from(hex.match(/../g), (digits) => parseInt(digits, 16))
  return importKeyPair(bytes.subarray(0, 32), bytes.subarray(32, 64))
}

/**
 * The keys of all collections, out of the record `keys` of the collection `crypto`. Answers a function from a collection's name to
 * its pair of keys.
 */
export async function collectionKeys(syncKeyPair, keysRecord) {
  const { default: common, collections } = await decryptRecord(syncKeyPair, keysRecord)
  if (!Array.isArray(common))
    throw new Error('Cannot use "keys": it holds no keys. Has a Firefox of this account synced yet?')
  // A collection may be called "constructor", which every object has.
  const pairOf = (collection) =>
    collections && Object.hasOwn(collections, collection) ? collections[collection] : common
  return (collection) => importKeyPair(...pairOf(collection).map(fromBase64))
}

/** The clear record; throws when it was encrypted with another key, or changed by somebody who does not have the key. */
export async function decryptRecord(keyPair, record) {
  const { encryption, authentication } = await keyPair
  const { ciphertext, IV, hmac } = readPayload(record)
  const text = new TextEncoder().encode(ciphertext)
  const isAuthentic = await crypto.subtle.verify('HMAC', authentication, fromHex(hmac), text)
  if (!isAuthentic) throw new Error(`Cannot decrypt "${record.id}": it was encrypted with another key`)
  const clear = await crypto.subtle.decrypt(
    { name: 'AES-CBC', iv: fromBase64(IV) },
    encryption,
    fromBase64(ciphertext),
  )
  const content = JSON.parse(new TextDecoder().decode(clear))
  if (content.id !== record.id)
    throw new Error(`Cannot use "${record.id}": its content belongs to another id`)
  return content
}

/**
 * Decrypts many records. Records that a key does not open are in real accounts, and Firefox skips them: so does this, and
 * answers them apart, each with the reason.
 */
export async function decryptRecords(keyPair, records) {
  const readable = []
  const unreadable = []
  for (const record of records) {
    try {
      readable.push(await decryptRecord(keyPair, record))
    } catch (error) {
      unreadable.push({ id: record.id, reason: error.message })
    }
  }
  return { readable, unreadable }
}

/** The payload to PUT for a clear record. To delete a record for all devices encrypt `{ id, deleted: true }`. */
export async function encryptRecord(keyPair, clear) {
  const { encryption, authentication } = await keyPair
  const iv = crypto.getRandomValues(new Uint8Array(16))
  const bytes = new TextEncoder().encode(JSON.stringify(clear))
  const ciphertext = toBase64(await crypto.subtle.encrypt({ name: 'AES-CBC', iv }, encryption, bytes))
  const hmac = await crypto.subtle.sign('HMAC', authentication, new TextEncoder().encode(ciphertext))
  return JSON.stringify({ ciphertext, IV: toBase64(iv), hmac: toHex(hmac) })
}

function readPayload({ id, payload }) {
  try {
    const { ciphertext, IV, hmac } = JSON.parse(payload)
    if ([ciphertext, IV, hmac].every((part) => typeof part === 'string')) return { ciphertext, IV, hmac }
  } catch {
    // Neither is it JSON.
  }
  throw new Error(`Cannot decrypt "${id}": it is not encrypted the way Firefox does it`)
}

async function importKeyPair(encryptionKey, hmacKey) {
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  return {
    encryption: await crypto.subtle.importKey('raw', encryptionKey, 'AES-CBC', false, ['encrypt', 'decrypt']),
    authentication: await crypto.subtle.importKey('raw', hmacKey, hmac, false, ['sign', 'verify']),
  }
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0))
}

function toBase64(bytes) {
  return btoa(Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join(''))
}

function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16))
}

function toHex(bytes) {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
