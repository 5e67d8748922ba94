import { limits } from './limits.ts'
import type { ByteSource } from '../domain/record-storage.ts'

export interface AnswerStreamsOptions {
  /** On a clock in ms that never goes back. */
  now(): number
  /** Bytes that the operating system still holds for the reader of this answer; null where that is not known. */
  unsentBytes(requests: readonly Request[]): readonly (number | null)[]
  /** Ends the connection of a request without sending anything more. */
  cut(request: Request): void
  observeRejection(reason: 'slow-reader'): void
  /** A piece of a list has left so much garbage. */
  noteGarbage(bytes: number): void
}

/** How the sending of a large answer ended: after so many bytes, and what broke it; null: it is whole, or its reader was not there any more. */
export interface StreamEnd {
  bytes: number
  failure: unknown
}

// Bun buffers one chunk beyond the socket; start small, grow for fast readers.
const pieceBytes = 128 * 1024
const secondPieceBytes = 64 * 1024
const slowPieceBytes = 16 * 1024
const slowPieceAfterMs = 500
// The runtime sends its last headers together with a first piece of up to 16 KB. Before a larger one it makes a system call for each
// of their names, colons, values and line breaks.
const firstPieceBytes = 8 * 1024
/** One byte of a list leaves so many bytes of garbage: it was read, copied and perhaps parsed. */
const garbageOfByte = 4
/** The operating system takes so much at once, whatever the reader does. */
const bufferedBytes = 4 * 1024 * 1024

/** Sends large answers at the pace of their readers, and ends readers that take too little. */
export class AnswerStreams {
  readonly #streams = new Set<Stream>()

  constructor(private readonly options: AnswerStreamsOptions) {}

  /** A large body as a stream at the pace of its reader. `ended` is called once, when nothing more is sent. */
  send(body: Body, request: Request, ended: (end: StreamEnd) => void): ReadableStream<Uint8Array> {
    const source = typeof body === 'string' ? new TextEncoder().encode(body) : body
    const stream = new Stream(source, request, this.options, (end) => {
      if (this.#streams.delete(stream)) ended(end)
    })
    this.#streams.add(stream)
    return stream.readable
  }

  /** Ends slow readers; called several times a second. */
  check(): void {
    const nowMs = this.options.now()
    const suspects = [...this.#streams].filter((stream) => stream.isDue(nowMs))
    if (suspects.length > 0) this.#judge(suspects, nowMs)
    this.#makeRoom(nowMs)
  }

  #judge(suspects: Stream[], nowMs: number): void {
    const { unsentBytes } = this.options
    const unsent = unsentBytes(suspects.map(({ request }) => request))
    for (const [index, stream] of suspects.entries()) {
      if (!stream.isFastEnough(nowMs, unsent[index] ?? 0)) this.#cut(stream)
    }
  }

  #makeRoom(nowMs: number): void {
    const lists = [...this.#streams].filter(({ isList }) => isList)
    const surplus = lists.length - limits.crowdedLists + 1
    if (surplus <= 0) return
    const slow = lists.filter((stream) => stream.ageMs(nowMs) >= limits.crowdedAfterMs)
    slow.sort((a, b) => a.bytesPerMs(nowMs) - b.bytesPerMs(nowMs))
    for (const stream of slow.slice(0, surplus)) {
      if (stream.bytesPerMs(nowMs) < limits.crowdedBytesPerMs) this.#cut(stream)
    }
  }

  #cut(stream: Stream): void {
    this.options.observeRejection('slow-reader')
    stream.abort()
    // A stream that fails leaves the connection open for as long as its reader takes nothing.
    this.options.cut(stream.request)
  }
}

type Body = string | Uint8Array | ByteSource

/** One answer that is sent piece by piece. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  /** Whether it comes from the storage as it is sent. */
  readonly isList: boolean
  readonly #startedAtMs: number
  #controller!: ReadableStreamDefaultController<Uint8Array>
  #source: ByteSource | null
  /** What was read and is not handed on yet. */
  #rest: Uint8Array
  #handedOnBytes = 0
  /** The time that all pieces have waited for the reader, and since when the current one waits. */
  #waitedMs = 0
  #waitsSinceMs: number | null = null
  /** The state when the reader was checked last. */
  #lastCheck: { waitedMs: number; arrivedBytes: number } | null = null

  constructor(
    source: Uint8Array | ByteSource,
    readonly request: Request,
    private readonly options: Pick<AnswerStreamsOptions, 'now' | 'noteGarbage'>,
    private readonly ended: (end: StreamEnd) => void,
  ) {
    this.#startedAtMs = options.now()
    this.#source = source instanceof Uint8Array ? null : source
    this.#rest = source instanceof Uint8Array ? source : new Uint8Array()
    this.isList = this.#source !== null
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

  ageMs(nowMs: number): number {
    return nowMs - this.#startedAtMs
  }

  bytesPerMs(nowMs: number): number {
    return Math.max(0, this.#handedOnBytes - bufferedBytes) / this.ageMs(nowMs)
  }

  /** Whether it has waited for its reader long enough since the last check to be checked again. */
  isDue(nowMs: number): boolean {
    const waitedMs = this.#waitedUntil(nowMs)
    return this.#lastCheck === null
      ? waitedMs >= limits.slowReaderMs / 6
      : waitedMs - this.#lastCheck.waitedMs >= limits.slowReaderMs
  }

  /**
   * Whether the reader has taken enough since the last check. The runtime asks for another piece only when the operating
   * system has room, which may be a megabyte later, so the bytes that the system holds are counted too.
   */
  isFastEnough(nowMs: number, unsentBytes: number): boolean {
    const arrivedBytes = this.#handedOnBytes - unsentBytes
    const isFastEnough =
      this.#lastCheck === null || arrivedBytes - this.#lastCheck.arrivedBytes >= limits.slowReaderBytes
    this.#lastCheck = { waitedMs: this.#waitedUntil(nowMs), arrivedBytes }
    return isFastEnough
  }

  /** Cuts the answer: what has been sent must not look whole. */
  abort(): void {
    this.#controller.error(new Error('The reader is too slow'))
    this.#end()
  }

  #waitedUntil(nowMs: number): number {
    return this.#waitedMs + (this.#waitsSinceMs === null ? 0 : nowMs - this.#waitsSinceMs)
  }

  async #pull(): Promise<void> {
    this.#waitedMs = this.#waitedUntil(this.options.now())
    this.#waitsSinceMs = null
    try {
      while (this.#rest.length === 0) {
        const piece = await this.#source?.read()
        if (!piece) {
          this.ended({ bytes: this.#handedOnBytes, failure: null })
          return this.#controller.close()
        }
        this.options.noteGarbage(garbageOfByte * piece.length)
        this.#rest = piece
      }
    } catch (error) {
      this.ended({ bytes: this.#handedOnBytes, failure: error })
      throw error
    }
    const isFirst = this.#handedOnBytes === 0
    if (isFirst) this.#handOn(firstPieceBytes)
    const isSlow = this.#waitedMs > slowPieceAfterMs
    this.#handOn(isSlow ? slowPieceBytes : isFirst ? secondPieceBytes : pieceBytes)
    this.#waitsSinceMs = this.options.now()
  }

  #handOn(length: number): void {
    if (this.#rest.length === 0) return
    const piece = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    this.#handedOnBytes += piece.length
    this.#controller.enqueue(piece)
  }

  #end(): void {
    this.ended({ bytes: this.#handedOnBytes, failure: null })
    const source = this.#source
    this.#source = null
    this.#rest = new Uint8Array()
    source?.cancel()
  }
}
