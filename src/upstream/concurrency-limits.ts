import { UpstreamError } from '../domain/errors.ts'

/** One of the two services that we call. */
export type UpstreamTarget = 'token' | 'storage'

const fetchSlots = 256
const tokenSlots = 32
const streamSlots = 64
const storageSlots = fetchSlots - tokenSlots - streamSlots

export type CallLimits = ReturnType<typeof callLimitsFor>

/**
 * How many calls a process with so many requests in flight may make at a time. The runtime's `fetch` has 256 slots per
 * process, so the token server, the storage and the streams have shares of their own: none of them can take the slots of
 * the others.
 */
export function callLimitsFor(maxConcurrentRequests: number) {
  return {
    token: tokenSlots,
    storageNode: Math.min(storageSlots, Math.max(64, Math.ceil(maxConcurrentRequests / 8))),
    /** Of all storage nodes together. */
    storage: storageSlots,
    /** Lists that are handed on to clients at the pace of these. */
    streams: streamSlots,
    /** Answers of more than 256 KB that are read whole at a time: each takes several times its size. */
    largeAnswers: 8,
    /** The number of calls that may wait at each limit: a batch makes several calls at a time. */
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

/** Permits, and a queue of bounded length and time. */
class Semaphore {
  #free: number
  /** Admits the calls that wait, in their order. */
  readonly #waiting = new Set<() => void>()

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
    const [next] = this.#waiting.size === 0 ? [] : this.#waiting
    if (!next) this.#free += 1
    else {
      this.#waiting.delete(next)
      next()
    }
  }

  async #wait(): Promise<void> {
    if (this.#waiting.size >= this.queue.waiting) throw this.#overload()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(() => {
      this.#waiting.delete(resolve)
      reject(this.#overload())
    }, this.queue.waitMs)
    this.#waiting.add(resolve)
    try {
      await promise
    } finally {
      clearTimeout(timer)
    }
  }

  #overload(): UpstreamError {
    return new UpstreamError('overload', `Cannot call ${this.name}: ${this.capacity} calls are in flight`)
  }
}
