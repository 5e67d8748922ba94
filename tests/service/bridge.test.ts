import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'

import { limits } from '../../src/load/limits.ts'
import { createLog } from '../../src/observability/log.ts'
import { startBridge } from '../../src/service/bridge.ts'
import { fakeHost } from '../cli/fake-host.ts'
import { readTestSettings, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'

/** The number of UDP sockets on this machine that send to a local port. */
function udpSocketsTo(port: number): number {
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const table = readFileSync('/proc/self/net/udp', 'latin1')
  return table.split('\n').filter((line) => line.trim().split(/ +/)[2] === address).length
}

/** Sends a request, and reads nothing after the start of the response until `rest` counts what comes. */
async function readSlowly(url: string, headers: Record<string, string>) {
  const { hostname, port, pathname } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  const lines = Object.entries({ Host: 'bridge', Connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  socket.write(`GET ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n`)
  let bytes = 0
  socket.on('data', (chunk) => void (bytes += chunk.length))
  await new Promise((resolve) => socket.once('data', resolve))
  socket.pause()
  return {
    rest: () =>
      new Promise<number>((resolve) => {
        socket.on('error', () => {})
        socket.on('close', () => resolve(bytes))
        socket.resume()
      }),
  }
}

// Sockets, because these tests count them, and stop reading from one.
describe('startBridge', () => {
  it("leaves no connection open if it can't listen", async () => {
    let redisConnections = 0
    const counting = { data() {}, open: () => void redisConnections++, close: () => void redisConnections-- }
    const redis = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: counting })
    const taken = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const statsd = await Bun.udpSocket({ hostname: '127.0.0.1', socket: {} })
    const settings = readTestSettings({
      settings: {
        cache_backend: 'redis',
        cache_url: `redis://127.0.0.1:${redis.port}`,
        statsd_url: `udp://127.0.0.1:${statsd.port}`,
      },
    })
    const host = fakeHost()
    const format = { renderer: 'json', level: 'error', colour: false, priorities: false } as const
    const log = createLog({ ...format, write() {}, now: host.now })
    const startAt = (port: number) => startBridge({ ...settings, port }, host, log, { sharesPort: false })

    expect(() => startAt(taken.port)).toThrow('Failed to start server')
    // Sockets of the first would exist before the connections of the second.
    const second = startAt(0)
    await eventually('it is connected', () => redisConnections > 0 && udpSocketsTo(statsd.port) > 0)

    expect([redisConnections, udpSocketsTo(statsd.port)]).toEqual([1, 1])
    await second.stop(0)
    for (const part of [redis, taken]) part.stop(true)
    statsd.close()
  })

  // A command holds its data in the same process, and writes it at the pace of its own reader.
  it.each([
    ['answers whatever the memory of the process, and waits for its reader, for one person', true],
    ['rejects requests when the process is too large, and cuts a stalled reader, for others', false],
  ])('%s', async (_, isForOnePerson) => {
    let [aheadMs, residentBytes, checks] = [0, 0, 0]
    await using bridge = await startTestBridge({
      isForOnePerson,
      monotonicNow: () => performance.now() + aheadMs,
      residentBytes: () => {
        checks += 1
        return residentBytes
      },
    })
    const payload = 'x'.repeat(200_000)
    bridge.sandbox.write(
      bridge.user,
      'history',
      Array.from({ length: 100 }, (_one, id) => ({ id: `${id}`, payload })),
    )
    const checked = () => {
      const before = checks
      return eventually('the process is checked', () => checks > before + 1)
    }

    const list = await readSlowly(
      `${bridge.url}/v1/buckets/${bridge.user.clientState}/collections/history/records`,
      bridge.identityOf(bridge.user),
    )
    residentBytes = limits.rejectAboveBytes + 1
    await checked()
    const { status } = await bridge.ask('/collections')
    residentBytes = 0
    // Several times, because the reader has stalled only when the buffers of the operating system are full.
    for (let minutes = 10; minutes <= 50; minutes += 10) {
      aheadMs = minutes * 60_000
      await checked()
    }
    const bytes = await list.rest()

    expect(status).toBe(isForOnePerson ? 200 : 503)
    expect(bytes > 100 * payload.length).toBe(isForOnePerson)
  })
})

/** The events of a name that a bridge has logged. */
function logged({ logs }: TestBridge, name = 'request'): Record<string, unknown>[] {
  return logs.map((line) => JSON.parse(line)).filter(({ event }) => event === name)
}

describe('requests', () => {
  it('have an id, which is the client’s own if that is harmless', async () => {
    await using bridge = await startTestBridge()
    const ask = async (headers: Record<string, string> = {}) =>
      (await bridge.ask('/v1/unknown', { as: null, headers })).headers.get('x-request-id')!

    const own = await ask({ 'X-Request-Id': 'client-1.a_B' })
    const [first, second, bad] = [await ask(), await ask(), await ask({ 'X-Request-Id': 'a b' })]

    expect(own).toBe('client-1.a_B')
    for (const made of [first, second, bad]) expect(made).toMatch(/^[0-9a-f]{16}$/)
    expect(new Set([first, second, bad]).size).toBe(3)
    await eventually('all are logged', () => logged(bridge).length === 4)
    expect(logged(bridge).map(({ requestId }) => requestId)).toEqual([own, first, second, bad])
  })

  it('leave one line each in the log, with their cost and no personal data', async () => {
    await using bridge = await startTestBridge()
    const { user } = bridge

    for (const agent of ['first/1.0', `second/2.0 ${'x'.repeat(500)}`])
      await bridge.ask('/collections/bookmarks/records/secret-id', { headers: { 'User-Agent': agent } })
    await eventually('both are logged', () => logged(bridge).length === 2)

    const [first, second] = logged(bridge)
    expect(first).toMatchObject({
      method: 'GET',
      route: 'record',
      status: 404,
      errno: 110,
      cached: false,
      userAgent: 'first/1.0',
      upstreamCalls: 1,
      upstreamStatus: 404,
    })
    expect(first!.ms).toBeGreaterThan(0)
    expect(first!.bytes).toBeGreaterThan(10)
    expect(second).toMatchObject({ cached: true, upstreamCalls: 1 })
    expect(String(second!.userAgent).length).toBe(256)
    const log = bridge.logs.join('\n')
    const token = bridge.identityOf(user)['Authorization']!.slice(10, 40)
    for (const secret of ['secret-id', user.clientState, user.keyId, token]) expect(log).not.toContain(secret)
  })

  it('in a batch leave a line each at level debug, without their path', async () => {
    await using bridge = await startTestBridge()
    const bucket = `/buckets/${bridge.user.clientState}`
    const requests = [
      { path: `${bucket}/collections` },
      { method: 'PUT', path: `${bucket}/collections/tabs` },
    ]

    await bridge.ask('/v1/batch', { method: 'POST', body: { requests } })

    expect(logged(bridge, 'sub-request')).toMatchObject([
      { level: 'debug', index: 0, method: 'GET', status: 200 },
      { level: 'debug', index: 1, method: 'PUT', status: 405, errno: 115 },
    ])
  })

  it('for health, metrics and pages are only logged at level debug', async () => {
    await using bridge = await startTestBridge()
    const quiet = [
      '/__lbheartbeat__',
      '/v1/__heartbeat__',
      '/v1/__version__',
      '/v1/__metrics__',
      '/v1/docs',
      '/v1/',
    ]
    const data = '/v1/buckets/b/collections/tabs/records'

    for (const path of [...quiet, data, '/v1/nothing']) await bridge.ask(path, { as: null })
    await bridge.ask(data, { as: null, method: 'OPTIONS' })
    await eventually('all are logged', () => logged(bridge).length === quiet.length + 3)

    const shown = logged(bridge).filter(({ level }) => level === 'info')
    expect(shown.map(({ route }) => route)).toEqual(['records', null])
  })

  it('are sent to statsd, and work without one', async () => {
    const received: string[] = []
    const statsd = await Bun.udpSocket({
      hostname: '127.0.0.1',
      socket: { data: (_, data) => void received.push(...data.toString().split('\n')) },
    })
    await using bridge = await startTestBridge({
      settings: { statsd_url: `udp://127.0.0.1:${statsd.port}`, statsd_prefix: 'sb' },
    })

    await bridge.ask('/collections/tabs/records')
    const told = [
      /^sb\.response\.200:1\|c$/,
      /^sb\.request\.records:\d+\|ms$/,
      /^sb\.syncclient\.status_code\.200:\d\|c$/,
      /^sb\.credentials\.exchange:1\|c$/,
    ]
    await eventually('everything is sent', () =>
      told.every((line) => received.some((each) => line.test(each))),
    )
    statsd.close()
    const statuses = []
    for (let count = 0; count < 20; count++)
      statuses.push((await bridge.ask('/collections/tabs/records')).status)

    expect(new Set(statuses)).toEqual(new Set([200]))
  })
})
