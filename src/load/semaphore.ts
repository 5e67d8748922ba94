import { UpstreamError } from '../domain/errors.ts'

export interface SemaphoreOptions {
  /** What its permits are for, as an error tells it: "calls to the storage". */
  name: string
  permits: number
  /** Permits of one holder at most, however many are free; no such limit if absent. */
  permitsOfOne?: number
  /** How long a holder waits for a permit. */
  waitMs: number
  /** How many may wait. */
  waiting: number
}

/** Somebody who holds permits of a semaphore, or waits for some: a user, or a node. */
export class Holder {
  /** Permits that it has. */
  held = 0
  readonly waiting: (() => void)[] = []

  constructor(readonly name: string) {}
}

/**
 * The rule of fair shares: a holder takes a permit only while it would have at most so many times what is then left. So one
 * holder alone gets three quarters of all, two get three sevenths each, and there is always one left for another.
 */
const shareOfRest = 3

/**
 * Permits, and a fair queue for them. Of those who wait, whoever holds least goes first, so that one holder with many slow calls
 * can't keep others out.
 */
export class FairSemaphore {
  readonly #holders = new Map<string, Holder>()
  /** Holders of whom calls wait, in the order of their last turn. */
  readonly #queue = new Set<Holder>()
  #free: number
  #waiting = 0

  constructor(private readonly options: SemaphoreOptions) {
    this.#free = options.permits
  }

  /** Whether no permit is held and nobody waits. */
  get isIdle(): boolean {
    return this.#holders.size === 0
  }

  /** A permit, if there is one for that holder now; it is given back by `release`. */
  tryAcquire(name: string): Holder | null {
    const holder = this.#holders.get(name) ?? new Holder(name)
    if (!this.#mayTake(holder)) return null
    this.#take(holder)
    return holder
  }

  /**
   * A permit as soon as there is one. Rejects with `UpstreamError` (overload) when too many wait, or after `waitMs`; not for whoever
   * is patient.
   */
  async acquire(name: string, isPatient = false): Promise<Holder> {
    const taken = this.tryAcquire(name)
    if (taken) return taken
    if (this.#waiting >= this.options.waiting && !isPatient) throw this.#overload()
    const holder = this.#holders.get(name) ?? new Holder(name)
    this.#holders.set(name, holder)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const giveUp = () => {
      holder.waiting.splice(holder.waiting.indexOf(resolve), 1)
      this.#leave(holder)
      reject(this.#overload())
    }
    const timer = isPatient ? null : setTimeout(giveUp, this.options.waitMs)
    holder.waiting.push(resolve)
    this.#queue.add(holder)
    this.#waiting += 1
    await promise
    if (timer !== null) clearTimeout(timer)
    return holder
  }

  /** Gives one permit back. */
  release(holder: Holder): void {
    holder.held -= 1
    this.#free += 1
    this.#forget(holder)
    if (this.#queue.size > 0) this.#admit()
  }

  #mayTake({ held }: Holder): boolean {
    const { permitsOfOne = Number.POSITIVE_INFINITY } = this.options
    if (this.#free === 0 || held >= permitsOfOne) return false
    return held === 0 || held < shareOfRest * (this.#free - 1)
  }

  #take(holder: Holder): void {
    if (holder.held === 0) this.#holders.set(holder.name, holder)
    holder.held += 1
    this.#free -= 1
  }

  #admit(): void {
    while (this.#queue.size > 0) {
      const next = this.#leastHolder()
      if (!next || !this.#mayTake(next)) return
      this.#take(next)
      const resolve = next.waiting.shift()!
      // Holders with equally many take turns.
      this.#queue.delete(next)
      this.#queue.add(next)
      this.#leave(next)
      resolve()
    }
  }

  #leastHolder(): Holder | null {
    let least: Holder | null = null
    for (const holder of this.#queue) {
      if (holder.held === 0) return holder
      if (least === null || holder.held < least.held) least = holder
    }
    return least
  }

  /** One call of a holder waits no more. */
  #leave(holder: Holder): void {
    this.#waiting -= 1
    if (holder.waiting.length === 0) this.#queue.delete(holder)
    this.#forget(holder)
  }

  #forget(holder: Holder): void {
    if (holder.held === 0 && holder.waiting.length === 0) this.#holders.delete(holder.name)
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Too many ${this.options.name}: no permit is free`)
  }
}
