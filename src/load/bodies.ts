import { errno, invalidPart, ServiceError } from '../domain/errors.ts'
import { limits } from './limits.ts'
import type { MemoryBudget, RequestMemory } from './memory.ts'

/** Bodies up to this size are received whole, and must arrive at this rate or faster. */
const smallBodyBytes = 64 * 1024
const smallBodyBytesPerMs = 2

interface BodiesOptions {
  /** Maximum bytes of one body. */
  maxBytes: number
  memory: MemoryBudget
  /** A monotonic clock in ms. */
  now(): number
  /** Called when a body is rejected or dropped for lack of memory. */
  observeDrop(): void
}

/**
 * Receives request bodies within bounds of memory and time. A body needs no permit while it arrives, so slow senders don't block others.
 * When memory runs out, the oldest unauthenticated body is dropped, so that unauthenticated clients can't keep users from sending or
 * reading.
 */
export class Bodies {
  /** Bodies that are not released yet, oldest first. */
  readonly #bodies = new Set<IncomingBody>()

  constructor(private readonly options: BodiesOptions) {
    options.memory.makeRoom = (asking) => {
      const oldest = this.#bodies
        .values()
        .find(({ isAuthenticated, memory }) => !isAuthenticated && !memory.isEmpty)
      if (!oldest || oldest.memory === asking) return false
      this.dropForMemory(oldest)
      return true
    }
  }

  /**
   * Starts to receive the body of a request at once: the server buffers up to 2 MB of a body that is not read, outside any budget. `memory`
   * is that of the request. Throws `ServiceError` 415 for a media type or encoding that is not plain JSON, and 413 for a length that is too
   * large.
   */
  receive(request: Request, memory: RequestMemory, deadlineAtMs: number): IncomingBody {
    checkMediaType(request.headers)
    const { maxBytes, now } = this.options
    const announced = request.headers.get('content-length')
    const length = announced === null ? null : Number(announced)
    if ((length ?? 0) > maxBytes) throw tooLarge(maxBytes)
    const body = new IncomingBody(this, memory, Math.min(deadlineAtMs, now() + limits.firstByteMs))
    if (length !== null && length > 0 && length <= smallBodyBytes) {
      body.dueAtMs = Math.min(deadlineAtMs, body.dueAtMs + length / smallBodyBytesPerMs)
      this.#bodies.add(body)
      body.arrived = body.readWhole(request, length)
    } else if (request.body) {
      this.#bodies.add(body)
      const bounds = { maxBytes, likelyBytes: length ?? maxBytes, deadlineAtMs }
      const arrived = body.read(request.body.getReader(), bounds)
      body.arrived = length === null ? arrived.then(() => checkEnd(request)) : arrived
    }
    // A request that is answered early does not wait for its body.
    body.arrived.catch(() => body.release())
    return body
  }

  /** Drops bodies that have timed out; called several times a second. */
  expire(): void {
    const nowMs = this.options.now()
    for (const body of this.#bodies) if (body.dueAtMs <= nowMs) body.drop(notReceived())
  }

  /** Reserves memory for a body. Throws the error that rejects the body if there is not enough. */
  reserve(body: IncomingBody, bytes: number): void {
    if (body.memory.tryGrow(bytes)) return
    this.dropForMemory(body)
    throw noMemory()
  }

  dropForMemory(body: IncomingBody): void {
    this.options.observeDrop()
    body.drop(noMemory())
  }

  forget(body: IncomingBody): void {
    this.#bodies.delete(body)
  }
}

/** A body that is being received. It holds memory until `release`. */
export class IncomingBody {
  /**
   * Resolves when the whole body has arrived. Rejects with `ServiceError` 413 when it is too large, 400 when it times out, 503 when there
   * is no memory; then the connection must close, because the rest was not read.
   */
  arrived = Promise.resolve()
  /** Whether all of it has arrived. */
  isWhole = false
  /** Whether its sender is authenticated. */
  isAuthenticated = false
  #buffer = new ArrayBuffer(0)
  #size = 0
  #dropped: ServiceError | null = null
  #isReleased = false
  /** Stops waiting for the rest. */
  #stopWaiting: (() => void) | null = null

  constructor(
    private readonly bodies: Bodies,
    readonly memory: RequestMemory,
    /** When it times out; extended after its first byte, and Infinity once it is whole. */
    public dueAtMs: number,
  ) {}

  async read(
    reader: ReadableStreamDefaultReader<Uint8Array>,
    { maxBytes, likelyBytes, deadlineAtMs }: { maxBytes: number; likelyBytes: number; deadlineAtMs: number },
  ): Promise<void> {
    // After a disconnect the stream has already failed.
    this.#stopWaiting = () => void reader.cancel().catch(() => {})
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
      // The client has disconnected, so this response has no reader.
      throw notReceived()
    }
    this.isWhole = !this.#isReleased
    this.#stopWaiting = null
    this.dueAtMs = Infinity
  }

  /** Receives a small body in one piece: a stream would cost 256 KB in the runtime. Its progress can't be seen. */
  async readWhole(request: Request, length: number): Promise<void> {
    this.bodies.reserve(this, length)
    const { promise: released, resolve } = Promise.withResolvers<null>()
    this.#stopWaiting = () => resolve(null)
    // This fails when the client has disconnected, so the response has no reader.
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
   * Passes the bytes to `read`, once, and frees them. Their memory stays reserved for the result until the request ends, now for the
   * authenticated user, and can't be dropped any more. Throws `ServiceError` 503 when there is no memory.
   */
  parse<T>(owner: string, read: (bytes: Uint8Array) => T): T {
    this.isAuthenticated = true
    if (!this.#dropped && !this.memory.moveTo(owner)) this.bodies.dropForMemory(this)
    if (this.#dropped) throw this.#dropped
    try {
      return read(new Uint8Array(this.#buffer, 0, this.#size))
    } finally {
      this.#free()
    }
  }

  drop(reason: ServiceError): void {
    this.#dropped ??= reason
    this.memory.release()
    this.release()
  }

  /** Drops or frees the body; further calls do nothing. */
  release(): void {
    this.#isReleased = true
    this.#stopWaiting?.()
    this.bodies.forget(this)
    this.#free()
  }

  // Frees the buffer without waiting for garbage collection.
  #free(): void {
    this.#buffer = this.#buffer.transfer(0)
    this.#size = 0
  }

  // Grows one buffer, because each small chunk would cost a hundred bytes of overhead.
  #append(piece: Uint8Array, likelyBytes: number): void {
    const needed = this.#size + piece.length
    if (needed > this.#buffer.byteLength) {
      const length = Math.max(needed, Math.min(2 * this.#buffer.byteLength, likelyBytes))
      this.bodies.reserve(this, length - this.#buffer.byteLength)
      this.#buffer = this.#buffer.transfer(length)
    }
    new Uint8Array(this.#buffer).set(piece, this.#size)
    this.#size = needed
  }
}

/** For trailers, the server itself returns 400, right after it has passed on the body before them. Then nothing may be written. */
async function checkEnd({ signal }: Request): Promise<void> {
  await Bun.sleep(0)
  if (signal.aborted) throw notReceived()
}

/** Lets the server discard a body that the request does not need. */
export function discardBody({ headers, body }: Request): void {
  if (headers.has('content-length') || headers.has('transfer-encoding')) body?.cancel().catch(() => {})
}

// Parameters other than charset mean nothing for JSON. A comma joins repeated headers.
const jsonForm = /^application\/json *(?:;[^,]*)?$/i
const otherCharset = /; *charset=(?!"?utf-8"? *(?:;|$))/i

function checkMediaType(headers: Headers): void {
  const type = headers.get('content-type')
  const encoding = headers.get('content-encoding')
  if (type !== null && (!jsonForm.test(type) || otherCharset.test(type))) {
    throw invalidPart('media-type', 'must be application/json', unsupported)
  }
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw invalidPart(
      'coding',
      'must be absent or identity: compressed bodies are not supported',
      unsupported,
    )
  }
}

const unsupported = { status: 415 }

// The rest of the body is unread, so the connection can't carry another request.
const closing = { headers: { Connection: 'close' } }

function tooLarge(maxBytes: number): ServiceError {
  const message = `The request body is larger than ${maxBytes} bytes`
  return new ServiceError(413, errno.requestTooLarge, message, closing)
}

function notReceived(): ServiceError {
  return invalidPart('body', 'was not received in time', closing)
}

function noMemory(): ServiceError {
  const message = 'Not enough memory for this request body: try again later'
  return new ServiceError(503, errno.backend, message, closing)
}
