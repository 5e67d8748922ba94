import { UpstreamError } from '../domain/errors.ts'
import { callLimits, limits } from './limits.ts'

/** One of the two services that are called. */
export type UpstreamTarget = 'token' | 'storage'

/**
 * The rule of fair shares: whether a holder of so many permits may take one more, when so many are free of so many. Alone it gets
 * seven eighths of all but a reserve, a second one seven eighths of what is then left, and so on. Of the reserve each gets at most
 * as many as it leaves, so holders that hang one after another use it up by halves, and small holders always find some.
 *
 * What completes a commit is not held up by what others hold: its holder has seven eighths in any case, but for half of the reserve.
 */
function mayHold(held: number, free: number, capacity: number, mustComplete: boolean): boolean {
  if (held < free) return true
  const { shareOfRest, reserveShare } = limits
  const reserve = Math.max(1, Math.ceil(reserveShare * capacity))
  if (held < shareOfRest * (free - reserve)) return true
  return mustComplete && free > reserve / 2 && held < shareOfRest * (capacity - held - 1)
}

/** Permits that several queues share. */
export class PermitPool {
  taken = 0
  /** The queues in which somebody waits. */
  readonly waiting = new Set<FairSemaphore>()

  constructor(readonly permits: number) {}

  get free(): number {
    return this.permits - this.taken
  }

  /** Serves those who wait and may take a permit now: first what completes a commit, then at the queue that holds least. */
  admit(): void {
    if (this.waiting.size === 0) return
    for (const isCompleting of [true, false]) {
      let isServed = true
      while (isServed && this.waiting.size > 0) {
        const queues = [...this.waiting].toSorted((a, b) => a.taken - b.taken)
        isServed = queues.some((queue) => queue.serveOne(isCompleting))
      }
    }
  }
}

export interface SemaphoreOptions {
  /** What its permits are for, as an error tells it: "calls to the storage". */
  name: string
  permits: number
  /** Where these permits come from, if others get theirs there too: then this queue is a holder among others, by the same rule. */
  pool?: PermitPool
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

/** One call that waits for a permit. */
interface Waiter {
  /** Of its holder. */
  name: string
  /** Whether it completes a commit. */
  mustComplete: boolean
  /** What ends the call, because its time is over or its client has hung up. */
  signal: AbortSignal | null
  sinceMs: number
  /** Whether it has waited long enough to open a connection. */
  mayOpen: boolean
  resolve(): void
  reject(error: unknown): void
}

/** How often those who wait are looked at. */
const lookEveryMs = 5

/**
 * Permits, and a fair queue for them; over HTTP/1.1 also for connections. They are held by name, of a user. Of those who wait, whoever
 * holds least goes first, so that one holder with many slow calls can't keep others out.
 *
 * Calls that complete a started commit go before all others, in the order in which they come. The commits of one batch come together,
 * so they also leave together: between the first and the last one, others see a part of the batch, and a kill would tear it.
 */
export class FairSemaphore {
  /** Permits that are held. */
  taken = 0
  /** Those of them that are among the first few of their holder. */
  #few = 0
  readonly #pool: PermitPool
  /** How many permits each holder has; only those who have one. */
  readonly #held = new Map<string, number>()
  /** Calls that wait, by their holders in the order of these holders' last turn. */
  readonly #queue = new Map<string, Waiter[]>()
  /** Calls that complete a commit, in the order in which they came. */
  readonly #completing: Waiter[] = []
  /** How many wait, without those that complete a commit. */
  #waiting = 0
  /** Connections that nobody has to wait for: those that are idle, and the first that are opened. */
  #ready: number = limits.keptConnections
  /** How long the shortest of the last few hundred calls took: a busy process delays all of them, but this one least. */
  #shortestMs = Infinity
  /** Whether the timer for `#look` runs. One timer serves all who wait. */
  #isLookDue = false

  constructor(private readonly options: SemaphoreOptions) {
    this.#pool = options.pool ?? new PermitPool(options.permits)
  }

  /** Whether no permit is held and nobody waits. */
  get isIdle(): boolean {
    return this.taken === 0 && !this.#pool.waiting.has(this)
  }

  /** Takes a permit, if there is one for that holder now; it is given back by `release`. */
  tryAcquire(name: string, mustComplete = false): boolean {
    if (this.#completing.length > 0 || !this.#mayTake(name, this.#room(false), mustComplete)) return false
    this.#take(name)
    return true
  }

  /**
   * Takes a permit as soon as there is one. Rejects with `UpstreamError`: `overload` when too many wait, or after `waitMs`, and what
   * the signal says once that has fired; not for a call that must complete a commit.
   */
  acquire(name: string, mustComplete = false, signal: AbortSignal | null = null): Promise<void> {
    if (this.tryAcquire(name, mustComplete)) return Promise.resolve()
    if (this.#waiting >= this.options.waiting && !mustComplete) return Promise.reject(this.#overload())
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const sinceMs = this.options.now()
    const waiter = { name, mustComplete, signal, sinceMs, mayOpen: false, resolve, reject }
    if (mustComplete) this.#completing.push(waiter)
    else this.#queueUp(waiter)
    this.#pool.waiting.add(this)
    if (!this.#isLookDue) setTimeout(this.#look, lookEveryMs)
    this.#isLookDue = true
    // What completes a commit may be over the share of its holder, and then nobody waits behind it.
    if (mustComplete) this.#pool.admit()
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
      waiter.reject(hasEnded ? endOf(waiter.signal!) : this.#overload())
    }
    this.#pool.admit()
    this.#isLookDue = this.#pool.waiting.has(this)
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
    if (left < limits.fewPermits) this.#few -= 1
    this.taken -= 1
    this.#pool.taken -= 1
    this.#ready = Math.min(this.#ready + 1, limits.keptConnections)
    this.#shortestMs = Math.min(lastedMs ?? Infinity, this.#shortestMs * 1.005)
    this.#pool.admit()
  }

  #heldBy(name: string): number {
    return this.#held.get(name) ?? 0
  }

  /** As many permits as there ever may be, and those that are free: none where a connection has to be opened first, unless it may be. */
  #room(mayOpen: boolean): { capacity: number; free: number } {
    const connections = this.options.connections?.() ?? null
    const capacity = Math.min(this.options.permits, connections ?? Infinity)
    const mustWait = connections !== null && this.#ready <= 0 && !mayOpen
    return { capacity, free: mustWait ? 0 : Math.min(capacity - this.taken, this.#pool.free) }
  }

  /**
   * Whether a holder may take a permit. Where the queue has its share of the pool, one who holds few may nevertheless, as long as the few
   * of all are within it: one who holds many, and is slow, keeps out nobody else.
   */
  #mayTake(
    name: string,
    { capacity, free }: { capacity: number; free: number },
    mustComplete: boolean,
  ): boolean {
    const { pool, permitsOfOne = Infinity } = this.options
    const held = this.#heldBy(name)
    if (free <= 0 || held >= permitsOfOne || !mayHold(held, free, capacity, mustComplete)) return false
    if (!pool || mayHold(this.taken, pool.free, pool.permits, mustComplete)) return true
    return held < limits.fewPermits && mayHold(this.#few, pool.free, pool.permits, mustComplete)
  }

  #take(name: string): void {
    const held = this.#heldBy(name)
    this.#held.set(name, held + 1)
    if (held < limits.fewPermits) this.#few += 1
    this.taken += 1
    this.#pool.taken += 1
    if (this.#ready > 0) this.#ready -= 1
  }

  #queueUp(waiter: Waiter): void {
    this.#queue.getOrInsert(waiter.name, []).push(waiter)
    this.#waiting += 1
  }

  /** Serves one who waits, of what completes a commit or of the others; false when that may take nothing now. */
  serveOne(isCompleting: boolean): boolean {
    const waiter = isCompleting ? this.#completing[0] : this.#least()
    if (!waiter) return false
    const { name, mayOpen, mustComplete, resolve } = waiter
    const room = this.#room(mayOpen)
    const mayTake = this.#mayTake(name, room, mustComplete)
    if (!mayTake && (!isCompleting || room.free <= 0)) return false
    this.#leave(waiter)
    if (mayTake) {
      this.#take(name)
      resolve()
    } else {
      // One user with many commits that hang does not keep the others out.
      this.#queueUp(waiter)
      this.#pool.waiting.add(this)
    }
    return true
  }

  /** Whose turn it is: of those who hold least, whose last turn was longest ago. */
  #least(): Waiter | undefined {
    let least: string | null = null
    let leastHeld = Infinity
    for (const name of this.#queue.keys()) {
      const held = this.#heldBy(name)
      if (held < leastHeld) {
        least = name
        leastHeld = held
      }
      if (held === 0) break
    }
    return least === null ? undefined : this.#queue.get(least)![0]
  }

  /** A call waits no more. */
  #leave(waiter: Waiter): void {
    const { name } = waiter
    if (this.#completing[0] === waiter) this.#completing.shift()
    else {
      const waiting = this.#queue.get(name)!
      waiting.splice(waiting.indexOf(waiter), 1)
      // Holders with equally many take turns.
      this.#queue.delete(name)
      if (waiting.length > 0) this.#queue.set(name, waiting)
      this.#waiting -= 1
    }
    if (this.#waiting + this.#completing.length === 0) this.#pool.waiting.delete(this)
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Too many ${this.options.name}: no permit is free`)
  }
}

/** Why a call has ended while it waited. A signal of the client's says nothing that we could hand on. */
function endOf({ reason }: AbortSignal): UpstreamError {
  return reason instanceof UpstreamError
    ? reason
    : new UpstreamError('abandoned', 'Gave up a call: its client has hung up')
}

/** Idle origins have hardly anything to remember. */
const maxIdleOrigins = 1000

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

/** What permits are for; a list holds one of its own, beside those of its calls. */
type PermitKind = UpstreamTarget | 'list'

/** Permits for calls and for lists: of the token server and of each storage node among their users, and of all these among one another. */
export class ConcurrencyLimits {
  readonly #permits: ReturnType<typeof callLimits>
  readonly #calls: PermitPool
  readonly #lists: PermitPool
  readonly #origins: Record<PermitKind, Map<string, FairSemaphore>> = {
    token: new Map(),
    storage: new Map(),
    list: new Map(),
  }

  constructor(private readonly options: ConcurrencyOptions) {
    this.#permits = callLimits(options.fetchSlots)
    this.#calls = new PermitPool(this.#permits.calls)
    this.#lists = new PermitPool(this.#permits.lists)
  }

  /** Permits of that kind for an origin, among users. */
  of(kind: PermitKind, origin: string): FairSemaphore {
    return this.#origins[kind].get(origin) ?? this.#open(kind, origin)
  }

  #open(kind: PermitKind, origin: string): FairSemaphore {
    const origins = this.#origins[kind]
    // Users' nodes come and go.
    if (origins.size >= maxIdleOrigins) {
      for (const [other, semaphore] of origins) if (semaphore.isIdle) origins.delete(other)
    }
    const made = new FairSemaphore(kind === 'list' ? this.#forLists() : this.#forCalls(kind, origin))
    origins.set(origin, made)
    return made
  }

  #forLists(): SemaphoreOptions {
    const { maxRequests, maxListsOfUser, now } = this.options
    return {
      name: 'lists',
      permits: this.#permits.lists,
      pool: this.#lists,
      waiting: maxRequests,
      waitMs: limits.listWaitMs,
      now,
      ...(maxListsOfUser > 0 && { permitsOfOne: maxListsOfUser }),
    }
  }

  #forCalls(kind: UpstreamTarget, origin: string): SemaphoreOptions {
    const { maxRequests, sharesConnection, mostConnections, now } = this.options
    const connections = mostConnections(new URL(origin).hostname)
    return {
      ...(kind === 'token'
        ? { name: 'calls to the token server', permits: this.#permits.token }
        : { name: 'calls to the storage node', permits: this.#permits.calls }),
      pool: this.#calls,
      waiting: limits.callsWaitingForRequest * maxRequests,
      waitMs: limits.callWaitMs,
      now,
      connections: () => (sharesConnection(origin) ? null : connections),
    }
  }
}
