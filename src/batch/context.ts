/** What the parts of a transaction share: its options, its budget of time and memory, and the pauses between attempts. */
import { errno, isWriteConflict, ServiceError, UpstreamError } from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import type { Locks } from '../domain/bounded.ts'
import type { OperationOutcome } from '../domain/operation.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { HeldMemory } from '../domain/record-storage.ts'

export interface BudgetOptions {
  /** When the client must be answered, on the clock of `now`. */
  deadlineAtMs: number
  /** The part of this time reserved for finishing or undoing a visible commit. */
  commitReserveMs: number
  now(): number
  delay(ms: number): Promise<void>
  /** From 0 up to, but not including, 1. */
  random(): number
  /** The memory of the client's request. */
  memory: HeldMemory
  /** Maximum bytes of lists and records in the response. */
  maxResponseBytes: number
}

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
  /**
   * Whether these outcomes may be written; default: any. Asked before anything is written, and again when other writers or the storage may
   * have changed them; after a no, nothing stays written.
   */
  accepts?(outcomes: OperationOutcome[]): boolean
  observe(event: TransactionEvent): void
}

/** Shared by the collections of a transaction. */
export interface TransactionContext {
  readonly options: TransactionOptions
  readonly budget: Budget
  /** Whether the changes become visible in several steps, so that giving up may require an undo. */
  readonly hasSeveralSteps: boolean
  /** Whether the outcomes, as they are now, may be written. */
  accepts(): boolean
  /** Whether a part is known to be visible. */
  readonly isVisible: boolean
  /** Whether any part may be visible, so that giving up requires an undo. */
  readonly mayBeVisible: boolean
  /** From now on an undo may be needed. Also called when a storage commits at once instead of staging. */
  beginCommit(): void
  /** Notes that a part is visible, or may be. */
  markVisible(): void
}

/** Minimum time for a commit and its undo once something may be visible. */
const patienceMs = 15_000

/** The budget of one transaction: its time, and the memory of its response. */
export class Budget {
  readonly #options: BudgetOptions
  #endsAtMs: number
  #leftBytes: number
  #unreadBytes: number
  /** Reserved bytes of each operation, by index. */
  readonly #held = new Map<number, number>()
  /** Reserved bytes of each payload that is kept to decide operations or to undo them, by the name of its record. */
  readonly #kept = new Map<string, number>()
  #leftKeptBytes: number
  readonly #payloadSizes = new WeakMap<SyncRecord, number>()

  constructor(options: BudgetOptions) {
    this.#options = options
    this.#endsAtMs = options.deadlineAtMs - options.commitReserveMs
    this.#leftBytes = options.maxResponseBytes
    this.#leftKeptBytes = options.maxResponseBytes
    // Allows re-reading lists after another writer was first, and partial reads of lists that are too large.
    this.#unreadBytes = 4 * this.#leftBytes
  }

  /** Time left in ms, without the reserve until `releaseReserve`. */
  get leftMs(): number {
    return this.#endsAtMs - this.#options.now()
  }

  /** Whether there is time for another attempt. */
  get hasTime(): boolean {
    return this.leftMs > 0
  }

  /** Throws if it is too late to start anything new. Only for use while nothing is visible upstream. */
  requireTime(): void {
    if (this.hasTime) return
    const message = 'Cannot continue the write: the request timed out'
    throw new UpstreamError('timeout', message, { applied: 'no' })
  }

  /** The commit begins, so the reserved time may be used. */
  releaseReserve(): void {
    this.#endsAtMs = Math.max(this.#endsAtMs, this.#options.deadlineAtMs)
  }

  /** Something may be visible and must be completed or undone, so some time remains whatever the deadline. */
  extend(): void {
    this.#endsAtMs = Math.max(this.#endsAtMs, this.#options.now() + patienceMs)
  }

  async wait(ms: number): Promise<void> {
    await this.#options.delay(ms)
  }

  /**
   * Waits after a failed attempt, longer each time and at random, so that two writers don't collide again. Ends before the deadline, to
   * leave time for one last attempt.
   */
  async pause(failures: number): Promise<void> {
    const { firstPauseMs, maxPauseMs } = retries.write
    const pauseMs = Math.min(maxPauseMs, firstPauseMs * 2 ** Math.min(failures - 1, 10))
    await this.wait(Math.max(1, Math.min(pauseMs * (0.5 + this.#options.random()), this.leftMs - 1)))
  }

  /** Whether nothing more may be read. */
  get isSpent(): boolean {
    return this.#unreadBytes <= 0
  }

  /**
   * Reserves bytes for an operation, replacing its earlier reservation; false if the response has no room. Throws `UpstreamError`
   * (overload) if there is no memory.
   */
  hold(index: number, bytes: number): boolean {
    const more = bytes - (this.#held.get(index) ?? 0)
    if (more > 0) this.#unreadBytes -= more
    if (more > this.#leftBytes) return false
    this.#reserve(more)
    this.#leftBytes -= more
    this.#held.set(index, bytes)
    return true
  }

  /** Reserves the bytes of a record's payload as JSON, like `hold`; null: none. */
  holdRecord(index: number, record: SyncRecord | null): boolean {
    return this.hold(index, record === null ? 0 : this.#sizeOf(record))
  }

  /** A character is escaped with up to six bytes. Serialized once for each record; estimated once the budget is spent. */
  #sizeOf(record: SyncRecord): number {
    const { payload } = record
    const measure = () => (this.isSpent ? 6 * payload.length : Buffer.byteLength(JSON.stringify(payload)))
    return this.#payloadSizes.getOrInsertComputed(record, measure)
  }

  /**
   * Reserves memory for the payload of a record, replacing its earlier reservation; false if all payloads of a transaction can't have that
   * much. Throws `UpstreamError` (overload) if others hold the memory.
   */
  keep(record: string, bytes: number): boolean {
    const more = bytes - (this.#kept.get(record) ?? 0)
    if (more > this.#leftKeptBytes) return false
    this.#reserve(more)
    this.#leftKeptBytes -= more
    this.#kept.set(record, bytes)
    return true
  }

  #reserve(bytes: number): void {
    if (bytes > 0) this.#options.memory.grow(bytes)
    else if (bytes < 0) this.#options.memory.shrink(-bytes)
  }
}

/** The error for a list or record that does not fit into the response. */
export function noRoom(): ServiceError {
  const message = 'Too large for the response of a batch: send this request on its own'
  return new ServiceError(413, errno.requestTooLarge, message)
}

/**
 * Waits before the next attempt at a write. Throws if there is no next attempt: the failure, or `ServiceError` 409 for a
 * lasting conflict. A single write is only retried after a conflict or if `shouldRetry`, because the client can repeat it. A write that
 * timed out is not sent again. Once something may be visible, `commitOrUndo` decides instead.
 */
export async function waitToRetry(
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
  if (isRetryable && !mayBeVisible && failures <= retries.write.times && budget.hasTime)
    return await budget.pause(failures)
  if (!isConflict || failure.status !== 409 || mayBeVisible) throw failure
  const message = 'Write conflict: other clients keep changing this collection'
  throw new ServiceError(409, errno.conflict, message, { retryAfterSeconds: failure.retryAfterSeconds })
}

export function isTimeout(failure: unknown): boolean {
  return failure instanceof UpstreamError && failure.failure === 'timeout'
}
