import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { request } from '../support/bridge.ts'
import { endAll, serve, startUpstream } from './process.ts'
import type { Upstream } from './process.ts'

let upstream: Upstream
let bridge: Awaited<ReturnType<typeof serve>>
let records: string

beforeAll(async () => {
  upstream = await startUpstream()
  bridge = await serve({ token_server_url: upstream.tokenServerUrl })
  records = `/v1/buckets/${upstream.bucket}/collections/bookmarks/records`
})

afterAll(async () => {
  bridge.signal('SIGTERM')
  upstream.process.signal('SIGTERM')
  await Promise.all([bridge.exited, upstream.process.exited])
})

const ask = (path: string, headers: Record<string, string> = upstream.bearer, method = 'GET') =>
  request(bridge.url + path, { method, headers })

afterAll(endAll)

describe('the executable without credentials', () => {
  it('shows what it is', async () => {
    const root = await ask('/v1/', {})
    const version = await ask('/v1/__version__', {})
    const openapi = await ask('/v1/__api__', {})

    expect([root.status, version.status, openapi.status]).toEqual([200, 200, 200])
    expect(root.body).toMatchObject({
      project_name: 'Sync Bridge',
      http_api_version: '1.5',
      url: `${bridge.url}/v1`,
      settings: { batch_max_requests: 25, readonly: false, 'cliquet.batch_max_requests': 25 },
    })
    expect(root.body.user).toBeUndefined()
    expect(Object.keys(version.body).sort()).toEqual(['commit', 'name', 'source', 'version'])
    expect(Object.keys(openapi.body.paths).length).toBeGreaterThan(5)
  })

  it('answers both heartbeats, with and without a version', async () => {
    for (const prefix of ['', '/v1']) {
      const heartbeat = await ask(`${prefix}/__heartbeat__`, {})
      const alive = await ask(`${prefix}/__lbheartbeat__`, {})

      expect([heartbeat.status, heartbeat.body]).toEqual([
        200,
        { storage: true, cache: true, permission: true },
      ])
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

  it('redirects, refuses and finds nothing as it should', async () => {
    const answers = await Promise.all([
      ask('/buckets/x?a=%20b', {}),
      ask('/v1/nothing', {}),
      ask('/v2/', {}),
      ask('/v1/__version__/', {}),
      ask(records, {}),
      ask(records, upstream.bearer, 'PATCH'),
      ask(`${records}/x`, upstream.bearer, 'DELETE'),
      ask('/v1/batch', upstream.bearer),
    ])

    expect(answers.map(({ status, body }) => [status, body?.errno ?? null])).toEqual([
      [307, null],
      [404, 111],
      [404, 116],
      [307, null],
      [401, 104],
      [405, 115],
      [405, 115],
      [405, 115],
    ])
    expect(answers[0]!.headers.get('Location')).toBe(`${bridge.url}/v1/buckets/x?a=%20b`)
    expect(answers[5]!.headers.get('Allow')).toContain('GET')
  })

  it('answers a preflight', async () => {
    const { status, headers } = await ask(
      records,
      { Origin: 'https://page.example', 'Access-Control-Request-Method': 'GET' },
      'OPTIONS',
    )

    expect(status).toBeLessThan(300)
    expect(headers.get('Access-Control-Allow-Origin')).toBe('*')
  })
})

describe('the executable with credentials', () => {
  it('knows the user by either scheme', async () => {
    const byToken = await ask('/v1/', upstream.bearer)
    const byAssertion = await ask('/v1/', {
      ...upstream.browserId,
      'X-Client-State': upstream.bucket,
    })

    expect(byToken.body.user.id).toMatch(/./)
    expect(byAssertion.body.user).toEqual(byToken.body.user)
  })

  it('shows bucket, collections and collection', async () => {
    const bucket = await ask(`/v1/buckets/${upstream.bucket}`)
    const collections = await ask(`/v1/buckets/${upstream.bucket}/collections`)
    const collection = await ask(`/v1/buckets/${upstream.bucket}/collections/bookmarks`)
    const unused = await ask(`/v1/buckets/${upstream.bucket}/collections/unused`)

    expect([bucket, collections, collection, unused].map(({ status }) => status)).toEqual([
      200, 200, 200, 200,
    ])
    expect(bucket.body.data.id).toBe(upstream.bucket)
    const ids: string[] = collections.body.data.map(({ id }: { id: string }) => id)
    expect(ids).toEqual(expect.arrayContaining(['bookmarks', 'history', 'tabs', 'crypto', 'meta']))
    expect(collection.body.data).toEqual({ id: 'bookmarks', last_modified: expect.any(Number) })
    expect(unused.body.data.id).toBe('unused')
  })

  it('lists records whole, in pages, sorted, filtered and counted', async () => {
    const all = await ask(records)
    const head = await ask(records, upstream.bearer, 'HEAD')
    const ids: string[] = all.body.data.map(({ id }: { id: string }) => id)
    const some = await ask(`${records}?in_ids=${ids[3]},${ids[5]}`)
    const others = await ask(`${records}?exclude_id=${ids[0]}`)
    const oldest = await ask(`${records}?_sort=oldest`)
    const heaviest = await ask(`${records}?_sort=index&_limit=3`)
    const since = await ask(`${records}?_since=%22${all.body.data[9].last_modified}%22`)
    const before = await ask(`${records}?_before=${all.body.data[9].last_modified}`)
    const bad = await ask(`${records}?_limit=0&_sort=strange`)

    expect(all.headers.get('Total-Records')).toBe(`${ids.length}`)
    expect(head.headers.get('Total-Records')).toBe(`${ids.length}`)
    expect(head.text).toBe('')
    expect(all.headers.get('ETag')).toMatch(/^"\d+"$/)
    expect(Object.keys(all.body.data[0]).sort()).toEqual(
      expect.arrayContaining(['id', 'last_modified', 'payload']),
    )
    expect(some.body.data).toHaveLength(2)
    expect(others.body.data).toHaveLength(ids.length - 1)
    expect(oldest.body.data.at(-1).last_modified).toBe(all.body.data[0].last_modified)
    expect(heaviest.body.data).toHaveLength(3)
    expect(since.body.data.length + before.body.data.length).toBeLessThan(ids.length)
    expect([bad.status, bad.body.errno, bad.body.details.length]).toEqual([400, 109, 2])
  })

  it('leads through all pages, each record once', async () => {
    const seen: string[] = []
    for (let url: string | null = `${bridge.url}${records}?_limit=70`; url;) {
      const page: Awaited<ReturnType<typeof request>> = await request(url, { headers: upstream.bearer })
      seen.push(...page.body.data.map(({ id }: { id: string }) => id))
      url = page.headers.get('Next-Page')
    }
    const all = await ask(records)

    expect(new Set(seen).size).toBe(seen.length)
    expect(seen.sort()).toEqual(all.body.data.map(({ id }: { id: string }) => id).sort())
  })

  it('shows one record, and heeds conditions', async () => {
    const list = await ask(`${records}?_limit=1`)
    const [{ id, last_modified: at }] = list.body.data
    const path = `${records}/${encodeURIComponent(id)}`
    const plain = await ask(path)
    const head = await ask(path, upstream.bearer, 'HEAD')
    const unchanged = await ask(path, { ...upstream.bearer, 'If-None-Match': `"${at}"` })
    const failed = await ask(path, { ...upstream.bearer, 'If-Match': `"${at - 10}"` })
    const listUnchanged = await ask(records, {
      ...upstream.bearer,
      'If-None-Match': list.headers.get('ETag')!,
    })
    const missing = await ask(`${records}/nothing`)
    const malformed = await ask(path, { ...upstream.bearer, 'If-Match': 'yesterday' })

    expect(plain.body.data).toEqual(list.body.data[0])
    expect(plain.headers.get('ETag')).toBe(`"${at}"`)
    expect([head.status, head.text]).toEqual([200, ''])
    expect([unchanged.status, unchanged.text]).toEqual([304, ''])
    expect([failed.status, failed.body.details.existing.id]).toEqual([412, id])
    expect(listUnchanged.status).toBe(304)
    expect([missing.status, missing.body.errno]).toEqual([404, 110])
    expect([malformed.status, malformed.body.errno]).toEqual([400, 107])
  })

  it('finds a record whose id is in braces', async () => {
    const passwords = `/v1/buckets/${upstream.bucket}/collections/passwords/records`
    const list = await ask(passwords)
    const { id } = list.body.data.find((record: { id: string }) => record.id.startsWith('{'))
    const record = await ask(`${passwords}/${encodeURIComponent(id)}`)

    expect(record.body.data.id).toBe(id)
  })
})
