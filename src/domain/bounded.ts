/** Bounded map with second-chance (CLOCK) eviction: an entry that was used since it was last looked at is spared once. */
export class RecentMap<Key, Value> {
  // A Map keeps the order of insertion.
  readonly #entries = new Map<Key, { value: Value; wasUsed: boolean }>()
  /** The next to be displaced. Kept, because a search from the start walks over all that have been deleted there. */
  #hand = this.#entries.entries()

  constructor(readonly maxEntries: number) {}

  get size(): number {
    return this.#entries.size
  }

  get(key: Key): Value | undefined {
    if (this.#entries.size === 0) return undefined
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    entry.wasUsed = true
    return entry.value
  }

  set(key: Key, value: Value): void {
    this.#entries.delete(key)
    if (this.#entries.size >= this.maxEntries) this.#displaceOne()
    this.#entries.set(key, { value, wasUsed: false })
  }

  delete(key: Key): void {
    this.#entries.delete(key)
  }

  values(): Value[] {
    return Array.from(this.#entries.values(), ({ value }) => value)
  }

  #displaceOne(): void {
    for (;;) {
      const next = this.#hand.next()
      if (next.done) {
        this.#hand = this.#entries.entries()
        continue
      }
      const [key, entry] = next.value
      this.#entries.delete(key)
      if (!entry.wasUsed) return
      entry.wasUsed = false
      this.#entries.set(key, entry)
    }
  }
}

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
