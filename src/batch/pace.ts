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

  /** Waits for a random time, so that two writers that collided don't collide again. */
  async pause(): Promise<void> {
    const { delay, random } = this.#options
    await delay(shortestPauseMs + random() * (longestPauseMs - shortestPauseMs))
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

/** What a transaction reports to logs and metrics: no ids, no contents, no owners. */
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

/**
 * Runs the tasks, at most `limit` at a time. After the first failure no further task is started; the failure is thrown
 * once the tasks in flight have ended, so that nothing runs on unobserved.
 */
export async function runBounded(tasks: (() => Promise<void>)[], limit = 8): Promise<void> {
  const waiting = [...tasks]
  const failures: unknown[] = []
  const lanes = Array.from({ length: Math.min(limit, tasks.length) }, async () => {
    for (let task = waiting.shift(); task && failures.length === 0; task = waiting.shift()) {
      try {
        await task()
      } catch (error) {
        failures.push(error)
      }
    }
  })
  await Promise.all(lanes)
  if (failures.length > 0) throw failures[0]
}

/**
 * In-process mutexes by name. They keep writers of this process apart; the storage's conditions keep writers elsewhere
 * apart.
 */
export class Locks {
  readonly #tails = new Map<string, Promise<void>>()

  /** How many names are held at the moment. */
  get size(): number {
    return this.#tails.size
  }

  /**
   * Waits until all the names are free, first come first served, and locks them. The function that comes back unlocks
   * them; further calls of it do nothing. Names are locked in sorted order, so that two callers with the same names can't
   * wait for each other.
   */
  async acquire(names: Iterable<string>): Promise<() => void> {
    const releases: (() => void)[] = []
    for (const name of [...new Set(names)].sort()) releases.push(await this.#acquireOne(name))
    return () => {
      for (const release of releases.splice(0)) release()
    }
  }

  async #acquireOne(name: string): Promise<() => void> {
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const before = this.#tails.get(name)
    const tail = before ? before.then(() => released) : released
    this.#tails.set(name, tail)
    await before
    return () => {
      if (this.#tails.get(name) === tail) this.#tails.delete(name)
      release()
    }
  }
}
