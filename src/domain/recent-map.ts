/** A map of bounded size: a new entry displaces the one that was not used for the longest time. */
export class RecentMap<Key, Value> {
  // A Map keeps the order of insertion, so entries that are inserted again at every use are ordered by last use.
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
