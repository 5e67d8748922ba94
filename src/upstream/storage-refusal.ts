import { errno, invalidPart, ServiceError, UpstreamError, type InvalidPart } from '../domain/errors.ts'
import { jsonOf, readRetryAfter, type UpstreamResponse } from './response.ts'

/** The subject of a request, to translate a 400 into the client's terms. */
export type Subject = 'list' | 'page' | 'record' | 'upload' | 'staging' | 'account'

/** Codes in the bodies of error responses; see Sync 1.5 API, "Response codes". */
const codes = { overQuota: 14, sizeLimit: 17 }

/** For a write conflict, storages send a Retry-After of about 10 s; a longer one has another reason. */
const maxConflictSeconds = 30

/** Translates an unexpected response into an error. Its text is never repeated. */
export function readStorageRefusal(
  response: UpstreamResponse,
  { subject, isWrite }: { subject: Subject; isWrite: boolean },
  nowMs: number,
): ServiceError | UpstreamError {
  const { status, headers } = response
  const retryAfterSeconds = readRetryAfter(headers, nowMs)
  const code = status === 400 || status === 503 ? jsonOf(response) : undefined
  const refused = status === 400 ? refusedParts[subject] : null
  if (status === 403 || code === codes.overQuota) {
    // A quota never rejects a read: that was a firewall or a proxy.
    const cause = isWrite ? ', probably because the quota is used up: delete some data' : ''
    return new ServiceError(403, errno.forbidden, `The storage rejected this${cause}`)
  }
  if (status === 413 || code === codes.sizeLimit) {
    return new ServiceError(
      413,
      errno.requestTooLarge,
      'The request is larger than the storage accepts: send less at once',
    )
  }
  if (refused) return invalidPart(refused, 'was rejected by the storage')
  if (status === 429)
    return new ServiceError(429, errno.tooManyRequests, 'Too many requests to the storage: try again later', {
      retryAfterSeconds,
    })
  if (status === 513)
    return new ServiceError(410, errno.serviceEnded, 'The storage has been shut down', { retryAfterSeconds })
  const isBrief = retryAfterSeconds !== null && retryAfterSeconds <= maxConflictSeconds
  const conflict = 'Write conflict: another client is writing to this collection'
  if (isWrite && (status === 409 || (status === 503 && code === 0 && isBrief))) {
    return new UpstreamError('conflict', conflict, { status, retryAfterSeconds })
  }
  if (status === 409) return new ServiceError(409, errno.conflict, conflict, { retryAfterSeconds })
  const failure = status === 400 || status >= 500 ? 'refused' : 'bad-response'
  // A late 408 may belong to another request.
  const applied = status < 500 && status !== 408 ? 'no' : 'unknown'
  return new UpstreamError(failure, `The storage returned ${status}`, { status, retryAfterSeconds, applied })
}

/** What a 400 refers to; null if no client sent it. */
const refusedParts: Record<Subject, InvalidPart | null> = {
  page: 'page',
  list: 'list',
  record: 'record',
  upload: 'upload',
  staging: null,
  account: null,
}
