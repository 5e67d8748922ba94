import { limits } from './limits.ts'

/** Why a request was refused. */
export const rejectionReasons = [
  'limit', // As many as were configured are in flight.
  'lag', // As many as the event loop can serve in time are in flight.
  'user', // There is hardly any room left, and that user has a share of it already.
  'memory', // The process holds nearly as much memory as it should.
  'root-view', // As many root views as may ask the token server do.
  'body-memory', // There was no memory for a body.
  'slow-reader', // The connection was ended because its reader took too little, or its place was needed.
] as const
export type RejectionReason = (typeof rejectionReasons)[number]

export interface AdmissionOptions {
  /** Requests in flight at most. */
  maxRequests: number
  /** Requests of one user in flight at most, while hardly any room is left; 0: no limit. */
  maxRequestsOfUser: number
  /** How late the event loop may be before fewer requests are admitted; 0: no limit. */
  maxLagMs: number
  /** Root views that ask the token server at most. */
  maxRootViews: number
  /** On a clock in ms that never goes back. */
  now(): number
  /** Processor time that this process has used so far, in ms. */
  cpuMs(): number
  /** Memory that this process holds, in bytes. */
  residentBytes(): number
  collectGarbage(): void
  /** How late the event loop was in each window. */
  observeLag(ms: number): void
  observeRejection(reason: RejectionReason): void
}

/** Releases a permit, the right of one request to be in flight; further calls do nothing. */
export type Release = () => void

function once(release: () => void): Release {
  let isReleased = false
  return () => {
    if (!isReleased) release()
    isReleased = true
  }
}

/** The length of one window, after which the event loop's lag is judged. */
export const windowMs = 100

// The default of `max_concurrent_requests`; a larger one raises the memory in proportion.
const usualRequests = 2048

/** What one user has in flight: requests, and their weight, where a batch counts as all requests in it. */
interface InFlight {
  requests: number
  weight: number
}

/**
 * Decides whether a request for user data may begin. Only requests whose body has arrived and whose credentials proved
 * good hold a permit, until the last byte of their answer is handed on, so that a stranger can't take a place. One user who is
 * alone may have every place; another who comes then finds room nevertheless.
 */
export class Admission {
  /** The pause that clients are asked for; 0: none. */
  backoffSeconds = 0
  readonly #limit: AdaptiveConcurrencyLimit
  readonly #users = new Map<string, InFlight>()
  /** All that is in flight, of each user at most the share. */
  #counted = 0
  readonly #rootViewsOf = new Map<string, number>()
  #isShortOfMemory = false
  #collectedAtBytes = 0
  /** The most that was in flight in this window. */
  #peak = 0
  #windowStartMs: number
  #windowStartCpuMs: number
  #busySinceMs: number | null = null

  constructor(private readonly options: AdmissionOptions) {
    this.#limit = new AdaptiveConcurrencyLimit(options)
    this.#windowStartMs = options.now()
    this.#windowStartCpuMs = options.cpuMs()
  }

  /** How many requests may be in flight now. */
  get limit(): number {
    return this.#limit.value
  }

  /** Whether there is no room for anybody: a cheap question, asked before any work is done for a request. */
  get isFull(): boolean {
    return this.#isShortOfMemory || this.#counted >= this.#limit.value
  }

  /** Counts a request that is rejected because there is no room for anybody. */
  refuse(): void {
    if (this.#isShortOfMemory) this.options.observeRejection('memory')
    else this.#observeFull()
  }

  /**
   * A permit for a request of that user, or for a batch of so many; null: it must be rejected. The user's name is as
   * secret as the credentials, and is forgotten with the last permit.
   */
  acquire(name: string, requests = 1): Release | null {
    // A batch of any size must fit in when nothing else is in flight.
    const weight = Math.max(1, Math.min(requests, this.#limit.floor))
    const user = this.#users.get(name) ?? { requests: 0, weight: 0 }
    if (!this.#admits(user, weight)) return null
    this.#users.set(name, user)
    this.#count(user, 1, weight)
    return once(() => {
      this.#count(user, -1, -weight)
      if (user.requests === 0) this.#users.delete(name)
    })
  }

  /**
   * A permit for a root view to ask the token server for the user of these credentials; null: it must be rejected. Anybody can
   * make up credentials, so these questions must leave room at the token server for requests for data. Requests with the same
   * credentials share one question.
   */
  acquireRootView(credentials: string): Release | null {
    const sharing = this.#rootViewsOf.get(credentials) ?? 0
    if ((sharing === 0 && this.#rootViewsOf.size >= this.options.maxRootViews) || this.isFull) {
      this.options.observeRejection('root-view')
      return null
    }
    this.#rootViewsOf.set(credentials, sharing + 1)
    return once(() => {
      const others = this.#rootViewsOf.get(credentials)! - 1
      if (others === 0) this.#rootViewsOf.delete(credentials)
      else this.#rootViewsOf.set(credentials, others)
    })
  }

  /** Called every `windowMs`: judges the last window. */
  endWindow(): void {
    const nowMs = this.options.now()
    const cpuMs = this.options.cpuMs()
    const lagMs = Math.max(0, nowMs - this.#windowStartMs - windowMs)
    const wasBusy = this.#peak > limits.busyShare * this.#limit.value
    this.#busySinceMs = wasBusy ? (this.#busySinceMs ?? this.#windowStartMs) : null
    const isBusyForLong = this.#busySinceMs !== null && nowMs - this.#busySinceMs >= limits.backoffAfterMs
    this.backoffSeconds = isBusyForLong ? limits.backoffSeconds : 0
    this.#limit.note(lagMs, cpuMs - this.#windowStartCpuMs)
    this.#counted = 0
    for (const user of this.#users.values()) this.#counted += this.#countOf(user)
    this.options.observeLag(lagMs)
    this.watchMemory()
    this.#peak = this.#counted
    this.#windowStartMs = nowMs
    this.#windowStartCpuMs = cpuMs
  }

  /** Garbage is collected early, because late collection lets the process grow far beyond what it uses. */
  watchMemory(): void {
    const { residentBytes, collectGarbage, maxRequests } = this.options
    let usedBytes = residentBytes()
    if (usedBytes < this.#collectedAtBytes) this.#collectedAtBytes = usedBytes
    const hasGrown = usedBytes - this.#collectedAtBytes > limits.collectEveryBytes
    if (usedBytes > limits.collectAboveBytes && hasGrown) {
      collectGarbage()
      usedBytes = this.#collectedAtBytes = residentBytes()
    }
    const mostBytes = limits.shedAboveBytes * Math.max(1, maxRequests / usualRequests)
    this.#isShortOfMemory = usedBytes > mostBytes
  }

  #admits(user: InFlight, weight: number): boolean {
    const { maxRequestsOfUser, observeRejection } = this.options
    const wanted = this.#counted - this.#countOf(user) + user.weight + weight
    if (wanted > this.#limit.value) {
      this.#observeFull()
      return false
    }
    const isAlone = user.requests > 0 && this.#users.size === 1
    const isBusy = wanted > limits.busyShare * this.#limit.value
    if (!isBusy || isAlone || maxRequestsOfUser === 0 || user.requests < maxRequestsOfUser) return true
    observeRejection('user')
    return false
  }

  #count(user: InFlight, requests: number, weight: number): void {
    this.#counted -= this.#countOf(user)
    user.requests += requests
    user.weight += weight
    this.#counted += this.#countOf(user)
    if (this.#counted > this.#peak) this.#peak = this.#counted
  }

  #countOf({ weight }: InFlight): number {
    return Math.min(weight, Math.max(1, Math.floor(limits.userShare * this.#limit.value)))
  }

  #observeFull(): void {
    const { maxRequests, observeRejection } = this.options
    observeRejection(this.#limit.value < maxRequests ? 'lag' : 'limit')
  }
}

// A single slow turn, or a machine that stood still for a moment, is no overload.
const lateWindows = 2
const decrease = 0.7
// From the lowest limit to the full one in five seconds.
const healthyWindows = 50

/**
 * The adaptive concurrency limit: fewer requests may be in flight while the event loop is late because of our own work,
 * so that the admitted ones are answered soon. Additive increase, multiplicative decrease (AIMD), never below 64.
 */
class AdaptiveConcurrencyLimit {
  value: number
  /** The limit never falls below this. */
  readonly floor: number
  readonly #step: number
  #lateWindows = 0

  constructor(private readonly options: Pick<AdmissionOptions, 'maxRequests' | 'maxLagMs'>) {
    const { maxRequests } = options
    this.value = maxRequests
    this.floor = Math.min(limits.leastRequests, maxRequests)
    this.#step = Math.max(1, Math.ceil((maxRequests - this.floor) / healthyWindows))
  }

  /** A window has ended `lagMs` late. Where this process was on a processor for less than half of it, others are at fault. */
  note(lagMs: number, busyMs: number): void {
    const { maxRequests, maxLagMs } = this.options
    const isOurs = busyMs >= (windowMs + lagMs) / 2
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
