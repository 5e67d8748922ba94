/** The length of one window, after which the event loop's lag is judged. */
export const windowMs = 100

// A single slow turn, or a machine that stood still for a moment, is no overload.
const lateWindows = 2
const decrease = 0.7
// From the lowest limit to the full one in five seconds.
const healthyWindows = 50
const floor = 64

interface ConcurrencyLimitOptions {
  /** Requests in flight at most, while the event loop is on time. */
  maxRequests: number
  /** How late the event loop may be; 0: no limit. */
  maxLagMs: number
}

/**
 * The adaptive concurrency limit: fewer requests may be in flight while the event loop is late because of our own work,
 * so that the admitted ones are answered soon. Additive increase, multiplicative decrease (AIMD), never below 64.
 */
export class AdaptiveConcurrencyLimit {
  #value: number
  #lateWindows = 0
  readonly #floor: number
  readonly #step: number

  constructor(private readonly options: ConcurrencyLimitOptions) {
    const { maxRequests } = options
    this.#value = maxRequests
    this.#floor = Math.min(floor, maxRequests)
    this.#step = Math.max(1, Math.ceil((maxRequests - this.#floor) / healthyWindows))
  }

  get value(): number {
    return this.#value
  }

  /** The limit never falls below this. */
  get floor(): number {
    return this.#floor
  }

  /** Whether it is below the configured limit. */
  get isLowered(): boolean {
    return this.#value < this.options.maxRequests
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
      this.#value = Math.min(maxRequests, this.#value + this.#step)
      return
    }
    this.#lateWindows += 1
    if (this.#lateWindows < lateWindows) return
    this.#value = Math.max(this.#floor, Math.floor(this.#value * decrease))
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
