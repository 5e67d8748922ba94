import { UpstreamError } from '../domain/errors.ts'

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
   * wait for each other. Rejects with `UpstreamError` (overload) when they are not free within so many ms.
   */
  async acquire(names: Iterable<string>, withinMs: number): Promise<() => void> {
    const releases: (() => void)[] = []
    const release = () => {
      for (const each of releases.splice(0)) each()
    }
    const { promise: late, reject } = Promise.withResolvers<never>()
    late.catch(() => {})
    const timer = setTimeout(() => {
      reject(
        new UpstreamError(
          'overload',
          'Cannot begin to write: earlier writes to the collection take too long',
        ),
      )
    }, withinMs)
    try {
      for (const name of [...new Set(names)].sort()) {
        const { isFree, release: unlock } = this.#enqueue(name)
        releases.push(unlock)
        if (isFree) await Promise.race([isFree, late])
      }
    } catch (error) {
      release()
      throw error
    } finally {
      clearTimeout(timer)
    }
    return release
  }

  /** A place in the queue for a name; `isFree` is null where it is free at once. An early release lets the next one pass in its turn. */
  #enqueue(name: string): { isFree: Promise<void> | null; release(): void } {
    const { promise: released, resolve } = Promise.withResolvers<void>()
    const before = this.#tails.get(name) ?? null
    let hasTurn = before === null
    const isFree = before && before.then(() => void (hasTurn = true))
    const tail = isFree ? isFree.then(() => released) : released
    this.#tails.set(name, tail)
    const forget = () => {
      if (hasTurn && this.#tails.get(name) === tail) this.#tails.delete(name)
    }
    void tail.then(forget)
    const release = () => {
      resolve()
      forget()
    }
    return { isFree, release }
  }
}
