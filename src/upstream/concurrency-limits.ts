import { UpstreamError } from '../domain/errors.ts'

/** One of the two services that we call. */
export type UpstreamTarget = 'token' | 'storage'

/**
 * How many calls may be in flight. The runtime's `fetch` has 256 slots per process, so the token server, the storage and
 * the streams have shares of their own: none of them can take the slots of the others.
 */
export interface CallLimits {
  token: number
  storageNode: number
  /** Of all storage nodes together. */
  storage: number
  /** Lists that are handed on to clients at the pace of these. */
  streams: number
  /** Answers of more than 64 KB that are read whole at a time: each takes several times its size. */
  largeAnswers: number
  /** The number of calls that may wait at each limit, and for how long. */
  waiting: number
  waitMs: number
}

const fetchSlots = 256
const tokenSlots = 32
const streamSlots = 64
const storageSlots = fetchSlots - tokenSlots - streamSlots

/** The limits of a process with so many requests in flight: each of these may wait for its turn. */
export function callLimitsFor(maxConcurrentRequests: number): CallLimits {
  return {
    token: tokenSlots,
    storageNode: Math.min(storageSlots, Math.max(64, Math.ceil(maxConcurrentRequests / 8))),
    storage: storageSlots,
    streams: streamSlots,
    largeAnswers: 8,
    // A batch makes several calls at a time.
    waiting: 4 * maxConcurrentRequests,
    waitMs: 5000,
  }
}

/** Releases a permit; called once. */
export type Release = () => void

/** One semaphore for the token server, one for each storage node, one for all of these, and one for streams. */
export class ConcurrencyLimits {
  readonly #limits: CallLimits
  readonly #token: Semaphore
  readonly #storage: Semaphore
  readonly #streams: Semaphore
  readonly #largeAnswers: Semaphore
  readonly #nodes = new Map<string, Node>()
  readonly #releaseToken = () => this.#token.release()
  readonly #releaseStream = () => this.#streams.release()
  readonly #releaseLargeAnswer = () => this.#largeAnswers.release()

  constructor(limits: CallLimits) {
    this.#limits = limits
    this.#token = this.#semaphore('the token server', limits.token)
    this.#storage = this.#semaphore('the storage', limits.storage)
    this.#streams = this.#semaphore('the storage for one more list', limits.streams)
    this.#largeAnswers = this.#semaphore('the storage for one more large answer', limits.largeAnswers)
  }

  /** A permit for one call: at once where one is free, else a promise, which rejects with `overload`. */
  acquire(target: UpstreamTarget, origin: string): Release | Promise<Release> {
    if (target === 'token') {
      return this.#token.tryAcquire()
        ? this.#releaseToken
        : this.#token.acquire().then(() => this.#releaseToken)
    }
    const node = this.#nodes.get(origin) ?? this.#addNode(origin)
    if (!node.semaphore.tryAcquire()) return node.semaphore.acquire().then(() => this.#acquireStorage(node))
    return this.#storage.tryAcquire() ? node.release : this.#acquireStorage(node)
  }

  /** A permit for one stream; rejects with `overload`. */
  async acquireStream(): Promise<Release> {
    await this.#streams.acquire()
    return this.#releaseStream
  }

  /** A permit to read one large answer whole; rejects with `overload`. */
  async acquireLargeAnswer(): Promise<Release> {
    await this.#largeAnswers.acquire()
    return this.#releaseLargeAnswer
  }

  async #acquireStorage({ release, releaseNode }: Node): Promise<Release> {
    try {
      await this.#storage.acquire()
      return release
    } catch (error) {
      releaseNode()
      throw error
    }
  }

  #addNode(origin: string): Node {
    // Users' nodes come and go.
    if (this.#nodes.size >= maxIdleNodes) {
      for (const [other, { semaphore }] of this.#nodes) if (semaphore.isIdle) this.#nodes.delete(other)
    }
    const semaphore = this.#semaphore(`"${origin}"`, this.#limits.storageNode)
    const releaseNode = () => semaphore.release()
    const release = () => {
      this.#storage.release()
      semaphore.release()
    }
    const node = { semaphore, release, releaseNode }
    this.#nodes.set(origin, node)
    return node
  }

  #semaphore(name: string, capacity: number): Semaphore {
    return new Semaphore(name, capacity, this.#limits.waiting, this.#limits.waitMs)
  }
}

/** Idle nodes have nothing to remember. */
const maxIdleNodes = 1000

interface Node {
  semaphore: Semaphore
  /** Releases a permit of the node and one of all nodes together. */
  release: Release
  releaseNode: Release
}

/** A semaphore: permits, and a queue of bounded length and time. */
class Semaphore {
  #free: number
  readonly #waiting: Waiting[] = []
  #timer: ReturnType<typeof setTimeout> | null = null

  constructor(
    private readonly name: string,
    private readonly capacity: number,
    private readonly maxWaiting: number,
    private readonly maxWaitMs: number,
  ) {
    this.#free = capacity
  }

  /** Whether there is no permit held and no call waiting. */
  get isIdle(): boolean {
    return this.#free === this.capacity
  }

  /** Takes a permit if one is free. */
  tryAcquire(): boolean {
    if (this.#free === 0) return false
    this.#free -= 1
    return true
  }

  /** Resolves when there is a permit. Rejects with `overload`. */
  acquire(): Promise<void> {
    if (this.tryAcquire()) return Promise.resolve()
    if (this.#waiting.length >= this.maxWaiting) return Promise.reject(this.#overload())
    return new Promise((admit, refuse) => {
      this.#waiting.push({ admit, refuse, untilMs: performance.now() + this.maxWaitMs })
      this.#watch()
    })
  }

  /** Gives the permit to the call that has waited longest. */
  release(): void {
    const next = this.#waiting.shift()
    if (next) next.admit()
    else this.#free += 1
  }

  /** One timer for all, because the call that has waited longest is the next to time out. */
  #watch(): void {
    const next = this.#waiting[0]
    if (!next || this.#timer) return
    this.#timer = setTimeout(
      () => {
        this.#timer = null
        const nowMs = performance.now()
        while (this.#waiting[0] && this.#waiting[0].untilMs <= nowMs) {
          this.#waiting.shift()!.refuse(this.#overload())
        }
        this.#watch()
      },
      Math.max(0, next.untilMs - performance.now()),
    )
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Cannot call ${this.name}: ${this.capacity} calls are in flight`)
  }
}

interface Waiting {
  admit(): void
  refuse(error: UpstreamError): void
  untilMs: number
}
