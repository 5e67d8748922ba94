import type { SyncRecord, Timestamp } from './record.ts'

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

/** A read that is not answered with what is stored: its precondition spares that, or rules it out. */
export interface UnmetRead {
  outcome: 'not-modified' | 'precondition-failed'
  /** Of the current version. */
  timestamp: Timestamp
}

/** Judges a read of one record, or of a collection, whose current version has that timestamp; null: it proceeds. */
function judgeRead(precondition: Precondition, current: Timestamp): UnmetRead['outcome'] | null {
  switch (precondition.kind) {
    case 'none':
    case 'exists':
      return null
    case 'absent':
      return 'not-modified'
    case 'unmodified-since':
      return current > precondition.timestamp ? 'precondition-failed' : null
    case 'differs':
      return current === precondition.timestamp ? 'not-modified' : null
    default:
      return precondition satisfies never
  }
}

export type GetOutcome =
  /** `json`: the record in the exposed form, where it was at hand without printing it anew. */
  | { outcome: 'found'; record: SyncRecord; json?: string }
  | { outcome: 'not-modified'; timestamp: Timestamp }
  | { outcome: 'precondition-failed'; existing: SyncRecord | null }
  | { outcome: 'missing' }

/** The outcome of a read of one record, given the record or null. */
export function judgeGet(precondition: Precondition, current: SyncRecord | null): GetOutcome {
  if (current === null) return { outcome: 'missing' }
  const outcome = judgeRead(precondition, current.lastModified)
  if (outcome === null) return { outcome: 'found', record: current }
  if (outcome === 'not-modified') return { outcome, timestamp: current.lastModified }
  return { outcome, existing: current }
}

/**
 * Judges a read of a collection, or of all of them; null: it proceeds. Collections always exist, if need be empty and with the
 * timestamp 0, so that "only if absent" has no effect on them.
 */
export function judgeCollection(precondition: Precondition, current: Timestamp): UnmetRead | null {
  if (precondition.kind === 'absent') return null
  const outcome = judgeRead(precondition, current)
  return outcome && { outcome, timestamp: current }
}

/**
 * Whether a write of one record may go on, given the timestamp of the current version, or null when there is none. A
 * missing record is created, unless the client said that it knows a version.
 */
export function allowsPut(precondition: Precondition, current: Timestamp | null): boolean {
  switch (precondition.kind) {
    case 'none':
    case 'differs':
      return true
    case 'exists':
      return current !== null
    case 'absent':
      return current === null
    case 'unmodified-since':
      return current !== null && current <= precondition.timestamp
    default:
      return precondition satisfies never
  }
}

/** Whether the deletion of an existing record may go on. */
export function allowsDelete(precondition: Precondition, current: Timestamp): boolean {
  return precondition.kind !== 'unmodified-since' || current <= precondition.timestamp
}
