/** Replies of handlers, and of what they throw; `envelope.ts` turns them into HTTP responses. */
import { STATUS_CODES } from 'node:http'
import { errno, ServiceError, UpstreamError, type Errno, type UpstreamFailure } from '../domain/errors.ts'
import { placed } from './problems.ts'
import type { ByteSource } from '../domain/record-storage.ts'
import type { Settings } from '../settings/settings.ts'

/** A reply; `toResponse` adds the common headers. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null without a body. */
  body: string | Uint8Array | ByteSource | null
  /** The body that a batch shows if this reply has none. */
  tombstone?: object
  /** Called when the last byte was sent, or the client disconnected. */
  ended?: () => void
  /** The errno of an error reply, for logs. */
  errno?: Errno
}

/** A JSON reply. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** A reply without a body. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}

// --- Errors ---

/**
 * Turns a thrown value into an error reply to a request of that method. Never serializes the value, so that nothing internal and no upstream
 * text gets out.
 */
export function errorReply(thrown: unknown, settings: Settings, method = 'GET'): Reply {
  const error = asServiceError(thrown, method)
  const { status, message, extras } = error
  const { details } = extras
  const info = status === 500 && settings.errorInfoLink ? settings.errorInfoLink : undefined
  const headers = { ...extras.headers }
  // Every 401 lists the accepted schemes; see RFC 9110, 15.5.2.
  if (status === 401) headers['WWW-Authenticate'] = 'BrowserID, Bearer'
  if (status >= 500 || status === 429) {
    headers['Retry-After'] = String(Math.max(settings.retryAfterSeconds, extras.retryAfterSeconds ?? 0, 1))
  }
  const body = { code: status, errno: error.errno, error: STATUS_CODES[status], message, info, details }
  return { status, headers, body: JSON.stringify(body), errno: error.errno }
}

/** Translates a thrown value: an upstream failure is 503, anything unknown is 500 without details. */
function asServiceError(thrown: unknown, method: string): ServiceError {
  if (thrown instanceof ServiceError) return placed(thrown)
  if (thrown instanceof UpstreamError) {
    const { failure } = thrown
    const retryAfterSeconds = Math.ceil(thrown.retryAfterSeconds ?? 0)
    const mayBeWritten = (failure === 'connection-lost' || failure === 'timeout') && !readMethods.has(method)
    const remedy = mayBeWritten ? 'read before retrying a write' : 'try again later'
    return new ServiceError(503, errno.backend, `${explanations[failure]}: ${remedy}`, { retryAfterSeconds })
  }
  return new ServiceError(500, errno.undefined, 'Internal error: report it with the X-Request-Id')
}

const readMethods = new Set(['GET', 'HEAD'])

const explanations: Record<UpstreamFailure, string> = {
  unreachable: 'Cannot reach the token server or the storage',
  'connection-lost': 'Lost the connection to the token server or the storage',
  timeout: 'The token server or the storage timed out',
  refused: 'The token server or the storage is unavailable',
  'bad-response': 'The token server or the storage sent an unusable response',
  conflict: 'Write conflict: other clients keep changing this collection',
  abandoned: 'The client disconnected',
  overload: 'Too many requests in flight',
}

/** The error of a request that is not admitted. One shared object, because a stack trace costs time under load. */
export const overload = new ServiceError(503, errno.backend, `${explanations.overload}: try again later`)
