import { UpstreamError } from '../domain/errors.ts'
import type { HeldMemory } from '../domain/record-storage.ts'

export interface BudgetOptions {
  /** When the client must have its answer, on the clock of `now`. */
  deadlineAtMs: number
  /** The part of this time that is kept for finishing or undoing what has become visible. */
  commitReserveMs: number
  /** How long to go on at least once something may be visible, whatever the deadline; 15 s if absent. */
  patienceMs?: number
  now(): number
  delay(ms: number): Promise<void>
  /** From 0 up to, but not including, 1. */
  random(): number
  /** Of the request that the transaction is for. */
  memory: HeldMemory
  /** How many bytes the lists and records in the answer may hold together. */
  maxAnswerBytes: number
}

const firstBackoffMs = 25
const maxBackoffMs = 1000
const defaultPatienceMs = 15_000

/** What one transaction may use: its time, and the bytes that its answer holds in memory. */
export class Budget {
  readonly #options: BudgetOptions
  #endsAtMs: number
  #leftBytes: number
  #unreadBytes: number
  /** The bytes for each operation, by its index. */
  readonly #held = new Map<number, number>()

  constructor(options: BudgetOptions) {
    this.#options = options
    this.#endsAtMs = options.deadlineAtMs - options.commitReserveMs
    this.#leftBytes = options.maxAnswerBytes
    // Lists are read again when another writer was first, and a list that turns out too large has been read in part.
    this.#unreadBytes = 4 * this.#leftBytes
  }

  /** The time in ms that is left: until the deadline less the reserve, while nothing was extended. */
  get leftMs(): number {
    return this.#endsAtMs - this.#options.now()
  }

  /** Whether there is time for one more attempt. */
  get hasTime(): boolean {
    return this.leftMs > 0
  }

  /** Throws when it is too late to begin anything new. Called only while nothing is visible upstream. */
  requireTime(): void {
    if (this.hasTime) return
    const message = 'Cannot go on: the time for the request is used up'
    throw new UpstreamError('timeout', message, { applied: 'no' })
  }

  /** The commit begins: the time that was kept for it may be used. */
  releaseReserve(): void {
    this.#endsAtMs = Math.max(this.#endsAtMs, this.#options.deadlineAtMs)
  }

  /** Something may be visible, which must be completed or undone before the client is answered. */
  extend(): void {
    const { now, patienceMs = defaultPatienceMs } = this.#options
    this.#endsAtMs = Math.max(this.#endsAtMs, now() + patienceMs)
  }

  /** Waits so many ms. */
  async wait(ms: number): Promise<void> {
    await this.#options.delay(ms)
  }

  /**
   * Waits after a failed attempt, longer each time: a restart of the storage takes seconds. The time is random, so that two writers that
   * collided don't collide again. Never waits beyond the end, so that one last attempt is made there.
   */
  async backOff(failures: number): Promise<void> {
    const backoffMs = Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.min(failures - 1, 10))
    await this.wait(Math.max(1, Math.min(backoffMs * (0.5 + this.#options.random()), this.leftMs - 1)))
  }

  /** Whether so much has been read that nothing more may be. */
  get isSpent(): boolean {
    return this.#unreadBytes <= 0
  }

  /**
   * Holds so many bytes for an operation, in place of what it held before; false when the answer has no room for them. The memory of
   * what was read is held until the request ends; throws `UpstreamError` (overload) when there is none.
   */
  hold(index: number, bytes: number): boolean {
    const more = bytes - (this.#held.get(index) ?? 0)
    if (more > 0) this.#unreadBytes -= more
    if (more > this.#leftBytes) return false
    if (more > 0) this.#options.memory.grow(more)
    this.#leftBytes -= more
    this.#held.set(index, bytes)
    return true
  }
}
