import { UpstreamError } from '../domain/errors.ts'
import type { SyncCredentials } from '../domain/credentials.ts'

/**
 * Checks what the token server answered and makes credentials of it; see Sync "Token Server API", response.
 * Rejects as `bad-response` whatever is missing, mistyped, or an address that credentials must not be sent to.
 */
export function readCredentials(value: unknown, tokenServer: URL, requestedAtMs: number): SyncCredentials {
  if (typeof value !== 'object' || value === null) throw nonsense('not an object')
  const { id, key, uid, api_endpoint, duration, hashalg = 'sha256' } = value as Record<string, unknown>
  if (typeof id !== 'string' || !quotable.test(id)) throw nonsense('unusable "id"')
  if (typeof key !== 'string' || !quotable.test(key)) throw nonsense('unusable "key"')
  if (typeof uid !== 'number' || !Number.isSafeInteger(uid) || uid < 0) throw nonsense('unusable "uid"')
  if (typeof duration !== 'number' || !(duration > 0) || duration > maxDurationSeconds) {
    throw nonsense('unusable "duration"')
  }
  if (hashalg !== 'sha256') throw nonsense('a "hashalg" other than sha256')
  const endpoint = readEndpoint(api_endpoint, uid, tokenServer)
  return { hawkId: id, hawkKey: key, endpoint, uid, expiresAtMs: requestedAtMs + duration * 1000 }
}

/** Printable, and fit for the quoted strings of a Hawk header. */
const quotable = /^[ !#-[\]-~]{1,4096}$/

const maxDurationSeconds = 10 * 365 * 86_400

/** The address without its trailing slash. */
function readEndpoint(value: unknown, uid: number, tokenServer: URL): string {
  const url = typeof value === 'string' ? URL.parse(value) : null
  if (!url) throw nonsense('unusable "api_endpoint"')
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && tokenServer.protocol === 'http:')) {
    throw nonsense('an "api_endpoint" that is not https')
  }
  if (url.username || url.password || url.search || url.hash || (value as string).includes('?')) {
    throw nonsense('an "api_endpoint" that is more than an address')
  }
  const path = url.pathname.replace(/\/$/, '')
  if (!path.endsWith(`/${uid}`)) throw nonsense('an "api_endpoint" of another user')
  return url.origin + path
}

function nonsense(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Cannot use the token server's answer: ${what}`)
}
