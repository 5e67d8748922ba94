import { UpstreamError } from '../domain/errors.ts'
import { callLimits, limits } from './limits.ts'

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
 * holder alone gets seven eighths of all, two get seven fifteenths each, and there is always one left for another.
 */
const shareOfRest = 7

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

/** Idle nodes have nothing to remember. */
const maxIdleNodes = 1000

/** What tells whose permits a call needs. One that must complete waits as long as it takes. */
interface CallToPermit {
  target: 'token' | 'storage'
  url: { origin: string }
  user: string
  callClass?: 'normal' | 'must-complete' | 'probe'
}

/** The permits for calls: of the token server, of each storage node among its users, and of all nodes among one another. */
export class ConcurrencyLimits {
  /** Permits for lists, from the question to the last byte, among users. */
  readonly lists: FairSemaphore
  readonly #token: FairSemaphore
  readonly #storage: FairSemaphore
  readonly #nodes = new Map<string, FairSemaphore>()
  readonly #permits: ReturnType<typeof callLimits>
  readonly #queue: { waiting: number; waitMs: number }

  constructor(
    fetchSlots: number,
    { maxRequests, maxListsOfUser }: { maxRequests: number; maxListsOfUser: number },
  ) {
    this.#permits = callLimits(fetchSlots)
    this.#queue = { waiting: limits.callsWaitingForRequest * maxRequests, waitMs: limits.callWaitMs }
    this.#token = this.#semaphore('calls to the token server', this.#permits.token)
    this.#storage = this.#semaphore('calls to the storage', this.#permits.storage)
    const { lists: permits } = this.#permits
    const lists = { name: 'lists', permits, waiting: maxRequests, waitMs: limits.listWaitMs }
    this.lists = new FairSemaphore({
      ...lists,
      ...(maxListsOfUser > 0 && { permitsOfOne: maxListsOfUser }),
    })
  }

  /** A permit for a call if one is free. */
  tryAcquire(request: CallToPermit): CallPermit | null {
    const { target, user, url } = request
    if (target === 'token') {
      const holder = this.#token.tryAcquire(user)
      return holder && new CallPermit(this.#token, holder)
    }
    const node = this.#nodeOf(request)
    const ofNode = node.tryAcquire(user)
    const holder = ofNode && this.#storage.tryAcquire(url.origin)
    if (holder) return new CallPermit(this.#storage, holder, node, ofNode)
    if (ofNode) node.release(ofNode)
    return null
  }

  /** A permit as soon as there is one. Rejects with `overload`; not for a call that finishes what has begun. */
  async acquire(request: CallToPermit): Promise<CallPermit> {
    const { target, user, url, callClass } = request
    const isPatient = callClass === 'must-complete'
    if (target === 'token') return new CallPermit(this.#token, await this.#token.acquire(user, isPatient))
    const node = this.#nodeOf(request)
    const ofNode = await node.acquire(user, isPatient)
    try {
      const holder = await this.#storage.acquire(url.origin, isPatient)
      return new CallPermit(this.#storage, holder, node, ofNode)
    } catch (error) {
      node.release(ofNode)
      throw error
    }
  }

  #nodeOf({ url }: CallToPermit): FairSemaphore {
    const known = this.#nodes.get(url.origin)
    if (known) return known
    // Users' nodes come and go.
    if (this.#nodes.size >= maxIdleNodes) {
      for (const [other, node] of this.#nodes) if (node.isIdle) this.#nodes.delete(other)
    }
    const node = this.#semaphore('calls to the storage node', this.#permits.node)
    this.#nodes.set(url.origin, node)
    return node
  }

  #semaphore(name: string, permits: number): FairSemaphore {
    return new FairSemaphore({ name, permits, ...this.#queue })
  }
}

/** The right of one call to be in flight: a permit of its target, and of its node where it has one. */
export class CallPermit {
  constructor(
    private readonly whole: FairSemaphore,
    private readonly holder: Holder,
    private readonly node: FairSemaphore | null = null,
    private readonly ofNode: Holder | null = null,
  ) {}

  /** To be called once. */
  release(): void {
    this.whole.release(this.holder)
    if (this.ofNode) this.node!.release(this.ofNode)
  }
}
