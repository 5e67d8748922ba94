/** Reads the parts of a request that every resource shares: preconditions, the path of a record, the body of a PUT. */
import { invalidRequest } from '../domain/errors.ts'
import type { Problem, ServiceError } from '../domain/errors.ts'
import { noPrecondition } from '../domain/precondition.ts'
import type { Precondition } from '../domain/precondition.ts'
import { isRecordId } from '../domain/record.ts'
import type { RecordInput } from '../domain/record.ts'
import { floored, fromEntityTag, zeroTimestamp } from '../domain/timestamp.ts'
import { compileCheck } from './check.ts'
import { RecordBody, RecordPath } from './schemas.ts'
import type { ConditionHeaders } from './schemas.ts'

/**
 * Reads If-Match and If-None-Match. The timestamp of If-Match is rounded down to the storage's 10 ms, so that no change
 * is overlooked; that of If-None-Match is compared as it came. If-Modified-Since and If-Unmodified-Since are ignored.
 */
export function readPrecondition(headers: ConditionHeaders, problems: Problem[]): Precondition {
  const match = headers['if-match']
  const noneMatch = headers['if-none-match']
  if (match === undefined && noneMatch === undefined) return noPrecondition
  if (match !== undefined && noneMatch !== undefined) {
    const description = 'can not be combined with If-Match'
    problems.push({ location: 'header', name: 'If-None-Match', description })
  }
  if (match !== undefined) {
    if (match === '*') return { kind: 'exists' }
    return { kind: 'unmodified-since', timestamp: floored(fromEntityTag(match) ?? zeroTimestamp) }
  }
  if (noneMatch === '*') return { kind: 'absent' }
  return { kind: 'differs', timestamp: fromEntityTag(noneMatch!) ?? zeroTimestamp }
}

export function collectionOf({ collection_id }: { collection_id: string }): string {
  return collection_id.toLowerCase()
}

export function readRecordPath(params: RecordPath, problems: Problem[]): { collection: string; id: string } {
  const id = decodeSegment(params['*'])
  if (id === null || !isRecordId(id)) {
    const { description } = RecordPath.properties['*']
    problems.push({ location: 'path', name: 'record_id', description: description! })
  }
  return { collection: collectionOf(params), id: id ?? '' }
}

/** Decodes percent-escapes once; null when they are broken or not UTF-8. */
export function decodeSegment(raw: string): string | null {
  if (!raw.includes('%')) return raw
  try {
    return decodeURIComponent(raw)
  } catch {
    return null
  }
}

const checkRecordBody = compileCheck(RecordBody)

export function readRecordInput(body: unknown): RecordInput {
  const checked = checkRecordBody(body)
  if ('problems' in checked) throw invalidRequest(checked.problems)
  const { payload, sortindex, ttl } = checked.value.data
  if (payload !== undefined && !payload.isWellFormed()) {
    throw invalidPayload('holds half a surrogate pair, which UTF-8 can not carry')
  }
  if (payload?.includes('\0')) throw invalidPayload('holds a NUL character, which the storage can not keep')
  return {
    ...(payload !== undefined && { payload }),
    ...(sortindex !== undefined && { sortindex }),
    ...(ttl !== undefined && { ttlSeconds: ttl }),
  }
}

function invalidPayload(description: string): ServiceError {
  return invalidRequest([{ location: 'body', name: 'data.payload', description }])
}
