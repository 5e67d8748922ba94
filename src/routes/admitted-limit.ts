/** How long one look at the event loop lasts. */
export const windowMs = 100

// One turn that takes long, or a machine that stood still for a moment, is no overload.
const lateWindows = 2
const decrease = 0.7
// From the lowest limit to the full one in five seconds.
const healthyWindows = 50
const floor = 64

export interface AdmittedLimitOptions {
  /** Requests under way at most, while the event loop is on time. */
  maxRequests: number
  /** How late the event loop may be; 0: as late as it will. */
  maxLagMs: number
}

/**
 * How many requests may be under way: fewer while the event loop is late because of our own work, so that those which
 * are admitted are answered soon. Additive increase, multiplicative decrease, never below 64.
 */
export class AdmittedLimit {
  #value: number
  #lateWindows = 0
  readonly #floor: number
  readonly #step: number

  constructor(private readonly options: AdmittedLimitOptions) {
    const { maxRequests } = options
    this.#value = maxRequests
    this.#floor = Math.min(floor, maxRequests)
    this.#step = Math.max(1, Math.ceil((maxRequests - this.#floor) / healthyWindows))
  }

  get value(): number {
    return this.#value
  }

  /** What is always admitted. */
  get floor(): number {
    return this.#floor
  }

  /** Whether it is below what was configured. */
  get isLowered(): boolean {
    return this.#value < this.options.maxRequests
  }

  /**
   * A window has ended that much late, and of its time this process has spent `busyMs` on a processor; null where
   * nobody knows, and then lateness says nothing of us.
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
