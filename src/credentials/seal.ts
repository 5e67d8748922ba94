import type * as Crypto from 'node:crypto'
import { identityKey, joinFields } from '../domain/credentials.ts'
import type { Identity, SyncCredentials } from '../domain/credentials.ts'

interface SealOptions {
  /** The operator's secret, 32 bytes. */
  secret: Uint8Array
  /** Credentials of one token server mean nothing to another, so its address is part of every key. */
  tokenServerUrl: string
  /** Unpredictable bytes. */
  randomBytes(count: number): Uint8Array
}

/** The contents of a sealed text. */
export interface Opened {
  credentials: SyncCredentials
  /** Wall clock, ms since 1970, after which they must not be used any more. */
  expiresAtMs: number
}

/**
 * Turns credentials into text that only a holder of the same identity can open. The encryption key is derived from the
 * secret *and* the assertion, and the assertion is stored nowhere: neither the secret nor the stored text, nor both
 * together, give anything away.
 */
export interface Seal {
  /** Where the credentials of an identity are kept: 43 characters that tell nothing about it. */
  index(identity: Identity): string
  seal(identity: Identity, contents: Opened): string
  /** Null for a text that was not sealed for this very identity with this secret, was changed, or has expired. */
  open(identity: Identity, text: string, nowMs: number): Opened | null
}

/** Longer texts are not ours, and are not read. */
export const maxSealedLength = 8192

const version = 'v1.'
const nonceBytes = 12
const tagBytes = 16

/** Seals with AES-256-GCM (NIST SP 800-38D) under keys derived with HKDF-SHA-256 (RFC 5869). */
export function createSeal({ secret, tokenServerUrl, randomBytes }: SealOptions): Seal {
  const indexKey = deriveKey(secret, 'sync-bridge credentials: index')

  function index(identity: Identity): string {
    return new Bun.CryptoHasher('sha256', indexKey)
      .update(identityKey(identity))
      .update(joinFields(tokenServerUrl))
      .digest('base64url')
  }

  function encryptionKey({ scheme, assertion, clientState, keyId }: Identity): Buffer {
    const material = Buffer.concat([secret, Buffer.from(joinFields(scheme, assertion))])
    // HKDF takes at most 1024 bytes of context, and a client chooses the length of its key id.
    const context = Bun.CryptoHasher.hash(
      'sha256',
      joinFields(clientState, keyId, tokenServerUrl),
      'base64url',
    )
    return deriveKey(material, `sync-bridge credentials: encryption ${context}`)
  }

  // An entry that was copied to another key, or that claims another version, does not open.
  function place(identity: Identity): Buffer {
    return Buffer.from(version + index(identity))
  }

  return {
    index,
    seal(identity, contents) {
      const nonce = randomBytes(nonceBytes)
      const cipher = ciphers().createCipheriv('aes-256-gcm', encryptionKey(identity), nonce)
      cipher.setAAD(place(identity))
      const encrypted = [cipher.update(writeContents(contents)), cipher.final()]
      return version + Buffer.concat([nonce, ...encrypted, cipher.getAuthTag()]).toString('base64url')
    },
    open(identity, text, nowMs) {
      const bytes = readSealed(text)
      if (!bytes) return null
      const nonce = bytes.subarray(0, nonceBytes)
      const decipher = ciphers().createDecipheriv('aes-256-gcm', encryptionKey(identity), nonce)
      decipher.setAAD(place(identity))
      decipher.setAuthTag(bytes.subarray(-tagBytes))
      try {
        const contents = [decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]
        const opened = readContents(Buffer.concat(contents).toString())
        return opened && nowMs < opened.expiresAtMs ? opened : null
      } catch {
        return null
      }
    },
  }
}

/** HKDF without salt, of as many bytes as the hash has, for which one round is enough. */
function deriveKey(material: Uint8Array, purpose: string): Buffer {
  const extracted = hmac(new Uint8Array(32), material)
  return hmac(extracted, Buffer.from(`${purpose}\x01`))
}

function hmac(key: Uint8Array, message: Uint8Array): Buffer {
  return new Bun.CryptoHasher('sha256', key).update(message).digest()
}

// Loaded at the first seal: loading takes a fifth of a start and an eighth of the memory of an idle process.
function ciphers(): typeof Crypto {
  return require('node:crypto') as typeof Crypto
}

/** Nonce, ciphertext and tag; null for a text that was certainly not written by `seal`. */
function readSealed(text: string): Buffer | null {
  if (text.length > maxSealedLength || !text.startsWith(version)) return null
  const encoded = text.slice(version.length)
  const bytes = Buffer.from(encoded, 'base64url')
  // Decoders of base64url accept stray characters and spare bits, so only the one canonical spelling is valid.
  if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== encoded) return null
  return bytes
}

function writeContents({ credentials, expiresAtMs }: Opened): string {
  const { hawkId, hawkKey, endpoint, uid } = credentials
  return JSON.stringify([hawkId, hawkKey, endpoint, uid, credentials.expiresAtMs, expiresAtMs])
}

function readContents(text: string): Opened | null {
  const fields: unknown = JSON.parse(text)
  if (!Array.isArray(fields)) return null
  const [hawkId, hawkKey, endpoint, uid, credentialsExpireAtMs, expiresAtMs]: unknown[] = fields
  if (typeof hawkId !== 'string' || typeof hawkKey !== 'string' || typeof endpoint !== 'string') return null
  if (typeof uid !== 'number' || typeof credentialsExpireAtMs !== 'number') return null
  if (typeof expiresAtMs !== 'number') return null
  return { credentials: { hawkId, hawkKey, endpoint, uid, expiresAtMs: credentialsExpireAtMs }, expiresAtMs }
}
