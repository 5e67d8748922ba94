import { limits } from './limits.ts'
import type { ByteSource } from '../domain/record-storage.ts'

export interface AnswerStreamsOptions {
  /** On a clock in ms that never goes back. */
  now(): number
  /** Ends the connection of a request without sending anything more. */
  cut(request: Request): void
  observeRejection(reason: 'slow-reader'): void
  /** A piece of a list has left so much garbage. */
  reportGarbage(bytes: number): void
}

/** How the sending of a large answer ended: after so many bytes, and what broke it; null: it is whole, or its reader was not there any more. */
export interface StreamEnd {
  bytes: number
  failure: unknown
}

/** The runtime keeps one piece beyond what the operating system takes. */
const pieceBytes = 64 * 1024
/** One byte of a list leaves so many bytes of garbage: it was read, copied and perhaps parsed. */
const garbageOfByte = 4
/** A list gives way to one that waits when its reader has taken nothing for so long. */
const yieldAfterMs = 5000

/** Sends large answers at the pace of their readers, and ends readers that take nothing. */
export class AnswerStreams {
  readonly #streams = new Set<Stream>()

  constructor(private readonly options: AnswerStreamsOptions) {}

  /** A large body as a stream at the pace of its reader. `ended` is called once, when nothing more is sent. */
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

  /** Ends stalled readers; called several times a second. */
  check(): void {
    const nowMs = this.options.now()
    for (const stream of this.#streams)
      if (stream.stalledMs(nowMs) >= limits.stalledReaderMs) this.#cut(stream)
    const yielding = [...this.#streams].filter((stream) => stream.shouldYield(nowMs))
    const longest = yielding.toSorted((a, b) => b.stalledMs(nowMs) - a.stalledMs(nowMs))[0]
    if (longest) this.#cut(longest)
  }

  #cut(stream: Stream): void {
    this.options.observeRejection('slow-reader')
    stream.abort()
    // A stream that fails leaves the connection open for as long as its reader takes nothing.
    this.options.cut(stream.request)
  }
}

/** One answer that is sent piece by piece. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  #controller!: ReadableStreamDefaultController<Uint8Array>
  #source: ByteSource | null
  /** What was read and is not handed on yet. */
  #rest: Uint8Array
  #handedOnBytes = 0
  /** Since when a piece waits for the reader; null while one is being read from the storage. */
  #waitsSinceMs: number | null = null

  constructor(
    source: Uint8Array | ByteSource,
    readonly request: Request,
    private readonly options: Pick<AnswerStreamsOptions, 'now' | 'reportGarbage'>,
    private readonly ended: (end: StreamEnd) => void,
  ) {
    this.#source = source instanceof Uint8Array ? null : source
    this.#rest = source instanceof Uint8Array ? source : new Uint8Array()
    this.readable = new ReadableStream(
      {
        start: (controller) => void (this.#controller = controller),
        pull: () => this.#pull(),
        // The server cancels a stream that it can't send, also when the client left before the answer began.
        cancel: () => this.#end(),
      },
      { highWaterMark: 0 },
    )
  }

  /** For how long the reader has taken nothing. */
  stalledMs(nowMs: number): number {
    return this.#waitsSinceMs === null ? 0 : nowMs - this.#waitsSinceMs
  }

  /** Whether its reader has stalled for long enough to lose its place to somebody who waits for that. */
  shouldYield(nowMs: number): boolean {
    return this.stalledMs(nowMs) >= yieldAfterMs && this.#source?.hasWaiters?.() === true
  }

  /** Cuts the answer: what has been sent must not look whole. */
  abort(): void {
    this.#controller.error(new Error('The reader is too slow'))
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
