import { createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'

/** The sandbox's identity provider; the domain of every account's address. */
export const issuer = 'accounts.sandbox.example'

/** The contents of a BrowserID assertion. Times are milliseconds since the epoch, as in BrowserID. */
interface AssertionParts {
  email: string
  audience: string
  expiresAtMs: number
  certificateExpiresAtMs: number
  issuer: string
  generation: number | null
  keysChangedAt: number | null
}

/** The identity in a verified assertion. */
interface AssertedIdentity {
  email: string
  generation: number | null
  keysChangedAt: number | null
}

/** Creates a certificate and an assertion, joined by "~". Send it as `Authorization: BrowserID <this>`. */
export function mintAssertion(parts: AssertionParts): string {
  const header = { alg: 'RS256' }
  const certificate = signCompact(header, {
    iss: parts.issuer,
    exp: parts.certificateExpiresAtMs,
    principal: { email: parts.email },
    'public-key': toBrowserIdKey(signingKeys().publicKey),
    ...(parts.generation === null ? {} : { 'fxa-generation': parts.generation }),
    ...(parts.keysChangedAt === null ? {} : { 'fxa-keysChangedAt': parts.keysChangedAt }),
  })
  return `${certificate}~${signCompact(header, { aud: parts.audience, exp: parts.expiresAtMs })}`
}

/** Verifies an assertion; throws TokenError if it is invalid, expired, or for another audience. */
export function verifyAssertion(text: string, audiences: readonly string[], nowMs: number): AssertedIdentity {
  const links = text.split('~').map(parseCompact)
  const [certificate, assertion] = links
  if (links.length !== 2 || !certificate || !assertion) throw refused()
  const { claims } = certificate
  // Like the real server: no leeway, and expiry is checked before signatures.
  if (!isLater(claims['exp'], nowMs) || !isLater(assertion.claims['exp'], nowMs)) {
    throw unauthorized('invalid-timestamp')
  }
  const audience = assertion.claims['aud']
  if (!audiences.some((pattern) => matches(pattern, audience))) throw refused()
  if (claims['iss'] !== issuer || !certificate.isSignedBy(signingKeys().publicKey)) throw refused()
  const key = fromBrowserIdKey(claims['public-key'])
  if (key === null || !assertion.isSignedBy(key)) throw refused()
  const { email } = Object(claims['principal']) as Claims
  if (typeof email !== 'string' || !email.endsWith(`@${issuer}`)) throw refused()
  return {
    email,
    generation: toCount(claims['fxa-generation']),
    keysChangedAt: toCount(claims['fxa-keysChangedAt']),
  }
}

/** A generation or key change time; null (unknown) for zero or anything but a number. */
function toCount(value: unknown): number | null {
  return typeof value === 'number' && value > 0 ? value : null
}

function refused() {
  return unauthorized('invalid-credentials')
}

function isLater(expiresAtMs: unknown, nowMs: number): boolean {
  return typeof expiresAtMs === 'number' && expiresAtMs > nowMs
}

function matches(pattern: string, audience: unknown): boolean {
  if (typeof audience !== 'string') return false
  const literal = pattern.split('*').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
  // A pattern without a scheme accepts every scheme.
  const prefix = pattern.includes('://') ? '' : '(?:[a-z]+://)?'
  return new RegExp(`^${prefix}${literal.join('.*')}$`).test(audience)
}

/** The OAuth scope that grants access to Sync. */
export const syncScope = 'https://identity.mozilla.com/apps/oldsync'

const leewaySeconds = 60

/** The contents of an access token. */
interface BearerParts {
  /** The account's id, the local part of its address. */
  account: string
  scope: string
  /** Seconds since the epoch. */
  expiresAt: number
  /** The claim `fxa-generation`, left out when null. */
  generation: number | null
}

/** The identity in a verified access token. */
interface BearerIdentity {
  email: string
  generation: number | null
}

/** The parsed X-KeyID header, which identifies the keys of an OAuth identity. */
interface KeyId {
  keysChangedAt: number | null
  /** Hex. */
  clientState: string
}

/** Creates a signed `at+jwt`. Send it as `Authorization: Bearer <this>`, with X-KeyID. */
export function mintBearerToken({ account, scope, expiresAt, generation }: BearerParts): string {
  const claims = { iss: `https://${issuer}`, sub: account, scope, exp: expiresAt, client_id: 'sandbox' }
  return signCompact(
    { alg: 'RS256', typ: 'at+jwt', kid: 'sandbox' },
    generation === null ? claims : { ...claims, 'fxa-generation': generation },
  )
}

/** Verifies an access token; throws the same TokenError for an expired token as for a forged one. */
export function verifyBearerToken(text: string, nowMs: number): BearerIdentity {
  const token = parseCompact(text)
  if (token === null) throw unauthorized('invalid-credentials')
  const { alg, typ } = token.header
  const { sub, scope, exp } = token.claims
  const isValid =
    alg === 'RS256' &&
    /^(application\/)?at\+jwt$/i.test(String(typ)) &&
    token.isSignedBy(signingKeys().publicKey) &&
    typeof exp === 'number' &&
    exp + leewaySeconds > nowMs / 1000 &&
    typeof sub === 'string' &&
    // Like the real server, splits scopes at commas only, so a token with scopes separated by spaces is rejected.
    String(scope).split(',').includes(syncScope)
  if (!isValid) throw unauthorized('invalid-credentials')
  return { email: `${sub}@${issuer}`, generation: toCount(token.claims['fxa-generation']) }
}

/** Formats X-KeyID; `clientState` is hex. */
export function formatKeyId(keysChangedAt: number, clientState: string): string {
  const digits = String(keysChangedAt).padStart(13, '0')
  return `${digits}-${Buffer.from(clientState, 'hex').toString('base64url')}`
}

/** Parses X-KeyID; throws TokenError if it is missing or malformed. */
export function readKeyId(header: string | null): KeyId {
  if (header === null || !/^[\x20-\x7e]*$/.test(header)) {
    throw new TokenError(401, 'invalid-key-id', 'header', 'X-KeyID', 'Missing or unreadable X-KeyID')
  }
  const parts = /^(\d{1,18})-([A-Za-z0-9_-]+)$/.exec(header)
  const state = parts?.[2] ?? ''
  // A single base64 digit can't encode a byte.
  if (parts === null || state.length % 4 === 1) throw unauthorized('invalid-credentials')
  return {
    keysChangedAt: toCount(Number(parts[1])),
    clientState: Buffer.from(state, 'base64url').toString('hex'),
  }
}

/** Any JSON object. */
type Claims = Record<string, unknown>

/** A parsed but unverified signed text: three base64url parts, separated by dots. */
interface Compact {
  header: Claims
  claims: Claims
  isSignedBy(key: KeyObject): boolean
}

let keyPair: { publicKey: KeyObject; privateKey: KeyObject } | undefined

/**
 * The RSA key pair that signs every identity. Created at first use and kept until the process ends, because creating
 * one takes longer than starting a sandbox.
 */
function signingKeys(): { publicKey: KeyObject; privateKey: KeyObject } {
  keyPair ??= generateKeyPairSync('rsa', { modulusLength: 2048 })
  return keyPair
}

/** Signs with RSA and SHA-256. */
function signCompact(header: Claims, claims: Claims): string {
  const text = `${encode(header)}.${encode(claims)}`
  return `${text}.${sign('sha256', Buffer.from(text), signingKeys().privateKey).toString('base64url')}`
}

/** Parses a signed text; null unless it has three base64url parts and the first two are JSON objects. */
function parseCompact(text: string): Compact | null {
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

/** Formats a public key for BrowserID certificates: modulus and exponent in decimal digits. */
function toBrowserIdKey(key: KeyObject): Claims {
  const { n = '', e = '' } = key.export({ format: 'jwk' })
  return { algorithm: 'RS', n: toDecimal(n), e: toDecimal(e) }
}

/** The reverse of toBrowserIdKey; null for anything else. */
function fromBrowserIdKey(value: unknown): KeyObject | null {
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

/** The location of an error, as named in the token server's error documents. */
type ErrorLocation = 'body' | 'header' | 'url' | 'internal'

/** An error response of the token server; see token server API, "Response". */
export class TokenError extends Error {
  constructor(
    readonly httpStatus: number,
    /** The machine-readable status, such as "invalid-credentials". */
    readonly status: string,
    readonly location: ErrorLocation,
    readonly field: string,
    description: string,
  ) {
    super(description)
  }

  /** The error document. */
  toJSON(): object {
    return {
      status: this.status,
      errors: [{ location: this.location, name: this.field, description: this.message }],
    }
  }
}

/** 401 with a status, the most frequent error. */
export function unauthorized(status: string, description = 'Unauthorized'): TokenError {
  return new TokenError(401, status, 'body', '', description)
}

/** 401 for a client state that is not allowed now. */
export function invalidClientState(description: string): TokenError {
  return new TokenError(401, 'invalid-client-state', 'header', 'X-Client-State', description)
}
