import { createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from 'node:crypto'

/** The identity provider that the sandbox plays; the domain of every account's address. */
export const issuer = 'accounts.sandbox.example'

/** What a BrowserID assertion is made of. Times are milliseconds since the epoch, as BrowserID has them. */
interface AssertionParts {
  email: string
  audience: string
  expiresAtMs: number
  certificateExpiresAtMs: number
  issuer: string
  generation: number | null
  keysChangedAt: number | null
}

/** What a verified assertion says. */
interface AssertedIdentity {
  email: string
  generation: number | null
  keysChangedAt: number | null
}

/** A certificate and an assertion joined by "~", to be sent as `Authorization: BrowserID <this>`. */
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

/** Who the assertion speaks for; throws TokenError when it is unsound, for somebody else, or expired. */
export function verifyAssertion(text: string, audiences: readonly string[], nowMs: number): AssertedIdentity {
  const links = text.split('~').map(openCompact)
  const [certificate, assertion] = links
  if (links.length !== 2 || !certificate || !assertion) throw refused()
  const { claims } = certificate
  // Expiry has no leeway here, and is judged before signatures are.
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

/** A generation or time of keys; zero and what isn't a number count as unknown. */
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
  // A pattern that names no scheme accepts every scheme.
  const prefix = pattern.includes('://') ? '' : '(?:[a-z]+://)?'
  return new RegExp(`^${prefix}${literal.join('.*')}$`).test(audience)
}

/** The OAuth scope that opens Sync. */
export const syncScope = 'https://identity.mozilla.com/apps/oldsync'

const leewaySeconds = 60

/** What an access token is made of. */
interface BearerParts {
  /** The account's id, the local part of its address. */
  account: string
  scope: string
  /** Seconds since the epoch. */
  expiresAt: number
  /** The claim `fxa-generation`, left out when null. */
  generation: number | null
}

/** What a verified access token says. */
interface BearerIdentity {
  email: string
  generation: number | null
}

/** The key half of an OAuth identity: the header X-KeyID taken apart. */
interface KeyId {
  keysChangedAt: number | null
  /** Hex. */
  clientState: string
}

/** A signed `at+jwt`, to be sent as `Authorization: Bearer <this>` together with X-KeyID. */
export function mintBearerToken({ account, scope, expiresAt, generation }: BearerParts): string {
  const claims = { iss: `https://${issuer}`, sub: account, scope, exp: expiresAt, client_id: 'sandbox' }
  return signCompact(
    { alg: 'RS256', typ: 'at+jwt', kid: 'sandbox' },
    generation === null ? claims : { ...claims, 'fxa-generation': generation },
  )
}

/** Who the token speaks for; throws TokenError. An expired token is just as invalid as a forged one. */
export function verifyBearerToken(text: string, nowMs: number): BearerIdentity {
  const token = openCompact(text)
  if (token === null) throw unauthorized('invalid-credentials')
  const { alg, typ } = token.header
  const { sub, scope, exp } = token.claims
  const isSound =
    alg === 'RS256' &&
    /^(application\/)?at\+jwt$/i.test(String(typ)) &&
    token.isSignedBy(signingKeys().publicKey) &&
    typeof exp === 'number' &&
    exp + leewaySeconds > nowMs / 1000 &&
    typeof sub === 'string' &&
    // Only commas part the scopes: a token with several of them, parted by blanks, is refused.
    String(scope).split(',').includes(syncScope)
  if (!isSound) throw unauthorized('invalid-credentials')
  return { email: `${sub}@${issuer}`, generation: toCount(token.claims['fxa-generation']) }
}

/** Formats X-KeyID; the client state is given in hex. */
export function formatKeyId(keysChangedAt: number, clientState: string): string {
  const digits = String(keysChangedAt).padStart(13, '0')
  return `${digits}-${Buffer.from(clientState, 'hex').toString('base64url')}`
}

/** Reads X-KeyID; throws TokenError when it is absent or malformed. */
export function readKeyId(header: string | null): KeyId {
  if (header === null || !/^[\x20-\x7e]*$/.test(header)) {
    throw new TokenError(401, 'invalid-key-id', 'header', 'X-KeyID', 'Missing or unreadable X-KeyID')
  }
  const parts = /^(\d{1,18})-([A-Za-z0-9_-]+)$/.exec(header)
  const state = parts?.[2] ?? ''
  // One base64 digit alone can't encode a byte.
  if (parts === null || state.length % 4 === 1) throw unauthorized('invalid-credentials')
  return {
    keysChangedAt: toCount(Number(parts[1])),
    clientState: Buffer.from(state, 'base64url').toString('hex'),
  }
}

/** Any JSON object. */
type Claims = Record<string, unknown>

/** A signed text of three dotted base64url parts, taken apart but not yet verified. */
interface Compact {
  header: Claims
  claims: Claims
  isSignedBy(key: KeyObject): boolean
}

let keyPair: { publicKey: KeyObject; privateKey: KeyObject } | undefined

/**
 * The RSA key pair that signs every identity. It is made at first use and then kept for the life of the process,
 * because making one takes longer than starting a sandbox.
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

/** Null when the text isn't three base64url parts of which the first two are JSON objects. */
function openCompact(text: string): Compact | null {
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

/** Where the token server saw the fault, as its error documents name it. */
type ErrorLocation = 'body' | 'header' | 'url' | 'internal'

/** A refusal of the token server; see token server API, "Response". */
export class TokenError extends Error {
  constructor(
    readonly httpStatus: number,
    /** The machine-readable word, such as "invalid-credentials". */
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

/** 401 with a status word, the most frequent refusal. */
export function unauthorized(status: string, description = 'Unauthorized'): TokenError {
  return new TokenError(401, status, 'body', '', description)
}

/** 401 for a client state that may not be used now. */
export function invalidClientState(description: string): TokenError {
  return new TokenError(401, 'invalid-client-state', 'header', 'X-Client-State', description)
}
