import type { Identity } from '../domain/credentials.ts'

/**
 * The earliest moment that an assertion itself names as its end, in ms since 1970, or null when it names none.
 * A BrowserID assertion is a chain of signed parts joined by `~` (certificates, then the assertion), each with its own
 * `exp` in milliseconds; an access token may be one such part with its `exp` in seconds (RFC 7519, 4.1.4), or opaque.
 *
 * Nothing is verified here, the token server does that. Whatever can't be read names no end; never throws.
 */
export function assertionExpiry({ assertion }: Pick<Identity, 'assertion'>): number | null {
  let earliest: number | null = null
  for (const part of assertion.split('~')) {
    const expiresAtMs = readExpiry(part)
    if (expiresAtMs !== null && (earliest === null || expiresAtMs < earliest)) earliest = expiresAtMs
  }
  return earliest
}

function readExpiry(part: string): number | null {
  const [, payload, signature] = part.split('.', 3)
  if (!payload || signature === undefined) return null
  const claims = readJson(Buffer.from(payload, 'base64url').toString())
  if (typeof claims !== 'object' || claims === null || !('exp' in claims)) return null
  const { exp } = claims
  return typeof exp === 'number' && Number.isFinite(exp) ? toMilliseconds(exp) : null
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Read as seconds it lies beyond the year 5000, read as milliseconds before 1974: the two can't be confused. */
const leastMilliseconds = 1e11

function toMilliseconds(exp: number): number {
  return exp < leastMilliseconds ? Math.max(0, exp) * 1000 : exp
}
