import { UpstreamError } from '../domain/errors.ts'

/** The time that a transaction has, and how it waits. */
export interface PaceOptions {
  /** When the client must have its answer, on the clock of `now`. */
  deadlineAtMs: number
  /** The part of this time that is kept for finishing or undoing what has become visible. */
  commitReserveMs: number
  /** How long a commit, and then an undo, goes on at least, whatever the deadline; 10 s if absent. */
  patienceMs?: number
  now(): number
  delay(ms: number): Promise<void>
  /** From 0 up to, but not including, 1. */
  random(): number
}

const shortestPauseMs = 10
const longestPauseMs = 80
const firstBackoffMs = 25
const longestBackoffMs = 1000
const defaultPatienceMs = 10_000

/** Watches a transaction's time. */
export class Pace {
  readonly #options: PaceOptions
  #endsAtMs: number

  constructor(options: PaceOptions) {
    this.#options = options
    this.#endsAtMs = options.deadlineAtMs
  }

  /** Throws when it is too late to begin anything new. Called only while nothing is visible upstream. */
  requireTime(): void {
    if (this.leftMs > 0) return
    throw new UpstreamError('timeout', 'Cannot begin to commit: the time for the request is used up', {
      applied: 'no',
    })
  }

  /** The time in ms until it is too late to begin anything new. */
  get leftMs(): number {
    const { now, deadlineAtMs, commitReserveMs } = this.#options
    return deadlineAtMs - commitReserveMs - now()
  }

  /** From now on retry until the deadline less the reserve, and for the patience at least. */
  beginCommit(): void {
    this.#extendTo(this.#options.deadlineAtMs - this.#options.commitReserveMs)
  }

  /** From now on retry until the deadline, and for the patience at least. */
  beginUndo(): void {
    this.#extendTo(this.#options.deadlineAtMs)
  }

  /** Whether there is time for one more attempt at what has been begun. */
  get hasTimeToRetry(): boolean {
    return this.#options.now() < this.#endsAtMs
  }

  /** Waits for a random time, so that two writers that collided don't collide again. */
  async pause(): Promise<void> {
    const { delay, random } = this.#options
    await delay(shortestPauseMs + random() * (longestPauseMs - shortestPauseMs))
  }

  /** Waits so many ms. */
  async wait(ms: number): Promise<void> {
    await this.#options.delay(ms)
  }

  /**
   * Waits after a failed attempt, longer each time: a restart of the storage takes seconds. Never waits beyond the end,
   * so that one last attempt is made there.
   */
  async backOff(failures: number): Promise<void> {
    const { delay, random, now } = this.#options
    const backoffMs = Math.min(longestBackoffMs, firstBackoffMs * 2 ** Math.min(failures - 1, 10))
    await delay(Math.max(1, Math.min(backoffMs * (0.5 + random()), this.#endsAtMs - now() - 1)))
  }

  #extendTo(endsAtMs: number): void {
    const { now, patienceMs = defaultPatienceMs } = this.#options
    this.#endsAtMs = Math.max(endsAtMs, now() + patienceMs)
  }
}

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
