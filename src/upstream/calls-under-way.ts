import { UpstreamError } from '../domain/errors.ts'

/** How often is looked whether a caller has left. */
const lookMs = 50

/**
 * Ends calls that take too long and calls whose caller has left. All of them are looked at by one timer: a timer and
 * a listener for each would cost more than everything else that is done for a short call.
 *
 * Its clock is the one that timers run by.
 */
export class CallsUnderWay {
  readonly #calls = new Set<Call>()
  #timer: ReturnType<typeof setTimeout> | null = null
  #looksAtMs = Infinity

  begin(signal: AbortSignal | undefined): Call {
    const call = new Call(this, signal)
    this.#calls.add(call)
    return call
  }

  /** Nothing is looked after any more. */
  end(call: Call): void {
    this.#calls.delete(call)
  }

  /** Makes sure that a look is taken within `ms`; returns when these have passed. */
  lookWithin(ms: number): number {
    const nowMs = performance.now()
    const atMs = nowMs + Math.min(ms, lookMs)
    if (atMs < this.#looksAtMs) {
      if (this.#timer) clearTimeout(this.#timer)
      this.#looksAtMs = atMs
      this.#timer = setTimeout(() => this.#look(), atMs - nowMs)
    }
    return nowMs + ms
  }

  #look(): void {
    this.#timer = null
    this.#looksAtMs = Infinity
    const nowMs = performance.now()
    let nextMs = Infinity
    for (const call of this.#calls) {
      const leftMs = call.check(nowMs)
      if (leftMs < nextMs) nextMs = leftMs
    }
    if (this.#calls.size > 0) this.lookWithin(nextMs)
  }
}

/** One call: what ends it early. */
export class Call {
  readonly #controller = new AbortController()
  #endsAtMs = Infinity
  #tooLate: (() => UpstreamError) | null = null

  constructor(
    private readonly calls: CallsUnderWay,
    private readonly caller: AbortSignal | undefined,
  ) {}

  /** Aborts what the call does. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** From now on so many ms are given; then the call is aborted with that error. */
  expectWithin(ms: number, tooLate: () => UpstreamError): void {
    this.#tooLate = tooLate
    this.#endsAtMs = this.calls.lookWithin(ms)
  }

  /** The other side is not waited for at the moment. */
  rest(): void {
    this.#endsAtMs = Infinity
  }

  abort(error?: UpstreamError): void {
    this.#controller.abort(error)
  }

  end(): void {
    this.calls.end(this)
  }

  /** Aborts if it is time; returns how many ms are left otherwise. */
  check(nowMs: number): number {
    if (this.caller?.aborted) {
      this.end()
      this.abort(gaveUp())
      return Infinity
    }
    if (nowMs >= this.#endsAtMs) {
      this.end()
      this.abort(this.#tooLate!())
      return Infinity
    }
    return this.#endsAtMs - nowMs
  }
}

export function gaveUp(): UpstreamError {
  return new UpstreamError('connection-lost', 'Gave up a call: nobody waits for it any more')
}
