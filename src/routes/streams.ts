import type { ByteSource } from '../domain/record-storage.ts'
import { countDown, once } from './load-shedding.ts'
import type { Release } from './load-shedding.ts'

export interface AnswerStreamsOptions {
  /** Lists of one user in flight at most, from the question to the last byte; 0: as many as there are. */
  maxOfUser: number
  /** On a clock in ms that never goes back. */
  now(): number
  /** Bytes that the operating system still holds for the reader of this answer; null where that is not known. */
  unsentBytes(requests: readonly Request[]): readonly (number | null)[]
  /** Ends the connection of a request without sending anything more. */
  cut(request: Request): void
  observeRejection(reason: 'list' | 'slow-reader'): void
  /** Bytes of whole answers that wait for their readers, in all. */
  maxHeldBytes?: number
}

// Lists in flight, from the question to the last byte. Each holds up to 2 MB of the storage's answer. They are fewer than
// the 64 streams of `upstream`, so that no list waits there, with a permit of its node, while readers stall.
const maxLists = 48
// The runtime holds one piece more than the operating system does. So slow readers get small pieces, and nobody gets a large one
// before it is known how fast the reader is.
const pieceBytes = 128 * 1024
const secondPieceBytes = 64 * 1024
const slowPieceBytes = 16 * 1024
const slowPieceAfterMs = 500
// The runtime sends its last headers together with a first piece of up to 16 KB. Before a larger one it makes a system call for each
// of their names, colons, values and line breaks.
const firstPieceBytes = 8 * 1024
// How long a list waits for its turn.
const waitMs = 10_000
// The time that a reader may be slow for, and the bytes that it must take in that time.
const slowMs = 30_000
const slowBytes = 30 * 1024
// When nearly all places are taken, slow readers are ended to make room.
const crowdedLists = 40
/** The last places are for users with few lists. */
const crowdedShare = 2
const crowdedAfterMs = 3000
const crowdedBytesPerMs = 16
/** The operating system takes so much at once, whatever the reader does. */
const bufferedBytes = 4 * 1024 * 1024

/**
 * Sends large answers at the pace of their readers, and bounds what one user and what slow readers can hold: the lists
 * in flight of a user, the least pace of a reader, and the memory of whole answers that wait to be read.
 */
export class AnswerStreams {
  readonly #listsOf = new Map<string, number>()
  readonly #waiting = new Set<WaitingList>()
  readonly #streams = new Set<Stream>()
  #lists = 0
  #heldBytes = 0

  constructor(private readonly options: AnswerStreamsOptions) {}

  /** Answers that are being sent piece by piece. */
  get active(): number {
    return this.#streams.size
  }

  /**
   * A permit to ask for a list and to send it to that user. A list over the limit waits for another one to end; null when
   * none does in time. Of the waiting ones, the user with the fewest lists comes first.
   */
  acquire(user: string): Release | Promise<Release | null> {
    const { now } = this.options
    if (this.#mayBegin(user)) return this.#begin(user)
    return new Promise((resolve) => void this.#waiting.add({ user, resolve, untilMs: now() + waitMs }))
  }

  /**
   * A large body as a stream at the pace of its reader. `ended` is called once the last byte was handed on, or the reader has
   * left.
   */
  send(body: Body, request: Request, ended = () => {}): ReadableStream<Uint8Array> {
    const source = typeof body === 'string' ? new TextEncoder().encode(body) : body
    const stream = new Stream(source, request, this.options.now, () => {
      if (!this.#streams.delete(stream)) return
      this.#heldBytes -= stream.heldBytes
      ended()
    })
    this.#streams.add(stream)
    this.#heldBytes += stream.heldBytes
    const { maxHeldBytes = 32 * 1024 * 1024 } = this.options
    while (this.#heldBytes > maxHeldBytes && this.#cutCostliest(stream));
    return stream.readable
  }

  /** Ends slow readers, and lists that have waited too long; called several times a second. */
  check(): void {
    const nowMs = this.options.now()
    for (const waiting of this.#waiting) {
      if (waiting.untilMs > nowMs) break
      this.#waiting.delete(waiting)
      this.options.observeRejection('list')
      waiting.resolve(null)
    }
    const suspects = [...this.#streams].filter((stream) => stream.isDue(nowMs))
    if (suspects.length > 0) this.#judge(suspects, nowMs)
    if (this.#lists >= crowdedLists) this.#makeRoom(nowMs)
  }

  #mayBegin(user: string): boolean {
    const { maxOfUser } = this.options
    if (this.#lists >= maxLists) return false
    if (maxOfUser === 0) return true
    return this.#listsOfUser(user) < Math.min(maxOfUser, this.#lists < crowdedLists ? Infinity : crowdedShare)
  }

  #listsOfUser(user: string): number {
    return this.#listsOf.get(user) ?? 0
  }

  #begin(user: string): Release {
    this.#lists += 1
    this.#listsOf.set(user, (this.#listsOf.get(user) ?? 0) + 1)
    return once(() => {
      this.#lists -= 1
      countDown(this.#listsOf, user)
      this.#admitNext()
    })
  }

  #admitNext(): void {
    let next: WaitingList | null = null
    for (const waiting of this.#waiting) {
      if (!this.#mayBegin(waiting.user)) continue
      if (next === null || this.#listsOfUser(waiting.user) < this.#listsOfUser(next.user)) next = waiting
    }
    if (next === null) return
    this.#waiting.delete(next)
    next.resolve(this.#begin(next.user))
  }

  #judge(suspects: Stream[], nowMs: number): void {
    const { unsentBytes } = this.options
    const unsent = unsentBytes(suspects.map(({ request }) => request))
    for (const [index, stream] of suspects.entries()) {
      if (!stream.isFastEnough(nowMs, unsent[index] ?? 0)) this.#cut(stream)
    }
  }

  #makeRoom(nowMs: number): void {
    const slow = [...this.#streams].filter(
      (stream) => stream.heldBytes === 0 && stream.ageMs(nowMs) >= crowdedAfterMs,
    )
    slow.sort((a, b) => a.bytesPerMs(nowMs) - b.bytesPerMs(nowMs))
    for (const stream of slow.slice(0, this.#lists - crowdedLists + 1)) {
      if (stream.bytesPerMs(nowMs) < crowdedBytesPerMs) this.#cut(stream)
    }
  }

  /** Makes room for a new answer; false: there is no other to cut. */
  #cutCostliest(newcomer: Stream): boolean {
    const nowMs = this.options.now()
    let costliest: Stream | null = null
    for (const stream of this.#streams) {
      if (stream === newcomer || stream.heldBytes === 0) continue
      if (costliest === null || stream.cost(nowMs) > costliest.cost(nowMs)) costliest = stream
    }
    if (costliest) this.#cut(costliest)
    return costliest !== null
  }

  #cut(stream: Stream): void {
    this.options.observeRejection('slow-reader')
    stream.abort()
    // A stream that fails leaves the connection open for as long as its reader takes nothing.
    this.options.cut(stream.request)
  }
}

type Body = string | Uint8Array | ByteSource

interface WaitingList {
  user: string
  resolve(release: Release | null): void
  untilMs: number
}

/** One answer that is sent piece by piece. */
class Stream {
  readonly readable: ReadableStream<Uint8Array>
  /** Memory that a whole answer holds until it is sent; 0 for a list that streams from the storage. */
  readonly heldBytes: number
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
    private readonly now: () => number,
    private readonly ended: () => void,
  ) {
    this.#startedAtMs = now()
    this.#source = source instanceof Uint8Array ? null : source
    this.#rest = source instanceof Uint8Array ? source : new Uint8Array()
    this.heldBytes = this.#rest.length
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

  cost(nowMs: number): number {
    return this.heldBytes * (this.ageMs(nowMs) + 1)
  }

  bytesPerMs(nowMs: number): number {
    return Math.max(0, this.#handedOnBytes - bufferedBytes) / this.ageMs(nowMs)
  }

  /** Whether it has waited for its reader long enough since the last check to be checked again. */
  isDue(nowMs: number): boolean {
    const waitedMs = this.#waitedUntil(nowMs)
    return this.#lastCheck === null ? waitedMs >= slowMs / 6 : waitedMs - this.#lastCheck.waitedMs >= slowMs
  }

  /**
   * Whether the reader has taken enough since the last check. The runtime asks for another piece only when the operating
   * system has room, which may be a megabyte later, so the bytes that the system holds are counted too.
   */
  isFastEnough(nowMs: number, unsentBytes: number): boolean {
    const arrivedBytes = this.#handedOnBytes - unsentBytes
    const isFastEnough = this.#lastCheck === null || arrivedBytes - this.#lastCheck.arrivedBytes >= slowBytes
    this.#lastCheck = { waitedMs: this.#waitedUntil(nowMs), arrivedBytes }
    return isFastEnough
  }

  /** Cuts the answer: what has been sent must not look whole. */
  abort(): void {
    const reason = new Error('The reader is too slow')
    this.#controller.error(reason)
    this.#end()
  }

  #waitedUntil(nowMs: number): number {
    return this.#waitedMs + (this.#waitsSinceMs === null ? 0 : nowMs - this.#waitsSinceMs)
  }

  async #pull(): Promise<void> {
    this.#waitedMs = this.#waitedUntil(this.now())
    this.#waitsSinceMs = null
    try {
      while (this.#rest.length === 0) {
        const piece = await this.#source?.read()
        if (!piece) {
          this.ended()
          return this.#controller.close()
        }
        this.#rest = piece
      }
    } catch (error) {
      this.ended()
      throw error
    }
    const isFirst = this.#handedOnBytes === 0
    if (isFirst) this.#handOn(firstPieceBytes)
    const isSlow = this.#waitedMs > slowPieceAfterMs
    this.#handOn(isSlow ? slowPieceBytes : isFirst ? secondPieceBytes : pieceBytes)
    this.#waitsSinceMs = this.now()
  }

  #handOn(length: number): void {
    if (this.#rest.length === 0) return
    const piece = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(length)
    this.#handedOnBytes += piece.length
    this.#controller.enqueue(piece)
  }

  #end(): void {
    this.ended()
    const source = this.#source
    this.#source = null
    this.#rest = new Uint8Array()
    source?.cancel()
  }
}
