import { errno, isWriteConflict, ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Locks } from '../domain/bounded.ts'
import type { Budget, BudgetOptions } from './budget.ts'

/** What a transaction reports to logs and metrics: no contents and no owners. */
export interface TransactionEvent {
  /**
   * - `read-only`: nothing was written
   * - `committed`: everything is written and visible
   * - `moved-round`: another writer was first; the collection is read and decided again
   * - `probed`: the response to a write was lost; a snapshot shows whether it was applied
   * - `undone`: a visible part was undone
   * - `partial`: a part is visible and could not be undone
   * - `unknown`: it is unknown whether the writes were applied
   */
  kind: 'read-only' | 'committed' | 'moved-round' | 'probed' | 'undone' | 'partial' | 'unknown'
  collections: string[]
}

export interface TransactionOptions extends BudgetOptions {
  /** Shared by all transactions of the process. */
  locks: Locks
  /** A random id that no record has. Deleting it changes a collection's timestamp, and nothing else. */
  absentId: string
  observe(event: TransactionEvent): void
}

/** Shared by the collections of a transaction. */
export interface TransactionContext {
  readonly options: TransactionOptions
  readonly budget: Budget
  /** Whether the changes become visible in several steps, so that giving up may require an undo. */
  readonly hasSeveralSteps: boolean
  /** Whether a part is known to be visible. */
  readonly isVisible: boolean
  /** Whether any part may be visible, so that giving up requires an undo. */
  readonly mayBeVisible: boolean
  /** From now on an undo may be needed. Also called when a storage commits at once instead of staging. */
  beginCommit(): void
  /** Notes that a part is visible, or may be. */
  markVisible(): void
}

/** Maximum retries while nothing is visible; giving up is harmless then. */
const maxRetries = 5

/**
 * Waits before the next attempt at a write, with backoff. Throws if there is no next attempt: the failure, or `ServiceError` 409 for a
 * lasting conflict. A single write is only retried after a conflict or if `shouldRetry`, because the client can repeat it. A write that
 * timed out is not sent again. Once something may be visible, `commitOrUndo` decides instead.
 */
export async function backOff(
  { mayBeVisible, hasSeveralSteps, budget }: TransactionContext,
  failure: unknown,
  failures: number,
  shouldRetry: boolean,
): Promise<void> {
  const isConflict = isWriteConflict(failure)
  // With Retry-After the storage has said when, so there is no earlier retry.
  const hasRetryAfter = !isConflict && failure instanceof UpstreamError && failure.retryAfterSeconds !== null
  const isFinal = hasRetryAfter || isTimeout(failure)
  const isRetryable = isConflict || (!isFinal && (hasSeveralSteps || shouldRetry))
  if (isRetryable && !mayBeVisible && failures <= maxRetries && budget.hasTime)
    return await budget.backOff(failures)
  if (!isConflict || failure.status !== 409 || mayBeVisible) throw failure
  const message = 'Write conflict: other clients keep changing this collection'
  throw new ServiceError(409, errno.conflict, message, { retryAfterSeconds: failure.retryAfterSeconds })
}

export function isTimeout(failure: unknown): boolean {
  return failure instanceof UpstreamError && failure.failure === 'timeout'
}
