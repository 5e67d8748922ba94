import { connect } from 'node:net'
import { afterEach, describe, expect, it, jest } from 'bun:test'
import { startTestBridge } from '../support/bridge.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'

afterEach(() => void jest.useRealTimers())

describe('max_concurrent_requests', () => {
  it('lets hundreds of requests of one identity be answered that come at once', async () => {
    const bridge = await startTestBridge({
      settings: { max_concurrent_requests: '2000', max_concurrent_requests_per_user: '2000' },
    })
    const node = await startFaultProxy({ target: bridge.sandbox.storageUrl })
    bridge.sandbox.switches.nodeUrl = node.url
    const { port } = new URL(bridge.url)
    const headers = Object.entries(bridge.identityOf(bridge.user)).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    )
    const path = `/v1/buckets/${bridge.user.clientState}/collections/tabs`
    const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers.join('')}Connection: close\r\n\r\n`
    // The runtime's own client would send 256 at a time.
    const statusOf = () =>
      new Promise<string>((resolve, reject) => {
        const socket = connect(Number(port), '127.0.0.1', () => socket.write(request))
        socket.once('data', (bytes) => resolve(bytes.toString('latin1', 9, 12)))
        socket.on('error', reject)
      })
    // Until the 48 calls are in flight that one user may have, the node answers none, so that all others have to wait for their turn.
    node.plan(({ index }) => (index < 48 ? { kind: 'hang' } : null))
    void node.waitFor(({ index }) => index === 47).then(() => node.release())

    // Their turn comes within the time that they may wait, which does not pass, however slow the machine.
    jest.useFakeTimers()
    const statuses = await Promise.all(Array.from({ length: 300 }, statusOf))
    jest.useRealTimers()
    await bridge.stop()
    await node.stop()

    expect(statuses.filter((status) => status !== '200')).toEqual([])
  })
})
