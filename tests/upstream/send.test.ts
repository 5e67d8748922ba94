import { afterEach, describe, expect, it, jest } from 'bun:test'
import { readText } from '../support/byte-source.ts'
import type { UpstreamResponse } from '../../src/upstream/response.ts'
import { createPermits, PermitPool } from '../../src/load/permits.ts'
import { eventually } from '../support/eventually.ts'
import { type Fault } from '../support/fault-proxy.ts'
import { freePort } from '../support/free-port.ts'
import { cleanUp, failureOf, makeSend, startTarget } from './rig.ts'

const start = startTarget
/** That many permits for calls; by default, one user may take all of them. */
const permitsFor = (calls: number, ofUser = calls) => ({
  ...createPermits(1024),
  calls: new PermitPool({
    name: 'calls',
    permits: calls,
    permitsPerUser: ofUser,
    permitsPerHost: calls,
  }),
})

afterEach(async () => {
  jest.useRealTimers()
  await cleanUp()
})

/** Reads a response to its end. */
async function read(answering: Promise<UpstreamResponse>): Promise<number> {
  const { bytes, stream } = await answering
  return stream ? (await readText(stream)).length : bytes.length
}

describe('createSend', () => {
  it('sends method, target, headers and body as given, and requests no encoding', async () => {
    const { proxy, send, exchanges } = await start()

    const answer = await send({
      method: 'POST',
      path: '/1.5/7/storage/%7Ba%7D%27?ids=a,b%2Cc&x=%2B',
      headers: { 'Content-Type': 'application/json', 'User-Agent': 'Test/1.0' },
      body: '[{"payload":"ü"}]',
    })

    const { method, target, headers, body } = proxy.requests[0]!
    expect({ method, target, body }).toEqual({
      method: 'POST',
      target: '/1.5/7/storage/%7Ba%7D%27?ids=a,b%2Cc&x=%2B',
      body: '[{"payload":"ü"}]',
    })
    expect(headers.toJSON()).toEqual({
      accept: '*/*',
      'accept-encoding': 'identity',
      connection: 'keep-alive',
      'content-length': '18',
      'content-type': 'application/json',
      host: new URL(proxy.url).host,
      'user-agent': 'Test/1.0',
    })
    expect(Buffer.from(answer.bytes).toString()).toBe('ok')
    expect(exchanges).toEqual([
      { target: 'storage', method: 'POST', status: 200, failure: null, ms: expect.any(Number) },
    ])
  })

  it.each([
    { kind: 'status', status: 503, headers: { 'Retry-After': '10' } },
    { kind: 'status', status: 501 },
    { kind: 'status', status: 429 },
    { kind: 'status', status: 401 },
  ] satisfies Fault[])('does not retry after %o', async (fault) => {
    const { proxy, send } = await start()
    proxy.plan(() => fault)

    expect((await send()).status).toBe(fault.status)

    expect(proxy.requests).toHaveLength(1)
  })

  it('does not retry if no time is left', async () => {
    const { proxy, send } = await start(undefined, { random: () => 100 })
    proxy.plan(() => ({ kind: 'status', status: 502 }))

    expect((await send({ timeoutMs: 5000 })).status).toBe(502)

    expect(proxy.requests).toHaveLength(1)
  })

  it.each([
    [0, 50],
    [0.5, 100],
    [1, 150],
  ])('retries a read once, after a pause of 50 to 150 ms: %d', async (random, pauseMs) => {
    const faults = [408, 502].map((status): Fault => ({ kind: 'status', status }))
    for (const fault of [{ kind: 'reset-before' } satisfies Fault, ...faults]) {
      const { proxy, send, pauses } = await start(undefined, { random: () => random })
      proxy.plan(() => fault)

      await send().catch(() => {})

      expect(pauses).toEqual([pauseMs])
    }
  })

  it.each(['POST', 'DELETE'] as const)('never retries a %s', async (method) => {
    for (const fault of [{ kind: 'reset-before' }, { kind: 'status', status: 502 }] satisfies Fault[]) {
      const { proxy, send, pauses } = await start()
      proxy.plan(() => fault)

      await send({ method }).catch(() => {})

      expect([proxy.requests.length, pauses]).toEqual([1, []])
    }
  })

  it('times out, without a retry, if no headers arrive', async () => {
    const { proxy, send, exchanges } = await start()
    proxy.plan(() => ({ kind: 'hang' }))

    jest.useFakeTimers()
    const failure = failureOf(send({ timeoutMs: 300 }))
    await proxy.waitFor(({ index }) => index === 0)
    jest.advanceTimersByTime(299)
    const isEarly = Bun.peek.status(failure) !== 'pending'
    jest.advanceTimersByTime(1)

    expect(isEarly).toBe(false)
    expect(await failure).toMatchObject({ failure: 'timeout', applied: 'unknown' })
    expect(proxy.requests).toHaveLength(1)
    expect(exchanges).toMatchObject([{ status: null, failure: 'timeout' }])
  })

  it('lets a body last longer than the timeout of the headers', async () => {
    const { proxy, send } = await start(() => new Response('x'.repeat(400_000)))
    proxy.plan(() => ({ kind: 'hang-mid-body', afterBytes: 1000 }))

    jest.useFakeTimers()
    const { stream } = await send({ timeoutMs: 500, isStreamed: true })
    const first = await stream!.read()
    const rest = readText(stream!)
    jest.advanceTimersByTime(600)
    proxy.release()

    expect(first!.length + (await rest)!.length).toBe(400_000)
  })

  it('gives a buffered body no more time than its headers had, however it arrives', async () => {
    const slowSource = () =>
      new ReadableStream({
        async pull(controller) {
          controller.enqueue(Buffer.from('x'))
          await Bun.sleep(5)
        },
      })
    const { send } = await start(() => new Response(slowSource()), { stallMs: 10_000 })

    const failure = await failureOf(send({ method: 'POST', body: '', timeoutMs: 100 }))

    expect(failure).toMatchObject({ failure: 'timeout' })
  })

  it.each([100, 400_000])('ends a body of %d bytes that stalls', async (length) => {
    const { proxy, send } = await start(() => new Response('x'.repeat(length)), { stallMs: 60 })
    proxy.plan(() => ({ kind: 'hang-mid-body', afterBytes: 10 }))

    expect(await failureOf(read(send({ isStreamed: true })))).toMatchObject({ failure: 'timeout' })
  })

  it('lets the reader of a body take its time', async () => {
    const { send } = await start(() => new Response('x'.repeat(4_000_000)), { stallMs: 500 })
    jest.useFakeTimers()
    const { stream } = await send({ isStreamed: true })

    let length = 0
    for (let piece = await stream!.read(); piece; piece = await stream!.read()) {
      if (length === 0) jest.advanceTimersByTime(600)
      length += piece.length
    }

    expect(length).toBe(4_000_000)
  })

  it('fails as unreachable, certainly not applied, if nothing listens or the host is unknown', async () => {
    const { send, exchanges } = makeSend(`http://127.0.0.1:${freePort()}`)

    const write = await failureOf(send({ method: 'POST', body: '{}' }))
    const read = await failureOf(send())
    const ofNoHost = await failureOf(makeSend('http://no-such-host.invalid').send())

    for (const failure of [write, read, ofNoHost])
      expect(failure).toMatchObject({ failure: 'unreachable', applied: 'no' })
    expect(exchanges.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET'])
  })

  it.each([301, 302, 303, 307, 308])('does not follow %d', async (status) => {
    const elsewhere = await start()
    const headers = { Location: elsewhere.proxy.url }
    const { send, exchanges } = await start(() => new Response(null, { status, headers }))

    const failure = await failureOf(send({ headers: { 'X-Client-State': 'secret' } }))

    expect(failure).toMatchObject({ failure: 'bad-response', status })
    expect(elsewhere.proxy.requests).toEqual([])
    expect(exchanges).toMatchObject([{ status, failure: 'bad-response' }])
  })

  it('aborts with its signal, before and after the headers', async () => {
    const { proxy, send } = await start(() => new Response('x'.repeat(400_000)))
    proxy.plan(({ index }) => (index === 0 ? { kind: 'hang' } : { kind: 'hang-mid-body', afterBytes: 10 }))
    const early = new AbortController()
    const late = new AbortController()

    const before = failureOf(send({ client: early }))
    await proxy.waitFor(({ index }) => index === 0)
    early.abort()
    expect(await before).toMatchObject({ failure: 'abandoned' })

    const answer = await send({ client: late, isStreamed: true })
    const after = failureOf(readText(answer.stream!))
    late.abort()
    expect(await after).toMatchObject({ failure: 'abandoned' })
    expect(await failureOf(send({ client: late }))).toMatchObject({ failure: 'abandoned' })
  })

  it('listens to its client no longer than it takes, however it ends', async () => {
    const { proxy, send } = await start(() => new Response('x'.repeat(400_000)))
    const { signal } = new AbortController()
    const changes = { addEventListener: 0, removeEventListener: 0 }
    for (const name of ['addEventListener', 'removeEventListener'] as const)
      Object.assign(signal, { [name]: () => void (changes[name] += 1) })
    const faults: (Fault | null)[] = [
      null,
      { kind: 'reset-after' },
      { kind: 'status', status: 404 },
      { kind: 'hang' },
    ]

    for (const fault of faults) {
      proxy.plan(() => fault)
      const timeoutMs = fault?.kind === 'hang' ? 300 : 60_000
      const answer = await send({ client: { signal }, timeoutMs }).catch(() => null)
      if (fault === null) expect(answer!.bytes).toHaveLength(400_000)
    }

    expect(changes.addEventListener).toBeGreaterThan(0)
    expect(changes.removeEventListener).toBe(changes.addEventListener)
  })

  it('reads no more than allowed, whether the size is announced or not', async () => {
    const announced = await start(() => new Response('x'.repeat(2000)))
    const streamed = await start(() => {
      let left = 1000
      const body = new ReadableStream({
        pull: (controller) => ((left -= 1) > 0 ? controller.enqueue(Buffer.alloc(1000)) : controller.close()),
      })
      return new Response(body)
    })

    for (const { send } of [announced, streamed]) {
      expect(await failureOf(send({ maxBytes: 1999 }))).toMatchObject({ failure: 'bad-response' })
    }
  })

  it.each([206, 404, 500])('cancels an endless body with %d instead of streaming it', async (status) => {
    const ended = Promise.withResolvers<void>()
    const endless = () =>
      new ReadableStream({
        pull: (controller) => controller.enqueue(Buffer.alloc(1000)),
        cancel: () => ended.resolve(),
      })
    const { send } = await start(() => new Response(endless(), { status }))

    const answer = await send({ method: 'POST', body: '', maxBytes: Infinity, isStreamed: true })

    expect([answer.status, answer.bytes.length, answer.stream]).toEqual([status, 0, null])
    await ended.promise
  })

  it('releases its permit, however a call ends', async () => {
    const permits = permitsFor(1)
    const { proxy, send, text } = await start(() => new Response('x'.repeat(400_000)), {
      permits,
      stallMs: 50,
    })
    const faults: (Fault | null)[] = [
      null,
      { kind: 'reset-after' },
      { kind: 'hang' },
      { kind: 'hang-mid-body', afterBytes: 10 },
      { kind: 'reset-mid-body', afterBytes: 10 },
      { kind: 'status', status: 302 },
      { kind: 'status', status: 304 },
      { kind: 'status', status: 204 },
      { kind: 'status', status: 200, body: 'short' },
      { kind: 'status', status: 500 },
      { kind: 'status', status: 200, headers: { 'Content-Encoding': 'br' } },
    ]

    for (const fault of faults) {
      proxy.plan(() => fault)
      const call = { timeoutMs: 250 }
      await text(call).catch(() => {})
      const answer = await send({ method: 'POST', body: '', isStreamed: true, ...call }).catch(() => null)
      answer?.stream?.cancel()
    }
    proxy.plan(() => null)

    // Only its headers: the only permit was free.
    const { status, stream } = await send({ isStreamed: true })
    stream!.cancel()
    expect(status).toBe(200)
  })
})

describe('the limits of calls in flight', () => {
  it('let the calls of one user wait for each other, and delay no other user', async () => {
    const { proxy, send } = await start(undefined, { permits: permitsFor(4, 2) })
    proxy.plan(({ path }) => (path === '/hang' ? { kind: 'hang' } : null))
    const hanging = Array.from({ length: 5 }, () => send({ path: '/hang' }))
    await eventually('as many hang as one user may have', () => Promise.resolve(proxy.requests.length === 2))

    expect((await send({ user: 'b' })).status).toBe(200)

    const all = Promise.all(hanging)
    for (const sent of [5, 6]) {
      proxy.release()
      await eventually('the waiting ones are sent', () => Promise.resolve(proxy.requests.length >= sent))
    }
    proxy.release()
    expect((await all).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
  })

  it('end the wait of calls that time out or whose client disconnects, and send only what completes a commit', async () => {
    const { proxy, send } = await start(undefined, { permits: permitsFor(1) })
    proxy.plan(({ path }) => (path === '/hang' ? { kind: 'hang' } : null))
    void send({ path: '/hang' }).catch(() => {})
    await eventually('it hangs', () => Promise.resolve(proxy.requests.length === 1))
    expect((await send({ mustComplete: true })).status).toBe(200)
    const client = new AbortController()

    const write = failureOf(send({ method: 'POST', body: '[]', timeoutMs: 50, user: 'c' }))
    const read = failureOf(send({ client, user: 'd' }))
    expect(await write).toMatchObject({ failure: 'timeout', applied: 'no' })
    client.abort()
    expect(await read).toMatchObject({ failure: 'abandoned' })

    expect(proxy.requests).toHaveLength(2)
    proxy.release()
  })

  it('are not held by a stream whose reader has got its beginning', async () => {
    const permits = permitsFor(1)
    const { send } = await start(() => new Response('x'.repeat(4_000_000)), { permits })

    const streams = []
    for (let count = 0; count < 4; count += 1) {
      const { stream } = await send({ isStreamed: true })
      await stream!.read()
      stream!.releasePermit()
      streams.push(stream!)
    }

    expect(streams).toHaveLength(4)
    for (const stream of streams) stream.cancel()
  })
})
