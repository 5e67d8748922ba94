import { expect, it } from 'bun:test'
import { request, startTestBridge } from '../support/bridge.ts'
import { eventually } from '../support/eventually.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'

// Over sockets, because the three counts leave the service in different ways.
it('a rejected request counts once: in Prometheus, in statsd and in the log', async () => {
  const received: string[] = []
  const statsd = await Bun.udpSocket({
    hostname: '127.0.0.1',
    socket: { data: (_, data) => void received.push(...data.toString().split('\n')) },
  })
  const bridge = await startTestBridge({
    settings: { max_concurrent_requests: '1', statsd_url: `udp://127.0.0.1:${statsd.port}` },
  })
  const storage = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  bridge.sandbox.switches.nodeUrl = storage.url
  storage.plan(() => ({ kind: 'hang' }))

  const waiting = bridge.ask('/collections/tabs/records')
  await eventually('it waits for the storage', () => storage.requests.length === 1)
  const rejected = await bridge.ask('/collections/tabs/records')
  await eventually('statsd has received it', () => received.some((line) => line.includes('response.503')))
  const { text } = await request(`${bridge.url}/v1/__metrics__`)
  const logged = bridge.logs.filter((line) => line.includes('"status":503'))
  await bridge.stop()
  await waiting.catch(() => null)
  await storage.stop()
  statsd.close()

  expect(rejected.status).toBe(503)
  expect(text.match(/^sync_bridge_requests_total\{.*status="503".*/gm)).toEqual([
    'sync_bridge_requests_total{route="records",method="GET",status="503"} 1',
  ])
  expect(text).toContain('sync_bridge_requests_rejected_total{reason="limit"} 1\n')
  expect(received.filter((line) => line.includes('503') || line.includes('rejected'))).toEqual([
    'sync-bridge.rejected.limit:1|c',
    'sync-bridge.response.503:1|c',
  ])
  expect(received.filter((line) => line.includes('request.records'))).toEqual([
    expect.stringMatching(/^sync-bridge\.request\.records:\d+\|ms$/),
  ])
  expect(logged).toHaveLength(1)
})
