import { UpstreamError } from '../domain/errors.ts'
import { callLimits, limits } from './limits.ts'

interface PoolOptions {
  /** What the permits are for, as an error tells it: "calls to upstream". */
  name: string
  /** Permits in all. */
  permits: number
  permitsPerUser: number
  /** Permits for one host, now: it may change when the protocol of the host is known. */
  permitsPerHost(host: string): number
}

/** One who waits for a permit. */
interface Waiter {
  resolve(): void
}

/** The permits of one host, and who waits for them. */
interface Host {
  readonly name: string
  taken: number
  /** How many permits each user has; only those who have one. */
  users: Map<string, number>
  /** Those who wait, by user, in the order of the users' turns. */
  waiting: Map<string, Waiter[]>
}

/** The share of a host's permits that is kept for users with few: users whose storage hangs would keep all others out. */
const reservedShare = 0.25
/** Fewer than this share of a host's permits are few: none over HTTP/1.1, up to three of 256. */
const fewPermitsShare = 1 / 64

/** Users' nodes come and go. */
const maxIdleHosts = 1000

/**
 * A semaphore with a limit for each host and each user. Users who wait for the same host take turns, so that one with many slow calls
 * keeps nobody else out.
 */
export class PermitPool {
  #taken = 0
  readonly #hosts = new Map<string, Host>()
  /** The hosts for which somebody waits. */
  readonly #waitedHosts = new Set<Host>()

  constructor(private readonly options: PoolOptions) {}

  /** How many permits of a host are taken. */
  takenOf(hostName: string): number {
    return this.#hosts.get(hostName)?.taken ?? 0
  }

  /** Whether the next permit of this host that is given back goes to a user who has none. */
  hasWaiters(hostName: string): boolean {
    const areAllTaken = this.#taken >= this.options.permits
    for (const host of this.#waitedHosts) {
      const isReached = host.name === hostName || (areAllTaken && host.taken < this.#limitOf(host))
      if (isReached && host.waiting.keys().some((user) => !host.users.has(user))) return true
    }
    return false
  }

  /** Takes a permit, if that user may have one now; it is given back by `release`. */
  tryAcquire(hostName: string, user: string): boolean {
    const host = this.#hostOf(hostName)
    // Who comes later does not overtake those who wait.
    if (host.waiting.has(user) || !this.#mayTake(host, user)) return false
    this.#take(host, user)
    return true
  }

  /**
   * Takes a permit as soon as there is one. Rejects with `UpstreamError`: overload after `limits.waitMs`, or when no time is left, and
   * what the signal says once that has fired.
   */
  async acquire(
    hostName: string,
    user: string,
    signal: AbortSignal | null = null,
    leftMs = Infinity,
  ): Promise<void> {
    if (signal?.aborted) throw endOf(signal)
    if (this.tryAcquire(hostName, user)) return
    const host = this.#hostOf(hostName)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = { resolve }
    const giveUp = (error: unknown) => {
      this.#leave(host, user, waiter)
      reject(error)
    }
    const overload = () => new UpstreamError('overload', `Too many ${this.options.name}: no permit is free`)
    const timer = setTimeout(() => giveUp(overload()), Math.min(limits.waitMs, leftMs))
    const onAbort = () => giveUp(endOf(signal!))
    signal?.addEventListener('abort', onAbort)
    host.waiting.getOrInsert(user, []).push(waiter)
    this.#waitedHosts.add(host)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Gives one permit of that user back. */
  release(hostName: string, user: string): void {
    const host = this.#hosts.get(hostName)!
    addTo(host.users, user, -1)
    host.taken -= 1
    this.#taken -= 1
    if (this.#waitedHosts.size === 0) return
    // Where all together are the limit, hosts for which many wait would get every permit.
    const hosts = [...this.#waitedHosts].toSorted((a, b) => a.taken - b.taken)
    for (const waited of hosts) while (this.#serve(waited));
  }

  /** Serves the user whose turn it is at a host, of those who may take a permit. */
  #serve(host: Host): boolean {
    if (!this.#hasRoom(host)) return false
    for (const [user, waiters] of host.waiting) {
      if (!this.#mayTake(host, user)) continue
      const waiter = waiters[0]!
      this.#leave(host, user, waiter)
      // The next turn of this user comes after those of the others.
      if (host.waiting.delete(user)) host.waiting.set(user, waiters)
      this.#take(host, user)
      waiter.resolve()
      return true
    }
    return false
  }

  #limitOf(host: Host): number {
    return this.options.permitsPerHost(host.name)
  }

  #hasRoom(host: Host): boolean {
    return this.#taken < this.options.permits && host.taken < this.#limitOf(host)
  }

  #mayTake(host: Host, user: string): boolean {
    if (!this.#hasRoom(host)) return false
    const held = host.users.get(user) ?? 0
    const limit = this.#limitOf(host)
    if (held < limit * fewPermitsShare) return true
    return held < this.options.permitsPerUser && host.taken < limit - Math.floor(limit * reservedShare)
  }

  #take(host: Host, user: string): void {
    addTo(host.users, user, 1)
    host.taken += 1
    this.#taken += 1
  }

  #leave(host: Host, user: string, waiter: Waiter): void {
    const waiters = host.waiting.get(user)!
    waiters.splice(waiters.indexOf(waiter), 1)
    if (waiters.length === 0) host.waiting.delete(user)
    if (host.waiting.size === 0) this.#waitedHosts.delete(host)
  }

  #hostOf(name: string): Host {
    const known = this.#hosts.get(name)
    if (known) return known
    if (this.#hosts.size >= maxIdleHosts) {
      for (const [other, { taken, waiting }] of this.#hosts)
        if (taken === 0 && waiting.size === 0) this.#hosts.delete(other)
    }
    const made: Host = { name, taken: 0, users: new Map(), waiting: new Map() }
    this.#hosts.set(name, made)
    return made
  }
}

/** Why one who waited has given up. A signal of the client's says nothing that we could hand on. */
function endOf({ reason }: AbortSignal): UpstreamError {
  return reason instanceof UpstreamError
    ? reason
    : new UpstreamError('abandoned', 'Gave up a call: its client has hung up')
}

/** The permits of a process for calls to upstream, and for the lists of storages. */
export function createPermits(fetchSlots: number, sharesConnection: (origin: string) => boolean) {
  const { calls, ofHost, lists } = callLimits(fetchSlots)
  return {
    calls: new PermitPool({
      name: 'calls to upstream',
      permits: calls,
      permitsPerUser: limits.callsPerUser,
      permitsPerHost: (origin) =>
        sharesConnection(origin) ? ofHost : Math.min(ofHost, limits.callsOverHttp1),
    }),
    lists: new PermitPool({
      name: 'lists',
      permits: lists,
      permitsPerUser: limits.listsPerUser,
      permitsPerHost: () => limits.listsPerHost,
    }),
  }
}

export type Permits = ReturnType<typeof createPermits>

/** Why a request was refused. */
export const rejectionReasons = [
  'limit', // As many as were configured are in flight.
  'user', // As many of that user as were configured are in flight.
  'memory', // The process holds nearly as much memory as it should.
  'root-view', // As many root views as may ask the token server do.
  'body-memory', // There was no memory for a body.
  'slow-reader', // The connection was ended because its reader took nothing, or its place was needed.
] as const
export type RejectionReason = (typeof rejectionReasons)[number]

interface RequestLimitOptions {
  /** Requests in flight at most, in all and of one user; 0: no limit for one user. */
  maxRequests: number
  maxRequestsPerUser: number
  /** On a clock in ms that never goes back. */
  now(): number
  /** Whether the process holds nearly as much memory as it should. */
  isShortOfMemory(): boolean
  observeRejection(reason: RejectionReason): void
}

/** Releases the right of one request to be in flight; further calls do nothing. */
export type Release = () => void

/** When so large a share of the requests has been in flight for so long, clients are asked to stay away for this time. */
const busyShare = 0.8
const backoffAfterMs = 5000
const backoffSeconds = 30

/**
 * Decides whether a request for user data may begin. Only requests whose body has arrived and whose credentials were accepted count,
 * until the last byte of their answer is handed on, so that a stranger can't take a place.
 */
export class RequestLimit {
  #inFlight = 0
  /** Root views that ask the token server, by their credentials: those with the same ones share a question. */
  readonly #rootViews = new Map<string, number>()
  readonly #users = new Map<string, number>()
  #busySinceMs = Infinity

  constructor(private readonly options: RequestLimitOptions) {}

  /** The pause that clients are asked for; 0: none. */
  get backoffSeconds(): number {
    return this.options.now() - this.#busySinceMs >= backoffAfterMs ? backoffSeconds : 0
  }

  /** Whether there is no room for anybody: a cheap question, asked before any work is done for a request. */
  get isFull(): boolean {
    return this.#inFlight >= this.options.maxRequests || this.options.isShortOfMemory()
  }

  /** Counts a request that is rejected because there is no room for anybody. */
  refuse(): void {
    const { maxRequests, observeRejection } = this.options
    observeRejection(this.#inFlight >= maxRequests ? 'limit' : 'memory')
  }

  /** Admits a request of that user; null: it must be rejected. The user's name is as secret as the credentials, and is not kept. */
  acquire(user: string): Release | null {
    const { maxRequests, maxRequestsPerUser, observeRejection } = this.options
    const ofUser = this.#users.get(user) ?? 0
    const isOverLimit = this.#inFlight >= maxRequests
    if (isOverLimit || (maxRequestsPerUser > 0 && ofUser >= maxRequestsPerUser)) {
      observeRejection(isOverLimit ? 'limit' : 'user')
      return null
    }
    addTo(this.#users, user, 1)
    this.#count(1)
    return once(() => {
      addTo(this.#users, user, -1)
      this.#count(-1)
    })
  }

  /** Admits a root view that asks the token server for the user of these credentials; null: it must be rejected. */
  acquireRootView(credentials: string): Release | null {
    const views = this.#rootViews
    if ((views.size >= limits.rootViews && !views.has(credentials)) || this.isFull) {
      this.options.observeRejection('root-view')
      return null
    }
    addTo(views, credentials, 1)
    return once(() => addTo(views, credentials, -1))
  }

  #count(change: number): void {
    const { maxRequests, now } = this.options
    this.#inFlight += change
    const isBusy = this.#inFlight > busyShare * maxRequests
    this.#busySinceMs = isBusy ? Math.min(this.#busySinceMs, now()) : Infinity
  }
}

/** Changes a count by name; a name without any is forgotten. */
function addTo(counts: Map<string, number>, name: string, change: number): void {
  const count = (counts.get(name) ?? 0) + change
  if (count > 0) counts.set(name, count)
  else counts.delete(name)
}

function once(release: () => void): Release {
  let isReleased = false
  return () => {
    if (!isReleased) release()
    isReleased = true
  }
}
