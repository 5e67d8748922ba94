import { UpstreamError, type UpstreamFailure } from '../domain/errors.ts'
import {
  announcedLength,
  checkUsable,
  isTransient,
  readBounded,
  toUpstreamError,
  type BodyStream,
  type UpstreamAnswer,
} from './answer.ts'
import { Deadline } from './deadline.ts'
import type { CallTally, HeldMemory } from '../domain/record-storage.ts'
import {
  minFairTimeoutMs,
  type Breakers,
  type GuardedCall,
  type GuardedRequest,
  type UpstreamTarget,
} from './circuit-breaker.ts'
import type { FetchRequest, Transport } from './transport.ts'
import type { Permits } from '../load/permits.ts'

export interface UpstreamRequest extends GuardedRequest, FetchRequest {
  /**
   * The time until the answer has come, over all attempts. For a stream: until its first piece; then no piece may stall.
   */
  timeoutMs: number
  /** The longest body that is read whole; a longer one is `bad-response`. */
  maxBytes: number
  /** Whether a longer body is no error: it is left out then. */
  mayBeTooLong?: boolean
  /** Holds the memory of a long body that is read whole; absent for a call that must not fail for want of it. */
  holder?: { readonly memory: HeldMemory }
  /** The cost of its calls, added up. */
  tally?: CallTally
}

/** One call as metrics count it. Status and failure are null when its client hung up. */
export interface UpstreamCallSummary {
  target: UpstreamTarget
  method: string
  status: number | null
  failure: UpstreamFailure | null
  /** The time until the answer's headers or the failure. */
  ms: number
}

export interface UpstreamOptions {
  permits: Permits
  breakers: Breakers
  /** PEM text; if given, the only trusted authorities. */
  ca?: string
  transport: Transport
  observe(call: UpstreamCallSummary): void
  /** A clock in ms. */
  now(): number
  /** Between 0 and 1. */
  random(): number
  delay(ms: number): Promise<void>
  /** The longest pause within a body. */
  stallMs?: number
}

export type Upstream = ReturnType<typeof createUpstream>

/** Bodies up to this size arrive in one piece. */
const shortBytes = 262_144
/** Longer error bodies are not understood. */
const maxErrorBytes = 8192
const maxStallMs = 30_000
/** A body is in memory as bytes, as text, and as what is made of that. */
const copiesInMemory = 3
const nothing = new Uint8Array(0)

/** The only door to the token server and the storage. */
export function createUpstream(options: UpstreamOptions) {
  const { permits, breakers, transport, observe, now, random, delay, stallMs = maxStallMs } = options
  const shared = { calls: permits.calls, breakers, now, stallMs }
  let tls = options.ca === undefined ? undefined : { ca: options.ca }

  return {
    send(request: UpstreamRequest): Promise<UpstreamAnswer> {
      const startedAtMs = now()
      return send(request, startedAtMs, startedAtMs + request.timeoutMs, request.method === 'GET')
    },
    /** Permits for lists, which are read at the pace of their readers. */
    lists: permits.lists,
    /** Trusts these authorities from now on. Calls in flight end with the old ones. */
    setCertificateAuthorities(ca: string | undefined) {
      // Circuit breakers begin anew, so nothing happens without a change.
      if (ca === tls?.ca) return
      tls = ca === undefined ? undefined : { ca }
      breakers.reset()
    },
  }

  /**
   * Sends one request, and a GET once more after what a second attempt may cure. Rejects with `UpstreamError`, without
   * having sent anything while the target's breaker is open; every status that HTTP knows is an answer, except for
   * redirections, which are never followed. A short body has come whole when this resolves.
   */
  async function send(
    request: UpstreamRequest,
    startedAtMs: number,
    deadlineMs: number,
    mayRepeat: boolean,
  ): Promise<UpstreamAnswer> {
    throwIfRefused(request)
    const { url } = request
    const call = new Call(request, deadlineMs, shared)
    let answer: UpstreamAnswer | null = null
    let failure: unknown = null
    let isReported = false
    try {
      call.setDeadline(Math.max(1, deadlineMs - startedAtMs), tooSlow)
      // Calls that finish or undo a commit never wait; batches bound their number.
      if (request.callClass !== 'must-complete' && (await call.acquirePermit())) throwIfRefused(request)
      call.guard = breakers.begin(request)
      // Over HTTP/2 the runtime repeats a deletion by itself where the server refuses it, also one that was carried out.
      const mayBeRepeated = request.method === 'DELETE' && transport.sharesConnection(url.origin)
      const response = await transport.fetch(request, call.signal, tls)
      call.response = response
      const { status, headers } = response
      checkUsable(response, url.host)
      const answeredAtMs = now()
      isReported = true
      report(request, status, null, answeredAtMs - startedAtMs)
      // Headers alone are no answer, so the beginning of the body has to come within the same time.
      if (deadlineMs - answeredAtMs > stallMs) call.setDeadline(stallMs, stalled)
      const length = announcedLength(headers)
      const isShort = length === null ? response.body === null : length <= shortBytes
      if (request.isStreamed === true && status === 200 && !isShort) {
        answer = { status, headers, bytes: nothing, isTooLong: false, stream: call.toStream() }
      } else {
        // Only a code is read from these bodies; nothing else bounds the length of a stream.
        const isCodeOnly = status >= 400 || (request.isStreamed === true && status !== 200)
        const allowed = isCodeOnly ? maxErrorBytes : request.maxBytes
        // Reading `body` makes a stream, which a short answer does not need.
        const isRead = isShort && (length ?? 0) <= allowed
        const bytes = isRead ? await response.bytes() : await readLong(call, length ?? 0, allowed)
        if (bytes === null) {
          call.abort()
          if (!isCodeOnly && request.mayBeTooLong !== true) throw tooLong(url.host, status)
        }
        call.end(null)
        const isTooLong = bytes === null
        answer = { status, headers, bytes: bytes ?? nothing, isTooLong, stream: null, mayBeRepeated }
      }
    } catch (error) {
      failure = toUpstreamError(error, url.host)
      if (call.timedOut(failure)) transport.avoidConnections(url.origin)
      call.end(failure)
      call.abort()
      if (!isReported && failure instanceof UpstreamError) {
        const cause = failure.failure === 'abandoned' ? null : failure.failure
        report(request, failure.status, cause, now() - startedAtMs)
      }
    }
    const shouldRetry = mayRepeat && (answer ? isTransient(answer) : isRetryable(failure))
    if (shouldRetry && (await mayRetry(request, deadlineMs)))
      return await send(request, now(), deadlineMs, false)
    if (answer) return answer
    throw failure
  }

  async function mayRetry(request: UpstreamRequest, deadlineMs: number): Promise<boolean> {
    const pauseMs = 50 + random() * 100
    if (now() + pauseMs >= deadlineMs) return false
    await delay(pauseMs)
    return breakers.refusal(request) === null
  }

  function throwIfRefused(request: UpstreamRequest): void {
    const refusal = breakers.refusal(request)
    if (refusal) throw refusal
  }

  function report(
    { target, method, tally }: UpstreamRequest,
    status: number | null,
    failure: UpstreamFailure | null,
    ms: number,
  ): void {
    if (tally) {
      tally.upstreamCalls += 1
      tally.upstreamMs += ms
      tally.upstreamStatus = status ?? tally.upstreamStatus
    }
    observe({ target, method, status, failure, ms })
  }

  /** Reads a body piece by piece, in memory that the request holds; null when it holds more than is allowed. */
  async function readLong(call: Call, length: number, allowed: number): Promise<Uint8Array | null> {
    if (length > allowed) return null
    const hold = (bytes: number) => call.hold(copiesInMemory * bytes)
    if (length === 0) return await readBounded(call, allowed, hold)
    // At once: of many answers that arrive together, some find room for all of it, and the others end before they are read.
    hold(length)
    return await readBounded(call, allowed)
  }
}

/**
 * One call: its deadline, its end, and the body of its answer. A piece of the body that does not come in time ends it; the
 * reader's time between two reads does not count.
 */
class Call implements BodyStream {
  guard: GuardedCall | null = null
  response: Response | null = null
  readonly #deadline: Deadline
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #failure: unknown = null
  #holdsPermit = false
  #hasEnded = false

  constructor(
    private readonly request: UpstreamRequest,
    private deadlineMs: number,
    private readonly upstream: Pick<UpstreamOptions, 'breakers' | 'now'> & {
      calls: Permits['calls']
      stallMs: number
    },
  ) {
    this.#deadline = new Deadline(request.client)
  }

  /** Aborts what the call does. */
  get signal(): AbortSignal {
    return this.#deadline.signal
  }

  /** Sets the deadline: after so many ms the call is aborted with that error. */
  setDeadline(ms: number, tooLate: typeof tooSlow): void {
    // Before it is guarded, a call waits for its permits, and nothing of it was sent.
    this.#deadline.set(ms, () => tooLate(this.request.url.host, this.guard === null ? 'no' : 'unknown'))
  }

  /** The call as a body that takes as long as its reader. For the breaker the call has ended. */
  toStream(): BodyStream {
    this.#judge(null)
    this.deadlineMs = Infinity
    return this
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#failure !== null) throw this.#failure
    if (this.#hasEnded) return null
    const { now, stallMs } = this.upstream
    // The first read has the rest of the call's time.
    if (this.#reader !== null)
      this.setDeadline(Math.max(1, Math.min(stallMs, this.deadlineMs - now())), stalled)
    this.#reader ??= this.response!.body!.getReader()
    try {
      const { value } = await this.#reader.read()
      this.#deadline.clear()
      if (!value) this.end(null)
      return value ?? null
    } catch (error) {
      const failure = toUpstreamError(error, this.request.url.host)
      this.end(failure)
      throw failure
    }
  }

  cancel(): void {
    if (this.#hasEnded) return
    this.end(null)
    this.abort()
  }

  /** Stops what is left of the call. */
  abort(): void {
    this.#deadline.abort()
    // The abort rejects the reads of a body, also where no reader waits.
    const body = this.#reader ?? (this.response?.bodyUsed === false ? this.response.body : null)
    body?.cancel().catch(() => {})
  }

  hold(bytes: number): void {
    this.request.holder?.memory.grow(bytes)
  }

  /** Resolves to whether it has had to wait. */
  async acquirePermit(): Promise<boolean> {
    const { url, user } = this.request
    const { calls } = this.upstream
    const waits = !calls.tryAcquire(url.origin, user)
    if (waits) await calls.acquire(url.origin, user, this.signal)
    this.#holdsPermit = true
    this.signal.throwIfAborted()
    return waits
  }

  releasePermit(): void {
    if (this.#holdsPermit) this.upstream.calls.release(this.request.url.origin, this.request.user)
    this.#holdsPermit = false
  }

  /** Whether a time that was long enough has passed without any answer. */
  timedOut(failure: unknown): boolean {
    const { guard, response } = this
    const isTimeout = failure instanceof UpstreamError && failure.failure === 'timeout'
    if (!isTimeout || guard === null || response !== null) return false
    return this.upstream.now() - guard.beganAtMs >= minFairTimeoutMs
  }

  /** Ends the call; null: everything that was wanted has come. Further calls do nothing. */
  end(failure: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#failure = failure
    this.#deadline.end()
    this.releasePermit()
    this.#judge(failure)
  }

  /** Tells the breaker, once, how the call went. */
  #judge(failure: unknown): void {
    const { guard } = this
    this.guard = null
    if (guard === null) return
    if (failure === null) this.upstream.breakers.answered(guard)
    else this.upstream.breakers.failed(guard, failure)
  }
}

function tooSlow(host: string, applied: UpstreamError['applied']): UpstreamError {
  return new UpstreamError('timeout', `Cannot get an answer of "${host}": none in time`, { applied })
}

function stalled(host: string): UpstreamError {
  return new UpstreamError('timeout', `Cannot read the answer of "${host}": it stalled`)
}

function tooLong(host: string, status: number): UpstreamError {
  return new UpstreamError('bad-response', `Cannot read the answer of "${host}": too long`, { status })
}

function isRetryable(error: unknown): boolean {
  if (!(error instanceof UpstreamError)) return false
  return error.failure === 'unreachable' || error.failure === 'connection-lost'
}
