import type { Identity } from '../domain/credentials.ts'

/**
 * The earliest moment that an assertion itself names as its end, in ms since 1970; infinite when it names none.
 * A BrowserID assertion is a chain of signed parts joined by `~` (certificates, then the assertion), each with its own
 * `exp` in milliseconds; an access token may be one such part with its `exp` in seconds (RFC 7519, 4.1.4), or opaque.
 *
 * Nothing is verified here, the token server does that. Whatever can't be read names no end; never throws.
 */
export function assertionExpiry({ assertion }: Pick<Identity, 'assertion'>): number {
  return Math.min(...assertion.split('~').map(readExpiry))
}

/** Read as seconds it lies beyond the year 5000, read as milliseconds before 1974: the two can't be confused. */
const leastMilliseconds = 1e11

function readExpiry(part: string): number {
  const [, payload, signature] = part.split('.', 3)
  if (!payload || signature === undefined) return Infinity
  try {
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: unknown } | null
    const exp = claims?.exp
    if (typeof exp !== 'number' || !Number.isFinite(exp)) return Infinity
    return exp < leastMilliseconds ? Math.max(0, exp) * 1000 : exp
  } catch {
    return Infinity
  }
}
