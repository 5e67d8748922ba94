import { UpstreamError } from '../domain/errors.ts'

/** A call that takes longer also watches its client. Most calls take less: listening from the start costs 6 % of one record. */
const watchAfterMs = 25

/** Aborts a call when it times out or, if it takes longer than 25 ms, when its client disconnects. */
export class Deadline {
  readonly #controller = new AbortController()
  #timer: ReturnType<typeof setTimeout> | null = null
  #isWatching: boolean
  /** Called when the client disconnects, while it is watched. */
  #disconnect: (() => void) | null = null

  /** `client`: absent if its disconnect does not matter. */
  constructor(private readonly client: { readonly signal: AbortSignal } | undefined) {
    this.#isWatching = client === undefined
  }

  /** Aborts the call. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Sets the timeout, replacing an earlier one; then the call is aborted with that error. */
  set(ms: number, timeoutError: () => unknown): void {
    this.#stop()
    const abort = () => this.#controller.abort(timeoutError())
    if (this.#isWatching || ms <= watchAfterMs) this.#timer = setTimeout(abort, ms)
    else
      this.#timer = setTimeout(() => {
        this.#timer = setTimeout(abort, ms - watchAfterMs)
        this.#watch()
      }, watchAfterMs)
  }

  /** Stops the timeout while nothing is expected from the other side. */
  clear(): void {
    this.#stop()
    this.#watch()
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Stops the timeout and no longer listens to the client. */
  end(): void {
    this.#stop()
    if (this.#disconnect !== null) this.client!.signal.removeEventListener('abort', this.#disconnect)
  }

  #stop(): void {
    if (this.#timer === null) return
    clearTimeout(this.#timer)
    this.#timer = null
  }

  #watch(): void {
    if (this.#isWatching) return
    this.#isWatching = true
    // The runtime creates the signal of a request when it is first read.
    const { signal } = this.client!
    this.#disconnect = () =>
      this.#controller.abort(new UpstreamError('abandoned', 'Call aborted: the client disconnected'))
    if (signal.aborted) this.#disconnect()
    else signal.addEventListener('abort', this.#disconnect)
  }
}
