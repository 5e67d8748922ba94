import { UpstreamError } from './errors.ts'

/** A map of the entries that were used last. */
export class RecentMap<Key, Value> {
  /** In the order of their last use. */
  readonly #entries = new Map<Key, Value>()

  constructor(readonly maxEntries: number) {}

  get(key: Key): Value | undefined {
    const value = this.#entries.get(key)
    if (value !== undefined) this.set(key, value)
    return value
  }

  set(key: Key, value: Value): void {
    this.#entries.delete(key)
    this.#entries.set(key, value)
    if (this.#entries.size > this.maxEntries) this.#entries.delete(this.#entries.keys().next().value as Key)
  }

  delete(key: Key): void {
    this.#entries.delete(key)
  }

  values(): Value[] {
    return [...this.#entries.values()]
  }
}

/**
 * Runs the tasks, at most `limit` at a time. After a failure no further task is started; it is thrown once the tasks in flight
 * have ended, so that nothing runs on unobserved.
 */
export async function runBounded(tasks: (() => Promise<void>)[], limit = 8): Promise<void> {
  // All lanes take from one generator, which the first failure closes.
  const waiting = (function* () {
    yield* tasks
  })()
  const lanes = Array.from({ length: Math.min(limit, tasks.length) }, async () => {
    for (const task of waiting) await task()
  })
  const ended = await Promise.allSettled(lanes)
  const failure = ended.find((end) => end.status === 'rejected')
  if (failure) throw failure.reason
}

/**
 * In-process mutexes by name. They keep writers of this process apart; the storage's conditions keep writers elsewhere
 * apart.
 */
export class Locks {
  /** For each name the end of whoever came last. */
  readonly #tails = new Map<string, Promise<void>>()

  /** How many names are held at the moment. */
  get size(): number {
    return this.#tails.size
  }

  /**
   * Runs a task while it holds all the names, first come first served. Who comes takes a place in all the queues at once, so two can't
   * wait for each other. Rejects with `UpstreamError` (overload) when the names are not free within so many ms.
   */
  async hold<Result>(
    names: Iterable<string>,
    withinMs: number,
    task: () => Promise<Result>,
  ): Promise<Result> {
    const { promise: done, resolve: release } = Promise.withResolvers<void>()
    const waiting: Promise<void>[] = []
    for (const name of new Set(names)) {
      const before = this.#tails.get(name)
      if (before) waiting.push(before)
      // Whoever gives up lets the next one in only after those before.
      const tail = before ? before.then(() => done) : done
      this.#tails.set(name, tail)
      void tail.then(() => this.#tails.get(name) === tail && this.#tails.delete(name))
    }
    try {
      if (waiting.length > 0) await within(Promise.all(waiting), withinMs)
      return await task()
    } finally {
      release()
    }
  }
}

async function within(free: Promise<unknown>, ms: number): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const message = 'Cannot begin to write: earlier writes take too long'
  const timer = setTimeout(() => reject(new UpstreamError('overload', message)), ms)
  await Promise.race([free, late]).finally(() => clearTimeout(timer))
}
