import { afterEach, describe, expect, it } from 'bun:test'
import { connect, type Socket } from 'node:net'

import { unsentBytes } from '../../src/cli/processes.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'

const open: { stop(): unknown }[] = []

afterEach(() => {
  for (const part of open.splice(0)) part.stop()
})

const answerBytes = 32 * 1024 * 1024

/** A server that sends more than a client's buffers hold, and that knows its clients by address. */
function startServer(hostname: string) {
  const clients = new Map<string, Bun.SocketAddress>()
  const server = Bun.serve({
    hostname,
    port: 0,
    fetch(request, { requestIP }) {
      const client = requestIP.call(server, request)!
      clients.set(client.address.replace('::ffff:', ''), client)
      return new Response(new Uint8Array(answerBytes))
    },
  })
  open.push({ stop: () => server.stop(true) })
  return { port: server.port!, clients }
}

function ask(host: string, port: number, localAddress: string, localPort: number): Socket {
  const socket = connect({ host, port, localAddress, localPort })
  open.push({ stop: () => socket.destroy() })
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  return socket
}

describe('unsentBytes', () => {
  it.each(['127.0.0.1', '::'])(
    'tells clients apart that have the same port at different addresses, listening on %s',
    async (hostname) => {
      const { port, clients } = startServer(hostname)
      const clientPort = freePort()
      let read = 0

      ask('127.0.0.1', port, '127.0.0.7', clientPort).pause()
      ask('127.0.0.1', port, '127.0.0.8', clientPort).on('data', (bytes) => (read += bytes.length))
      await eventually('one has read everything', () => read >= answerBytes && clients.size === 2)

      const both = [clients.get('127.0.0.7')!, clients.get('127.0.0.8')!]
      await eventually('the other one has read nothing', () => unsentBytes(port, both)[0]! > 100_000)
      expect(unsentBytes(port, both)[1]).toBe(0)
    },
  )

  it('knows clients that use IPv6', async () => {
    const { port, clients } = startServer('::1')

    ask('::1', port, '::1', freePort()).pause()
    await eventually('it is known', () => clients.size === 1)

    const all = [...clients.values(), null, { address: '::1', port: 1, family: 'IPv6' as const }]
    await eventually('much is unsent', () => unsentBytes(port, all)[0]! > 100_000)
    expect(unsentBytes(port, all).slice(1)).toEqual([null, null])
  })
})
