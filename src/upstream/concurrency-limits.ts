import { FairSemaphore } from '../load/semaphore.ts'
import { callLimits, limits } from '../load/limits.ts'
import type { Holder } from '../load/semaphore.ts'
import type { GuardedRequest } from './circuit-breaker.ts'

/** Idle nodes have nothing to remember. */
const maxIdleNodes = 1000

/** The permits for calls: of the token server, of each storage node among its users, and of all nodes among one another. */
export class ConcurrencyLimits {
  /** Permits for lists, from the question to the last byte, among users. */
  readonly lists: FairSemaphore
  readonly #token: FairSemaphore
  readonly #storage: FairSemaphore
  readonly #nodes = new Map<string, FairSemaphore>()
  readonly #permits: ReturnType<typeof callLimits>
  readonly #queue: { waiting: number; waitMs: number }

  constructor(
    fetchSlots: number,
    { maxRequests, maxListsOfUser }: { maxRequests: number; maxListsOfUser: number },
  ) {
    this.#permits = callLimits(fetchSlots)
    this.#queue = { waiting: limits.callsWaitingForRequest * maxRequests, waitMs: limits.callWaitMs }
    this.#token = this.#semaphore('calls to the token server', this.#permits.token)
    this.#storage = this.#semaphore('calls to the storage', this.#permits.storage)
    const { lists: permits } = this.#permits
    const lists = { name: 'lists', permits, waiting: maxRequests, waitMs: limits.listWaitMs }
    this.lists = new FairSemaphore({
      ...lists,
      ...(maxListsOfUser > 0 && { permitsOfOne: maxListsOfUser }),
    })
  }

  /** A permit for a call if one is free. */
  tryAcquire(request: GuardedRequest): CallPermit | null {
    const { target, user, url } = request
    if (target === 'token') return CallPermit.of(this.#token, this.#token.tryAcquire(user))
    const node = this.#nodeOf(request)
    const holder = node.tryAcquire(user)
    if (holder === null) return null
    const permit = CallPermit.of(this.#storage, this.#storage.tryAcquire(url.origin), { node, holder })
    if (permit === null) node.release(holder)
    return permit
  }

  /** A permit as soon as there is one. Rejects with `overload`; not for a call that finishes what has begun. */
  async acquire(request: GuardedRequest): Promise<CallPermit> {
    const { target, user, url, callClass } = request
    const isPatient = callClass === 'must-complete'
    if (target === 'token') return new CallPermit(this.#token, await this.#token.acquire(user, isPatient))
    const node = this.#nodeOf(request)
    const holder = await node.acquire(user, isPatient)
    try {
      const whole = await this.#storage.acquire(url.origin, isPatient)
      return new CallPermit(this.#storage, whole, { node, holder })
    } catch (error) {
      node.release(holder)
      throw error
    }
  }

  #nodeOf({ url }: GuardedRequest): FairSemaphore {
    const known = this.#nodes.get(url.origin)
    if (known) return known
    // Users' nodes come and go.
    if (this.#nodes.size >= maxIdleNodes) {
      for (const [other, node] of this.#nodes) if (node.isIdle) this.#nodes.delete(other)
    }
    const node = this.#semaphore('calls to the storage node', this.#permits.node)
    this.#nodes.set(url.origin, node)
    return node
  }

  #semaphore(name: string, permits: number): FairSemaphore {
    return new FairSemaphore({ name, permits, ...this.#queue })
  }
}

/** The right of one call to be in flight: a permit of its target, and of its node where it has one. */
export class CallPermit {
  constructor(
    private readonly whole: FairSemaphore,
    private readonly holder: Holder,
    private readonly ofNode: { node: FairSemaphore; holder: Holder } | null = null,
  ) {}

  static of(
    whole: FairSemaphore,
    holder: Holder | null,
    ofNode: { node: FairSemaphore; holder: Holder } | null = null,
  ): CallPermit | null {
    return holder && new CallPermit(whole, holder, ofNode)
  }

  /** To be called once. */
  release(): void {
    this.whole.release(this.holder)
    this.ofNode?.node.release(this.ofNode.holder)
  }
}
