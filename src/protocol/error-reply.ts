import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import type { UpstreamFailure } from '../domain/errors.ts'
import type { ExposedSettings, Reply } from './reply.ts'

/**
 * Turns a thrown value into an error answer. The value is never serialised: the answer holds our own words only, so that
 * nothing internal and no text of upstream gets out.
 */
export function errorReply(
  thrown: unknown,
  settings: Pick<ExposedSettings, 'retryAfterSeconds' | 'errorInfoLink'>,
): Reply {
  const error = asServiceError(thrown)
  const { problems, details, headers, retryAfterSeconds } = error.extras
  const body = {
    code: error.status,
    errno: error.errno,
    error: reasonPhrases[error.status] ?? 'Error',
    message: error.message,
    ...(error.status === 500 && settings.errorInfoLink && { info: settings.errorInfoLink }),
    ...((problems ?? details) && { details: problems ?? details }),
  }
  const reply: Reply = {
    status: error.status,
    headers: { ...headers },
    body: JSON.stringify(body),
    errno: error.errno,
  }
  // Every 401 names the schemes, whether we, the token server or the storage refused; see RFC 9110, 15.5.2.
  if (error.status === 401) reply.headers['WWW-Authenticate'] = 'BrowserID, Bearer'
  if (error.status >= 500 || error.status === 429) {
    reply.headers['Retry-After'] = String(Math.max(settings.retryAfterSeconds, retryAfterSeconds ?? 0, 1))
  }
  return reply
}

// See RFC 9110, 15. The list of node:http would double the time that a start takes.
const reasonPhrases: Record<number, string> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Payload Too Large',
  415: 'Unsupported Media Type',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

/**
 * What a thrown value is answered as: a `ServiceError` as itself, an upstream failure as 503, anything else as 500
 * without details.
 */
function asServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown
  if (thrown instanceof UpstreamError) {
    const extras =
      thrown.retryAfterSeconds === null ? {} : { retryAfterSeconds: Math.ceil(thrown.retryAfterSeconds) }
    return new ServiceError(503, errno.backend, explanations[thrown.failure], { ...extras, cause: thrown })
  }
  const message = 'An error of this service: the request could not be handled'
  return new ServiceError(500, errno.undefined, message, { cause: thrown })
}

const explanations: Record<UpstreamFailure, string> = {
  unreachable: 'The token server or the storage can not be reached: try again later',
  'connection-lost': 'The token server or the storage broke off its answer: read before you repeat a write',
  timeout: 'The token server or the storage did not answer in time: read before you repeat a write',
  refused: 'The token server or the storage can not answer now: try again later',
  'bad-response': 'The token server or the storage gave an answer that makes no sense: try again later',
  overload: 'Too many requests are under way: try again later',
}

/** A request was not begun, because too many are under way. Made once: there is no time for a stack under load. */
export const overload = new ServiceError(503, errno.backend, explanations.overload)
