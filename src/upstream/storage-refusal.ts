import { errno, invalidRequest, ServiceError, UpstreamError, type Problem } from '../domain/errors.ts'
import { jsonOf, readRetryAfter, type UpstreamAnswer } from './answer.ts'

/** The subject of a request, so that a 400 can be answered in the client's terms. */
export type Subject = 'list' | 'page' | 'record' | 'upload' | 'staging' | 'account'

/** Codes in the bodies of error answers; see Sync 1.5 API, "Response codes". */
const codes = { overQuota: 14, sizeLimit: 17 }

/** For a write conflict storages ask for about 10 s. A longer Retry-After has another reason. */
const maxConflictSeconds = 30

/** The error of an answer that the request did not foresee. Its text is never repeated. */
export function readStorageRefusal(
  answer: UpstreamAnswer,
  { subject, isWrite }: { subject: Subject; isWrite: boolean },
  nowMs: number,
): ServiceError | UpstreamError {
  const { status, headers } = answer
  const retryAfterSeconds = readRetryAfter(headers, nowMs)
  const code = status === 400 || status === 503 ? jsonOf(answer) : undefined
  const refused = status === 400 ? refusedParts[subject] : null
  const retry = retryAfterSeconds === null ? {} : { retryAfterSeconds }
  if (status === 403 || code === codes.overQuota) {
    return new ServiceError(
      403,
      errno.forbidden,
      'The storage refuses this, probably because its quota is used up',
    )
  }
  if (status === 413 || code === codes.sizeLimit) {
    return new ServiceError(413, errno.requestTooLarge, 'The storage does not take a request of this size')
  }
  if (refused) return invalidRequest([{ ...refused, description: 'the storage refuses it' }])
  if (status === 429)
    return new ServiceError(429, errno.tooManyRequests, 'The storage gets too many requests', retry)
  if (status === 513)
    return new ServiceError(410, errno.serviceEnded, 'This storage has been closed down', retry)
  const isBrief = retryAfterSeconds !== null && retryAfterSeconds <= maxConflictSeconds
  const conflict = 'Write conflict: another write to the collection got in the way'
  if (isWrite && (status === 409 || (status === 503 && code === 0 && isBrief))) {
    return new UpstreamError('conflict', conflict, { status, ...retry })
  }
  if (status === 409) return new ServiceError(409, errno.conflict, conflict, retry)
  const failure = status === 400 || status >= 500 ? 'refused' : 'bad-response'
  // 408 may come late, and be about something else.
  const applied = status < 500 && status !== 408 ? 'no' : 'unknown'
  return new UpstreamError(failure, `Cannot use the storage: it answered ${status}`, {
    status,
    ...retry,
    applied,
  })
}

/** What a client sent that a storage refuses with 400; null for what no client sent. */
const refusedParts: Record<Subject, Pick<Problem, 'location' | 'name'> | null> = {
  page: { location: 'querystring', name: '_token' },
  list: { location: 'querystring', name: '_since' },
  record: { location: 'path', name: 'record_id' },
  upload: { location: 'body', name: 'data' },
  staging: null,
  account: null,
}
