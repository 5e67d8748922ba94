import type { SyncRecord } from './record.ts'
import type { Timestamp } from './timestamp.ts'

/**
 * What a request requires of the current version:
 * - `none`: nothing
 * - `unmodified-since`: it exists and did not change after `timestamp` (If-Match with an entity tag)
 * - `differs`: it is not exactly `timestamp`; only for reads (If-None-Match with an entity tag)
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

/** A read whose precondition makes it 304 or 412. */
export interface UnmetPrecondition {
  outcome: 'not-modified' | 'precondition-failed'
  /** The current version. */
  timestamp: Timestamp
}

/** Evaluates the precondition of a read against the current version; null: the read proceeds. */
function evaluateRead(precondition: Precondition, current: Timestamp): UnmetPrecondition['outcome'] | null {
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
  /** `json`: the record's exposed JSON, if it is already at hand. */
  | { outcome: 'found'; record: SyncRecord; json?: string }
  | { outcome: 'not-modified'; timestamp: Timestamp }
  | { outcome: 'precondition-failed'; existing: SyncRecord }
  | { outcome: 'missing' }

/** Evaluates a read of one record; `current` is null if the record is missing. */
export function evaluateGet(precondition: Precondition, current: SyncRecord | null): GetOutcome {
  if (current === null) return { outcome: 'missing' }
  const outcome = evaluateRead(precondition, current.lastModified)
  if (outcome === null) return { outcome: 'found', record: current }
  if (outcome === 'not-modified') return { outcome, timestamp: current.lastModified }
  return { outcome, existing: current }
}

/** Evaluates a read of one or all collections; null: the read proceeds. Collections always exist, so `absent` has no effect. */
export function evaluateCollection(precondition: Precondition, current: Timestamp): UnmetPrecondition | null {
  if (precondition.kind === 'absent') return null
  const outcome = evaluateRead(precondition, current)
  return outcome && { outcome, timestamp: current }
}

/**
 * Whether a write of one record may proceed; `current` is null if the record is missing. `unmodified-since` requires an existing record.
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

/** Whether the deletion of an existing record may proceed. */
export function allowsDelete(precondition: Precondition, current: Timestamp): boolean {
  return precondition.kind !== 'unmodified-since' || current <= precondition.timestamp
}
