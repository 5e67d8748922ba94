import {
  fromBrowserIdKey,
  openCompact,
  signCompact,
  signingKeys,
  toBrowserIdKey,
  type Claims,
} from './jws.ts'
import { unauthorized } from './token-error.ts'

/** The identity provider that the sandbox plays; the domain of every account's address. */
export const issuer = 'accounts.sandbox.example'

/** What a BrowserID assertion is made of. Times are milliseconds since the epoch, as BrowserID has them. */
export interface AssertionParts {
  email: string
  audience: string
  expiresAtMs: number
  certificateExpiresAtMs: number
  issuer: string
  generation: number | null
  keysChangedAt: number | null
}

/** What a verified assertion says. */
export interface AssertedIdentity {
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
export function toCount(value: unknown): number | null {
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
