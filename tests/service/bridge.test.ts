import { describe, expect, it } from 'bun:test'
import { readFileSync } from 'node:fs'

import { createLog } from '../../src/observability/log.ts'
import { startBridge } from '../../src/service/bridge.ts'
import { fakeHost } from '../cli/fake-host.ts'
import { readTestSettings, startTestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'

/** The number of UDP sockets on this machine that send to a local port. */
function udpSocketsTo(port: number): number {
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const table = readFileSync('/proc/self/net/udp', 'latin1')
  return table.split('\n').filter((line) => line.trim().split(/ +/)[2] === address).length
}

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
    ['rejects requests above 384 MiB, and cuts a stalled reader, for others', false],
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
      return eventually('the process is checked', () => checks > before + 2)
    }

    const headers = bridge.identityOf(bridge.user)
    const list = await fetch(
      `${bridge.url}/v1/buckets/${bridge.user.clientState}/collections/history/records`,
      { headers },
    )
    residentBytes = 500 * 1024 * 1024
    await checked()
    const { status } = await bridge.ask('/collections')
    residentBytes = 0
    aheadMs = 600_000
    await checked()
    const text = await list.text().catch(() => '')

    expect(status).toBe(isForOnePerson ? 200 : 503)
    expect(text.length > 100 * payload.length).toBe(isForOnePerson)
  })
})
