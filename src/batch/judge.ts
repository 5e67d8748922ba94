import { judgeRead } from '../domain/precondition.ts'
import type { OutcomeOf } from '../domain/operation.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'

/**
 * Judges a read of a whole collection, or of all of them, which always exist, if need be empty and with the
 * timestamp `never`. "Only if absent" therefore has no meaning for them, and no effect.
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

/** What a read of one record answers, given the record or null. */
export function judgeGet(precondition: Precondition, current: SyncRecord | null): OutcomeOf['get'] {
  const verdict = judgeRead(precondition, current?.lastModified ?? null)
  if (current === null || verdict === 'missing') return { outcome: 'missing' }
  switch (verdict) {
    case 'proceed':
      return { outcome: 'found', record: current }
    case 'failed':
      return { outcome: 'precondition-failed', existing: current }
    case 'not-modified':
      return { outcome: 'not-modified', timestamp: current.lastModified }
    default:
      return verdict satisfies never
  }
}
