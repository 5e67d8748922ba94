import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'

/** What a token id carries, under the names it uses. Only uid, node, expires and salt matter to the storage. */
export interface TokenContents {
  uid: number
  node: string
  /** Seconds since the epoch. */
  expires: number
  /** Six hex characters; part of what the Hawk key is derived from. */
  salt: string
  fxa_uid: string
  fxa_kid: string
  hashed_fxa_uid: string
  hashed_device_id: string
  tokenserver_origin: string
}

/** Makes and opens Hawk ids with the secret that token server and storage share. */
export interface Tokens {
  /** The signed contents as padded base64url: the Hawk id. */
  seal(contents: TokenContents): string
  /** The contents, or null when the id isn't padded base64url or wasn't signed with this secret. */
  open(id: string): TokenContents | null
  /** The Hawk key of an id: 44 characters which are used as they stand, not decoded. */
  keyOf(id: string, salt: string): string
}

const signatureBytes = 32

/** Tokens as the tokenlib format lays them down: JSON followed by its HMAC, keys by HKDF-SHA256 without a salt. */
export function createTokens(secret: string): Tokens {
  const signingKey = derive(secret, '', 'services.mozilla.com/tokenlib/v1/signing')
  const sign = (json: Buffer) => createHmac('sha256', signingKey).update(json).digest()
  return {
    seal(contents) {
      const json = Buffer.from(JSON.stringify(contents))
      return paddedBase64url(Buffer.concat([json, sign(json)]))
    },
    open(id) {
      if (!/^[A-Za-z0-9_-]+={0,2}$/.test(id) || id.length % 4 !== 0) return null
      const bytes = Buffer.from(id, 'base64url')
      if (bytes.length <= signatureBytes) return null
      const json = bytes.subarray(0, -signatureBytes)
      if (!timingSafeEqual(sign(json), bytes.subarray(-signatureBytes))) return null
      return readContents(json.toString())
    },
    keyOf: (id, salt) =>
      paddedBase64url(derive(secret, salt, `services.mozilla.com/tokenlib/v1/derive/${id}`)),
  }
}

function readContents(json: string): TokenContents | null {
  const contents: unknown = JSON.parse(json)
  if (typeof contents !== 'object' || contents === null) return null
  const { uid, expires, salt } = contents as Record<string, unknown>
  const isWhole = typeof uid === 'number' && typeof expires === 'number' && typeof salt === 'string'
  return isWhole ? (contents as TokenContents) : null
}

function derive(secret: string, salt: string, info: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, 32))
}

function paddedBase64url(bytes: Buffer): string {
  const text = bytes.toString('base64url')
  return text.padEnd(Math.ceil(text.length / 4) * 4, '=')
}
