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

  /** A permit as soon as there is one. Rejects with `overload`; not for a call that finishes what has begun. */
  async acquire(request: GuardedRequest): Promise<CallPermit> {
    const { target, user, url, callClass } = request
    const isPatient = callClass === 'must-complete'
    const permit = new CallPermit()
    if (target === 'token') return await permit.add(this.#token, user, isPatient)
    try {
      await permit.add(this.#nodeOf(request), user, isPatient)
      return await permit.add(this.#storage, url.origin, isPatient)
    } catch (error) {
      permit.release()
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

/** The right of one call to be in flight: a permit of its node, where it has one, and of its target. */
export class CallPermit {
  readonly #held: { semaphore: FairSemaphore; holder: Holder }[] = []

  async add(semaphore: FairSemaphore, name: string, isPatient: boolean): Promise<this> {
    this.#held.push({ semaphore, holder: await semaphore.acquire(name, isPatient) })
    return this
  }

  /** Further calls do nothing. */
  release(): void {
    for (const { semaphore, holder } of this.#held.splice(0)) semaphore.release(holder)
  }
}
