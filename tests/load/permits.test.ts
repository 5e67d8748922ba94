import { afterEach, describe, expect, it, jest } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import { callLimits, limits } from '../../src/load/limits.ts'
import { createPermits, PermitPool, RequestLimit, type RejectionReason } from '../../src/load/permits.ts'

afterEach(() => jest.useRealTimers())

const node = 'https://node'
const busy = 'https://busy'

function createPool(permits: number, { ofUser = permits, ofHost = permits } = {}) {
  return new PermitPool({ name: 'calls', permits, permitsPerUser: ofUser, permitsPerHost: ofHost })
}

/** The users who get a permit, in order. */
function queue(pool: PermitPool, ...users: string[]) {
  const served: string[] = []
  const waiting = users.map((user) => pool.acquire(node, user).then(() => void served.push(user)))
  return { served, waiting }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('PermitPool', () => {
  it('limits all calls, those to a host and those of a user', () => {
    const pool = createPool(5, { ofUser: 2, ofHost: 3 })
    const take = (host: string, user: string) => pool.tryAcquire(host, user)

    expect([take(node, 'a'), take(node, 'a'), take(node, 'a')]).toEqual([true, true, false])
    expect([take(node, 'b'), take(node, 'c')]).toEqual([true, false])
    expect([take('https://other', 'c'), take('https://other', 'd')]).toEqual([true, true])
    expect(take('https://third', 'e')).toBe(false)
    pool.release(node, 'a')
    expect(take('https://third', 'e')).toBe(true)
  })

  it('lets waiting users take turns, however many calls one of them has', async () => {
    const pool = createPool(1)
    pool.tryAcquire(node, 'x')
    const { served, waiting } = queue(pool, 'a', 'a', 'a', 'a', 'b', 'c')

    for (const user of ['x', 'a', 'b', 'c', 'a', 'a']) {
      pool.release(node, user)
      await turn()
    }
    await Promise.all(waiting)

    expect(served).toEqual(['a', 'b', 'c', 'a', 'a', 'a'])
  })

  it('serves others while one user is at the limit', async () => {
    const pool = createPool(3, { ofUser: 2 })
    pool.tryAcquire(node, 'a')
    pool.tryAcquire(node, 'a')
    pool.tryAcquire(node, 'b')
    const { served } = queue(pool, 'a', 'c')

    pool.release(node, 'b')
    await turn()

    expect(served).toEqual(['c'])
    pool.release(node, 'a')
    await turn()
    expect(served).toEqual(['c', 'a'])
  })

  it('prefers the host with the fewest calls if the total is the limit', async () => {
    const pool = createPool(3)
    for (const user of ['a', 'b', 'c']) pool.tryAcquire(busy, user)
    const served: string[] = []
    for (const [host, user] of [
      [busy, 'd'],
      [busy, 'e'],
      [node, 'f'],
    ] as const)
      void pool.acquire(host, user).then(() => void served.push(user))

    for (const user of ['a', 'b', 'c']) {
      pool.release(busy, user)
      await turn()
    }

    expect(served).toEqual(['f', 'd', 'e'])
  })

  it('has waiters at a host if users without permits would get the next one of that host', () => {
    jest.useFakeTimers()
    const pool = createPool(5, { ofUser: 2, ofHost: 3 })
    const areWaitedFor = () => [pool.hasWaiters(node), pool.hasWaiters(busy)]
    pool.tryAcquire(node, 'a')
    pool.tryAcquire(node, 'a')
    pool.tryAcquire(busy, 'x')
    void pool.acquire(node, 'a')

    expect(areWaitedFor()).toEqual([false, false])
    pool.tryAcquire(node, 'b')
    void pool.acquire(node, 'c')
    expect(areWaitedFor()).toEqual([true, false])
    pool.tryAcquire(busy, 'y')
    void pool.acquire(busy, 'z')
    expect(areWaitedFor()).toEqual([true, true])
  })

  it('rejects a call that has waited for five seconds, and takes no permit for it', async () => {
    jest.useFakeTimers()
    const pool = createPool(1)
    pool.tryAcquire(node, 'a')
    const failure = pool.acquire(node, 'b').catch((error: unknown) => error)

    jest.advanceTimersByTime(limits.waitMs)

    expect(await failure).toMatchObject({ failure: 'overload', applied: 'no' })
    pool.release(node, 'a')
    expect(pool.tryAcquire(node, 'c')).toBe(true)
  })

  it.each<[string, unknown, UpstreamError['failure']]>([
    ['client has disconnected', undefined, 'abandoned'],
    ['time is over', new UpstreamError('timeout', '', { applied: 'no' }), 'timeout'],
  ])('does not wait if the %s', async (_, reason, failure) => {
    const pool = createPool(1)
    pool.tryAcquire(node, 'a')
    const end = new AbortController()
    const waiting = pool.acquire(node, 'b', end.signal).catch((error: unknown) => error)

    end.abort(reason)
    const late = pool.acquire(node, 'b', end.signal).catch((error: unknown) => error)

    expect(await Promise.all([waiting, late])).toMatchObject([{ failure }, { failure }])
    pool.release(node, 'a')
    expect(pool.tryAcquire(node, 'b')).toBe(true)
  })
})

/** The number of permits that a user gets at a host. */
function takeAll(pool: PermitPool, host: string, user: string): number {
  let taken = 0
  while (taken < 2000 && pool.tryAcquire(host, user)) taken += 1
  return taken
}

describe('createPermits', () => {
  it('keeps slots free for commits and lists', () => {
    for (const slots of [1024, 256]) {
      const { calls, ofHost, lists } = callLimits(slots)
      expect(calls + lists + limits.commitShare * slots).toBe(slots)
      expect([ofHost, lists]).toEqual([limits.hostShare * slots, limits.lists])
    }
    expect(callLimits(1)).toEqual({ calls: 1, ofHost: 1, lists: 1 })
  })

  it('leaves calls to others when the storages of users hang: 12 with 40 calls, 15 with 100, 40 with 6', () => {
    const bystandersOf = (hung: number, callsOfEach: number) => {
      const { calls } = createPermits(1024)
      for (let user = 0; user < hung; user += 1)
        for (let call = 0; call < callsOfEach; call += 1) calls.tryAcquire(node, `hung ${user}`)
      return takeAll(calls, node, 'bystander')
    }

    expect([bystandersOf(12, 40), bystandersOf(15, 100), bystandersOf(40, 6)]).toEqual(
      Array(3).fill(limits.callsPerUser),
    )
  })

  it('leaves lists to other nodes and users when one node or user hangs', () => {
    const { lists } = createPermits(1024)
    const most = limits.listsPerUser
    const users = Math.ceil(limits.listsPerHost / most)
    const taken = Array.from({ length: users }, (_, user) => takeAll(lists, node, `user ${user}`))
    expect(taken).toEqual([...Array<number>(users - 1).fill(most), limits.listsPerHost - (users - 1) * most])
    expect(takeAll(lists, node, 'one more')).toBe(0)
    expect(takeAll(lists, 'https://other', 'a')).toBe(most)
  })
})

describe('RequestLimit', () => {
  function createLimit(maxRequests: number, maxRequestsPerUser = 0) {
    let nowMs = 0
    let isShort = false
    const rejections: RejectionReason[] = []
    const limit = new RequestLimit({
      maxRequests,
      maxRequestsPerUser,
      now: () => nowMs,
      isShortOfMemory: () => isShort,
      observeRejection: (reason) => void rejections.push(reason),
    })
    const pass = (ms: number) => void (nowMs += ms)
    return { limit, rejections, pass, beShort: (value: boolean) => void (isShort = value) }
  }

  it('admits nothing new while memory is short', () => {
    const { limit, rejections, beShort } = createLimit(3)
    beShort(true)

    expect(limit.isFull).toBe(true)
    limit.reject()
    expect(limit.acquireRootView('a')).toBeNull()
    beShort(false)

    expect(limit.isFull).toBe(false)
    expect(limit.acquire('a')).not.toBeNull()
    expect(rejections).toEqual(['memory', 'root-view'])
  })
})
