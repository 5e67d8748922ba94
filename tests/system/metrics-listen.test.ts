import { describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { startExecutable } from '../support/executable.ts'
import { freePort } from '../support/free-port.ts'

// The executable, because several processes share these ports.
describe('service.metrics_listen', () => {
  it.each(['1', '3'])('moves the metrics of %s workers from the public port to its own', async (workers) => {
    const address = `127.0.0.1:${freePort()}`
    await using bridge = await startExecutable({ settings: { metrics_listen: address, workers } })
    for (let turn = 0; turn < 12; turn++) {
      await fetch(`${bridge.url}/v1/__lbheartbeat__`, { headers: { Connection: 'close' } })
    }

    // A slow process is left out.
    const counted = 'sync_bridge_requests_total{route="lbheartbeat",method="GET",status="200"} 12'
    await eventually('all processes report their metrics', async () => {
      const text = await (await fetch(`http://${address}/__metrics__`)).text()
      return text.includes(counted) && (workers === '1' || text.includes(`sync_bridge_processes ${workers}`))
    })
    const [own, versioned, other, head, post] = await Promise.all([
      fetch(`http://${address}/__metrics__`),
      fetch(`http://${address}/v1/__metrics__`),
      fetch(`http://${address}/v1/`),
      fetch(`http://${address}/__metrics__`, { method: 'HEAD' }),
      fetch(`http://${address}/__metrics__`, { method: 'POST' }),
    ])
    const open = await fetch(`${bridge.url}/v1/__metrics__`)

    expect([own.status, versioned.status, other.status, head.status, post.status]).toEqual([
      200, 200, 404, 200, 404,
    ])
    expect(own.headers.get('Content-Type')).toContain('version=0.0.4')
    expect(open.status).toBe(404)
    expect(await open.json()).toMatchObject({ code: 404, errno: 111 })
  })

  it.each(['1', '2'])("is reported if %s workers can't use it", async (workers) => {
    await using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })

    const settings = { metrics_listen: `127.0.0.1:${taken.port}`, workers }
    const failure = await startExecutable({ settings }).catch(String)

    expect(failure).toContain('exit code 1')
    expect(failure).toContain(
      `cannot serve metrics on 127.0.0.1:${taken.port}: the port is in use: change service.metrics_listen`,
    )
  })

  it('also serves them below the version of the service', async () => {
    const address = `127.0.0.1:${freePort()}`
    await using _ = await startExecutable({ settings: { metrics_listen: address, http_api_version: '2.0' } })

    const [own, other] = await Promise.all(
      ['v2', 'v1'].map((version) => fetch(`http://${address}/${version}/__metrics__`)),
    )

    expect([own!.status, other!.status]).toEqual([200, 404])
  })

  it('moves to the process that takes over the port', async () => {
    const settings = { metrics_listen: `127.0.0.1:${freePort()}`, reuse_port: 'true' }
    await using first = await startExecutable({ settings })
    await using second = await startExecutable({ settings })

    await first.stop()
    await fetch(`${second.url}/v1/__lbheartbeat__`)
    const answer = await fetch(`http://${settings.metrics_listen}/__metrics__`)

    expect(await answer.text()).toContain('{route="lbheartbeat",method="GET",status="200"} 1')
  })
})
