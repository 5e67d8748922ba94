import { afterEach, describe, expect, it } from 'bun:test'

import { run } from '../../../src/cli/run.ts'
import { healthcheck } from '../../../src/cli/service/healthcheck.ts'
import { fakeHost } from '../fake-host.ts'

const servers: { stop(force: boolean): unknown }[] = []

function serve(answer: (path: string) => Response | Promise<Response>): URL {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) => answer(new URL(request.url).pathname),
  })
  servers.push(server)
  return server.url
}

afterEach(() => {
  for (const server of servers.splice(0)) server.stop(true)
})

// Servers, because the runtime follows redirects, times out, and reports refused connections.
describe('healthcheck', () => {
  it.each([
    ['', false, '/__lbheartbeat__'],
    ['', true, '/__heartbeat__'],
    ['v1/', true, '/v1/__heartbeat__'],
    ['v1/__heartbeat__', false, '/v1/__heartbeat__'],
    ['__lbheartbeat__', true, '/__lbheartbeat__'],
  ])('requests the right path below %j, with --deep %j, for %s', async (path, isDeep, expected) => {
    const asked: string[] = []
    const url = serve((found) => {
      asked.push(found)
      return Response.json({ storage: true })
    })

    expect(await healthcheck(`${url}${path}`, isDeep, fakeHost())).toBe(0)
    expect(asked).toEqual([expected])
  })

  it('fails on any other status, without following redirects', async () => {
    for (const status of [204, 307, 404, 503]) {
      const url = serve((path) => new Response(null, { status, headers: { Location: `${path}/elsewhere` } }))
      const host = fakeHost()

      expect(await healthcheck(`${url}`, false, host)).toBe(1)
      expect(host.err).toBe(`unhealthy: ${url.host}: answered ${status}\n`)
    }
  })

  it('fails when nothing listens', async () => {
    const url = serve(() => new Response())
    servers.pop()!.stop(true)
    const host = fakeHost()

    expect(await healthcheck(`${url}`, false, host)).toBe(1)
    expect(host.err).toBe(`unhealthy: ${url.host}: ECONNREFUSED\n`)
  })

  it('fails if no response arrives in time', async () => {
    const never = Promise.withResolvers<Response>()
    const url = serve(() => never.promise)
    const host = fakeHost()

    expect(await healthcheck(`${url}`, false, host, 30)).toBe(1)
    expect(host.err).toBe(`unhealthy: ${url.host}: no response within 0.03 s\n`)
  })

  it.each(['127.0.0.1:8000', 'ftp://host', 'x\ny'])('rejects %j', async (address) => {
    const host = fakeHost()

    expect(await run(['healthcheck', '--url', address], host)).toBe(2)
    expect(host.err).toStartWith(`sync-bridge: --url ${JSON.stringify(address)} is not an http(s) URL\n`)
  })
})
