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
  /** A clock in ms that never goes back. */
  now(): number
}

/** How one call waits for a permit. */
interface Wait {
  /** Whether it completes a commit. */
  mustComplete: boolean
  sinceMs: number
  /** What ends the call, because its time is over or its client has hung up. */
  signal: AbortSignal | null
}

/** One call that waits for a permit. */
interface Waiter extends Wait {
  /** Of its holder. */
  name: string
  /** Whether it has waited long enough to open a connection. */
  mayOpen: boolean
  resolve(): void
  reject(error: unknown): void
}

/** How often those who wait are looked at. */
const lookEveryMs = 5

/**
 * Permits, and a fair queue for them; over HTTP/1.1 also for connections. They are held by name, of a user or of a node. Of those who
 * wait, whoever holds least goes first, so that one holder with many slow calls can't keep others out.
 *
 * Calls that complete a started commit go before all others, in the order in which they come. The commits of one batch come together,
 * so they also leave together: between the first and the last one, others see a part of the batch, and a kill would tear it.
 */
export class FairSemaphore {
  /** How many permits each holder has; only those who have one. */
  readonly #held = new Map<string, number>()
  /** Calls that wait, by their holders in the order of these holders' last turn. */
  readonly #queue = new Map<string, Waiter[]>()
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
  /** Whether the timer for `#look` runs. One timer serves all who wait. */
  #isLookDue = false

  constructor(private readonly options: SemaphoreOptions) {}

  /** Whether no permit is held and nobody waits. */
  get isIdle(): boolean {
    return this.#taken === 0 && this.#waiting === 0 && this.#completing.length === 0
  }

  /** Takes a permit, if there is one for that holder now; it is given back by `release`. */
  tryAcquire(name: string, mustComplete = false): boolean {
    if (this.#completing.length > 0 || !this.#mayTake(name, this.#free(false), mustComplete)) return false
    this.#take(name)
    return true
  }

  /**
   * Takes a permit as soon as there is one. Rejects with `UpstreamError` (overload) when too many wait, or after `waitMs`, and with
   * the reason of the signal once that has fired; not for a call that must complete a commit.
   */
  acquire(name: string, wait: Partial<Wait> = {}): Promise<void> {
    const { mustComplete = false, sinceMs = this.options.now(), signal = null } = wait
    if (this.tryAcquire(name, mustComplete)) return Promise.resolve()
    if (this.#waiting >= this.options.waiting && !mustComplete) return Promise.reject(this.#overload())
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = { name, mustComplete, sinceMs, signal, mayOpen: false, resolve, reject }
    if (!this.#isLookDue) setTimeout(this.#look, lookEveryMs)
    this.#isLookDue = true
    if (!mustComplete) this.#queueUp(waiter)
    else {
      this.#completing.push(waiter)
      // It may be over the share of its holder, and then nobody waits behind it.
      this.#admit()
    }
    return promise
  }

  /**
   * Lets those open connections who have waited long enough for one in use. Those leave who have waited too long, and whose call has
   * ended meanwhile.
   */
  readonly #look = (): void => {
    const { waitMs, now } = this.options
    const openMs = this.#openAfterMs
    const nowMs = now()
    for (const waiter of [...this.#completing, ...[...this.#queue.values()].flat()]) {
      const waitedMs = nowMs - waiter.sinceMs
      const hasEnded = waiter.signal?.aborted === true
      if (waitedMs >= openMs) waiter.mayOpen = true
      if (waiter.mustComplete || (!hasEnded && waitedMs < waitMs)) continue
      this.#leave(waiter)
      waiter.reject(hasEnded ? waiter.signal!.reason : this.#overload())
    }
    this.#admit()
    this.#isLookDue = this.#waiting + this.#completing.length > 0
    if (this.#isLookDue) setTimeout(this.#look, lookEveryMs)
  }

  /** How long a call waits for a connection in use before it opens one. */
  get #openAfterMs(): number {
    const { connectionWaitMs } = limits
    return this.#shortestMs > connectionWaitMs ? connectionWaitMs : 10 * connectionWaitMs
  }

  /** Gives one permit of that holder back. `lastedMs`: how long the call took; null: that is not known. */
  release(name: string, lastedMs: number | null = null): void {
    const left = this.#heldBy(name) - 1
    if (left > 0) this.#held.set(name, left)
    else this.#held.delete(name)
    this.#taken -= 1
    this.#ready = Math.min(this.#ready + 1, limits.keptConnections)
    this.#shortestMs = Math.min(lastedMs ?? Infinity, this.#shortestMs * 1.005)
    this.#admit()
  }

  #heldBy(name: string): number {
    return this.#held.get(name) ?? 0
  }

  /** The permits that are free; none where a connection would have to be opened first, unless it may be. */
  #free(mayOpen: boolean): number {
    const { permits } = this.options
    const connections = this.options.connections?.() ?? null
    if (connections === null) return permits - this.#taken
    return this.#ready > 0 || mayOpen ? Math.min(permits, connections) - this.#taken : 0
  }

  /** Whether a holder may have one of so many free permits. */
  #mayTake(name: string, free: number, mustComplete: boolean): boolean {
    const { permitsOfOne = Number.POSITIVE_INFINITY } = this.options
    const held = this.#heldBy(name)
    if (free <= 0 || held >= permitsOfOne) return false
    // What others hold does not make the share of a commit smaller.
    const left = mustComplete ? free + this.#taken - held : free
    return held === 0 || held < limits.shareOfRest * (left - 1)
  }

  #take(name: string): void {
    this.#held.set(name, this.#heldBy(name) + 1)
    this.#taken += 1
    if (this.#ready > 0) this.#ready -= 1
  }

  #queueUp(waiter: Waiter): void {
    this.#queue.getOrInsert(waiter.name, []).push(waiter)
    this.#waiting += 1
  }

  #admit(): void {
    for (let waiter = this.#completing[0]; waiter; waiter = this.#completing[0]) {
      const free = this.#free(waiter.mayOpen)
      if (free <= 0) return
      this.#completing.shift()
      if (this.#mayTake(waiter.name, free, true)) this.#serve(waiter)
      // One user with many commits that hang does not keep the others out.
      else this.#queueUp(waiter)
    }
    while (this.#queue.size > 0) {
      const name = this.#leastHolder()
      const waiting = this.#queue.get(name)!
      const waiter = waiting[0]!
      if (!this.#mayTake(name, this.#free(waiter.mayOpen), false)) return
      // Holders with equally many take turns.
      this.#queue.delete(name)
      this.#queue.set(name, waiting)
      this.#leave(waiter)
      this.#serve(waiter)
    }
  }

  #serve({ name, resolve }: Waiter): void {
    this.#take(name)
    resolve()
  }

  /** Who holds least, of those who wait. */
  #leastHolder(): string {
    let least = ''
    let leastHeld = Infinity
    for (const name of this.#queue.keys()) {
      const held = this.#heldBy(name)
      if (held < leastHeld) {
        least = name
        leastHeld = held
      }
      if (held === 0) break
    }
    return least
  }

  /** A call waits no more. */
  #leave(waiter: Waiter): void {
    const waiting = this.#queue.get(waiter.name)!
    waiting.splice(waiting.indexOf(waiter), 1)
    if (waiting.length === 0) this.#queue.delete(waiter.name)
    this.#waiting -= 1
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Too many ${this.options.name}: no permit is free`)
  }
}

/** Idle origins have hardly anything to remember. */
const maxIdleOrigins = 1000

/**
 * What tells which permits a call needs: one of its origin's, and one of all calls'. One that must complete waits as long as it takes.
 */
interface CallToPermit {
  target: 'token' | 'storage'
  url: { origin: string }
  user: string
  callClass?: 'normal' | 'must-complete' | 'probe'
}

interface ConcurrencyOptions {
  /** Calls that the runtime's `fetch` carries out at a time. */
  fetchSlots: number
  /** Requests that may be in flight. */
  maxRequests: number
  /** Lists of one user in flight; 0: no limit. */
  maxListsOfUser: number
  /** Whether calls to an origin share a connection, as over HTTP/2. */
  sharesConnection(origin: string): boolean
  /** How many connections there may be to a host where they don't. */
  mostConnections(hostname: string): number
  /** A clock in ms that never goes back. */
  now(): number
}

/** The permits for calls: of the token server and of each storage node among their users, and of all these among one another. */
export class ConcurrencyLimits {
  /** Permits for lists, from the question to the last byte, among users. */
  readonly lists: FairSemaphore
  readonly #all: FairSemaphore
  readonly #origins = {
    token: new Map<string, FairSemaphore>(),
    storage: new Map<string, FairSemaphore>(),
  }
  readonly #permits: ReturnType<typeof callLimits>
  readonly #queue: Pick<SemaphoreOptions, 'waiting' | 'waitMs' | 'now'>

  constructor(private readonly options: ConcurrencyOptions) {
    const { fetchSlots, maxRequests, maxListsOfUser, now } = options
    this.#permits = callLimits(fetchSlots)
    const { calls, lists } = this.#permits
    this.#queue = { waiting: limits.callsWaitingForRequest * maxRequests, waitMs: limits.callWaitMs, now }
    this.#all = new FairSemaphore({ name: 'calls', permits: calls, ...this.#queue })
    this.lists = new FairSemaphore({
      name: 'lists',
      permits: lists,
      waiting: maxRequests,
      waitMs: limits.listWaitMs,
      now,
      ...(maxListsOfUser > 0 && { permitsOfOne: maxListsOfUser }),
    })
  }

  /** Takes the permits for a call if they are free; they are given back by `release`. */
  tryAcquire(request: CallToPermit): boolean {
    const { user } = request
    const mustComplete = request.callClass === 'must-complete'
    const origin = this.#originOf(request)
    if (!origin.tryAcquire(user, mustComplete)) return false
    if (this.#all.tryAcquire(nameOf(request), mustComplete)) return true
    origin.release(user)
    return false
  }

  /**
   * Takes them as soon as they are free. Rejects with `overload`, and with the reason of the signal once that has fired; not for a
   * call that must complete a commit.
   */
  async acquire(request: CallToPermit, signal: AbortSignal): Promise<void> {
    const { user } = request
    const mustComplete = request.callClass === 'must-complete'
    const wait = { mustComplete, signal, sinceMs: this.options.now() }
    const origin = this.#originOf(request)
    await origin.acquire(user, wait)
    try {
      await this.#all.acquire(nameOf(request), wait)
    } catch (error) {
      origin.release(user)
      throw error
    }
  }

  /** Gives the permits of a call back, once. `lastedMs`: how long it took; null: that is not known. */
  release(request: CallToPermit, lastedMs: number | null): void {
    this.#all.release(nameOf(request))
    this.#originOf(request).release(request.user, lastedMs)
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
    const { sharesConnection, mostConnections } = this.options
    const connections = mostConnections(new URL(origin).hostname)
    const made = new FairSemaphore({
      ...(target === 'token'
        ? { name: 'calls to the token server', permits: this.#permits.token }
        : { name: 'calls to the storage node', permits: this.#permits.node }),
      ...this.#queue,
      connections: () => (sharesConnection(origin) ? null : connections),
    })
    origins.set(origin, made)
    return made
  }
}

/** The holder of a call's permit of all calls: a storage may be at the token server's origin, and has a share of its own there. */
function nameOf({ target, url }: CallToPermit): string {
  return target === 'token' ? target : url.origin
}
