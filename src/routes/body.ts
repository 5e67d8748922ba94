import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'

export interface BodyBudgetOptions {
  /** Bytes of one body at most. */
  maxBytes: number
  /** Wall clock, ms since 1970. */
  now(): number
  /** A body was dropped because others needed its memory. */
  observeDrop(): void
  /** Bytes of all bodies together. */
  totalBytes?: number
}

const defaultTotalBytes = 64 * 1024 * 1024
/** How long the first byte of a body may take. */
const firstByteMs = 10_000
/** One caller gets a quarter of the memory at most. */
const callersAtLeast = 4
/**
 * A body of up to so many bytes is received whole: for each stream of a body the runtime allocates 256 KB. Its pieces are not
 * seen then, so all of it has the time of the first byte, and as long again as it takes at the slowest rate.
 */
const small = { bytes: 65_536, slowestBytesPerMs: 2 }

/**
 * Receives request bodies, and bounds the memory and the time that they take together. A body needs no permit of the load
 * shedder while it arrives, so slow senders take no places. When the memory is full, the body that has cost most so far
 * (bytes times age) is dropped, among those whose senders have not proved who they are. So large bodies that stall go
 * first, and a small one that comes at once never goes.
 */
export class BodyBudget {
  readonly #bodies = new Set<IncomingBody>()
  readonly #bytesOf = new Map<string, number>()
  readonly #totalBytes: number
  #heldBytes = 0

  constructor(private readonly options: BodyBudgetOptions) {
    this.#totalBytes = Math.max(options.totalBytes ?? defaultTotalBytes, callersAtLeast * options.maxBytes)
  }

  /** Bytes of memory that bodies hold now. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /**
   * Begins to receive the body of a request, before anything is waited for: the server keeps up to 2 MB of a body that is
   * not read, which no budget bounds. `caller` tells callers apart; it is not verified yet. Throws `ServiceError` 415 for
   * a media type or an encoding that is not plain JSON, 413 for a length that is too large.
   */
  receive(request: Request, caller: string, deadlineAtMs: number): IncomingBody {
    checkMediaType(request.headers)
    const { maxBytes, now } = this.options
    const announced = request.headers.get('content-length')
    if (Number(announced ?? 0) > maxBytes) throw tooLarge(maxBytes)
    const nowMs = now()
    const body = new IncomingBody(this, caller, nowMs, Math.min(deadlineAtMs, nowMs + firstByteMs))
    const length = announced === null ? null : Number(announced)
    if (length !== null && length > 0 && length <= small.bytes) {
      body.dueAtMs = Math.min(deadlineAtMs, body.dueAtMs + length / small.slowestBytesPerMs)
      this.#bodies.add(body)
      body.arrived = body.readWhole(request, length)
    } else if (request.body) {
      this.#bodies.add(body)
      const limits = { maxBytes, likelyBytes: length ?? maxBytes, deadlineAtMs }
      body.arrived = body.read(request.body.getReader(), limits)
    }
    // A request that is answered before its body has arrived does not wait for it.
    body.arrived.catch(() => body.release())
    return body
  }

  /** Drops bodies whose time is over; called several times a second. */
  expire(): void {
    const nowMs = this.options.now()
    for (const body of this.#bodies) if (body.dueAtMs <= nowMs) body.drop(notReceived())
  }

  /** Reserves memory for a body, by dropping others if need be. Throws the error that the body is refused with. */
  reserve(body: IncomingBody, bytes: number): void {
    this.#checkShare(body, body.caller, bytes)
    while (this.#heldBytes + bytes > this.#totalBytes) this.#dropCostliest(body, () => true)
    body.heldBytes += bytes
    this.#heldBytes += bytes
    this.#charge(body.caller, bytes)
  }

  /** Counts a body under another name from now on. Throws the error that the body is refused with. */
  rename(body: IncomingBody, owner: string): void {
    if (owner === body.caller) return
    this.#checkShare(body, owner, body.heldBytes)
    this.#charge(body.caller, -body.heldBytes)
    this.#charge(owner, body.heldBytes)
    body.caller = owner
  }

  #checkShare(body: IncomingBody, caller: string, bytes: number): void {
    while ((this.#bytesOf.get(caller) ?? 0) + bytes > this.#totalBytes / callersAtLeast) {
      this.#dropCostliest(body, (other) => other.caller === caller)
    }
  }

  #charge(caller: string, bytes: number): void {
    const held = (this.#bytesOf.get(caller) ?? 0) + bytes
    if (held === 0) this.#bytesOf.delete(caller)
    else this.#bytesOf.set(caller, held)
  }

  /** Frees everything that a body holds. */
  free(body: IncomingBody): void {
    this.#bodies.delete(body)
    if (body.heldBytes === 0) return
    this.#heldBytes -= body.heldBytes
    this.#charge(body.caller, -body.heldBytes)
    body.heldBytes = 0
  }

  #dropCostliest(newcomer: IncomingBody, isEligible: (body: IncomingBody) => boolean): void {
    const nowMs = this.options.now()
    let costliest = newcomer
    for (const body of this.#bodies) {
      if (!body.isProven && isEligible(body) && body.cost(nowMs) > costliest.cost(nowMs)) costliest = body
    }
    costliest.drop(noMemory())
    this.options.observeDrop()
    if (costliest === newcomer) throw noMemory()
  }
}

/** A body that is being received. It holds memory of the budget until it is released. */
export class IncomingBody {
  /**
   * Resolves when the whole body is there. Rejects with `ServiceError` 413 when it is too large, 400 when it does not arrive
   * in time, 503 when there is no memory for it; then the connection has to be closed, because the rest was not read.
   */
  arrived = Promise.resolve()
  heldBytes = 0
  /** Whether all of it has arrived. */
  isWhole = false
  /** Whether the credentials that came with it have proved good. */
  isProven = false
  #buffer = new ArrayBuffer(0)
  #size = 0
  #dropped: ServiceError | null = null
  #isReleased = false
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  /** Ends the wait for a body that is received whole. */
  #stopWaiting: (() => void) | null = null

  constructor(
    private readonly budget: BodyBudget,
    public caller: string,
    private readonly startedAtMs: number,
    /** When it is dropped: later once its first byte has come, never once it is whole. */
    public dueAtMs: number,
  ) {}

  async read(
    reader: ReadableStreamDefaultReader<Uint8Array>,
    { maxBytes, likelyBytes, deadlineAtMs }: { maxBytes: number; likelyBytes: number; deadlineAtMs: number },
  ): Promise<void> {
    this.#reader = reader
    try {
      for (;;) {
        const { done, value } = await reader.read()
        if (this.#dropped) throw this.#dropped
        if (done || this.#isReleased) break
        this.dueAtMs = deadlineAtMs
        if (this.#size + value.length > maxBytes) throw tooLarge(maxBytes)
        this.#append(value, likelyBytes)
      }
    } catch (error) {
      if (error instanceof ServiceError) throw error
      // The client has left, so this answer has no reader.
      throw notReceived()
    }
    this.isWhole = !this.#isReleased
    this.#reader = null
    this.dueAtMs = Infinity
  }

  async readWhole(request: Request, length: number): Promise<void> {
    this.budget.reserve(this, length)
    const { promise: released, resolve } = Promise.withResolvers<null>()
    this.#stopWaiting = () => resolve(null)
    // The client has left when this fails, so the answer has no reader.
    const receiving = request.arrayBuffer().catch(() => Promise.reject(notReceived()))
    const buffer = await Promise.race([receiving, released])
    if (this.#dropped) throw this.#dropped
    if (buffer === null || this.#isReleased) return
    this.#buffer = buffer
    this.#size = buffer.byteLength
    this.isWhole = true
    this.dueAtMs = Infinity
  }

  /**
   * Hands the bytes to `read`, once, and frees them. The memory stays reserved for the result until the release, now in
   * the name of the user whom the credentials stand for, and can't be taken away any more. Throws `ServiceError` 503 when
   * the body was dropped before, because others needed the memory.
   */
  parse<T>(owner: string, read: (bytes: Uint8Array) => T): T {
    if (this.#dropped) throw this.#dropped
    this.budget.rename(this, owner)
    this.isProven = true
    try {
      return read(new Uint8Array(this.#buffer, 0, this.#size))
    } finally {
      this.#free()
    }
  }

  drop(reason: ServiceError): void {
    this.#dropped ??= reason
    this.release()
  }

  /** Drops the body, or frees what is left of it; further calls do nothing. */
  release(): void {
    this.#isReleased = true
    // The stream of a sender that has left is broken already.
    this.#reader?.cancel().catch(() => {})
    this.#stopWaiting?.()
    this.budget.free(this)
    this.#free()
  }

  cost(nowMs: number): number {
    return this.heldBytes * (nowMs - this.startedAtMs + 1)
  }

  // Frees the buffer at once, instead of at the next garbage collection.
  #free(): void {
    this.#buffer = this.#buffer.transfer(0)
    this.#size = 0
  }

  // One buffer that doubles: kept by themselves, pieces of a few bytes would each cost a hundred more.
  #append(piece: Uint8Array, likelyBytes: number): void {
    const needed = this.#size + piece.length
    if (needed > this.#buffer.byteLength) {
      const length = Math.max(needed, Math.min(2 * this.#buffer.byteLength, likelyBytes))
      this.budget.reserve(this, length - this.#buffer.byteLength)
      this.#buffer = this.#buffer.transfer(length)
    }
    new Uint8Array(this.#buffer).set(piece, this.#size)
    this.#size = needed
  }
}

/** Lets the server discard the body of a request that does not need it. */
export function discardBody({ headers, body }: Request): void {
  if (headers.has('content-length') || headers.has('transfer-encoding')) body?.cancel().catch(() => {})
}

function checkMediaType(headers: Headers): void {
  const type = headers.get('content-type')
  const encoding = headers.get('content-encoding')
  if (type !== null && !/^application\/json *(?:; *charset="?utf-8"? *)?$/i.test(type.trim())) {
    throw unsupported('Content-Type', 'must be application/json')
  }
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw unsupported('Content-Encoding', 'must be absent: bodies are read uncoded')
  }
}

function unsupported(name: string, description: string): ServiceError {
  return invalidRequest([{ location: 'header', name, description }], { status: 415 })
}

// The rest of the body stays unread, so the connection can't carry another request.
const closing = { Connection: 'close' }

function tooLarge(maxBytes: number): ServiceError {
  const message = `The request body is larger than ${maxBytes} bytes`
  return new ServiceError(413, errno.requestTooLarge, message, { headers: closing })
}

function notReceived(): ServiceError {
  const problem = { location: 'body', name: 'body', description: 'was not received in time' } as const
  return invalidRequest([problem], { headers: closing })
}

function noMemory(): ServiceError {
  const message = 'There is no room for this request body now: try again later'
  return new ServiceError(503, errno.backend, message, { headers: closing })
}
