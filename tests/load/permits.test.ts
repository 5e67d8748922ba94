import { afterEach, describe, expect, it, jest } from 'bun:test'
import { connectionLimit } from '../../src/load/limits.ts'
import type { UpstreamError } from '../../src/domain/errors.ts'
import { ConcurrencyLimits, FairSemaphore, type SemaphoreOptions } from '../../src/load/permits.ts'

let nowMs = 0
const now = () => nowMs

function advance(ms: number): void {
  nowMs += ms
  jest.advanceTimersByTime(ms)
}

const create = (options: Partial<SemaphoreOptions> = {}) =>
  new FairSemaphore({ name: 'calls', permits: 64, waitMs: 60_000, waiting: 1000, now, ...options })

/** Takes as many permits as a holder gets at once; their number. */
function takeAll(semaphore: FairSemaphore, name: string): number {
  let count = 0
  while (semaphore.tryAcquire(name)) count += 1
  return count
}

function giveBack(semaphore: FairSemaphore, name: string, count: number): void {
  for (let left = count; left > 0; left -= 1) semaphore.release(name)
}

/** Who gets the permits that become free, in their order. */
function queueUp(semaphore: FairSemaphore, names: string[]): string[] {
  const served: string[] = []
  for (const name of names)
    semaphore.acquire(name).then(
      () => served.push(name),
      // Nobody waits for those whose turn has not come.
      () => {},
    )
  return served
}

afterEach(() => void jest.useRealTimers())
it.each([
  [1, 256],
  [2, 128],
  [8, 64],
])('%d workers may have %d connections of HTTP/1.1 each', (workers, connections) => {
  expect(connectionLimit(workers)).toBe(connections)
})

describe('FairSemaphore', () => {
  it('gives one holder seven eighths but for a reserve, a second one as much of the rest, and always one to another', () => {
    const semaphore = create()

    const taken = ['a', 'b', 'c', 'd'].map((name) => takeAll(semaphore, name))

    expect(taken).toEqual([55, 7, 1, 1])
  })

  it('gives three holders who ask by turns nearly a third each', () => {
    const semaphore = create()
    const held = { a: 0, b: 0, c: 0 }

    for (let turn = 0; turn < 64; turn += 1) {
      for (const name of ['a', 'b', 'c'] as const) if (semaphore.tryAcquire(name)) held[name] += 1
    }

    expect(held).toEqual({ a: 20, b: 20, c: 20 })
  })

  it('serves first who holds least, and those who hold as much by turns', async () => {
    const semaphore = create({ permits: 4 })
    const greedy = takeAll(semaphore, 'greedy')
    expect(semaphore.tryAcquire('modest')).toBe(true)
    const served = queueUp(semaphore, ['greedy', 'greedy', 'modest', 'new', 'other', 'new'])

    giveBack(semaphore, 'greedy', greedy)
    await Bun.sleep(0)

    expect(served).toEqual(['new', 'other', 'greedy'])
  })

  it('serves first who came first of those who hold as much, however often nothing was free', async () => {
    const semaphore = create({ permits: 2 })
    expect(semaphore.tryAcquire('busy')).toBe(true)
    expect(semaphore.tryAcquire('other')).toBe(true)
    const served = queueUp(semaphore, ['first', 'second', 'third'])
    // Another call begins to wait to complete its commit, and all who wait are looked at.
    void semaphore.acquire('busy', true).catch(() => {})

    semaphore.release('busy')
    semaphore.release('other')
    await Bun.sleep(0)

    expect(served).toEqual(['first'])
  })

  it('gives nobody more than the permits of one, however many are free', () => {
    expect(takeAll(create({ permitsOfOne: 8 }), 'only')).toBe(8)
  })

  it('serves first what completes a commit, in the order in which it came', async () => {
    const semaphore = create({ permits: 4 })
    const busy = takeAll(semaphore, 'busy')
    expect(semaphore.tryAcquire('other')).toBe(true)
    const served = queueUp(semaphore, ['new'])
    for (const name of ['busy', 'busy', 'late'])
      void semaphore.acquire(name, true).then(() => served.push(`commit of ${name}`))
    expect(semaphore.tryAcquire('another')).toBe(false)

    giveBack(semaphore, 'busy', busy)
    semaphore.release('other')
    await Bun.sleep(0)

    expect(served).toEqual(['commit of busy', 'commit of busy', 'commit of late', 'new'])
  })

  it('lets one holder have seven eighths for commits, and serves those of others before the rest', async () => {
    const semaphore = create({ permits: 16 })
    const served: string[] = []
    const commits = (name: string, count: number) =>
      Array.from({ length: count }, () => semaphore.acquire(name, true).then(() => served.push(name)))
    void commits('hung', 20)
    await Bun.sleep(0)

    void commits('other', 1)
    await Bun.sleep(0)

    expect(served.filter((name) => name === 'hung')).toHaveLength(14)
    expect(served.at(-1)).toBe('other')
    expect(semaphore.tryAcquire('reader')).toBe(true)
  })

  it('refuses after the wait, and when too many wait, but nothing that completes a commit', async () => {
    jest.useFakeTimers()
    const semaphore = create({ permits: 1, waitMs: 5000, waiting: 1 })
    semaphore.tryAcquire('a')
    const patient = semaphore.acquire('a', true)

    const refused = ['b', 'c'].map((name) => semaphore.acquire(name).catch((error: UpstreamError) => error))
    for (let waitedMs = 0; waitedMs < 5000; waitedMs += 10) advance(10)
    const failures = await Promise.all(refused)
    semaphore.release('a')

    expect(failures).toMatchObject([
      { failure: 'overload', applied: 'no' },
      { failure: 'overload', applied: 'no' },
    ])
    await patient
    semaphore.release('a')
    expect(semaphore.isIdle).toBe(true)
  })

  it.each([
    [16, 15],
    [15, 150],
  ])('keeps to the connections that are there; where calls take %i ms, for %i ms', async (tookMs, waitMs) => {
    jest.useFakeTimers()
    const semaphore = create({ permits: 200, connections: () => 100 })
    const taken = takeAll(semaphore, 'a')
    semaphore.release('a', tookMs)
    const served = queueUp(semaphore, ['a', 'b', 'b'])
    advance(waitMs - 1)
    await new Promise(process.nextTick)
    expect([taken, served]).toEqual([64, ['a']])
    advance(1)
    await new Promise(process.nextTick)
    expect(served).toEqual(['a', 'b', 'b'])
  })

  it.each([
    ['plain', 100, 100],
    ['plain', Infinity, 300],
    ['HTTP/2', 100, 300],
  ])('lets 300 users wait for connections, if need be: %s, %d', async (protocol, most, expected) => {
    jest.useFakeTimers()
    const limits = new ConcurrencyLimits({
      fetchSlots: 1024,
      maxRequests: 300,
      maxListsOfUser: 8,
      sharesConnection: () => protocol === 'HTTP/2',
      mostConnections: (hostname) => (hostname === 'a.example' ? most : 0),
      now,
    })
    let served = 0
    for (let user = 0; user < 300; user += 1) {
      void limits
        .of('storage', 'http://a.example:80')
        .acquire(String(user))
        .then(() => (served += 1))
    }
    advance(1000)
    for (let hop = 0; hop < 9; hop += 1) await Promise.resolve()
    expect(served).toBe(expected)
  })
})

const createLimits = () =>
  new ConcurrencyLimits({
    fetchSlots: 1024,
    maxRequests: 2048,
    maxListsOfUser: 8,
    sharesConnection: () => true,
    mostConnections: () => Infinity,
    now,
  })

describe('ConcurrencyLimits', () => {
  it.each<[string, [target: 'token' | 'storage', host: string, user: string | null][], number[]]>([
    [
      'for other users of a node, other nodes and the token server, whoever hangs',
      [
        ['storage', 'node-1.example', 'hung'],
        ['storage', 'node-1.example', 'other'],
        ['storage', 'node-2.example', 'third'],
        ['token', 'node-1.example', null],
      ],
      [827, 8, 97, 22],
    ],
    [
      'for others at both, when two users take all that they get at two nodes',
      [
        ['storage', 'node-1.example', 'slow'],
        ['storage', 'node-2.example', 'slow'],
        ['storage', 'node-1.example', null],
        ['storage', 'node-2.example', null],
        ['storage', 'node-3.example', null],
      ],
      [827, 104, 19, 9, 9],
    ],
    [
      'for others of a node, when several of its users hang one after another',
      [
        ['storage', 'node-1.example', 'first'],
        ['storage', 'node-1.example', 'second'],
        ['storage', 'node-1.example', 'third'],
        ['storage', 'node-1.example', null],
        ['storage', 'node-2.example', null],
      ],
      [827, 8, 8, 87, 23],
    ],
    [
      'for a fourth node, when three hang one after another',
      [
        ['storage', 'node-1.example', null],
        ['storage', 'node-2.example', null],
        ['storage', 'node-3.example', null],
        ['storage', 'node-4.example', null],
        ['token', 'token.example', null],
      ],
      [827, 104, 23, 11, 6],
    ],
    [
      'for storages, when strangers ask the token server',
      [
        ['token', 'token.example', null],
        ['storage', 'node-1.example', null],
      ],
      [488, 400],
    ],
  ])('leaves room %s', (_, holders, expected) => {
    const limits = createLimits()
    const taken = holders.map(([target, host, user]) => {
      let count = 0
      while (limits.of(target, `https://${host}`).tryAcquire(user ?? String(count))) count += 1
      return count
    })

    expect(taken).toEqual(expected)
  })

  it('keeps some from commits that hang, whichever nodes they are of', () => {
    const limits = createLimits()
    for (const node of ['a', 'b', 'c']) {
      for (let user = 0; limits.of('storage', `https://${node}`).tryAcquire(String(user), true); user += 1);
    }
    let left = 0
    while (limits.of('storage', 'https://d').tryAcquire(String(left))) left += 1

    expect(left).toBe(4)
  })

  it('leaves lists to other users of a node, and to other nodes', () => {
    const limits = createLimits()
    const takeLists = (node: string, userOf: (turn: number) => string) => {
      let count = 0
      while (limits.of('list', node).tryAcquire(userOf(count))) count += 1
      return count
    }

    const taken = [
      takeLists('https://a', () => 'greedy'),
      takeLists('https://a', String),
      takeLists('https://b', String),
      takeLists('https://c', String),
    ]

    expect(taken).toEqual([8, 33, 5, 1])
  })
})
