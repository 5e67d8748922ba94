/** Versions in HTTP: ETag and Last-Modified, If-Match and If-None-Match, 304 and 412. */
import { errno, ServiceError } from '../domain/errors.ts'
import type { Problem } from './problems.ts'
import type { SyncRecord } from '../domain/record.ts'
import {
  floored,
  readVersion,
  toEntityTag,
  toHttpDate,
  zeroTimestamp,
  type Timestamp,
} from '../domain/timestamp.ts'
import {
  evaluateCollection,
  noPrecondition,
  type Precondition,
  type UnmetPrecondition,
} from '../domain/precondition.ts'
import type { Reply } from './reply.ts'
import type { RequestHeaders } from './resource.ts'

/** The ETag and Last-Modified headers of a version. */
export function versionHeaders(timestamp: Timestamp): Record<string, string> {
  return { ETag: toEntityTag(timestamp), 'Last-Modified': toHttpDate(timestamp) }
}

/** 304: the client has the current version. */
export function notModifiedReply(timestamp: Timestamp): Reply {
  return { status: 304, headers: versionHeaders(timestamp), body: null }
}

/** 304 for a collection. Throws `ServiceError` 412 if another version was named. */
export function unmetPreconditionReply({ outcome, timestamp }: UnmetPrecondition): Reply {
  if (outcome === 'not-modified') return notModifiedReply(timestamp)
  throw changed('The collection has changed since that version', versionHeaders(timestamp))
}

/**
 * Reads If-Match and If-None-Match. Rounds If-Match down to the storage's 10 ms, so that no change is missed; If-None-Match is compared
 * exactly. Ignores If-Modified-Since and If-Unmodified-Since.
 */
export function readPrecondition(headers: RequestHeaders, problems: Problem[] = []): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return noPrecondition
  if (match !== undefined && noneMatch !== undefined) {
    const description = 'cannot be combined with If-Match'
    problems.push({ location: 'header', name: 'If-None-Match', description })
  }
  if (match === '*') return { kind: 'exists' }
  if (noneMatch === '*') return { kind: 'absent' }
  const timestamp = readVersion(match ?? noneMatch!) ?? zeroTimestamp
  return match === undefined
    ? { kind: 'differs', timestamp }
    : { kind: 'unmodified-since', timestamp: floored(timestamp) }
}

/** Evaluates the precondition on a collection: returns 304, or null to proceed. Throws `ServiceError` 412. */
export function collectionConditionReply(precondition: Precondition, timestamp: Timestamp): Reply | null {
  const verdict = evaluateCollection(precondition, timestamp)
  return verdict && unmetPreconditionReply(verdict)
}

/** 412 with the stored record, which clients need to resolve the conflict; null: there is none. */
export function recordChanged(existing: SyncRecord | null, isUnwanted = false): ServiceError {
  if (!existing) return changed('The record does not exist')
  const { id, lastModified, payload, sortindex } = existing
  const message = isUnwanted ? 'The record already exists' : 'The record has changed since that version'
  const details = { existing: { id, last_modified: lastModified, payload, sortindex } }
  return changed(message, versionHeaders(lastModified), details)
}

function changed(message: string, headers: Record<string, string> = {}, details?: Record<string, unknown>) {
  return new ServiceError(412, errno.preconditionFailed, message, { headers, details })
}
