/** What a handler answers, or what it throws becomes; `envelope.ts` makes a message of it. */
import { STATUS_CODES } from 'node:http'
import { errno, ServiceError, UpstreamError, type Errno, type UpstreamFailure } from '../domain/errors.ts'
import type { ByteSource } from '../domain/record-storage.ts'
import type { Settings } from '../settings/settings.ts'

/** An answer before it becomes a message: `toResponse` adds what every answer carries. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null for an answer without a body. */
  body: string | Uint8Array | ByteSource | null
  /** The body that a batch shows for an answer without a body. */
  tombstone?: object
  /** Called when the last byte was handed on, or when the client has left. */
  ended?: () => void
  /** What the body of an error answer says, for logs. */
  errno?: Errno
}

/** A plain JSON answer. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** An answer with a status and nothing else. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}

// --- Errors ---

/**
 * Turns a thrown value into an error answer. The value is never serialised: the answer holds our own words only, so that
 * nothing internal and no text of upstream gets out.
 */
export function errorReply(thrown: unknown, settings: Settings): Reply {
  const error = asServiceError(thrown)
  const { status, message, extras } = error
  const details = extras.problems ?? extras.details
  const info = status === 500 && settings.errorInfoLink ? settings.errorInfoLink : undefined
  const headers = { ...extras.headers }
  // Every 401 names the schemes, whether we, the token server or the storage refused; see RFC 9110, 15.5.2.
  if (status === 401) headers['WWW-Authenticate'] = 'BrowserID, Bearer'
  if (status >= 500 || status === 429) {
    headers['Retry-After'] = String(Math.max(settings.retryAfterSeconds, extras.retryAfterSeconds ?? 0, 1))
  }
  const body = { code: status, errno: error.errno, error: STATUS_CODES[status], message, info, details }
  return { status, headers, body: JSON.stringify(body), errno: error.errno }
}

/** A `ServiceError` as itself, an upstream failure as 503, anything else as 500 without details. */
function asServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown
  if (thrown instanceof UpstreamError) {
    const retryAfterSeconds = Math.ceil(thrown.retryAfterSeconds ?? 0)
    return new ServiceError(503, errno.backend, explanations[thrown.failure], { retryAfterSeconds })
  }
  return new ServiceError(500, errno.undefined, 'Internal error: the request was not handled')
}

const explanations: Record<UpstreamFailure, string> = {
  unreachable: 'Cannot reach the token server or the storage: try again later',
  'connection-lost': 'Lost the connection to the token server or the storage: read before repeating a write',
  timeout: 'The token server or the storage timed out: read before repeating a write',
  refused: 'The token server or the storage is unavailable: try again later',
  'bad-response': 'The token server or the storage sent an unusable response: try again later',
  conflict: 'Write conflict: other clients keep changing this collection: try again later',
  abandoned: 'The client has hung up',
  overload: 'Too many requests in flight: try again later',
}

/** A request is not admitted, because too many are in flight. One object for all, because a stack trace costs time under load. */
export const overload = new ServiceError(503, errno.backend, explanations.overload)
