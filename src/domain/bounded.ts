import { UpstreamError } from './errors.ts'

/**
 * A map that forgets what was not used for long: of `maxEntries` it keeps at least the half that was used last. It has two generations:
 * a look-up moves nothing within the young one, and when that is full, the old one is dropped.
 */
export class RecentMap<Key, Value> {
  #young = new Map<Key, Value>()
  #old = new Map<Key, Value>()

  constructor(readonly maxEntries: number) {}

  get(key: Key): Value | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: Key, value: Value): void {
    this.#old.delete(key)
    if (this.#young.size >= this.maxEntries / 2 && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }

  delete(key: Key): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }

  values(): Value[] {
    return [...this.#old.values(), ...this.#young.values()]
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

  /** Resolves once everybody is done who holds names or waits for them now. */
  async settled(): Promise<void> {
    await Promise.all(this.#tails.values())
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
      if (waiting.length > 0) await within(withinMs, Promise.all(waiting), tooManyWrites)
      return await task()
    } finally {
      release()
    }
  }
}

/** The same outcome, or a rejection with `late` when there is none after so many ms. */
export function within<Result>(ms: number, result: Promise<Result>, late: () => Error): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>()
  const timer = setTimeout(() => reject(late()), Math.max(0, ms))
  result.then(resolve, reject).then(() => clearTimeout(timer))
  return promise
}

function tooManyWrites(): UpstreamError {
  return new UpstreamError('overload', 'Cannot begin to write: earlier writes take too long')
}
