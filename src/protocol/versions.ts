/** Versions as the exposed protocol spells them: ETag and Last-Modified, If-Match and If-None-Match, 304 and 412. */
import { errno, ServiceError, type Problem } from '../domain/errors.ts'
import {
  floored,
  fromEntityTag,
  evaluateCollection,
  noPrecondition,
  toEntityTag,
  toHttpDate,
  zeroTimestamp,
  type Precondition,
  type SyncRecord,
  type Timestamp,
  type UnmetRead,
} from '../domain/record.ts'
import type { Reply } from './reply.ts'
import type { RequestHeaders } from './resource.ts'

/** ETag and Last-Modified of a version. */
export function versionHeaders(timestamp: Timestamp): Record<string, string> {
  return { ETag: toEntityTag(timestamp), 'Last-Modified': toHttpDate(timestamp) }
}

/** 304: the client's version is the current one. */
export function notModifiedReply(timestamp: Timestamp): Reply {
  return { status: 304, headers: versionHeaders(timestamp), body: null }
}

/** 304 for a collection. Throws `ServiceError` 412 where another version was named. */
export function unmetReply({ outcome, timestamp }: UnmetRead): Reply {
  if (outcome === 'not-modified') return notModifiedReply(timestamp)
  throw changed('The stored version is not the one that was named', versionHeaders(timestamp))
}

/**
 * Reads If-Match and If-None-Match. The timestamp of If-Match is rounded down to the storage's 10 ms, so that no change
 * is overlooked; that of If-None-Match is compared as it came. If-Modified-Since and If-Unmodified-Since are ignored.
 */
export function readPrecondition(headers: RequestHeaders, problems: Problem[] = []): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return noPrecondition
  if (match !== undefined && noneMatch !== undefined) {
    const description = 'can not be combined with If-Match'
    problems.push({ location: 'header', name: 'If-None-Match', description })
  }
  if (match === '*') return { kind: 'exists' }
  if (noneMatch === '*') return { kind: 'absent' }
  const timestamp = fromEntityTag(match ?? noneMatch!) ?? zeroTimestamp
  return match === undefined
    ? { kind: 'differs', timestamp }
    : { kind: 'unmodified-since', timestamp: floored(timestamp) }
}

/** Judges a collection that changed at that moment: 304, or null where the request proceeds. Throws `ServiceError` 412. */
export function collectionConditionReply(headers: RequestHeaders, timestamp: Timestamp): Reply | null {
  const verdict = evaluateCollection(readPrecondition(headers), timestamp)
  return verdict && unmetReply(verdict)
}

/** 412 with the stored record, without which clients can't settle the conflict; null: there is none. */
export function recordChanged(existing: SyncRecord | null, isUnwanted = false): ServiceError {
  if (!existing) return changed('The stored version is not the one that was named')
  const { id, lastModified, payload, sortindex } = existing
  const message = isUnwanted ? 'The record exists already' : 'The record was changed meanwhile'
  const details = { existing: { id, last_modified: lastModified, payload, sortindex } }
  return changed(message, versionHeaders(lastModified), details)
}

function changed(message: string, headers: Record<string, string> = {}, details?: Record<string, unknown>) {
  return new ServiceError(412, errno.preconditionFailed, message, { headers, details })
}
