import { describe, expect, it } from 'bun:test'

import { run } from '../../../src/cli/run.ts'
import { healthcheck } from '../../../src/cli/service/healthcheck.ts'
import { startAnswering } from '../../support/answering-server.ts'
import { fakeHost } from '../fake-host.ts'

// Servers, because the runtime follows redirects, times out, and reports refused connections.
describe('healthcheck', () => {
  it.each([
    ['', false, '/__lbheartbeat__'],
    ['', true, '/__heartbeat__'],
    ['v1/', true, '/v1/__heartbeat__'],
    ['v1/__heartbeat__', false, '/v1/__heartbeat__'],
    ['__lbheartbeat__', true, '/__lbheartbeat__'],
  ])('requests the right path below %j, with --deep %j, for %s', async (path, isDeep, expected) => {
    using server = startAnswering(() => Response.json({ storage: true }))

    expect(await healthcheck(`${server.url}${path}`, isDeep, fakeHost())).toBe(0)
    expect(server.asked).toEqual([expected])
  })

  it('fails on any other status, without following redirects', async () => {
    for (const status of [204, 307, 404, 503]) {
      using server = startAnswering(() => new Response(null, { status, headers: { Location: '/elsewhere' } }))
      const { url } = server
      const host = fakeHost()

      expect(await healthcheck(`${url}`, false, host)).toBe(1)
      expect(host.err).toBe(`unhealthy: ${url.host}: answered ${status}\n`)
    }
  })

  it('fails when nothing listens', async () => {
    const { url, [Symbol.dispose]: stop } = startAnswering(() => new Response())
    stop()
    const host = fakeHost()

    expect(await healthcheck(`${url}`, false, host)).toBe(1)
    expect(host.err).toBe(`unhealthy: ${url.host}: ECONNREFUSED\n`)
  })

  it('fails if no response arrives in time', async () => {
    const never = Promise.withResolvers<Response>()
    using server = startAnswering(() => never.promise)
    const { url } = server
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
