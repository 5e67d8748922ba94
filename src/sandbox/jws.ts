import { createPublicKey, generateKeyPairSync, sign, verify, type KeyObject } from 'node:crypto'

/** Any JSON object. */
export type Claims = Record<string, unknown>

/** A signed text of three dotted base64url parts, taken apart but not yet verified. */
export interface Compact {
  header: Claims
  claims: Claims
  isSignedBy(key: KeyObject): boolean
}

let keyPair: { publicKey: KeyObject; privateKey: KeyObject } | undefined

/**
 * The RSA key pair that signs every identity. It is made at first use and then kept for the life of the process,
 * because making one takes longer than starting a sandbox.
 */
export function signingKeys(): { publicKey: KeyObject; privateKey: KeyObject } {
  keyPair ??= generateKeyPairSync('rsa', { modulusLength: 2048 })
  return keyPair
}

/** Signs with RSA and SHA-256. */
export function signCompact(header: Claims, claims: Claims): string {
  const text = `${encode(header)}.${encode(claims)}`
  return `${text}.${sign('sha256', Buffer.from(text), signingKeys().privateKey).toString('base64url')}`
}

/** Null when the text isn't three base64url parts of which the first two are JSON objects. */
export function openCompact(text: string): Compact | null {
  const parts = text.split('.')
  const [header, claims, signature] = parts
  if (parts.length !== 3 || header === undefined || claims === undefined || !signature) return null
  const decoded = { header: decode(header), claims: decode(claims) }
  if (decoded.header === null || decoded.claims === null) return null
  const signed = Buffer.from(`${header}.${claims}`)
  return {
    header: decoded.header,
    claims: decoded.claims,
    isSignedBy: (key) => verify('sha256', signed, key, Buffer.from(signature, 'base64url')),
  }
}

/** A public key as BrowserID certificates carry it: modulus and exponent in decimal digits. */
export function toBrowserIdKey(key: KeyObject): Claims {
  const { n = '', e = '' } = key.export({ format: 'jwk' })
  return { algorithm: 'RS', n: toDecimal(n), e: toDecimal(e) }
}

/** The reverse of toBrowserIdKey; null for anything else. */
export function fromBrowserIdKey(value: unknown): KeyObject | null {
  const { algorithm, n, e } = Object(value) as Claims
  if (algorithm !== 'RS' || typeof n !== 'string' || typeof e !== 'string') return null
  if (!/^\d+$/.test(n) || !/^\d+$/.test(e)) return null
  return createPublicKey({ key: { kty: 'RSA', n: fromDecimal(n), e: fromDecimal(e) }, format: 'jwk' })
}

function encode(value: Claims): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

function decode(part: string): Claims | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Claims) : null
  } catch {
    return null
  }
}

function toDecimal(base64url: string): string {
  return BigInt(`0x${Buffer.from(base64url, 'base64url').toString('hex')}`).toString()
}

function fromDecimal(digits: string): string {
  const hex = BigInt(digits).toString(16)
  return Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex').toString('base64url')
}
