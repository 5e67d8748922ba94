import { afterEach, describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import { readBounded } from '../../src/upstream/answer.ts'
import { Breakers, type BreakerEvent, type GuardedRequest } from '../../src/upstream/circuit-breaker.ts'
import { cleanUp, failureOf, startTarget } from './rig.ts'
import type { UpstreamTarget } from '../../src/load/permits.ts'
import type { Fault } from '../support/fault-proxy.ts'

afterEach(cleanUp)

function startBreakers(random = () => 0.5) {
  const clock = { nowMs: 1000 }
  const events: BreakerEvent[] = []
  const breakers = new Breakers({ now: () => clock.nowMs, random, observe: (event) => events.push(event) })
  const answer = (request: GuardedRequest, status: number, headers: Record<string, string> = {}) =>
    breakers.answered(breakers.begin(request), { status, headers: new Headers(headers) })
  const fail = (request: GuardedRequest, failure: unknown, afterMs = 0) => {
    const call = breakers.begin(request)
    clock.nowMs += afterMs
    breakers.failed(call, failure)
  }
  /** For how long a call may not be made, in seconds; null: it may. */
  const refused = (request: GuardedRequest) => breakers.refusal(request)?.retryAfterSeconds ?? null
  const times = (count: number, act: () => void) => {
    for (let turn = 0; turn < count; turn += 1) act()
  }
  return { breakers, clock, events, answer, fail, refused, times }
}

/** A call of a user to the one node, or to the token server. */
function by(
  user: string,
  target: UpstreamTarget = 'storage',
  more: Partial<GuardedRequest> = {},
): GuardedRequest {
  return { target, url: new URL('http://node-1.example/x'), method: 'GET', user, ...more }
}

const [a, b, c, d] = [by('a'), by('b'), by('c'), by('d')]
const unreachable = new UpstreamError('unreachable', '')
const lost = new UpstreamError('connection-lost', '')

describe('what counts as a failure', () => {
  type Answered = [UpstreamTarget, status: number, retryAfter: string | null]
  const both = (...statuses: number[]) =>
    statuses.flatMap((status): Answered[] => [
      ['token', status, null],
      ['storage', status, null],
    ])
  const headersOf = (retryAfter: string | null): Record<string, string> =>
    retryAfter === null ? {} : { 'Retry-After': retryAfter }

  it.each<Answered>([...both(500, 502, 504), ['storage', 503, '600'], ['storage', 503, '31']])(
    'is an answer of %s with %d %s',
    (target, status, retryAfter) => {
      const { answer, refused, times } = startBreakers()

      times(4, () => answer(by('a', target), status, headersOf(retryAfter)))
      expect(refused(by('a', target))).toBeNull()
      answer(by('a', target), status, headersOf(retryAfter))

      expect(refused(by('a', target))).not.toBeNull()
    },
  )

  it.each<Answered>([
    ...both(200, 202, 304, 400, 401, 403, 404, 405, 409, 412, 413, 429),
    ['storage', 429, '600'],
    // Two writes that met.
    ['storage', 503, '10'],
    ['storage', 503, '30'],
    // A client that the storage will not serve, or no capacity for new users.
    ...both(503),
    ['token', 503, '0'],
    ['token', 503, 'soon'],
  ])('is no answer of %s with %d %s', (target, status, retryAfter) => {
    const { answer, events, times } = startBreakers()

    times(40, () => answer(by('a', target), status, headersOf(retryAfter)))

    expect(events).toEqual([])
  })

  it('is no 500 to a write, which storages answer to writes that collide', () => {
    const { answer, events, times } = startBreakers()

    times(40, () => answer(by('a', 'storage', { method: 'POST' }), 500))
    times(40, () => answer(by('a', 'storage', { method: 'DELETE' }), 500))

    expect(events).toEqual([])
  })

  it('is not over at a 503 that may be about one user', () => {
    const { answer, refused } = startBreakers()

    for (const status of [500, 500, 500, 500, 503, 500]) answer(a, status)

    expect(refused(a)).not.toBeNull()
  })

  it('is of nobody else, however many calls time out together, as long as others succeeded while they waited', () => {
    const { breakers, answer, refused, clock } = startBreakers()
    const timeout = new UpstreamError('timeout', '')
    const waitInVain = (isOtherServed: boolean) => {
      const calls = ['a', 'b', 'c', 'd', 'e'].map((user) => breakers.begin(by(user)))
      clock.nowMs += 10
      if (isOtherServed) answer(by('other'), 200)
      clock.nowMs += 10_000
      for (const call of calls) breakers.failed(call, timeout)
    }

    waitInVain(true)
    expect(refused(by('other'))).toBeNull()

    waitInVain(false)
    expect(refused(by('other'))).not.toBeNull()
  })

  it('is a lost connection once, however many calls were on it', () => {
    const { breakers, fail, refused, clock, times } = startBreakers()
    const calls = Array.from({ length: 100 }, () => breakers.begin(a))
    clock.nowMs += 50

    for (const call of calls) breakers.failed(call, lost)
    expect(refused(a)).toBeNull()
    times(4, () => fail(a, lost, 1))

    expect(refused(a)).not.toBeNull()
  })

  it('is a timeout, unless the client had left no time', () => {
    const { fail, refused, times } = startBreakers()
    const timeout = new UpstreamError('timeout', '')

    times(40, () => fail(a, timeout, 899))
    expect(refused(a)).toBeNull()
    times(5, () => fail(a, timeout, 1000))

    expect(refused(a)).not.toBeNull()
  })

  it('is neither what we have refused ourselves, nor a defect, nor a client who hung up', () => {
    const { fail, events, times } = startBreakers()

    times(10, () => {
      fail(a, new UpstreamError('overload', ''))
      fail(a, new UpstreamError('refused', ''))
      fail(a, new TypeError('a defect'))
      fail(a, new UpstreamError('abandoned', ''), 20_000)
    })

    expect(events).toEqual([])
  })
})

describe('whom an open circuit refuses', () => {
  it('are all users of a host that can not be reached', () => {
    const { fail, refused, times } = startBreakers()

    times(5, () => fail(a, unreachable))

    expect(refused(b)).toBe(1)
  })

  it('are all when three users fail and nobody succeeds in between', () => {
    const { answer, refused, events } = startBreakers()

    for (const each of [a, b, a, b, a]) answer(each, 500)
    expect(refused(d)).toBeNull()
    answer(c, 500)

    expect(refused(d)).not.toBeNull()
    expect(events).toEqual([{ target: 'storage', host: 'node-1.example', isForAll: true, change: 'opened' }])
  })

  it('are not all when three users fail while another succeeds', () => {
    const { answer, refused, times } = startBreakers()

    times(10, () => {
      for (const each of [a, b, c]) if (refused(each) === null) answer(each, 500)
      answer(d, 200)
    })

    expect(refused(d)).toBeNull()
  })

  it('keeps nodes apart, and the token server from a node at the same address', () => {
    const { fail, refused, times } = startBreakers()
    times(5, () => fail(a, unreachable))

    expect(refused(a)).not.toBeNull()
    expect(refused({ ...a, url: new URL('http://node-2.example/x') })).toBeNull()
    expect(refused({ ...a, url: new URL('http://node-1.example:8080/x') })).toBeNull()
    expect(refused(by('a', 'token'))).toBeNull()
  })
})

describe('an open circuit', () => {
  it('lets one call through after a second, then after twice as long each time, four seconds at most', () => {
    const { breakers, fail, refused, clock, times } = startBreakers()
    times(5, () => fail(a, unreachable))

    for (const seconds of [1, 2, 4, 4]) {
      expect(refused(b)).toBe(seconds)
      clock.nowMs += seconds * 1000 - 1
      expect(refused(b)).not.toBeNull()
      clock.nowMs += 1
      const call = breakers.begin(b)
      expect(refused(c)).toBe(1)
      breakers.failed(call, unreachable)
    }
  })

  it('leaves its times to chance, within a quarter', () => {
    const times = [0, 0.999].map((random) => {
      const { breakers, fail, clock } = startBreakers(() => random)
      for (let turn = 0; turn < 5; turn += 1) fail(a, unreachable)
      const startedAtMs = clock.nowMs
      while (breakers.refusal(b)) clock.nowMs += 1
      return clock.nowMs - startedAtMs
    })

    expect(times).toEqual([750, 1250])
  })

  it('closes at a success, and has forgotten the failures then', () => {
    const { answer, fail, refused, clock, events, times } = startBreakers()
    times(5, () => fail(a, unreachable))
    clock.nowMs += 1000

    answer(a, 200)
    times(4, () => fail(a, unreachable))

    expect(refused(a)).toBeNull()
    expect(events.filter(({ isForAll }) => isForAll).map(({ change }) => change)).toEqual([
      'opened',
      'closed',
    ])
  })

  it('ignores calls that began before: they neither close it nor keep it open', () => {
    const { breakers, fail, refused, clock, times } = startBreakers()
    const early = [breakers.begin(a), breakers.begin(a)]
    clock.nowMs += 1
    times(5, () => fail(b, unreachable))

    breakers.answered(early[0]!, new Response())
    breakers.failed(early[1]!, unreachable)

    expect(refused(c)).toBe(1)
  })

  it('lets the next call tell when the one that was let through could not, and no other before', () => {
    const { breakers, fail, refused, clock, times } = startBreakers()
    times(5, () => fail(a, unreachable))
    clock.nowMs += 1000

    breakers.failed(breakers.begin(b), new UpstreamError('overload', ''))
    expect(refused(b)).toBeNull()
    breakers.begin(b)
    expect(refused(c)).not.toBeNull()
  })

  it('lets another one try when that one has no answer after four seconds', () => {
    const { breakers, fail, refused, clock, times } = startBreakers()
    times(5, () => fail(a, unreachable))
    clock.nowMs += 1000
    const lost = breakers.begin(b)

    clock.nowMs += 3999
    expect(refused(c)).not.toBeNull()
    clock.nowMs += 1
    expect(refused(c)).toBeNull()
    breakers.answered(breakers.begin(c), { status: 200, headers: new Headers() })
    breakers.failed(lost, new UpstreamError('timeout', ''))

    expect(refused(d)).toBeNull()
  })

  it('lets the next call try before its time when a look at the target succeeds, and learns nothing else of it', () => {
    const { answer, fail, refused, times } = startBreakers()
    const look = by('heartbeat', 'token', { callClass: 'probe' })
    times(10, () => fail(look, unreachable))
    expect(refused(by('a', 'token'))).toBeNull()
    times(5, () => fail(by('a', 'token'), unreachable))

    answer(look, 200)

    expect(refused(by('b', 'token'))).toBeNull()
  })

  it('is kept of a thousand users and hosts at most', () => {
    const { answer, breakers, refused, times } = startBreakers()

    for (let user = 0; user < 1001; user += 1) {
      times(5, () => answer(by(`user-${user}`), 500))
      answer(by('well'), 200)
    }
    expect(refused(by('user-1000'))).not.toBeNull()
    for (let host = 0; host < 1001; host += 1)
      answer({ ...a, url: new URL(`http://host-${host}.example`) }, 500)

    expect(refused(by('user-0'))).toBeNull()
    expect(breakers.counts()).toHaveLength(2)
  })
})

describe('reset', () => {
  it('also forgets what calls will tell that are under way', () => {
    const { breakers, refused } = startBreakers()
    const calls = Array.from({ length: 6 }, () => breakers.begin(a))

    breakers.reset()
    for (const call of calls) breakers.failed(call, new UpstreamError('bad-response', ''))

    expect(refused(a)).toBeNull()
  })
})

describe('a token server that asks for a pause', () => {
  const identity = (user: string) => by(user, 'token')

  it.each([500, 503, 429])('with %d gets no call for one identity, and those for others', (status) => {
    const { answer, refused, clock, events } = startBreakers()

    answer(identity('a'), status, { 'Retry-After': '119.5' })

    expect(refused(identity('a'))).toBe(120)
    expect(refused(identity('b'))).toBeNull()
    expect(refused(by('heartbeat', 'token', { callClass: 'probe' }))).toBeNull()
    clock.nowMs += 119_999
    expect(refused(identity('a'))).not.toBeNull()
    clock.nowMs += 1
    expect(refused(identity('a'))).toBeNull()
    expect(events.some(({ isForAll }) => isForAll)).toBe(false)
  })

  it('gets none at all once it has told so to three identities at a time', () => {
    const { answer, refused, clock } = startBreakers()
    for (const user of ['a', 'b', 'c']) {
      answer(identity(user), 429, { 'Retry-After': '60' })
      clock.nowMs += 60_000
    }
    expect(refused(identity('x'))).toBeNull()

    for (const user of ['d', 'e']) answer(identity(user), 429, { 'Retry-After': '60' })
    answer(identity('f'), 429, { 'Retry-After': '30' })

    expect(refused(identity('x'))).toBe(30)
    expect(refused(identity('d'))).toBe(60)
    expect(refused(by('heartbeat', 'token', { callClass: 'probe' }))).not.toBeNull()
  })

  it('is believed for five minutes at most, and until a date by its own clock', () => {
    const of = (headers: Record<string, string>) => {
      const { answer, refused } = startBreakers()
      answer(identity('a'), 503, headers)
      return refused(identity('a'))
    }
    const Date = 'Wed, 21 Oct 2026 07:28:00 GMT'
    const later = 'Wed, 21 Oct 2026 07:28:40 GMT'

    expect(of({ 'Retry-After': '9000' })).toBe(300)
    expect(of({ Date, 'Retry-After': later })).toBe(40)
    expect(of({ 'Retry-After': later })).toBeNull()
  })

  it('between requests is remembered for that identity, and for all once three were asked', () => {
    const { breakers, clock } = startBreakers()
    const ask = (user: string) => breakers.noteBackoff(identity(user), new Headers({ 'X-Backoff': '60' }))

    ask('a')
    ask('b')
    expect(['a', 'b', 'x'].map((user) => breakers.backoffSeconds(identity(user)))).toEqual([60, 60, null])
    ask('c')
    expect(breakers.backoffSeconds(identity('x'))).toBe(60)
    clock.nowMs += 60_000

    expect(['a', 'x'].map((user) => breakers.backoffSeconds(identity(user)))).toEqual([null, null])
  })
})

/** A target behind a proxy. Time passes by itself only where a test waits for a timeout. */
async function start(answer?: () => Response) {
  const skipped = { ms: 0 }
  const now = () => performance.now() + skipped.ms
  return { skipped, ...(await startTarget(answer, { now, random: () => 0.5 })) }
}

const post = { method: 'POST', body: '[]' } as const

describe('createUpstream, towards a target that keeps failing', () => {
  it.each([
    { kind: 'status', status: 502 },
    { kind: 'reset-before' },
    { kind: 'status', status: 302 },
    { kind: 'reset-mid-body', afterBytes: 1 },
  ] satisfies Fault[])('makes no call any more after five like %o', async (fault) => {
    const { proxy, exchanges, text } = await start()
    proxy.plan(() => fault)
    for (let count = 0; count < 5; count += 1) await text(post).catch(() => {})

    const write = await failureOf(text(post))
    const read = await failureOf(text())

    expect(write).toMatchObject({ failure: 'refused', applied: 'no', retryAfterSeconds: 1 })
    expect(read).toMatchObject({ failure: 'refused', applied: 'no', retryAfterSeconds: 1 })
    expect([proxy.requests.length, exchanges.length]).toEqual([5, 5])
  })

  it('tries with one call, which is not repeated, and goes on when that goes well', async () => {
    const { proxy, skipped, text } = await start()
    proxy.plan(({ index }) => (index < 6 ? { kind: 'reset-before' } : null))
    for (let count = 0; count < 5; count += 1) await text(post).catch(() => {})

    skipped.ms += 1000
    expect(await failureOf(text())).toMatchObject({ failure: 'connection-lost' })
    expect(proxy.requests).toHaveLength(6)
    expect(await failureOf(text())).toMatchObject({ failure: 'refused', retryAfterSeconds: 2 })

    skipped.ms += 2000
    expect(await text()).toBe('ok')
    expect(await Promise.all([text(), text(), text(post)])).toEqual(['ok', 'ok', 'ok'])
  })

  it('has judged a stream by its beginning, however it ends', async () => {
    const { proxy, send, text } = await start(() => new Response('x'.repeat(1_000_000)))
    proxy.plan(({ index }) => (index < 6 ? { kind: 'reset-mid-body', afterBytes: 300_000 } : null))

    for (let count = 0; count < 6; count += 1) {
      const { stream } = await send({ isStreamed: true })
      expect(await failureOf(readBounded(stream!, 2_000_000))).toMatchObject({ failure: 'connection-lost' })
    }

    expect(await text({ maxBytes: 2_000_000 })).toHaveLength(1_000_000)
  })
})
