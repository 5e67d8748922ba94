import { errno, isWriteConflict, ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Locks } from '../domain/bounded.ts'
import type { Budget } from './budget.ts'
import type { OtherWriters } from './other-writers.ts'

/** What a transaction reports to logs and metrics: no contents, no owners; ids only of records that wait to be removed. */
export type TransactionEvent =
  /** Nothing had to be written. */
  | { kind: 'read-only' }
  /** All is written, and visible. */
  | { kind: 'committed'; collections: number; records: number }
  /** Another writer changed the collection first; it is read and decided again. */
  | { kind: 'moved-round'; collection: string }
  /** The answer to a write was lost; a snapshot is read to see whether it was applied. */
  | { kind: 'probed'; collection: string }
  /** A part was visible, and has been taken back. */
  | { kind: 'undone'; collections: string[] }
  /** A part is visible and could not be taken back. */
  | { kind: 'partial'; collections: string[] }
  /** It is unknown whether the writes to these collections were applied. */
  | { kind: 'unknown'; collections: string[] }
  /** The rows of these deleted records could not be removed: what another client writes there is not seen. */
  | { kind: 'unremoved'; collections: string[]; ids: string[] }

/** What the collections of a transaction share. */
export interface TransactionContext {
  readonly budget: Budget
  readonly locks: Locks
  readonly otherWriters: OtherWriters
  observe(event: TransactionEvent): void
  /** Whether other collections are changed too, so that giving up may mean undoing. */
  isMultiCollection: boolean
  /** Whether any part of the transaction is visible or may be, so that giving up means undoing. */
  readonly mayBeVisible: boolean
  /** From here on an undo may be needed. Also called when a storage ignores the request to stage, and commits at once. */
  beginCommit(): void
  /** A part is visible, or may be. */
  markVisible(): void
}

/** Attempts after the first one, while nothing is visible: giving up costs nothing then. */
const maxRetries = 5

/**
 * Waits before the next attempt at a write, longer each time; throws when no attempt is left: the failure, or `ServiceError` 409 for a
 * conflict that lasts. A single write that has certainly had no effect is repeated by the client, unless it has only collided with
 * another one, or is worth it for another reason. Once something may be visible, `commitOrUndo` decides what is tried next.
 */
export async function backOff(
  { mayBeVisible, isMultiCollection, budget }: TransactionContext,
  failure: unknown,
  failures: number,
  isWorthIt: boolean,
): Promise<void> {
  const isConflict = isWriteConflict(failure)
  // With Retry-After the storage has said when; don't retry before.
  const hasRetryAfter = !isConflict && failure instanceof UpstreamError && failure.retryAfterSeconds !== null
  const isRetryable = isConflict || (!hasRetryAfter && (isMultiCollection || isWorthIt))
  if (isRetryable && !mayBeVisible && failures <= maxRetries && budget.hasTime)
    return await budget.backOff(failures)
  if (!isConflict || failure.status !== 409 || mayBeVisible) throw failure
  const { retryAfterSeconds } = failure
  const extras = retryAfterSeconds === null ? {} : { retryAfterSeconds }
  throw new ServiceError(
    409,
    errno.conflict,
    'Write conflict: other clients keep changing this collection',
    extras,
  )
}
