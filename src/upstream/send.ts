import { UpstreamError, type UpstreamFailure } from '../domain/errors.ts'
import { joinBytes } from '../domain/bytes.ts'
import { retries } from '../domain/retries.ts'
import {
  checkUsable,
  isTransient,
  TooLong,
  toUpstreamError,
  type BodyStream,
  type UpstreamResponse,
} from './response.ts'
import { Deadline } from './deadline.ts'
import type { CallTally, HeldMemory } from '../domain/record-storage.ts'
import type { FetchRequest, Transport } from './transport.ts'
import type { Permits } from '../load/permits.ts'

/** One of the two upstream services. */
export type UpstreamTarget = 'token' | 'storage'

export interface UpstreamRequest extends FetchRequest {
  target: UpstreamTarget
  /** Identifies the user, who may have a limited number of calls in flight. Not for logs. */
  user: string
  /** The client request whose disconnect aborts the call; only for reads. */
  client?: Pick<Request, 'signal'>
  /** Whether the call finishes or undoes a started write; then it needs no permit. */
  mustComplete?: boolean
  /** Whether a long body with status 200 is streamed. */
  isStreamed?: boolean
  /** Timeout for the complete response, over all attempts. For a stream: until its first chunk; after that, no chunk may stall. */
  timeoutMs: number
  /** Maximum bytes of a buffered body; a longer one is `TooLong`. */
  maxBytes: number
  /** Holds the memory of a long buffered body; absent for a call that must not fail for lack of memory. */
  holder?: { readonly memory: HeldMemory }
  /** Adds up the cost of the calls. */
  tally?: CallTally
}

/** One call for the metrics. Status and failure are null if its client disconnected. */
export interface UpstreamCallSummary {
  target: UpstreamTarget
  method: string
  status: number | null
  failure: UpstreamFailure | null
  /** Time until the response headers or the failure. */
  ms: number
}

export interface UpstreamOptions {
  permits: Permits
  transport: Transport
  observe(call: UpstreamCallSummary): void
  /** A clock in ms. */
  now(): number
  /** Between 0 and 1. */
  random(): number
  delay(ms: number): Promise<void>
  /** Maximum pause between chunks of a body. */
  stallMs?: number
}

export type Upstream = ReturnType<typeof createUpstream>

/** Bodies up to this size are buffered. */
const shortBytes = 262_144
/** Longer error bodies are ignored. */
const maxErrorBytes = 8192
const maxStallMs = 30_000
/** Shorter timeouts come from the client's deadline, and don't show that a connection is dead. */
const minSilentMs = 900
/** Copies of a body in memory: bytes, text and values. */
const copiesInMemory = 3
const nothing = new Uint8Array(0)

/** The single entry point to the token server and the storage. */
export function createUpstream(options: UpstreamOptions) {
  const upstream = { stallMs: maxStallMs, ...options }
  const { permits, transport, observe, now, random, delay, stallMs } = upstream

  return {
    send(request: UpstreamRequest): Promise<UpstreamResponse> {
      const startedAtMs = now()
      const repeats = request.method === 'GET' ? retries.read.times : 0
      return send(request, startedAtMs, startedAtMs + request.timeoutMs, repeats)
    },
    /** Permits for lists, which last as long as their readers. */
    lists: permits.lists,
  }

  /**
   * Sends a request, and retries a GET once if that may help. Rejects with `UpstreamError`. Every HTTP status is a response, except
   * redirects, which are never followed. A short body is complete when this resolves.
   */
  async function send(
    request: UpstreamRequest,
    startedAtMs: number,
    deadlineMs: number,
    repeats: number,
  ): Promise<UpstreamResponse> {
    const { url } = request
    const call = new Attempt(request, deadlineMs, upstream)
    let result: UpstreamResponse | null = null
    let failure: unknown = null
    let isReported = false
    try {
      call.setDeadline(Math.max(1, deadlineMs - startedAtMs), tooSlow)
      // Calls that finish or undo a commit never wait; batches bound their number.
      if (request.mustComplete !== true && !call.tryAcquirePermit()) await call.acquirePermit()
      call.sentAtMs = now()
      const response = await transport.fetch(request, call.enterPool(), call.signal)
      call.response = response
      const { status, headers } = response
      checkUsable(response, url.host)
      const respondedAtMs = now()
      isReported = true
      report(request, status, null, respondedAtMs - startedAtMs)
      // Headers alone are no response: the body must begin within the same time.
      if (deadlineMs - respondedAtMs > stallMs) call.setDeadline(stallMs, stalled)
      const announced = headers.get('content-length')
      const length = Number(announced ?? 0)
      const isShort = announced === null ? response.body === null : length <= shortBytes
      if (request.isStreamed === true && status === 200 && !isShort) {
        result = { status, headers, bytes: nothing, stream: call.toStream() }
      } else {
        // Only a code is read from these bodies, so their length is bounded here.
        const isCodeOnly = status >= 400 || (request.isStreamed === true && status !== 200)
        const allowed = isCodeOnly ? maxErrorBytes : request.maxBytes
        // Avoids `body`, which would create a stream.
        const isRead = isShort && length <= allowed
        const bytes = isRead ? await response.bytes() : await readLong(call, length, allowed)
        if (bytes === null) {
          call.abort()
          if (!isCodeOnly) throw new TooLong(`the response from "${url.host}"`, status)
        }
        call.end(null)
        result = { status, headers, bytes: bytes ?? nothing, stream: null }
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
    const shouldRetry = repeats > 0 && (result ? isTransient(result) : isRetryable(failure))
    if (shouldRetry && (await pauseForRetry(deadlineMs)))
      return await send(request, now(), deadlineMs, repeats - 1)
    if (result) return result
    throw failure
  }

  /** Resolves to false if the deadline leaves no time for a retry. */
  async function pauseForRetry(deadlineMs: number): Promise<boolean> {
    const { minPauseMs, maxPauseMs } = retries.read
    const pauseMs = minPauseMs + random() * (maxPauseMs - minPauseMs)
    if (now() + pauseMs >= deadlineMs) return false
    await delay(pauseMs)
    return true
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

  /** Reads a body in chunks, in the request's memory; null if it exceeds `allowed`. `length` is 0 if unknown. */
  async function readLong(call: Attempt, length: number, allowed: number): Promise<Uint8Array | null> {
    if (length > allowed) return null
    // Reserves everything first, so that some of many concurrent responses complete and the others fail early.
    if (length > 0) call.hold(copiesInMemory * length)
    const pieces: Uint8Array[] = []
    let readBytes = 0
    for (let piece = await call.read(); piece; piece = await call.read()) {
      readBytes += piece.length
      if (readBytes > allowed) return null
      if (length === 0) call.hold(copiesInMemory * piece.length)
      pieces.push(piece)
    }
    return pieces.length === 1 ? pieces[0]! : joinBytes(pieces)
  }
}

/**
 * One attempt of a request: its deadline, its end and its response body. A chunk that does not arrive in time ends it; the reader's time between two reads
 * does not count.
 */
class Attempt implements BodyStream {
  /** When it was sent; null while it waits for a permit. */
  sentAtMs: number | null = null
  response: Response | null = null
  readonly #deadline: Deadline
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  #failure: unknown = null
  #holdsPermit = false
  #pool: number | null = null
  #hasEnded = false

  constructor(
    private readonly request: UpstreamRequest,
    private deadlineMs: number,
    private readonly upstream: Required<UpstreamOptions>,
  ) {
    this.#deadline = new Deadline(request.client)
  }

  /** Aborts the call. */
  get signal(): AbortSignal {
    return this.#deadline.signal
  }

  /** Sets the timeout in ms; then the call is aborted with that error. */
  setDeadline(ms: number, tooLate: typeof tooSlow): void {
    this.#deadline.set(ms, () => tooLate(this.request.url.host, this.sentAtMs === null ? 'no' : 'unknown'))
  }

  /** Returns the call as a body that takes as long as its reader. */
  toStream(): BodyStream {
    this.deadlineMs = Infinity
    return this
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#failure !== null) throw this.#failure
    if (this.#hasEnded) return null
    const { now, stallMs } = this.upstream
    // The first read may use the rest of the call's time.
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

  /** Aborts the rest of the call. */
  abort(): void {
    this.#deadline.abort()
    // Also cancels a body without a reader, because the abort would reject its reads.
    const body = this.#reader ?? (this.response?.bodyUsed === false ? this.response.body : null)
    body?.cancel().catch(() => {})
  }

  hold(bytes: number): void {
    this.request.holder?.memory.grow(bytes)
  }

  /** Most calls need not wait, and so save two promises. */
  tryAcquirePermit(): boolean {
    const { url, user } = this.request
    return (this.#holdsPermit = this.upstream.permits.calls.tryAcquire(url.origin, user))
  }

  async acquirePermit(): Promise<void> {
    const { url, user } = this.request
    await this.upstream.permits.calls.acquire(url.origin, user, this.signal)
    this.#holdsPermit = true
    this.signal.throwIfAborted()
  }

  releasePermit(): void {
    if (this.#holdsPermit) this.upstream.permits.calls.release(this.request.url.origin, this.request.user)
    this.#holdsPermit = false
  }

  /** The pool of connections for this call, until it ends. */
  enterPool(): number {
    return (this.#pool = this.upstream.transport.enterPool())
  }

  /** Whether the host was silent for so long that its connections may be dead. */
  timedOut(failure: unknown): boolean {
    const isTimeout = failure instanceof UpstreamError && failure.failure === 'timeout'
    if (!isTimeout || this.sentAtMs === null || this.response !== null) return false
    return this.upstream.now() - this.sentAtMs >= minSilentMs
  }

  /** Ends the call; `failure` is null if it succeeded. Further calls do nothing. */
  end(failure: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#failure = failure
    this.#deadline.end()
    this.releasePermit()
    if (this.#pool !== null) this.upstream.transport.leavePool(this.#pool)
  }
}

function tooSlow(host: string, applied: UpstreamError['applied']): UpstreamError {
  return new UpstreamError('timeout', `No response from "${host}": timed out`, { applied })
}

function stalled(host: string): UpstreamError {
  return new UpstreamError('timeout', `Cannot read the response from "${host}": it stalled`)
}

function isRetryable(error: unknown): boolean {
  if (!(error instanceof UpstreamError)) return false
  return error.failure === 'unreachable' || error.failure === 'connection-lost'
}
