/**
 * Why a request was rejected:
 * - `limit`: as many as were configured are in flight
 * - `lag`: as many as the event loop can serve in time are in flight
 * - `user`: there is hardly any room left, and that user has a share of it already
 * - `memory`: the process holds nearly as much memory as it should
 * - `root-view`: as many root views as may ask the token server do
 * - `list`: the user gets as many lists as are allowed already, and none of them ended soon
 * - `body-memory`: the body was dropped because others needed its memory
 * - `slow-reader`: the connection was ended because its reader took too little, or its place was needed
 */
export type RejectionReason =
  'limit' | 'lag' | 'user' | 'memory' | 'root-view' | 'list' | 'body-memory' | 'slow-reader'

export interface LoadOptions {
  /** Requests in flight at most. */
  maxRequests: number
  /** Requests of one user in flight at most, while hardly any room is left; 0: no limit. */
  maxRequestsOfUser: number
  /** How late the event loop may be before fewer requests are admitted; 0: no limit. */
  maxLagMs: number
  /** On a clock in ms that never goes back. */
  now(): number
  /** Processor time that this process has used so far, in ms; null where that is not known. */
  cpuMs(): number | null
  /** Memory that this process holds, in bytes; null where that is not known. */
  residentBytes(): number | null
  collectGarbage(): void
  /** How late the event loop was in each window. */
  observeLag(ms: number): void
  observeRejection(reason: RejectionReason): void
}

/** Releases a permit, the right of one request to be in flight; further calls do nothing. */
export type Release = () => void

/** The length of one window, after which the event loop's lag is judged. */
export const windowMs = 100

const busyShare = 0.8
const othersAreRecentMs = 60_000
// Half of the places at the token server.
const maxRootViews = 16
const mebibyte = 1024 * 1024
// Garbage is collected early, and new requests are shed, long before `MemoryMax=` of the unit: late collection lets the
// process grow far beyond what it uses.
const collectAboveBytes = 160 * mebibyte
const collectEveryBytes = 32 * mebibyte
const shedAboveBytes = 384 * mebibyte
// The default of `max_concurrent_requests`; a larger one raises the memory in proportion.
const usualRequests = 512
const backoffAfterMs = 5000
const backoffSeconds = 30

/**
 * Decides whether a request for user data may begin. Only requests whose body has arrived and whose credentials proved
 * good hold a permit, until the last byte of their answer is handed on, so that a stranger can't take a place.
 */
export class LoadShedder {
  /** The pause that clients are asked for; 0: none. */
  backoffSeconds = 0
  readonly #limit: AdaptiveConcurrencyLimit
  readonly #throttle = new RejectionThrottle()
  readonly #requestsOf = new Map<string, number>()
  readonly #rootViewsOf = new Map<string, number>()
  /** The requests in flight; a batch weighs as much as all requests in it. */
  #weight = 0
  #isShortOfMemory = false
  #collectedAtBytes = 0
  /** The most that was in flight in this window, and the number of requests that began. */
  #peak = 0
  #begun = 0
  #lastUser: string | null = null
  #othersUntilMs = -Infinity
  #windowStartMs: number
  #windowStartCpuMs: number | null
  #busySinceMs: number | null = null

  constructor(private readonly options: LoadOptions) {
    this.#limit = new AdaptiveConcurrencyLimit(options)
    this.#windowStartMs = options.now()
    this.#windowStartCpuMs = options.cpuMs()
  }

  /** How many requests may be in flight now. */
  get limit(): number {
    return this.#limit.value
  }

  /**
   * Whether there is no room for any request now, whoever sent it. A cheap question, asked before any work is done for the
   * request.
   */
  get isFull(): boolean {
    return this.#isShortOfMemory || this.#weight + 1 > this.#limit.value
  }

  /** Counts a request that comes while there is no room. Null: reject it at once; otherwise, when the promise resolves. */
  reject(): Promise<void> | null {
    if (this.#isShortOfMemory) this.options.observeRejection('memory')
    else {
      // This may be another user who is not known yet, so from now on the user who holds every place is limited to a share.
      this.#noteOthers()
      this.#observeFull()
    }
    return this.#throttle.turn()
  }

  /**
   * A permit for a request of that user, or for a batch of so many; null: it must be rejected. The user's name is as
   * secret as the credentials, and is forgotten with the last permit.
   */
  acquire(user: string, requests = 1): Release | null {
    // A batch of any size must fit in when nothing else is in flight.
    const weight = Math.max(1, Math.min(requests, this.#limit.floor))
    this.#noteUser(user)
    if (!this.#admits(user, weight)) return null
    this.#weight += weight
    this.#begun += 1
    if (this.#weight > this.#peak) this.#peak = this.#weight
    this.#requestsOf.set(user, (this.#requestsOf.get(user) ?? 0) + 1)
    return once(() => {
      this.#weight -= weight
      countDown(this.#requestsOf, user)
    })
  }

  /**
   * A permit for a root view to ask the token server for the user of these credentials; null: it must be rejected.
   * Anybody can make up credentials, so these questions must leave room at the token server for requests for data.
   * Requests with the same credentials share one question.
   */
  acquireRootView(credentials: string): Release | null {
    const sharing = this.#rootViewsOf.get(credentials) ?? 0
    const isFull = sharing === 0 && this.#rootViewsOf.size >= maxRootViews
    if (isFull || this.#weight >= this.#limit.value) {
      this.options.observeRejection('root-view')
      return null
    }
    this.#rootViewsOf.set(credentials, sharing + 1)
    return once(() => countDown(this.#rootViewsOf, credentials))
  }

  /** Called every `windowMs`: judges the last window, and releases delayed rejections. */
  endWindow(): void {
    const nowMs = this.options.now()
    const cpuMs = this.options.cpuMs()
    const lagMs = Math.max(0, nowMs - this.#windowStartMs - windowMs)
    const usedMs = cpuMs === null || this.#windowStartCpuMs === null ? null : cpuMs - this.#windowStartCpuMs
    const wasBusy = this.#peak > busyShare * this.#limit.value
    this.#busySinceMs = wasBusy ? (this.#busySinceMs ?? this.#windowStartMs) : null
    const isBusyForLong = this.#busySinceMs !== null && nowMs - this.#busySinceMs >= backoffAfterMs
    this.backoffSeconds = isBusyForLong ? backoffSeconds : 0
    this.#limit.note(lagMs, usedMs)
    this.options.observeLag(lagMs)
    this.#watchMemory()
    this.#peak = this.#weight
    this.#windowStartMs = nowMs
    this.#windowStartCpuMs = cpuMs
    this.#throttle.beginWindow(wasBusy ? this.#begun : Infinity)
    this.#begun = 0
  }

  #watchMemory(): void {
    const { residentBytes, collectGarbage, maxRequests } = this.options
    const usedBytes = residentBytes() ?? 0
    if (usedBytes < this.#collectedAtBytes) this.#collectedAtBytes = usedBytes
    if (usedBytes > collectAboveBytes && usedBytes - this.#collectedAtBytes > collectEveryBytes) {
      collectGarbage()
      this.#collectedAtBytes = residentBytes() ?? 0
    }
    this.#isShortOfMemory = (residentBytes() ?? 0) > shedAboveBytes * Math.max(1, maxRequests / usualRequests)
  }

  /** Shares are for several users: one who has been alone for a while may have every place. */
  #noteUser(user: string): void {
    if (user === this.#lastUser) return
    if (this.#lastUser !== null) this.#noteOthers()
    this.#lastUser = user
  }

  #noteOthers(): void {
    this.#othersUntilMs = this.options.now() + othersAreRecentMs
  }

  #admits(user: string, weight: number): boolean {
    const { maxRequestsOfUser, observeRejection } = this.options
    const isBusy = this.#weight + weight > busyShare * this.#limit.value
    if (!isBusy) return true
    if (this.#weight + weight > this.#limit.value) {
      this.#observeFull()
      return false
    }
    const isAlone = this.options.now() >= this.#othersUntilMs
    if (isAlone || maxRequestsOfUser === 0) return true
    if ((this.#requestsOf.get(user) ?? 0) < maxRequestsOfUser) return true
    observeRejection('user')
    return false
  }

  #observeFull(): void {
    this.options.observeRejection(this.#limit.isLowered ? 'lag' : 'limit')
  }
}

// A single slow turn, or a machine that stood still for a moment, is no overload.
const lateWindows = 2
const decrease = 0.7
// From the lowest limit to the full one in five seconds.
const healthyWindows = 50
const lowestLimit = 64

/**
 * The adaptive concurrency limit: fewer requests may be in flight while the event loop is late because of our own work,
 * so that the admitted ones are answered soon. Additive increase, multiplicative decrease (AIMD), never below 64.
 */
export class AdaptiveConcurrencyLimit {
  value: number
  /** The limit never falls below this. */
  readonly floor: number
  readonly #step: number
  #lateWindows = 0

  constructor(private readonly options: Pick<LoadOptions, 'maxRequests' | 'maxLagMs'>) {
    const { maxRequests } = options
    this.value = maxRequests
    this.floor = Math.min(lowestLimit, maxRequests)
    this.#step = Math.max(1, Math.ceil((maxRequests - this.floor) / healthyWindows))
  }

  /** Whether it is below the configured limit. */
  get isLowered(): boolean {
    return this.value < this.options.maxRequests
  }

  /**
   * A window has ended `lagMs` late, and this process has spent `busyMs` of it on a processor. Null where that is not
   * known: then the lag may be another process's fault, and does not count.
   */
  note(lagMs: number, busyMs: number | null): void {
    const { maxRequests, maxLagMs } = this.options
    const isOurs = busyMs !== null && busyMs >= (windowMs + lagMs) / 2
    if (maxLagMs === 0 || lagMs <= maxLagMs || !isOurs) {
      this.#lateWindows = 0
      this.value = Math.min(maxRequests, this.value + this.#step)
      return
    }
    this.#lateWindows += 1
    if (this.#lateWindows < lateWindows) return
    this.value = Math.max(this.floor, Math.floor(this.value * decrease))
  }
}

/** Rejections that may always go out in one window. */
const leastPerWindow = 100
/** Rejections that may go out for each request that was admitted. */
const share = 0.25
/** Rejections that may wait; further ones go out at once. */
const maxWaiting = 4096

/**
 * Delays rejections: a quarter as many as requests are admitted, or a thousand a second, go out at once. Clients that ask
 * again as soon as they are rejected would otherwise take the time that the admitted requests need, and HTTP can slow a
 * sender down only by a late answer.
 */
export class RejectionThrottle {
  #left = leastPerWindow
  readonly #waiting: (() => void)[] = []

  /** Null: reject at once. Otherwise a promise that resolves when the rejection may go out. */
  turn(): Promise<void> | null {
    if (this.#left > 0) {
      this.#left -= 1
      return null
    }
    if (this.#waiting.length >= maxWaiting) return null
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  /**
   * A new window begins, after one in which so many requests were admitted; `Infinity` where there was room for all.
   * The rejections that have waited longest go first.
   */
  beginWindow(admitted: number): void {
    const turns = Math.max(leastPerWindow, Math.floor(share * admitted))
    const released = this.#waiting.splice(0, turns)
    this.#left = turns - released.length
    for (const release of released) release()
  }
}

/** Counts one down; a name at zero is forgotten. */
export function countDown(counts: Map<string, number>, name: string): void {
  const others = counts.get(name)! - 1
  if (others === 0) counts.delete(name)
  else counts.set(name, others)
}

/** The same function, of which only the first call counts. */
export function once(action: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    action()
  }
}
