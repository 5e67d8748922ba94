/**
 * In-process mutexes by name. They keep this process's own writers to one collection from disturbing one another;
 * writers elsewhere are kept apart by the storage's conditions.
 */
export class Locks {
  readonly #tails = new Map<string, Promise<void>>()

  /** How many names are held at the moment. */
  get size(): number {
    return this.#tails.size
  }

  /**
   * Waits until all the names are free, first come first served, and holds them until the function that comes
   * back is called. Repeated calls of it do nothing. Names are taken in sorted order, so that two callers with
   * the same names never wait for each other.
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
