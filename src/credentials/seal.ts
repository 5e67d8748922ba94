import type * as Crypto from 'node:crypto'
import { joinFields } from '../domain/credentials.ts'
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

/** Longer texts are not ours, and are not read. */
export const maxSealedLength = 8192

const version = 'v1.'
const nonceBytes = 12
const tagBytes = 16

/**
 * Turns credentials into text that only a holder of the same identity can open. The encryption key is derived from the
 * secret *and* the assertion, and the assertion is stored nowhere: neither the secret nor the stored text, nor both
 * together, give anything away. AES-256-GCM (NIST SP 800-38D) under keys derived with HKDF-SHA-256 (RFC 5869).
 */
export class Seal {
  readonly #options: SealOptions
  readonly #indexKey: Buffer

  constructor(options: SealOptions) {
    this.#options = options
    this.#indexKey = deriveKey(options.secret, 'sync-bridge credentials: index')
  }

  /** Where the credentials of an identity are kept: 43 characters that tell nothing about it. */
  index(identity: Identity): string {
    return new Bun.CryptoHasher('sha256', this.#indexKey)
      .update(identity.key)
      .update(joinFields(this.#options.tokenServerUrl))
      .digest('base64url')
  }

  seal(identity: Identity, { credentials, expiresAtMs }: Opened): string {
    const { hawkId, hawkKey, endpoint, uid } = credentials
    const contents = JSON.stringify([hawkId, hawkKey, endpoint, uid, credentials.expiresAtMs, expiresAtMs])
    const nonce = this.#options.randomBytes(nonceBytes)
    const cipher = ciphers().createCipheriv('aes-256-gcm', this.#encryptionKey(identity), nonce)
    cipher.setAAD(this.#place(identity))
    const encrypted = [cipher.update(contents), cipher.final()]
    return version + Buffer.concat([nonce, ...encrypted, cipher.getAuthTag()]).toString('base64url')
  }

  /** Null for a text that was not sealed for this very identity with this secret, was changed, or has expired. */
  open(identity: Identity, text: string, nowMs: number): Opened | null {
    const bytes = readSealed(text)
    if (!bytes) return null
    const nonce = bytes.subarray(0, nonceBytes)
    const decipher = ciphers().createDecipheriv('aes-256-gcm', this.#encryptionKey(identity), nonce)
    decipher.setAAD(this.#place(identity))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      const contents = [decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]
      const opened = readContents(Buffer.concat(contents).toString())
      return nowMs < opened.expiresAtMs ? opened : null
    } catch {
      return null
    }
  }

  #encryptionKey({ scheme, assertion, clientState, keyId }: Identity): Buffer {
    const { secret, tokenServerUrl } = this.#options
    const material = Buffer.concat([secret, Buffer.from(joinFields(scheme, assertion))])
    // HKDF takes at most 1024 bytes of context, and a client chooses the length of its key id.
    const whose = joinFields(clientState, keyId, tokenServerUrl)
    const context = Bun.CryptoHasher.hash('sha256', whose, 'base64url')
    return deriveKey(material, `sync-bridge credentials: encryption ${context}`)
  }

  // An entry that was copied to another key, or that claims another version, does not open.
  #place(identity: Identity): Buffer {
    return Buffer.from(version + this.index(identity))
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

/** The tag has proved that these are the fields that `seal` wrote. */
function readContents(text: string): Opened {
  const [hawkId, hawkKey, endpoint, uid, credentialsExpireAtMs, expiresAtMs] = JSON.parse(text) as [
    hawkId: string,
    hawkKey: string,
    endpoint: string,
    uid: number,
    credentialsExpireAtMs: number,
    expiresAtMs: number,
  ]
  return { credentials: { hawkId, hawkKey, endpoint, uid, expiresAtMs: credentialsExpireAtMs }, expiresAtMs }
}
