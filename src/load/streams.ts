import { limits, type Limits } from './limits.ts'
import { returnListBuffer } from './list-buffers.ts'
import type { ByteSource } from '../domain/record-storage.ts'

export interface ResponseStreamsOptions {
  /** A monotonic clock in ms. */
  now(): number
  /** Closes the connection of a request without sending more. */
  disconnect(request: Request): void
  observeRejection(reason: 'stalled-reader'): void
  /** Called with the bytes of garbage that a chunk of a list leaves. */
  reportGarbage(bytes: number): void
  limits?: Pick<Limits, 'stalledReaderMs' | 'yieldAfterMs'>
}

/** How a large response ended: the bytes sent, and the error that broke it; null if it is complete or the client disconnected. */
export interface StreamEnd {
  bytes: number
  failure: unknown
}

/**
 * The runtime buffers one piece beyond the operating system's buffers. It reads 64 KB at a time, and a converted chunk is a little longer, so
 * pieces of 64 KB would make two writes of each.
 */
const pieceBytes = 128 * 1024
/** Bytes of garbage for one byte of a list: it was read, copied and perhaps parsed. */
const garbageOfByte = 4

/** Sends large responses at the pace of their readers, and disconnects stalled readers. */
export class ResponseStreams {
  readonly #streams = new Set<Stream>()

  constructor(private readonly options: ResponseStreamsOptions) {}

  /** Returns a large body as a stream at the pace of its reader. `ended` is called once, when nothing more is sent. */
  send(
    body: string | Uint8Array | ByteSource,
    request: Request,
    ended: (end: StreamEnd) => void,
  ): ReadableStream<Uint8Array> {
    const source = typeof body === 'string' ? new TextEncoder().encode(body) : body
    const stream = new Stream(source, request, this.options, (end) => {
      if (this.#streams.delete(stream)) ended(end)
    })
    this.#streams.add(stream)
    return stream.readable
  }

  /** Disconnects stalled readers; called several times a second. */
  check(): void {
    const nowMs = this.options.now()
    const { stalledReaderMs, yieldAfterMs } = this.options.limits ?? limits
    for (const stream of this.#streams)
      if (stream.stalledMs(nowMs) >= stalledReaderMs) this.#disconnect(stream)
    const yielding = [...this.#streams].filter(
      (stream) => stream.stalledMs(nowMs) >= yieldAfterMs && stream.hasWaiters(),
    )
    const longest = yielding.toSorted((a, b) => b.stalledMs(nowMs) - a.stalledMs(nowMs))[0]
    if (longest) this.#disconnect(longest)
  }

  #disconnect(stream: Stream): void {
    this.options.observeRejection('stalled-reader')
    stream.abort()
    // A failed stream alone would leave the connection open while its reader stalls.
    this.options.disconnect(stream.request)
  }
}

/** One response that is sent in chunks. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  #controller!: ReadableStreamDefaultController<Uint8Array>
  #source: ByteSource | null
  /** Bytes that were read and not sent yet. */
  #rest: Uint8Array
  #handedOnBytes = 0
  /** Since when a chunk waits for the reader; null while one is read from the storage. */
  #waitsSinceMs: number | null = null

  constructor(
    source: Uint8Array | ByteSource,
    readonly request: Request,
    private readonly options: Pick<ResponseStreamsOptions, 'now' | 'reportGarbage'>,
    private readonly ended: (end: StreamEnd) => void,
  ) {
    this.#source = source instanceof Uint8Array ? null : source
    this.#rest = source instanceof Uint8Array ? source : new Uint8Array()
    this.readable = new ReadableStream(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => this.#pull(),
        // The server also cancels a stream whose client disconnected before the response began.
        cancel: () => this.#end(),
      },
      { highWaterMark: 0 },
    )
  }

  /** How long the reader has read nothing. */
  stalledMs(nowMs: number): number {
    return this.#waitsSinceMs === null ? 0 : nowMs - this.#waitsSinceMs
  }

  /** Whether another list waits for its permit. */
  hasWaiters(): boolean {
    return this.#source?.hasWaiters?.() === true
  }

  /** Breaks off the response, so that it does not look complete. */
  abort(): void {
    this.#controller.error(new Error('The reader stalled'))
    this.#end()
  }

  async #pull(): Promise<void> {
    this.#waitsSinceMs = null
    try {
      while (this.#rest.length === 0) {
        const piece = await this.#source?.read()
        if (!piece) {
          this.ended({ bytes: this.#handedOnBytes, failure: null })
          return this.#controller.close()
        }
        this.options.reportGarbage(garbageOfByte * piece.length)
        this.#rest = piece
      }
    } catch (error) {
      this.ended({ bytes: this.#handedOnBytes, failure: error })
      throw error
    }
    const piece = this.#rest.subarray(0, pieceBytes)
    this.#rest = this.#rest.subarray(pieceBytes)
    this.#handedOnBytes += piece.length
    this.#controller.enqueue(piece)
    this.#waitsSinceMs = this.options.now()
  }

  #end(): void {
    this.ended({ bytes: this.#handedOnBytes, failure: null })
    const source = this.#source
    this.#source = null
    this.#rest = new Uint8Array()
    source?.cancel()
  }
}

const oneWriteBytes = 12 * 1024

/**
 * Sends a body above the runtime's buffer as a stream that writes it at once. Otherwise the runtime makes a system call for each part of the
 * head and copies the bytes.
 */
export function sendAtOnce(body: string | Uint8Array): BodyInit {
  if (body.length <= oneWriteBytes) return body as BodyInit
  const source: Bun.DirectUnderlyingSource = {
    type: 'direct',
    pull(controller) {
      controller.write(body as string | Uint8Array<ArrayBuffer>)
      void controller.close()
      if (typeof body !== 'string') returnListBuffer(body)
    },
  }
  return new ReadableStream(source as unknown as UnderlyingSource)
}
