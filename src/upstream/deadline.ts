import { UpstreamError } from '../domain/errors.ts'

/** Aborts a call when it times out or its client disconnects. */
export class Deadline {
  readonly #controller = new AbortController()
  readonly #client: AbortSignal | null
  #timer: ReturnType<typeof setTimeout> | null = null

  /** `client`: absent if its disconnect does not matter. */
  constructor(client: { readonly signal: AbortSignal } | undefined) {
    this.#client = client?.signal ?? null
    if (this.#client?.aborted) this.#disconnect()
    else this.#client?.addEventListener('abort', this.#disconnect)
  }

  /** Aborts the call. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Sets the timeout, replacing an earlier one; then the call is aborted with that error. */
  set(ms: number, timeoutError: () => unknown): void {
    this.clear()
    this.#timer = setTimeout(() => this.#controller.abort(timeoutError()), ms)
  }

  /** Stops the timeout while nothing is expected from the other side. */
  clear(): void {
    if (this.#timer === null) return
    clearTimeout(this.#timer)
    this.#timer = null
  }

  abort(): void {
    this.#controller.abort()
  }

  /** Stops the timeout and no longer listens to the client. */
  end(): void {
    this.clear()
    this.#client?.removeEventListener('abort', this.#disconnect)
  }

  readonly #disconnect = () => {
    this.#controller.abort(new UpstreamError('abandoned', 'Call aborted: the client disconnected'))
  }
}
