import { UpstreamError } from '../domain/errors.ts'

/** Client disconnects are noticed after this time; most calls end earlier and never need to listen. */
const disconnectCheckMs = 250

/** Aborts a call when it times out or its client disconnects. */
export class Deadline implements EventListenerObject {
  readonly #controller = new AbortController()
  #timer: ReturnType<typeof setTimeout> | null = null
  #leftMs = 0
  #timeoutError: () => unknown = () => undefined
  #listensTo: AbortSignal | null = null

  /** `client`: absent if its disconnect does not matter. */
  constructor(private readonly client: { readonly signal: AbortSignal | null } | undefined) {}

  /** Aborts the call. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Sets the timeout, replacing an earlier one; then the call is aborted with that error. */
  set(ms: number, timeoutError: () => unknown): void {
    this.clear()
    this.#timeoutError = timeoutError
    const listensLater = this.client !== undefined && this.#listensTo === null
    const firstMs = listensLater ? Math.min(ms, disconnectCheckMs) : ms
    this.#leftMs = ms - firstMs
    this.#timer = setTimeout(wake, firstMs, this)
  }

  /** Stops the timeout while nothing is expected from the other side. */
  clear(): void {
    if (this.#timer === null) return
    clearTimeout(this.#timer)
    this.#timer = null
  }

  /** The timeout fired, or it is time to listen for a disconnect. */
  wake(): void {
    this.#listen()
    if (this.#leftMs > 0) this.set(this.#leftMs, this.#timeoutError)
    else this.#controller.abort(this.#timeoutError())
  }

  #listen(): void {
    const signal = this.client?.signal
    if (!signal || this.#listensTo !== null) return
    this.#listensTo = signal
    if (signal.aborted) this.handleEvent()
    else signal.addEventListener('abort', this)
  }

  /** The client disconnected. */
  handleEvent(): void {
    this.#controller.abort(new UpstreamError('abandoned', 'Call aborted: the client disconnected'))
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Stops the timeout and no longer listens to the client. */
  end(): void {
    this.clear()
    this.#listensTo?.removeEventListener('abort', this)
  }
}

function wake(deadline: Deadline): void {
  deadline.wake()
}
