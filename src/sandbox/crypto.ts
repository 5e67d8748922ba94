import { createCipheriv, createHash, createHmac, hkdfSync } from 'node:crypto'

/** The keys of one collection, or of crypto/keys. */
export interface KeyBundle {
  encryptionKey: Buffer
  hmacKey: Buffer
}

/** The 64 byte scoped key of Sync, derived from an account's master key (kB). */
export function syncKeyOf(masterKey: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, '', 'identity.mozilla.com/picl/v1/oldsync', 64))
}

/** Identifies the client's keys to the token server: 32 hex digits. */
export function clientStateOf(masterKey: Buffer): string {
  return createHash('sha256').update(masterKey).digest('hex').slice(0, 32)
}

/** Splits a scoped key: encryption key first, HMAC key second. */
export function toKeyBundle(syncKey: Buffer): KeyBundle {
  return { encryptionKey: syncKey.subarray(0, 32), hmacKey: syncKey.subarray(32, 64) }
}

/**
 * Encrypts a clear record into a payload: AES-256-CBC, with an HMAC in hex over the ciphertext's base64 text; see
 * Sync client documentation, "Global Storage Version 5", "Encrypted records". The IV has 16 bytes and must not be zero.
 */
export function encryptPayload({ encryptionKey, hmacKey }: KeyBundle, clear: object, iv: Buffer): string {
  const cipher = createCipheriv('aes-256-cbc', encryptionKey, iv)
  const ciphertext = Buffer.concat([cipher.update(JSON.stringify(clear)), cipher.final()]).toString('base64')
  return JSON.stringify({ ciphertext, IV: iv.toString('base64'), hmac: authenticate(hmacKey, ciphertext) })
}

/** The decrypted record crypto/keys, with the keys of all collections. */
export function keysRecord({ encryptionKey, hmacKey }: KeyBundle): object {
  const pair = [encryptionKey.toString('base64'), hmacKey.toString('base64')]
  return { id: 'keys', collection: 'crypto', default: pair, collections: {} }
}

function authenticate(key: Buffer, ciphertext: string): string {
  return createHmac('sha256', key).update(ciphertext).digest('hex')
}
