import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { request } from '../support/bridge.ts'
import { endAll, serve, startUpstream } from './process.ts'
import type { Upstream } from './process.ts'

let upstream: Upstream
let bridge: Awaited<ReturnType<typeof serve>>

beforeAll(async () => {
  upstream = await startUpstream()
  bridge = await serve({ token_server_url: upstream.tokenServerUrl })
})

afterAll(async () => {
  bridge.signal('SIGTERM')
  upstream.process.signal('SIGTERM')
  await Promise.all([bridge.exited, upstream.process.exited])
})

const ask = (path: string, headers: Record<string, string> = upstream.bearer) =>
  request(bridge.url + path, { headers })

afterAll(endAll)

// What is answered in detail stands in tests/spec; this is what could be different in the executable.
describe('the executable', () => {
  it('shows what it is, and that it is well, with and without a version', async () => {
    const root = await ask('/v1/', {})
    const version = await ask('/v1/__version__', {})
    const openapi = await ask('/v1/__api__', {})

    expect([root.status, version.status, openapi.status]).toEqual([200, 200, 200])
    expect(root.body).toMatchObject({ project_name: 'Sync Bridge', url: `${bridge.url}/v1` })
    expect(Object.keys(version.body).sort()).toEqual(['commit', 'name', 'source', 'version'])
    expect(Object.keys(openapi.body.paths).length).toBeGreaterThan(5)
    for (const prefix of ['', '/v1']) {
      const heartbeat = await ask(`${prefix}/__heartbeat__`, {})
      const alive = await ask(`${prefix}/__lbheartbeat__`, {})

      expect(heartbeat).toMatchObject({ status: 200, body: { storage: true, cache: true, permission: true } })
      expect([alive.status, alive.text]).toEqual([200, ''])
    }
  })

  it('serves its documentation itself', async () => {
    const page = await ask('/v1/docs', {})
    const links = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!)
    const parts = await Promise.all(
      links.map((link) => request(new URL(link, `${bridge.url}/v1/docs`).toString())),
    )

    expect(page.status).toBe(200)
    expect(links.length).toBeGreaterThan(1)
    expect(links.filter((link) => /^(https?:)?\/\//.test(link))).toEqual([])
    expect(parts.map(({ status }) => status)).toEqual(links.map(() => 200))
  })

  it('shows a user of either scheme the same records, once each, in pages and one by one', async () => {
    const records = `/v1/buckets/${upstream.bucket}/collections/bookmarks/records`
    const byAssertion = { ...upstream.browserId, 'X-Client-State': upstream.bucket }
    const all = await ask(records)
    const users = await Promise.all([ask('/v1/'), ask('/v1/', byAssertion)])
    const seen: string[] = []
    for (let url: string | null = `${bridge.url}${records}?_limit=70`; url;) {
      const page: Awaited<ReturnType<typeof request>> = await request(url, { headers: byAssertion })
      seen.push(...page.body.data.map(({ id }: { id: string }) => id))
      url = page.headers.get('Next-Page')
    }
    const [first] = all.body.data
    const path = `${records}/${encodeURIComponent(first.id)}`
    const unchanged = { ...upstream.bearer, 'If-None-Match': `"${first.last_modified}"` }

    expect(users[0].body.user.id).toMatch(/./)
    expect(users[1].body.user).toEqual(users[0].body.user)
    expect(all.headers.get('Total-Records')).toBe(String(seen.length))
    expect(seen.sort()).toEqual(all.body.data.map(({ id }: { id: string }) => id).sort())
    expect((await ask(path)).body.data).toEqual(first)
    expect((await ask(path, unchanged)).status).toBe(304)
  })
})
