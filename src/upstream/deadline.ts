import { UpstreamError } from '../domain/errors.ts'

/** How often open calls are checked, so a call ends at most this much late. */
const checkMs = 25

/**
 * The deadlines of all open calls. They share one timer, which also looks for disconnected clients: a timer and a listener for each call
 * would cost 4 % of a short one.
 */
export class Deadlines {
  readonly #open = new Set<Deadline>()
  #timer: ReturnType<typeof setInterval> | null = null

  /** `now`: a monotonic clock in milliseconds. */
  constructor(private readonly now: () => number) {}

  /** Begins a call; end it with `end`. `client`: absent if its disconnect does not matter. */
  open(client: { readonly signal: AbortSignal } | undefined): Deadline {
    const deadline = new Deadline(client, this.#open, this.now)
    this.#open.add(deadline)
    this.#timer ??= setInterval(() => this.#check(), checkMs)
    return deadline
  }

  #check(): void {
    const nowMs = this.now()
    for (const deadline of this.#open) deadline.check(nowMs)
    if (this.#open.size > 0) return
    clearInterval(this.#timer!)
    this.#timer = null
  }
}

/** Aborts a call when it times out or its client disconnects. */
export class Deadline {
  readonly #controller = new AbortController()
  #endsAtMs = Infinity
  #timeoutError: () => unknown = () => undefined

  constructor(
    private readonly client: { readonly signal: AbortSignal } | undefined,
    private readonly open: Set<Deadline>,
    private readonly now: () => number,
  ) {}

  /** Aborts the call. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Sets the timeout, replacing an earlier one; then the call is aborted with that error. */
  set(ms: number, timeoutError: () => unknown): void {
    this.#endsAtMs = this.now() + ms
    this.#timeoutError = timeoutError
  }

  /** Stops the timeout while nothing is expected from the other side. */
  clear(): void {
    this.#endsAtMs = Infinity
  }

  check(nowMs: number): void {
    // The runtime creates the signal of a request when it is first read, so short calls never need it.
    if (this.client?.signal.aborted)
      this.#controller.abort(new UpstreamError('abandoned', 'Call aborted: the client disconnected'))
    else if (nowMs >= this.#endsAtMs) this.#controller.abort(this.#timeoutError())
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Stops the timeout, and no longer looks at the client. */
  end(): void {
    this.open.delete(this)
  }
}
