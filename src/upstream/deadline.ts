import { UpstreamError } from '../domain/errors.ts'

/** A client that hangs up is noticed after this time. Most calls are over by then, also those to a distant storage, and never listen. */
const hangUpMs = 250

/** Aborts a call when its time is over, or when its client has hung up. */
export class Deadline implements EventListenerObject {
  readonly #controller = new AbortController()
  #timer: ReturnType<typeof setTimeout> | null = null
  #leftMs = 0
  #timeoutError: () => unknown = () => undefined
  #listensTo: AbortSignal | null = null

  /** `client`: absent where it does not matter whether the client still waits. */
  constructor(private readonly client: { readonly signal: AbortSignal | null } | undefined) {}

  /** Aborts what the call does. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** After so many ms, instead of the time that was set before, the call is aborted with that error. */
  set(ms: number, timeoutError: () => unknown): void {
    this.clear()
    this.#timeoutError = timeoutError
    const listensLater = this.client !== undefined && this.#listensTo === null
    const firstMs = listensLater ? Math.min(ms, hangUpMs) : ms
    this.#leftMs = ms - firstMs
    this.#timer = setTimeout(wake, firstMs, this)
  }

  /** No time counts while the other side owes nothing. */
  clear(): void {
    if (this.#timer === null) return
    clearTimeout(this.#timer)
    this.#timer = null
  }

  /** The time has passed, or it is time to listen for a client that hangs up. */
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

  /** The client has hung up. */
  handleEvent(): void {
    this.#controller.abort(new UpstreamError('abandoned', 'Gave up a call: its client has hung up'))
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Neither time nor client matter any more. */
  end(): void {
    this.clear()
    this.#listensTo?.removeEventListener('abort', this)
  }
}

function wake(deadline: Deadline): void {
  deadline.wake()
}
