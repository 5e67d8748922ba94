import type { Timestamp } from './timestamp.ts'

/**
 * What a client requires of the current version before its request counts:
 * - `none`: nothing
 * - `unmodified-since`: it exists and did not change after `timestamp` (If-Match with an entity tag)
 * - `differs`: it is another version than `timestamp`, older ones included; matters to reads only (If-None-Match with an
 *   entity tag, which is compared as it came)
 * - `exists`: it exists (If-Match: *)
 * - `absent`: it does not exist (If-None-Match: *)
 */
export type Precondition =
  | { kind: 'none' }
  | { kind: 'unmodified-since'; timestamp: Timestamp }
  | { kind: 'differs'; timestamp: Timestamp }
  | { kind: 'exists' }
  | { kind: 'absent' }

export const noPrecondition: Precondition = { kind: 'none' }

/** The verdict of a precondition on a request, given the timestamp of the current version, or null when there is none. */
type Verdict = 'proceed' | 'not-modified' | 'failed' | 'missing'

/** Judges a read of one record. */
export function judgeRead(precondition: Precondition, current: Timestamp | null): Verdict {
  if (current === null) return 'missing'
  switch (precondition.kind) {
    case 'none':
    case 'exists':
      return 'proceed'
    case 'absent':
      return 'not-modified'
    case 'unmodified-since':
      return current > precondition.timestamp ? 'failed' : 'proceed'
    case 'differs':
      return current === precondition.timestamp ? 'not-modified' : 'proceed'
    default:
      return precondition satisfies never
  }
}

/**
 * Judges a read of a collection, or of all of them; null: it proceeds. Collections always exist, if need be empty and with the
 * timestamp 0, so that "only if absent" has no effect on them.
 */
export function judgeCollection(
  precondition: Precondition,
  current: Timestamp,
):
  | { outcome: 'not-modified'; timestamp: Timestamp }
  | { outcome: 'precondition-failed'; timestamp: Timestamp }
  | null {
  if (precondition.kind === 'absent') return null
  switch (judgeRead(precondition, current)) {
    case 'not-modified':
      return { outcome: 'not-modified', timestamp: current }
    case 'failed':
      return { outcome: 'precondition-failed', timestamp: current }
    default:
      return null
  }
}

/** Judges a write of one record. A missing record is created, unless the client said that it knows a version. */
export function judgePut(precondition: Precondition, current: Timestamp | null): 'proceed' | 'failed' {
  switch (precondition.kind) {
    case 'none':
    case 'differs':
      return 'proceed'
    case 'exists':
      return current === null ? 'failed' : 'proceed'
    case 'absent':
      return current === null ? 'proceed' : 'failed'
    case 'unmodified-since':
      return current === null || current > precondition.timestamp ? 'failed' : 'proceed'
    default:
      return precondition satisfies never
  }
}

/** Judges the deletion of one record. */
export function judgeDelete(
  precondition: Precondition,
  current: Timestamp | null,
): Exclude<Verdict, 'not-modified'> {
  if (current === null) return 'missing'
  if (precondition.kind === 'unmodified-since' && current > precondition.timestamp) return 'failed'
  return 'proceed'
}
