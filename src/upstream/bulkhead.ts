import { UpstreamError } from '../domain/errors.ts'

/**
 * Admits so many calls at a time to what may hang, and lets a few more wait a moment, so that one hung host can't
 * take the slots of all others.
 */
export class Bulkhead {
  #free: number
  readonly #waiting: Waiting[] = []
  #timer: ReturnType<typeof setTimeout> | null = null

  constructor(
    private readonly name: string,
    private readonly capacity: number,
    private readonly maxWaiting: number,
    private readonly maxWaitMs: number,
  ) {
    this.#free = capacity
  }

  /** Nobody is inside or waits. */
  get isIdle(): boolean {
    return this.#free === this.capacity
  }

  /** Admits at once, or not at all; whoever was admitted calls `leave` once. */
  tryEnter(): boolean {
    if (this.#free === 0) return false
    this.#free -= 1
    return true
  }

  /** Settles when there is room; whoever was admitted calls `leave` once. Rejects with `overload`. */
  enter(): Promise<void> {
    if (this.tryEnter()) return Promise.resolve()
    if (this.#waiting.length >= this.maxWaiting) return Promise.reject(this.#overload())
    return new Promise((admit, refuse) => {
      this.#waiting.push({ admit, refuse, untilMs: performance.now() + this.maxWaitMs })
      this.#watch()
    })
  }

  /** Gives the place to whoever waits longest. */
  leave(): void {
    const next = this.#waiting.shift()
    if (next) next.admit()
    else this.#free += 1
  }

  /** One timer for all: whoever has waited longest is the next whose time is over. */
  #watch(): void {
    const next = this.#waiting[0]
    if (!next || this.#timer) return
    this.#timer = setTimeout(
      () => {
        this.#timer = null
        const nowMs = performance.now()
        while (this.#waiting[0] && this.#waiting[0].untilMs <= nowMs) {
          this.#waiting.shift()!.refuse(this.#overload())
        }
        this.#watch()
      },
      Math.max(0, next.untilMs - performance.now()),
    )
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Cannot call ${this.name}: ${this.capacity} calls are under way`)
  }
}

interface Waiting {
  admit(): void
  refuse(error: UpstreamError): void
  untilMs: number
}
