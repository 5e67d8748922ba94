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

/** Idle nodes have nothing to remember. */
const maxIdleNodes = 1000

/** One semaphore for the token server, one for each storage node, one for all of these, and one for streams. */
export class ConcurrencyLimits {
  readonly streams: Semaphore
  readonly largeAnswers: Semaphore
  readonly #token: Semaphore
  readonly #storage: Semaphore
  readonly #nodes = new Map<string, Semaphore>()

  constructor(private readonly limits: CallLimits) {
    this.#token = new Semaphore('the token server', limits.token, limits)
    this.#storage = new Semaphore('the storage', limits.storage, limits)
    this.streams = new Semaphore('the storage for one more list', limits.streams, limits)
    this.largeAnswers = new Semaphore('the storage for one more large answer', limits.largeAnswers, limits)
  }

  /** The semaphore of the calls to a target. */
  of(target: UpstreamTarget, origin: string): Semaphore {
    if (target === 'token') return this.#token
    return this.#nodes.get(origin) ?? this.#addNode(origin)
  }

  #addNode(origin: string): Semaphore {
    // Users' nodes come and go.
    if (this.#nodes.size >= maxIdleNodes) {
      for (const [other, node] of this.#nodes) if (node.isIdle) this.#nodes.delete(other)
    }
    const node = new Semaphore(`"${origin}"`, this.limits.storageNode, this.limits, this.#storage)
    this.#nodes.set(origin, node)
    return node
  }
}

interface Waiting {
  admit(): void
  refuse(error: UpstreamError): void
  untilMs: number
}

/** Permits, and a queue of bounded length and time. */
export class Semaphore {
  #free: number
  readonly #waiting: Waiting[] = []
  #timer: ReturnType<typeof setTimeout> | null = null

  constructor(
    private readonly name: string,
    private readonly capacity: number,
    private readonly queue: Pick<CallLimits, 'waiting' | 'waitMs'>,
    /** Each permit holds one of these besides. */
    private readonly whole: Semaphore | null = null,
  ) {
    this.#free = capacity
  }

  /** Whether there is no permit held and no call waiting. */
  get isIdle(): boolean {
    return this.#free === this.capacity
  }

  /** A permit if one is free. */
  tryAcquire(): Release | null {
    if (this.#free === 0 || this.whole?.tryAcquire() === null) return null
    this.#free -= 1
    return this.release
  }

  /** A permit as soon as there is one. Rejects with `overload`. */
  async acquire(): Promise<Release> {
    if (this.#free > 0) this.#free -= 1
    else await this.#wait()
    try {
      await this.whole?.acquire()
    } catch (error) {
      this.#giveBack()
      throw error
    }
    return this.release
  }

  readonly release: Release = () => {
    this.whole?.release()
    this.#giveBack()
  }

  /** Gives the permit to the call that has waited longest. */
  #giveBack(): void {
    const next = this.#waiting.shift()
    if (next) next.admit()
    else this.#free += 1
  }

  #wait(): Promise<void> {
    if (this.#waiting.length >= this.queue.waiting) return Promise.reject(this.#overload())
    return new Promise((admit, refuse) => {
      this.#waiting.push({ admit, refuse, untilMs: performance.now() + this.queue.waitMs })
      this.#watch()
    })
  }

  /** One timer for all, because the call that has waited longest is the next to time out. */
  #watch(): void {
    const next = this.#waiting[0]
    if (!next || this.#timer) return
    const expire = () => {
      this.#timer = null
      const nowMs = performance.now()
      while (this.#waiting[0] && this.#waiting[0].untilMs <= nowMs) {
        this.#waiting.shift()!.refuse(this.#overload())
      }
      this.#watch()
    }
    this.#timer = setTimeout(expire, Math.max(0, next.untilMs - performance.now()))
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Cannot call ${this.name}: ${this.capacity} calls are in flight`)
  }
}
