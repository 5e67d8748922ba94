import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { joinFields, type Identity, type SyncCredentials } from '../domain/credentials.ts'

export interface SealOptions {
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

const version = 'v2.'
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
  readonly #server: string

  constructor(options: SealOptions) {
    this.#options = options
    const indexKey = hkdfSync('sha256', options.secret, '', 'sync-bridge credentials: index', 32)
    this.#indexKey = Buffer.from(indexKey)
    this.#server = joinFields(options.tokenServerUrl)
  }

  /** Where the credentials of an identity are kept: 43 characters that tell nothing about it. */
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

  /** Null for a text that was not sealed for this very identity with this secret, or was changed. It may have expired. */
  open(identity: Identity, text: string): Opened | null {
    const bytes = readSealed(text)
    if (!bytes) return null
    const nonce = bytes.subarray(0, nonceBytes)
    const decipher = createDecipheriv('aes-256-gcm', this.#encryptionKey(identity), nonce)
    decipher.setAAD(this.#place(identity))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      const contents = [decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()]
      // The tag has proved that this is what `seal` wrote.
      return JSON.parse(Buffer.concat(contents).toString()) as Opened
    } catch {
      return null
    }
  }

  /** An entry that was copied to another key, or that claims another version, does not open. */
  #place(identity: Identity): Buffer {
    return Buffer.from(version + this.index(identity))
  }

  #encryptionKey({ scheme, assertion, clientState, keyId }: Identity): Buffer {
    // HKDF takes at most 1024 bytes of context, and a client chooses the length of its key id.
    const whose = joinFields(clientState, keyId) + this.#server
    const context = Bun.CryptoHasher.hash('sha256', whose, 'base64url')
    const material = Buffer.concat([this.#options.secret, Buffer.from(joinFields(scheme, assertion))])
    const purpose = `sync-bridge credentials: encryption ${context}`
    return Buffer.from(hkdfSync('sha256', material, '', purpose, 32))
  }
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
