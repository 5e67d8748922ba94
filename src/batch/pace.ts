import { UpstreamError } from '../domain/errors.ts'

/** The time that a transaction has, and how it waits. */
export interface PaceOptions {
  /** On the clock of `now`, when the client has to have its answer. */
  deadlineAtMs: number
  /** What is kept back of it for finishing, or undoing, what has become visible. */
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

  /** Throws when nothing new may be begun any more. To be asked only while nothing is visible upstream. */
  requireTime(): void {
    const { now, deadlineAtMs, commitReserveMs } = this.#options
    if (now() < deadlineAtMs - commitReserveMs) return
    throw new UpstreamError('timeout', 'Cannot begin to commit: the time for the request is used up', {
      applied: 'no',
    })
  }

  /** From now on attempts go on for as long as the deadline leaves time for an undo, and for the patience at least. */
  beginCommit(): void {
    this.#extendTo(this.#options.deadlineAtMs - this.#options.commitReserveMs)
  }

  /** From now on attempts go on until the deadline, and for the patience at least. */
  beginUndo(): void {
    this.#extendTo(this.#options.deadlineAtMs)
  }

  /** Whether there is time for one more attempt at what has been begun. */
  get hasTimeToRetry(): boolean {
    return this.#options.now() < this.#endsAtMs
  }

  /** Waits for a moment of random length, so that two writers that met don't meet again. */
  async pause(): Promise<void> {
    const { delay, random } = this.#options
    await delay(shortestPauseMs + random() * (longestPauseMs - shortestPauseMs))
  }

  async pauseFor(ms: number): Promise<void> {
    await this.#options.delay(ms)
  }

  /**
   * Waits after an attempt that failed, longer after each: a restart of the storage takes seconds. Never beyond the end,
   * so that one more attempt is made at the last moment.
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
