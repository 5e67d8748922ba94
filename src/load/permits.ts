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
  /** How many connections there may be, one for each call, as over HTTP/1.1; null or absent where calls share one. */
  connections?(): number | null
}

/** One call that waits for a permit. */
interface Waiter {
  /** Of its holder. */
  name: string
  resolve(holder: Holder): void
  timer: ReturnType<typeof setTimeout> | undefined
  /** Whether it has waited long enough to open a connection. */
  mayOpen: boolean
}

/** Somebody who holds permits of a semaphore, or waits for some: a user, or a node. */
export class Holder {
  /** Permits that it has. */
  held = 0
  /** Its calls that wait, without those that complete a commit. */
  readonly waiting: Waiter[] = []

  constructor(readonly name: string) {}
}

/**
 * The rule of fair shares: a holder takes a permit only while it would have at most so many times what is then left. So one
 * holder alone gets seven eighths of all, two get seven fifteenths each, and there is always one left for another.
 */
const shareOfRest = 7

/**
 * Permits, and a fair queue for them; over HTTP/1.1 also for connections. Of those who wait, whoever holds least goes first, so
 * that one holder with many slow calls can't keep others out.
 *
 * Calls that complete a started commit go before all others, in the order in which they come. The commits of one batch come together,
 * so they also leave together: between the first and the last one, others see a part of the batch, and a kill would tear it.
 */
export class FairSemaphore {
  readonly #holders = new Map<string, Holder>()
  /** Holders of whom calls wait, in the order of their last turn. */
  readonly #queue = new Set<Holder>()
  /** Calls that complete a commit, in the order in which they came. */
  readonly #completing: Waiter[] = []
  /** Permits that are held. */
  #taken = 0
  /** How many wait, without those that complete a commit. */
  #waiting = 0
  /** Connections that nobody has to wait for: those that are idle, and the first that are opened. */
  #ready: number = limits.keptConnections
  /** How long the shortest of the last few hundred calls took: a busy process delays all of them, but this one least. */
  #shortestMs = Infinity

  constructor(private readonly options: SemaphoreOptions) {}

  /** Whether no permit is held and nobody waits. */
  get isIdle(): boolean {
    return this.#holders.size === 0 && this.#completing.length === 0
  }

  /** A permit, if there is one for that holder now; it is given back by `release`. */
  tryAcquire(name: string, mustComplete = false): Holder | null {
    if (this.#completing.length > 0) return null
    const holder = this.#holders.get(name) ?? new Holder(name)
    return this.#mayTake(holder, this.#free(false), mustComplete) ? this.#take(holder) : null
  }

  /**
   * A permit as soon as there is one. Rejects with `UpstreamError` (overload) when too many wait, or after `waitMs`; not for a call
   * that must complete a commit.
   */
  acquire(name: string, mustComplete = false): Promise<Holder> {
    const taken = this.tryAcquire(name, mustComplete)
    if (taken) return Promise.resolve(taken)
    if (this.#waiting >= this.options.waiting && !mustComplete) return Promise.reject(this.#overload())
    const { promise, resolve, reject } = Promise.withResolvers<Holder>()
    const { connectionWaitMs } = limits
    const openMs = this.#shortestMs > connectionWaitMs ? connectionWaitMs : 10 * connectionWaitMs
    const giveUp = () => {
      const holder = this.#holders.get(name)!
      holder.waiting.splice(holder.waiting.indexOf(waiter), 1)
      this.#leave(holder)
      reject(this.#overload())
    }
    const open = () => {
      waiter.timer = mustComplete ? undefined : setTimeout(giveUp, this.options.waitMs - openMs)
      waiter.mayOpen = true
      this.#admit()
    }
    const waiter: Waiter = { name, resolve, timer: setTimeout(open, openMs), mayOpen: false }
    if (!mustComplete) this.#queueUp(waiter)
    else {
      this.#completing.push(waiter)
      // It may be over the share of its holder, and then nobody waits behind it.
      this.#admit()
    }
    return promise
  }

  /** Gives one permit back. `lastedMs`: how long the call took; null: that is not known. */
  release(holder: Holder, lastedMs: number | null = null): void {
    holder.held -= 1
    this.#taken -= 1
    this.#ready = Math.min(this.#ready + 1, limits.keptConnections)
    this.#shortestMs = Math.min(lastedMs ?? Infinity, this.#shortestMs * 1.005)
    this.#forget(holder)
    this.#admit()
  }

  /** The permits that are free; none where a connection would have to be opened first, unless it may be. */
  #free(mayOpen: boolean): number {
    const { permits } = this.options
    const connections = this.options.connections?.() ?? null
    if (connections === null) return permits - this.#taken
    return this.#ready > 0 || mayOpen ? Math.min(permits, connections) - this.#taken : 0
  }

  /** Whether a holder may have one of so many free permits. */
  #mayTake({ held }: Holder, free: number, mustComplete: boolean): boolean {
    const { permitsOfOne = Number.POSITIVE_INFINITY } = this.options
    if (free <= 0 || held >= permitsOfOne) return false
    // What others hold does not make the share of a commit smaller.
    const left = mustComplete ? free + this.#taken - held : free
    return held === 0 || held < shareOfRest * (left - 1)
  }

  #take(holder: Holder): Holder {
    if (holder.held === 0) this.#holders.set(holder.name, holder)
    holder.held += 1
    this.#taken += 1
    if (this.#ready > 0) this.#ready -= 1
    return holder
  }

  #queueUp(waiter: Waiter): void {
    const holder = this.#holders.getOrInsertComputed(waiter.name, (name) => new Holder(name))
    holder.waiting.push(waiter)
    this.#queue.add(holder)
    this.#waiting += 1
  }

  #admit(): void {
    for (let waiter = this.#completing[0]; waiter; waiter = this.#completing[0]) {
      const free = this.#free(waiter.mayOpen)
      if (free <= 0) return
      this.#completing.shift()
      const holder = this.#holders.get(waiter.name) ?? new Holder(waiter.name)
      if (this.#mayTake(holder, free, true)) this.#serve(waiter, holder)
      // One user with many commits that hang does not keep the others out.
      else this.#queueUp(waiter)
    }
    while (this.#queue.size > 0) {
      const next = this.#leastHolder()
      if (!next || !this.#mayTake(next, this.#free(next.waiting[0]!.mayOpen), false)) return
      const waiter = next.waiting.shift()!
      // Holders with equally many take turns.
      this.#queue.delete(next)
      this.#queue.add(next)
      this.#serve(waiter, next)
      this.#leave(next)
    }
  }

  #serve({ timer, resolve }: Waiter, holder: Holder): void {
    clearTimeout(timer)
    resolve(this.#take(holder))
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

/** Idle origins have hardly anything to remember. */
const maxIdleOrigins = 1000

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
  readonly #storage: FairSemaphore
  readonly #origins = {
    token: new Map<string, FairSemaphore>(),
    storage: new Map<string, FairSemaphore>(),
  }
  readonly #permits: ReturnType<typeof callLimits>
  readonly #queue: { waiting: number; waitMs: number }

  /**
   * `sharesConnection`: whether calls to an origin do, as over HTTP/2; `mostConnections`: how many there may be to a host where they
   * don't.
   */
  constructor(
    fetchSlots: number,
    { maxRequests, maxListsOfUser }: { maxRequests: number; maxListsOfUser: number },
    private readonly sharesConnection: (origin: string) => boolean,
    private readonly mostConnections: (hostname: string) => number,
  ) {
    this.#permits = callLimits(fetchSlots)
    const { storage, lists } = this.#permits
    this.#queue = { waiting: limits.callsWaitingForRequest * maxRequests, waitMs: limits.callWaitMs }
    this.#storage = new FairSemaphore({ name: 'calls to the storage', permits: storage, ...this.#queue })
    this.lists = new FairSemaphore({
      name: 'lists',
      permits: lists,
      waiting: maxRequests,
      waitMs: limits.listWaitMs,
      ...(maxListsOfUser > 0 && { permitsOfOne: maxListsOfUser }),
    })
  }

  /** A permit for a call if one is free. */
  tryAcquire(request: CallToPermit): CallPermit | null {
    const { target, user, url, callClass } = request
    const mustComplete = callClass === 'must-complete'
    const origin = this.#originOf(request)
    const ofOrigin = origin.tryAcquire(user, mustComplete)
    if (!ofOrigin) return null
    if (target === 'token') return new CallPermit(origin, ofOrigin)
    const holder = this.#storage.tryAcquire(url.origin, mustComplete)
    if (holder) return new CallPermit(origin, ofOrigin, this.#storage, holder)
    origin.release(ofOrigin)
    return null
  }

  /** A permit as soon as there is one. Rejects with `overload`; not for a call that must complete a commit. */
  async acquire(request: CallToPermit): Promise<CallPermit> {
    const { target, user, url, callClass } = request
    const mustComplete = callClass === 'must-complete'
    const origin = this.#originOf(request)
    const ofOrigin = await origin.acquire(user, mustComplete)
    if (target === 'token') return new CallPermit(origin, ofOrigin)
    try {
      const holder = await this.#storage.acquire(url.origin, mustComplete)
      return new CallPermit(origin, ofOrigin, this.#storage, holder)
    } catch (error) {
      origin.release(ofOrigin)
      throw error
    }
  }

  #originOf({ target, url }: CallToPermit): FairSemaphore {
    return this.#origins[target].get(url.origin) ?? this.#open(target, url.origin)
  }

  #open(target: CallToPermit['target'], origin: string): FairSemaphore {
    const origins = this.#origins[target]
    // Users' nodes come and go.
    if (origins.size >= maxIdleOrigins) {
      for (const [other, semaphore] of origins) if (semaphore.isIdle) origins.delete(other)
    }
    const connections = this.mostConnections(new URL(origin).hostname)
    const made = new FairSemaphore({
      ...(target === 'token'
        ? { name: 'calls to the token server', permits: this.#permits.token }
        : { name: 'calls to the storage node', permits: this.#permits.node }),
      ...this.#queue,
      connections: () => (this.sharesConnection(origin) ? null : connections),
    })
    origins.set(origin, made)
    return made
  }
}

/** The right of one call to be in flight: a permit of its origin, and for a storage one of all storages together. */
export class CallPermit {
  constructor(
    private readonly origin: FairSemaphore,
    private readonly ofOrigin: Holder,
    private readonly whole: FairSemaphore | null = null,
    private readonly ofWhole: Holder | null = null,
  ) {}

  /** To be called once. `lastedMs`: how long the call took; null: that is not known. */
  release(lastedMs: number | null): void {
    if (this.ofWhole) this.whole!.release(this.ofWhole)
    this.origin.release(this.ofOrigin, lastedMs)
  }
}
