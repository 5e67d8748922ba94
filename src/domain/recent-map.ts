/** A map of bounded size: what was not asked for the longest time makes room for what is new. */
export class RecentMap<Key, Value> {
  // A Map remembers the order of insertion, so what is inserted anew at every use is ordered by last use.
  readonly #entries = new Map<Key, Value>()

  constructor(readonly maxEntries: number) {}

  get size(): number {
    return this.#entries.size
  }

  get(key: Key): Value | undefined {
    const value = this.#entries.get(key)
    if (value === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, value)
    return value
  }

  set(key: Key, value: Value): void {
    this.#entries.delete(key)
    this.#entries.set(key, value)
    if (this.#entries.size <= this.maxEntries) return
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest)
      return
    }
  }

  delete(key: Key): void {
    this.#entries.delete(key)
  }
}
