import { describe, expect, it } from 'bun:test'

import { createStatsd, openStatsdSocket } from '../../src/observability/statsd.ts'

type Socket = Bun.udp.ConnectedSocket<'buffer'>

/** A statsd that records its datagrams, unless `open` opens another socket. */
function collect({ prefix = 'sync-bridge', open }: { prefix?: string; open?(): Promise<Socket> } = {}) {
  const datagrams: string[] = []
  const state = { closed: 0, failures: [] as string[] }
  const socket = socketTo(datagrams, () => void state.closed++)
  const address = { host: '127.0.0.1', port: 8125 }
  const statsd = createStatsd(
    address,
    prefix,
    (code) => state.failures.push(code),
    open ?? (async () => socket),
  )
  const flush = async () => {
    await settle()
    statsd.flush()
    await settle()
  }
  return { statsd, datagrams, state, flush }
}

function socketTo(datagrams: unknown[], close = () => {}): Socket {
  return { send: (datagram) => datagrams.push(datagram) > 0, close } as Socket
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve()
}

describe('createStatsd', () => {
  it('sends counts and durations in one datagram', async () => {
    const { statsd, datagrams, flush } = collect()

    statsd.count('syncclient.status_code.200')
    statsd.count('syncclient.status_code.200')
    statsd.time('request.records', 12.6)
    expect(datagrams).toEqual([])
    await flush()
    await flush()

    expect(datagrams).toEqual([
      'sync-bridge.request.records:13|ms\nsync-bridge.syncclient.status_code.200:2|c',
    ])
  })

  it('fills datagrams up to 1400 bytes', async () => {
    const { statsd, datagrams, flush } = collect()

    for (let time = 0; time < 200; time++) statsd.time('request.records', time)
    await flush()

    expect(datagrams.length).toBeGreaterThan(2)
    expect(Math.max(...datagrams.map((text) => Buffer.byteLength(text)))).toBeLessThanOrEqual(1400)
    const times = datagrams.flatMap((text) => text.split('\n')).map((line) => /:(\d+)\|ms$/.exec(line)?.[1])
    expect(times).toEqual(Array.from({ length: 200 }, (_, time) => String(time)))
  })

  it('drops most of a burst that is too large to be sent', async () => {
    const { statsd, datagrams, flush } = collect()

    for (let time = 0; time < 100_000; time++) statsd.time('request.records', time)
    await flush()

    expect(datagrams.length).toBeLessThanOrEqual(101)
  })

  it.each([
    ['', 'a:1|c'],
    ['my:prefix|x.', 'my_prefix_x.a:1|c'],
    ['sync-bridge:', 'sync-bridge.a:1|c'],
  ])('starts names with the prefix %j, sanitized', async (prefix, expected) => {
    const { statsd, datagrams, flush } = collect({ prefix })

    statsd.count('a')
    await flush()

    expect(datagrams).toEqual([expected])
  })

  it('loses what nobody receives, and sends what comes once somebody listens', async () => {
    const datagrams: string[] = []
    let listens = false
    const send = (datagram: string) => {
      if (!listens) throw new Error('ECONNREFUSED')
      return datagrams.push(datagram) > 0
    }
    const { statsd, state, flush } = collect({ open: async () => ({ send, close() {} }) as Socket })

    statsd.count('lost')
    await flush()
    listens = true
    statsd.count('received')
    await flush()

    expect(datagrams).toEqual(['sync-bridge.received:1|c'])
    expect(state.failures).toEqual([])
  })

  it('reports an unknown host once, and tries it again after a while', async () => {
    const datagrams: string[] = []
    let opened = 0
    const { statsd, state, flush } = collect({
      async open() {
        opened += 1
        if (opened <= 2) throw Object.assign(new Error('unknown'), { code: 'ENOTFOUND' })
        return socketTo(datagrams)
      },
    })
    for (let flushes = 0; flushes < 50; flushes++) {
      statsd.count('lost')
      await flush()
    }
    expect(opened).toBe(1)
    for (let flushes = 0; flushes < 152; flushes++) {
      statsd.count('lost')
      await flush()
    }

    expect(opened).toBe(3)
    expect(state.failures).toEqual(['ENOTFOUND'])
    statsd.count('found')
    await flush()
    expect(datagrams.at(-1)).toContain('sync-bridge.found:1|c')
  })

  it('sends the queue when it is closed, once', async () => {
    const { statsd, datagrams, state } = collect()
    await settle()

    statsd.count('a')
    statsd.close()
    statsd.close()

    expect(datagrams).toEqual(['sync-bridge.a:1|c'])
    expect(state.closed).toBe(1)
  })
})

// Sockets, because the operating system decides which addresses they reach.
describe('openStatsdSocket', () => {
  it.each(['127.0.0.1', '::1'])('reaches %s', async (host) => {
    const received = Promise.withResolvers<string>()
    const data = (_: unknown, datagram: Buffer) => received.resolve(datagram.toString())
    const statsd = await Bun.udpSocket({ hostname: host, socket: { data } })
    const socket = await openStatsdSocket({ host, port: statsd.port })

    socket.send('a:1|c')

    expect(await received.promise).toBe('a:1|c')
    socket.close()
    statsd.close()
  })
})
