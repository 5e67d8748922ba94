import { afterEach, describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import { readBounded } from '../../src/upstream/answer.ts'
import { Breakers } from '../../src/upstream/circuit-breaker.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { failureOf, newUpstream } from './rig.ts'
import type { BreakerEvent, GuardedRequest } from '../../src/upstream/circuit-breaker.ts'
import type { UpstreamTarget } from '../../src/upstream/concurrency-limits.ts'
import type { UpstreamCallSummary, UpstreamOptions, UpstreamRequest } from '../../src/upstream/send.ts'
import type { Fault } from '../support/fault-proxy.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function startBreakers() {
  const clock = { nowMs: 1000 }
  const events: BreakerEvent[] = []
  const breakers = new Breakers({
    now: () => clock.nowMs,
    random: () => 0.5,
    observe: (event) => events.push(event),
  })
  const answer = (request: GuardedRequest, status: number, headers: Record<string, string> = {}) =>
    breakers.answered(breakers.acquire(request), { status, headers: new Headers(headers) })
  const fail = (request: GuardedRequest, failure: unknown, afterMs = 0) => {
    const permit = breakers.acquire(request)
    clock.nowMs += afterMs
    breakers.failed(permit, failure)
  }
  /** Why a call may not be made, or null. */
  const refusalOf = (request: GuardedRequest) => breakers.refusal(request)
  return { breakers, clock, events, answer, fail, refusalOf }
}

function at(target: UpstreamTarget, origin = 'http://node-1.example', user?: string): GuardedRequest {
  return { target, url: new URL(`${origin}/x`), user }
}

/** A call to the one node, or to the token server, of a user. */
function by(user: string, target: UpstreamTarget = 'storage'): GuardedRequest {
  return at(target, undefined, user)
}

describe('Breakers', () => {
  it.each<[UpstreamTarget, number, Record<string, string>]>([
    ['token', 500, {}],
    ['token', 502, {}],
    ['token', 504, {}],
    ['storage', 500, {}],
    ['storage', 502, {}],
    ['storage', 504, {}],
    ['storage', 503, { 'Retry-After': '600' }],
    ['storage', 503, { 'Retry-After': '31' }],
  ])('counts an answer of %s with %d %o as a failure', (target, status, headers) => {
    const { answer, refusalOf } = startBreakers()

    for (let count = 0; count < 4; count += 1) answer(at(target), status, headers)
    expect(refusalOf(at(target))).toBeNull()
    answer(at(target), status, headers)

    expect(refusalOf(at(target))).not.toBeNull()
  })

  it.each<[UpstreamTarget, number, Record<string, string>]>([
    ...[200, 202, 304, 400, 401, 403, 404, 405, 409, 412, 413, 429].flatMap(
      (status): [UpstreamTarget, number, Record<string, string>][] => [
        ['token', status, {}],
        ['storage', status, {}],
      ],
    ),
    ['storage', 409, { 'Retry-After': '10' }],
    ['storage', 429, { 'Retry-After': '600' }],
    // Two writes that met.
    ['storage', 503, { 'Retry-After': '10' }],
    ['storage', 503, { 'Retry-After': '30' }],
    // A client that the storage will not serve, or no capacity for new users.
    ['storage', 503, {}],
    ['token', 503, {}],
    ['token', 503, { 'Retry-After': '0' }],
    ['token', 503, { 'Retry-After': 'soon' }],
    ['storage', 501, {}],
    ['storage', 513, {}],
  ])('counts no answer of %s with %d %o', (target, status, headers) => {
    const { answer, events } = startBreakers()

    for (let count = 0; count < 40; count += 1) answer(at(target), status, headers)

    expect(events).toEqual([])
  })

  it('does not let a 503 that may be about one user end a row of failures', () => {
    const { answer, events } = startBreakers()

    for (const status of [500, 500, 500, 500, 503, 500]) answer(at('storage'), status)

    expect(events).toHaveLength(1)
  })

  it.each(['unreachable', 'connection-lost', 'bad-response'] as const)('counts %s', (failure) => {
    const { fail, refusalOf } = startBreakers()

    for (let count = 0; count < 5; count += 1) fail(at('storage'), new UpstreamError(failure, ''))

    expect(refusalOf(at('storage'))).not.toBeNull()
  })

  it('counts a timeout, unless the client had left no time', () => {
    const { fail, refusalOf } = startBreakers()
    const timeout = new UpstreamError('timeout', '')

    for (let count = 0; count < 40; count += 1) fail(at('storage'), timeout, 899)
    expect(refusalOf(at('storage'))).toBeNull()
    for (let count = 0; count < 5; count += 1) fail(at('storage'), timeout, 1000)

    expect(refusalOf(at('storage'))).not.toBeNull()
  })

  it('counts neither what we have refused ourselves, nor a defect, nor a client who hung up', () => {
    const { fail, events } = startBreakers()
    const gone = { ...at('storage'), client: { signal: AbortSignal.abort() } }

    for (let count = 0; count < 10; count += 1) {
      fail(at('storage'), new UpstreamError('overload', ''))
      fail(at('storage'), new UpstreamError('refused', ''))
      fail(at('storage'), new TypeError('a defect'))
      fail(gone, new UpstreamError('connection-lost', ''))
      fail(gone, new UpstreamError('timeout', ''), 20_000)
    }

    expect(events).toEqual([])
  })

  it('refuses with a time to wait that fits, and the certainty that nothing was sent', () => {
    const { answer, refusalOf, clock, breakers } = startBreakers()
    for (let count = 0; count < 5; count += 1) answer(at('storage'), 500)

    expect(refusalOf(at('storage'))).toMatchObject({
      name: 'UpstreamError',
      failure: 'refused',
      applied: 'no',
      status: null,
      retryAfterSeconds: 1,
    })
    for (let probe = 0; probe < 3; probe += 1) {
      clock.nowMs += 30_000
      answer(at('storage'), 500)
    }
    clock.nowMs += 900
    expect(refusalOf(at('storage'))).toMatchObject({ retryAfterSeconds: 4 })
    clock.nowMs += 30_000
    breakers.acquire(at('storage'))
    expect(refusalOf(at('storage'))).toMatchObject({ retryAfterSeconds: 1 })
  })

  it('keeps nodes apart, and the token server from a node at the same address', () => {
    const { answer, refusalOf } = startBreakers()
    for (let count = 0; count < 5; count += 1) answer(at('storage'), 500)

    expect(refusalOf(at('storage'))).not.toBeNull()
    expect(refusalOf(at('storage', 'http://node-2.example'))).toBeNull()
    expect(refusalOf(at('storage', 'http://node-1.example:8080'))).toBeNull()
    expect(refusalOf(at('token'))).toBeNull()
  })

  it.each([500, 503, 429])('lets an identity alone wait that a token server tells so with %d', (status) => {
    const { answer, refusalOf, clock, events } = startBreakers()

    answer(by('a', 'token'), status, { 'Retry-After': '119.5' })

    expect(refusalOf(by('a', 'token'))).toMatchObject({ retryAfterSeconds: 120 })
    expect(refusalOf(by('b', 'token'))).toBeNull()
    expect(refusalOf({ ...at('token'), callClass: 'probe' })).toBeNull()
    clock.nowMs += 119_999
    expect(refusalOf(by('a', 'token'))).not.toBeNull()
    clock.nowMs += 1
    expect(refusalOf(by('a', 'token'))).toBeNull()
    expect(events).toEqual([])
  })

  it('leaves a token server alone that has told so to three identities', () => {
    const { answer, refusalOf, events } = startBreakers()

    answer(by('a', 'token'), 429, { 'Retry-After': '60' })
    answer(by('b', 'token'), 429, { 'Retry-After': '60' })
    expect(refusalOf(by('x', 'token'))).toBeNull()
    answer(by('c', 'token'), 429, { 'Retry-After': '30' })

    expect(refusalOf(by('x', 'token'))).toMatchObject({ retryAfterSeconds: 30 })
    expect(refusalOf(by('a', 'token'))).toMatchObject({ retryAfterSeconds: 60 })
    expect(refusalOf({ ...at('token'), callClass: 'probe' })).not.toBeNull()
    expect(events).toMatchObject([{ target: 'token', change: 'opened' }])
  })

  it('does not add up pauses of three identities that are over', () => {
    const { answer, refusalOf, clock } = startBreakers()

    for (const user of ['a', 'b', 'c']) {
      answer(by(user, 'token'), 429, { 'Retry-After': '60' })
      clock.nowMs += 60_000
    }

    expect(refusalOf(by('x', 'token'))).toBeNull()
  })

  it('lets an identity wait for five minutes at most, and until a date by the clock of the server', () => {
    const long = startBreakers()
    long.answer(by('a', 'token'), 503, { 'Retry-After': '9000' })
    const dated = startBreakers()
    dated.answer(by('a', 'token'), 503, {
      Date: 'Wed, 21 Oct 2026 07:28:00 GMT',
      'Retry-After': 'Wed, 21 Oct 2026 07:28:40 GMT',
    })
    const dateless = startBreakers()
    dateless.answer(by('a', 'token'), 503, { 'Retry-After': 'Wed, 21 Oct 2026 07:28:40 GMT' })

    expect(long.refusalOf(by('a', 'token'))).toMatchObject({ retryAfterSeconds: 300 })
    expect(dated.refusalOf(by('a', 'token'))).toMatchObject({ retryAfterSeconds: 40 })
    expect(dateless.refusalOf(by('a', 'token'))).toBeNull()
  })

  it('refuses a user alone whose calls alone fail, however many these are', () => {
    const { answer, refusalOf, events, clock } = startBreakers()

    let refused = 0
    for (let round = 0; round < 300; round += 1) {
      answer(by('well'), 200)
      for (let count = 0; count < 9; count += 1) {
        if (refusalOf(by('failing'))) refused += 1
        else answer(by('failing'), 500)
      }
      clock.nowMs += 100
    }

    expect(refused).toBeGreaterThan(2600)
    expect(events).toEqual([])
  })

  it('opens for everybody at failures of three users, although others succeed', () => {
    const { answer, refusalOf } = startBreakers()

    answer(by('well'), 200)
    for (const user of ['a', 'a', 'a', 'b', 'b']) answer(by(user), 500)
    expect(refusalOf(by('well'))).toBeNull()
    answer(by('c'), 500)

    expect(refusalOf(by('well'))).not.toBeNull()
  })

  it('opens at failures of one user when nobody else succeeds, and for others until they fail as well', () => {
    const { answer, refusalOf, events } = startBreakers()
    for (let count = 0; count < 5; count += 1) answer(by('a'), 500)

    expect(events).toMatchObject([{ change: 'opened' }])
    expect(refusalOf(by('a'))).not.toBeNull()
    answer(by('b'), 500)
    expect(refusalOf(by('c'))).toBeNull()
    answer(by('c'), 500)
    expect(refusalOf(by('d'))).not.toBeNull()
  })

  it('closes when another user succeeds, but not for the one whose calls failed', () => {
    const { answer, refusalOf, events } = startBreakers()
    for (let count = 0; count < 5; count += 1) answer(by('a'), 500)

    answer(by('b'), 200)

    expect(events).toMatchObject([{ change: 'opened' }, { change: 'closed' }])
    expect(refusalOf(by('a'))).not.toBeNull()
    expect(refusalOf(by('c'))).toBeNull()
  })

  it('lets a user go on at the first call that succeeds after a while', () => {
    const { answer, refusalOf, clock } = startBreakers()
    answer(by('well'), 200)
    for (let count = 0; count < 5; count += 1) answer(by('a'), 500)

    clock.nowMs += 1000
    answer(by('a'), 200)

    expect(refusalOf(by('a'))).toBeNull()
  })

  it('takes the word of a node for half a minute, once it has failed for several calls', () => {
    const { answer, refusalOf } = startBreakers()
    for (let count = 0; count < 5; count += 1) answer(at('storage'), 503, { 'Retry-After': '600' })

    expect(refusalOf(at('storage'))).toMatchObject({ retryAfterSeconds: 30 })
  })

  it('tells of openings and closings, and how many are not closed', () => {
    const { answer, breakers, clock, events } = startBreakers()
    const [one, other] = [at('storage', 'http://a.example'), at('storage', 'http://b.example:81')]

    expect(breakers.counts()).toEqual([
      { target: 'token', open: 0, halfOpen: 0 },
      { target: 'storage', open: 0, halfOpen: 0 },
    ])
    for (let count = 0; count < 5; count += 1) answer(one, 500)
    clock.nowMs += 1000
    for (let count = 0; count < 5; count += 1) answer(other, 500)
    for (const user of ['a', 'b', 'c']) answer(by(user, 'token'), 503, { 'Retry-After': '20' })

    expect(breakers.counts()).toEqual([
      { target: 'token', open: 1, halfOpen: 0 },
      { target: 'storage', open: 1, halfOpen: 1 },
    ])
    answer(one, 200)
    expect(events).toEqual([
      { target: 'storage', host: 'a.example', change: 'opened' },
      { target: 'storage', host: 'b.example:81', change: 'opened' },
      { target: 'token', host: 'node-1.example', change: 'opened' },
      { target: 'storage', host: 'a.example', change: 'closed' },
    ])
  })

  it.each<[string, (world: ReturnType<typeof startBreakers>) => void]>([
    ['nodes are counted', ({ breakers }) => void breakers.counts()],
    ['another node is called', ({ answer }) => answer(at('storage', 'http://node-2.example'), 200)],
  ])('forgets a node that nobody calls any more when %s', (_, happens) => {
    const world = startBreakers()
    const { answer, breakers, clock } = world
    for (let count = 0; count < 5; count += 1) answer(at('storage'), 500)

    clock.nowMs += 61_000
    happens(world)

    // While it was remembered only one call was let through.
    const together = [breakers.acquire(at('storage')), breakers.acquire(at('storage'))]
    for (const permit of together) breakers.answered(permit, new Response())
    expect(breakers.counts()[1]).toEqual({ target: 'storage', open: 0, halfOpen: 0 })
  })
})

/** A server behind a proxy that fails as planned, and a way to call it. */
async function start(
  options: Partial<UpstreamOptions> = {},
  answer: () => Response = () => new Response('x'.repeat(100)),
) {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, development: false, fetch: answer })
  const proxy = await startFaultProxy({ target: server.url })
  cleanups.push(
    () => server.stop(true),
    () => proxy.stop(),
  )
  // Time passes by itself only where a test waits for a timeout.
  const skipped = { ms: 0 }
  const exchanges: UpstreamCallSummary[] = []
  const upstream = newUpstream({
    observe: (call) => exchanges.push(call),
    now: () => performance.now() + skipped.ms,
    random: () => 0.5,
    delay: async () => {},
    ...options,
  })
  const send = (request: Partial<UpstreamRequest> = {}) =>
    upstream.send({
      target: 'storage',
      method: 'GET',
      url: new URL(proxy.url),
      headers: {},
      timeoutMs: 3000,
      maxBytes: 1000,
      ...request,
    })
  const text = async (request: Partial<UpstreamRequest> = {}) => (await send(request)).bytes.length
  return { proxy, skipped, exchanges, send, text }
}

/** The same, after five failures and the time that follows. */
async function startHalfOpen(answer: () => Response) {
  const world = await start({}, answer)
  world.proxy.plan(({ index }) => (index < 5 ? { kind: 'reset-before' } : null))
  for (let count = 0; count < 5; count += 1) await world.text(post).catch(() => {})
  world.skipped.ms += 1000
  return world
}

const post = { method: 'POST', body: '[]' } as const

describe('createSend, towards a target that keeps failing', () => {
  it.each([
    { kind: 'status', status: 502 },
    { kind: 'reset-before' },
    { kind: 'status', status: 302 },
    { kind: 'reset-mid-body', afterBytes: 10 },
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

  it('makes no call any more after five that were not answered in time', async () => {
    const { proxy, text } = await start()
    proxy.plan(({ index }) => (index < 3 ? { kind: 'hang' } : { kind: 'hang-mid-body', afterBytes: 5 }))

    const hanging = await Promise.all(Array.from({ length: 5 }, () => failureOf(text({ timeoutMs: 1000 }))))
    const next = await failureOf(text())

    expect(hanging).toMatchObject(hanging.map(() => ({ failure: 'timeout' })))
    expect(next).toMatchObject({ failure: 'refused' })
    expect(proxy.requests).toHaveLength(5)
  })

  it('does not ask once more when that is no longer allowed', async () => {
    const { proxy, send } = await start()
    proxy.plan(() => ({ kind: 'status', status: 500 }))

    const answers: number[] = []
    for (let count = 0; count < 3; count += 1) answers.push((await send()).status)

    // The third is answered with what it got itself.
    expect(answers).toEqual([500, 500, 500])
    expect(proxy.requests).toHaveLength(5)
  })

  it('tries with one call, which is not repeated, and goes on when that goes well', async () => {
    const { proxy, skipped, text } = await start()
    proxy.plan(({ index }) => (index < 6 ? { kind: 'reset-before' } : index === 6 ? { kind: 'hang' } : null))
    for (let count = 0; count < 5; count += 1) await text(post).catch(() => {})

    skipped.ms += 1000
    expect(await failureOf(text())).toMatchObject({ failure: 'connection-lost' })
    expect(proxy.requests).toHaveLength(6)
    expect(await failureOf(text())).toMatchObject({ failure: 'refused', retryAfterSeconds: 2 })

    skipped.ms += 2000
    const probe = text()
    await proxy.waitFor(({ index }) => index === 6)
    expect(await failureOf(text())).toMatchObject({ failure: 'refused', retryAfterSeconds: 1 })
    proxy.release()
    expect(await probe).toBe(100)

    expect(await Promise.all([text(), text(), text(post)])).toEqual([100, 100, 100])
    expect(proxy.requests).toHaveLength(10)
  })

  it('sends what settles all the same', async () => {
    const { proxy, text } = await start()
    proxy.plan(({ index }) => (index < 6 ? { kind: 'reset-before' } : null))
    for (let count = 0; count < 5; count += 1) await text(post).catch(() => {})

    expect(await failureOf(text({ ...post, callClass: 'must-complete' }))).toMatchObject({
      failure: 'connection-lost',
    })
    expect(await failureOf(text(post))).toMatchObject({ failure: 'refused' })
    expect(await text({ ...post, callClass: 'must-complete' })).toBe(100)

    expect(await text(post)).toBe(100)
  })

  it('does not send what has waited for its place meanwhile, and gives that back', async () => {
    const limits = {
      token: 1,
      storageNode: 1,
      storage: 1,
      streams: 1,
      largeAnswers: 8,
      waiting: 1,
      waitMs: 5000,
    }
    const breakers = new Breakers({ now: () => performance.now() + skipped.ms, random: () => 0.5 })
    const { proxy, skipped, text } = await start({ limits, breakers })
    proxy.plan(({ index }) => (index === 0 ? { kind: 'hang' } : null))
    const first = text()
    await proxy.waitFor(({ index }) => index === 0)
    const second = failureOf(text())

    for (let count = 0; count < 5; count += 1) {
      breakers.answered(breakers.acquire(at('storage', proxy.url)), new Response(null, { status: 500 }))
    }
    proxy.release()

    expect(await first).toBe(100)
    expect(await second).toMatchObject({ failure: 'refused', applied: 'no' })
    skipped.ms += 1000
    expect(await text()).toBe(100)
    expect(proxy.requests).toHaveLength(2)
  })

  it('waits for the end of a short answer', async () => {
    const { proxy, send, text } = await startHalfOpen(() => new Response('x'.repeat(100)))
    proxy.plan(() => ({ kind: 'hang-mid-body', afterBytes: 10 }))

    const probe = send()
    await proxy.waitFor(({ index }) => index === 5)
    expect(await failureOf(text())).toMatchObject({ failure: 'refused' })
    proxy.plan(() => null)
    proxy.release()
    await probe

    expect(await text()).toBe(100)
  })

  it('does not wait for the end of a stream', async () => {
    const endless = () =>
      new ReadableStream(
        { pull: (controller) => controller.enqueue(Buffer.alloc(1000)) },
        { highWaterMark: 0 },
      )
    const bodies: (ReadableStream | string)[] = [endless(), 'x'.repeat(100)]
    const { send, text } = await startHalfOpen(() => new Response(bodies.shift()))

    const probe = await send({ isStreamed: true })
    expect(await text()).toBe(100)

    probe.stream!.cancel()
  })

  it('has judged a stream by its beginning, however it ends', async () => {
    const { proxy, send, text } = await start({}, () => new Response('x'.repeat(1_000_000)))
    proxy.plan(({ index }) => (index < 6 ? { kind: 'reset-mid-body', afterBytes: 300_000 } : null))

    for (let count = 0; count < 6; count += 1) {
      const { stream } = await send({ isStreamed: true })
      expect(await failureOf(readBounded(stream!, 2_000_000))).toMatchObject({ failure: 'connection-lost' })
    }

    expect(await text({ maxBytes: 2_000_000 })).toBe(1_000_000)
  })

  it('learns nothing from a caller who hangs up', async () => {
    const { proxy, text } = await start()
    proxy.plan(() => ({ kind: 'hang' }))
    const callers = Array.from({ length: 6 }, () => new AbortController())
    const calls = callers.map((client) => failureOf(text({ client })))
    await proxy.waitFor(({ index }) => index === 5)

    for (const caller of callers) caller.abort()
    await Promise.all(calls)
    proxy.plan(() => null)

    expect(await text()).toBe(100)
  })
})
