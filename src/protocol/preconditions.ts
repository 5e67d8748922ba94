import { invalidRequest } from '../domain/errors.ts'
import { noPrecondition } from '../domain/precondition.ts'
import type { Precondition } from '../domain/precondition.ts'
import { fromEntityTag, timestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { HeaderLookup } from './authorization.ts'

/**
 * Reads If-Match and If-None-Match. The timestamp of If-Match is floored to the storage's 10 ms, towards the past, so that a
 * change is never taken for none; that of If-None-Match is compared as it came. The date headers If-Modified-Since and If-Unmodified-Since are ignored.
 *
 * Throws `ServiceError` 400 for any other form than `"123"`, `123`, `W/"123"` and `*`, and for both headers at once.
 */
export function readPrecondition(header: HeaderLookup): Precondition {
  const match = header('if-match')
  const noneMatch = header('if-none-match')
  if (match !== null && noneMatch !== null) {
    throw invalidHeader('If-None-Match', 'can not be combined with If-Match')
  }
  if (match !== null) {
    if (match.trim() === '*') return { kind: 'exists' }
    const version = readVersion('If-Match', match)
    return { kind: 'unmodified-since', timestamp: timestamp(version - (version % 10)) }
  }
  if (noneMatch !== null) {
    if (noneMatch.trim() === '*') return { kind: 'absent' }
    return { kind: 'differs', timestamp: readVersion('If-None-Match', noneMatch) }
  }
  return noPrecondition
}

function readVersion(name: string, value: string): Timestamp {
  const version = fromEntityTag(value.trim())
  if (version === null)
    throw invalidHeader(name, 'must be a timestamp in milliseconds as ETag gives it, or *')
  return version
}

function invalidHeader(name: string, description: string) {
  return invalidRequest([{ location: 'header', name, description }])
}
