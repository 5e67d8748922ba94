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
