import { UpstreamError } from './errors.ts'

/**
 * A map bounded to `maxEntries` that evicts the entries unused for longest. It keeps two generations, so a lookup in the young one moves
 * nothing; when the young one is full, the old one is dropped.
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
 * Runs the tasks, at most `limit` at a time. After a failure it starts no further task, waits for those in flight, and rejects with the
 * first failure.
 */
export async function runBounded(tasks: (() => Promise<void>)[], limit = 8): Promise<void> {
  // All lanes share one generator, which the first failure closes.
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

/** Mutexes by name, within this process. Conditional writes guard against writers in other processes. */
export class Locks {
  /** For each name, the end of the last holder or waiter. */
  readonly #tails = new Map<string, Promise<void>>()

  /** The number of names that are held. */
  get size(): number {
    return this.#tails.size
  }

  /** Resolves once all current holders and waiters are done. */
  async settled(): Promise<void> {
    await Promise.all(this.#tails.values())
  }

  /**
   * Runs a task while it holds all the names, in order of arrival. A task enters all queues at once, so two tasks can't deadlock. Rejects
   * with `UpstreamError` (overload) when the names are not free within `withinMs`.
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
      // A waiter that gives up keeps its place, so the next one still waits for earlier holders.
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

/** Settles like `result`, or rejects with `late()` after `ms`. */
export function within<Result>(ms: number, result: Promise<Result>, late: () => Error): Promise<Result> {
  const { promise, resolve, reject } = Promise.withResolvers<Result>()
  const timer = setTimeout(() => reject(late()), Math.max(0, ms))
  result.then(resolve, reject).then(() => clearTimeout(timer))
  return promise
}

function tooManyWrites(): UpstreamError {
  return new UpstreamError(
    'overload',
    'Cannot start the write: timed out waiting for earlier writes to the collection',
  )
}
