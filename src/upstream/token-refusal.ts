import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { readErrorBody } from './answer.ts'
import { readRetryAfter } from './retry-after.ts'
import type { UpstreamAnswer } from './answer.ts'

/**
 * What an answer of the token server other than 200 means: the identity is refused (`ServiceError` 401, its cause
 * is the text `invalid-timestamp` when only the clock stands against it), or the server can't be used.
 * See Sync "Token Server API", error responses.
 */
export async function readTokenRefusal(
  answer: UpstreamAnswer,
  nowMs: number,
): Promise<ServiceError | UpstreamError> {
  const { status, headers } = answer
  const { reason, isAboutHeader, isObject } = readReason(await readErrorBody(answer))
  const retryAfterSeconds = readRetryAfter(headers, nowMs)
  if (status >= 500 || status === 429) {
    const message = `Cannot get credentials: the token server answered ${status}`
    return new UpstreamError('refused', message, { status, retryAfterSeconds, applied: 'no' })
  }
  if (isObject && (status === 401 || status === 403)) return refusedIdentity(reason)
  if (status === 401) return refusedIdentity('')
  if (status === 400 && isAboutHeader) return refusedIdentity(reason)
  return new UpstreamError('bad-response', wrongAddress(status), { status, retryAfterSeconds, applied: 'no' })
}

export function wrongAddress(status: number): string {
  return `Cannot get credentials: the token server answered ${status}, token_server_url is probably wrong`
}

function refusedIdentity(reason: string): ServiceError {
  const message = explanations.get(reason) ?? 'The token server does not accept these credentials'
  const cause = reason === 'invalid-timestamp' ? reason : undefined
  return new ServiceError(401, errno.invalidCredentials, message, { cause })
}

/** By the `status` of the token server's error. Its own descriptions are never shown. */
const explanations = new Map([
  ['invalid-credentials', 'The token server cannot verify this assertion or access token'],
  ['invalid-timestamp', 'The token server says that this assertion has expired, or that the clocks disagree'],
  ['invalid-generation', 'The password changed since this assertion was made: sign in again'],
  ['invalid-keysChangedAt', 'The encryption key changed since: get a new key and X-KeyID'],
  ['invalid-client-state', 'The client state is not the current one: get a new key'],
  ['invalid-key-id', 'The token server requires an X-KeyID header'],
  ['new-users-disabled', 'The token server does not admit new users'],
  ['unsupported', 'The token server does not support this authentication scheme'],
])

function readReason(body: unknown): { reason: string; isAboutHeader: boolean; isObject: boolean } {
  if (typeof body !== 'object' || body === null) return { reason: '', isAboutHeader: false, isObject: false }
  const { status, errors } = body as { status?: unknown; errors?: unknown }
  const first = (Array.isArray(errors) ? errors[0] : null) as {
    location?: unknown
    description?: unknown
  } | null
  const isUnsupported = first?.description === 'Unsupported'
  const reason = isUnsupported ? 'unsupported' : typeof status === 'string' ? status : ''
  return { reason, isAboutHeader: first?.location === 'header', isObject: true }
}
