import { UpstreamError } from '../domain/errors.ts'
import { callLimits, limits } from './limits.ts'

interface PoolOptions {
  /** What the permits are for, as shown in errors: "calls to upstream". */
  name: string
  /** Permits in total. */
  permits: number
  permitsPerUser: number
  permitsPerHost: number
  /** How long a call waits for a permit; default: `limits.waitMs`. */
  waitMs?: number
}

/** The permits of one host, and the calls that wait for them. */
interface Host {
  readonly name: string
  taken: number
  /** The permits of each user; only users with at least one. */
  users: Map<string, number>
  /** What resolves waiting calls, by user in the order of the users' turns. */
  waiting: Map<string, (() => void)[]>
}

/**
 * A semaphore with limits for each host and user. Users who wait for the same host take turns, so that one user's slow calls don't block
 * others.
 */
export class PermitPool {
  #taken = 0
  /** Hosts with permits or waiting calls; the others are forgotten, because users move between nodes. */
  readonly #hosts = new Map<string, Host>()

  constructor(private readonly options: PoolOptions) {}

  /** Whether a user without a permit waits for a permit that this host would free. */
  hasWaiters(hostName: string): boolean {
    const areAllTaken = this.#taken >= this.options.permits
    for (const host of this.#hosts.values()) {
      const isReached = host.name === hostName || (areAllTaken && host.taken < this.options.permitsPerHost)
      if (isReached && host.waiting.keys().some((user) => !host.users.has(user))) return true
    }
    return false
  }

  /** Takes a permit if one is free for that user; give it back with `release`. */
  tryAcquire(hostName: string, user: string): boolean {
    const host = this.#hostOf(hostName)
    // A new call must not overtake waiting calls of the same user.
    const isFree = !host.waiting.has(user) && this.#mayTake(host, user)
    if (isFree) this.#take(host, user)
    this.#forgetIfIdle(host)
    return isFree
  }

  /**
   * Waits for a permit. Rejects with `UpstreamError`: overload after `waitMs` or `leftMs`, or the reason of the signal once it
   * fires.
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
    const giveUp = (error: unknown) => {
      this.#leave(host, user, resolve)
      this.#forgetIfIdle(host)
      reject(error)
    }
    const overload = () => new UpstreamError('overload', `Too many ${this.options.name} in flight`)
    const timer = setTimeout(() => giveUp(overload()), Math.min(this.options.waitMs ?? limits.waitMs, leftMs))
    const onAbort = () => giveUp(endOf(signal!))
    signal?.addEventListener('abort', onAbort)
    host.waiting.getOrInsert(user, []).push(resolve)
    try {
      await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Returns one permit of that user. */
  release(hostName: string, user: string): void {
    const host = this.#hosts.get(hostName)!
    addTo(host.users, user, -1)
    host.taken -= 1
    this.#taken -= 1
    const waited: Host[] = []
    for (const each of this.#hosts.values()) if (each.waiting.size > 0) waited.push(each)
    // If the total is the limit, hosts with few permits come first, or busy hosts would get every permit.
    if (waited.length > 1) waited.sort((a, b) => a.taken - b.taken)
    for (const next of waited) while (this.#serveNext(next)) continue
    this.#forgetIfIdle(host)
  }

  /** Gives a permit to the next user of a host who may take one. */
  #serveNext(host: Host): boolean {
    if (!this.#hasRoom(host)) return false
    for (const [user, waiters] of host.waiting) {
      if (!this.#mayTake(host, user)) continue
      const resolve = waiters[0]!
      this.#leave(host, user, resolve)
      // This user's next turn comes after the other users'.
      if (host.waiting.delete(user)) host.waiting.set(user, waiters)
      this.#take(host, user)
      resolve()
      return true
    }
    return false
  }

  #hasRoom(host: Host): boolean {
    return this.#taken < this.options.permits && host.taken < this.options.permitsPerHost
  }

  #mayTake(host: Host, user: string): boolean {
    return this.#hasRoom(host) && (host.users.get(user) ?? 0) < this.options.permitsPerUser
  }

  #take(host: Host, user: string): void {
    addTo(host.users, user, 1)
    host.taken += 1
    this.#taken += 1
  }

  #leave(host: Host, user: string, resolve: () => void): void {
    const waiters = host.waiting.get(user)!
    waiters.splice(waiters.indexOf(resolve), 1)
    if (waiters.length === 0) host.waiting.delete(user)
  }

  #hostOf(name: string): Host {
    return this.#hosts.getOrInsertComputed(name, () => {
      return { name, taken: 0, users: new Map(), waiting: new Map() }
    })
  }

  #forgetIfIdle({ name, taken, waiting }: Host): void {
    if (taken === 0 && waiting.size === 0) this.#hosts.delete(name)
  }
}

/** The error for an aborted wait. A client's signal carries no reason that we could pass on. */
function endOf({ reason }: AbortSignal): UpstreamError {
  return reason instanceof UpstreamError
    ? reason
    : new UpstreamError('abandoned', 'Call aborted: the client disconnected')
}

/** The permits of a process: for calls to upstream, and for lists. */
export function createPermits(fetchSlots: number, waitMs?: number) {
  const { calls, ofHost, lists } = callLimits(fetchSlots)
  return {
    calls: new PermitPool({
      name: 'calls to upstream',
      permits: calls,
      waitMs,
      permitsPerUser: limits.callsPerUser,
      permitsPerHost: ofHost,
    }),
    lists: new PermitPool({
      name: 'lists',
      permits: lists,
      waitMs,
      permitsPerUser: limits.listsPerUser,
      permitsPerHost: limits.listsPerHost,
    }),
  }
}

export type Permits = ReturnType<typeof createPermits>

/** Why a request was rejected. */
export const rejectionReasons = [
  'limit', // max_concurrent_requests is reached.
  'user', // max_concurrent_requests_per_user is reached.
  'memory', // Resident memory is above its limit.
  'root-view', // Too many root views are calling the token server.
  'body-memory', // There is no memory for a body.
  'stalled-reader', // The connection was closed because its reader stalled.
] as const
export type RejectionReason = (typeof rejectionReasons)[number]

interface RequestLimitOptions {
  /** Maximum requests in flight, in total and for one user; 0: no limit for one user. */
  maxRequests: number
  maxRequestsPerUser: number
  /** A monotonic clock in ms. */
  now(): number
  /** Whether resident memory is above its limit. */
  isShortOfMemory(): boolean
  observeRejection(reason: RejectionReason): void
}

/** Ends the admission of one request; call it once. */
export type Release = () => void

/** Above this share of the limit for `backoffAfterMs`, clients are asked to pause for `backoffSeconds`. */
const busyShare = 0.8
const backoffAfterMs = 5000
const backoffSeconds = 30

/**
 * Admits requests for user data. A request counts from when its body has arrived and its credentials were accepted until the last byte of
 * its response, so that unauthenticated clients can't use up the limit.
 */
export class RequestLimit {
  #inFlight = 0
  /** Root views that are calling the token server, by credentials; equal credentials share a call. */
  readonly #rootViews = new Map<string, number>()
  readonly #users = new Map<string, number>()
  #busySinceMs = Infinity

  constructor(private readonly options: RequestLimitOptions) {}

  /** The pause to ask clients for; 0: none. */
  get backoffSeconds(): number {
    return this.options.now() - this.#busySinceMs >= backoffAfterMs ? backoffSeconds : 0
  }

  /** Whether no request can be admitted. Cheap: checked before any work is done for a request. */
  get isFull(): boolean {
    return this.#inFlight >= this.options.maxRequests || this.options.isShortOfMemory()
  }

  /** Counts a request that is rejected because `isFull`. */
  reject(): void {
    const { maxRequests, observeRejection } = this.options
    observeRejection(this.#inFlight >= maxRequests ? 'limit' : 'memory')
  }

  /** Admits a request of that user; null: reject it. The user's name is as secret as the credentials, and is not kept. */
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
    return () => {
      addTo(this.#users, user, -1)
      this.#count(-1)
    }
  }

  /** Admits a root view that calls the token server with these credentials; null: reject it. */
  acquireRootView(credentials: string): Release | null {
    const views = this.#rootViews
    if ((views.size >= limits.rootViews && !views.has(credentials)) || this.isFull) {
      this.options.observeRejection('root-view')
      return null
    }
    addTo(views, credentials, 1)
    return () => addTo(views, credentials, -1)
  }

  #count(change: number): void {
    const { maxRequests, now } = this.options
    this.#inFlight += change
    const isBusy = this.#inFlight > busyShare * maxRequests
    this.#busySinceMs = isBusy ? Math.min(this.#busySinceMs, now()) : Infinity
  }
}

/** Changes a count by name; a count of 0 is removed. */
function addTo(counts: Map<string, number>, name: string, change: number): void {
  const count = (counts.get(name) ?? 0) + change
  if (count > 0) counts.set(name, count)
  else counts.delete(name)
}
