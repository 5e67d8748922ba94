/**
 * A map of bounded size. A new entry displaces the oldest one that was not used since it was entered or last spared: being
 * used spares an entry once. So a lookup only marks its entry, and the order of entries changes only when there is one too many.
 */
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
