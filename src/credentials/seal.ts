import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { joinFields, type Identity, type SyncCredentials } from '../domain/credentials.ts'

export interface SealOptions {
  /** The operator's secret, 32 bytes. */
  secret: Uint8Array
  /** Part of every key, because credentials are only valid for one token server. */
  tokenServerUrl: string
  /** Cryptographically random bytes. */
  randomBytes(count: number): Uint8Array
}

/** The contents of a sealed text. */
export interface Opened {
  credentials: SyncCredentials
  /** Expiry on the wall clock, ms since 1970. */
  expiresAtMs: number
}

/** Longer texts are rejected. */
export const maxSealedLength = 8192

const version = 'v3.'
const nonceBytes = 12
const tagBytes = 16

/**
 * Encrypts credentials so that only the holder of the same identity can decrypt them. The key is derived from the secret *and* the
 * assertion, which is stored nowhere, so the secret and the stored text together reveal nothing. AES-256-GCM (NIST SP 800-38D) under keys
 * derived with HKDF-SHA-256 (RFC 5869).
 */
export class Seal {
  readonly #options: SealOptions
  readonly #indexKey: Buffer
  readonly #server: string

  constructor(options: SealOptions) {
    this.#options = options
    const indexKey = hkdfSync('sha256', options.secret, '', 'sync-bridge credentials: index', 32)
    this.#indexKey = Buffer.from(indexKey)
    this.#server = joinFields(options.tokenServerUrl)
  }

  /** The storage key for an identity: 43 characters that reveal nothing about it. */
  index(identity: Identity): string {
    return new Bun.CryptoHasher('sha256', this.#indexKey)
      .update(identity.key)
      .update(this.#server)
      .digest('base64url')
  }

  seal(identity: Identity, contents: Opened): string {
    const nonce = this.#options.randomBytes(nonceBytes)
    const cipher = createCipheriv('aes-256-gcm', this.#encryptionKey(identity), nonce)
    cipher.setAAD(this.#place(identity))
    const encrypted = [cipher.update(JSON.stringify(contents)), cipher.final()]
    return version + Buffer.concat([nonce, ...encrypted, cipher.getAuthTag()]).toString('base64url')
  }

  /**
   * Decrypts a sealed text. Null if it was changed, or sealed for another identity or with another secret. The credentials may have
   * expired.
   */
  open(identity: Identity, text: string): Opened | null {
    const bytes = readSealed(text)
    if (!bytes) return null
    const nonce = bytes.subarray(0, nonceBytes)
    const decipher = createDecipheriv('aes-256-gcm', this.#encryptionKey(identity), nonce)
    decipher.setAAD(this.#place(identity))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      const contents = [decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]
      // The authentication tag proves that `seal` wrote this.
      return JSON.parse(Buffer.concat(contents).toString()) as Opened
    } catch {
      return null
    }
  }

  /** Authenticated with the text, so that an entry under another key or version does not open. */
  #place(identity: Identity): Buffer {
    return Buffer.from(version + this.index(identity))
  }

  #encryptionKey({ scheme, assertion, clientState, keyId }: Identity): Buffer {
    // HKDF accepts at most 1024 bytes of context, and a client chooses the length of its key id.
    const whose = joinFields(clientState, keyId) + this.#server
    const context = Bun.CryptoHasher.hash('sha256', whose, 'base64url')
    const material = Buffer.concat([this.#options.secret, Buffer.from(joinFields(scheme, assertion))])
    const purpose = `sync-bridge credentials: encryption ${context}`
    return Buffer.from(hkdfSync('sha256', material, '', purpose, 32))
  }
}

/** Decodes nonce, ciphertext and tag; null if `seal` can't have written the text. */
function readSealed(text: string): Buffer | null {
  if (text.length > maxSealedLength || !text.startsWith(version)) return null
  const encoded = text.slice(version.length)
  const bytes = Buffer.from(encoded, 'base64url')
  // Only the canonical encoding is valid, because base64url decoders accept stray characters and spare bits.
  if (bytes.length <= nonceBytes + tagBytes || bytes.toString('base64url') !== encoded) return null
  return bytes
}
