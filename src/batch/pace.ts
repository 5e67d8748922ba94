import { UpstreamError } from '../domain/errors.ts'

/** The time that a transaction has, and how it waits. */
export interface PaceOptions {
  /** On the clock of `now`, when the client has to have its answer. */
  deadlineAtMs: number
  /** What is kept back of it for finishing, or undoing, what has become visible. */
  commitReserveMs: number
  now(): number
  delay(ms: number): Promise<void>
  /** From 0 up to, but not including, 1. */
  random(): number
}

const shortestPauseMs = 10
const longestPauseMs = 80

/** Watches a transaction's time. */
export class Pace {
  readonly #options: PaceOptions

  constructor(options: PaceOptions) {
    this.#options = options
  }

  /** Throws when nothing new may be begun any more. To be asked only while nothing is visible upstream. */
  requireTime(): void {
    const { now, deadlineAtMs, commitReserveMs } = this.#options
    if (now() < deadlineAtMs - commitReserveMs) return
    throw new UpstreamError('timeout', 'Cannot begin to commit: the time for the request is used up', {
      applied: 'no',
    })
  }

  /** Whether there is time for one more attempt at what has been begun. */
  get hasTimeToRetry(): boolean {
    return this.#options.now() < this.#options.deadlineAtMs
  }

  /** Waits for a moment of random length, so that two writers that met don't meet again. */
  async pause(): Promise<void> {
    const { delay, random } = this.#options
    await delay(shortestPauseMs + random() * (longestPauseMs - shortestPauseMs))
  }
}
