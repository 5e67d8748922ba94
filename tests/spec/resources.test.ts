import { describe, expect, it } from 'bun:test'
import { request, startTestBridge } from '../support/bridge.ts'
import { expectError } from './expectations.ts'
import { openWorld, parsed } from './world.ts'

const world = await openWorld({ writable: ['history'] })
const { bridge, send } = world
const bucket = `/v1${world.bucket}`
bridge.sandbox.write(bridge.user, 'tabs', [{ id: 't', payload: 'one' }])
const written = bridge.sandbox.write(bridge.user, 'history', [{ id: 'h', payload: 'two' }])

describe('section 1: resources', () => {
  it('serves GET / under /v1, with and without the slash, without credentials', async () => {
    const answers = await Promise.all(['/v1', '/v1/'].map((path) => request(bridge.url + path)))

    for (const { status, body } of answers) {
      expect(status).toBe(200)
      expect(body.project_name).toBe('Sync Bridge')
    }
  })

  it.each(['/__heartbeat__', '/v1/__heartbeat__'])('serves GET %s with three booleans', async (path) => {
    const { status, body } = await request(bridge.url + path)

    expect(status).toBe(200)
    expect(body).toEqual({ storage: true, cache: true, permission: true })
  })

  it.each(['/__lbheartbeat__', '/v1/__lbheartbeat__'])('serves GET %s with an empty body', async (path) => {
    const { status, headers, text } = await request(bridge.url + path)

    expect(status).toBe(200)
    expect(text).toBe('')
    expect(headers.get('content-length')).toBe('0')
  })

  it('serves GET /__metrics__ in the Prometheus text format', async () => {
    const { status, headers, text } = await request(`${bridge.url}/v1/__metrics__`)

    expect(status).toBe(200)
    expect(headers.get('content-type')).toStartWith('text/plain')
    expect(text).toMatch(/^# TYPE \w+ (?:counter|gauge|histogram)$/m)
    expect(text).not.toContain(bridge.user.clientState)
  })

  it('has no metrics if they are disabled', async () => {
    await using quiet = await startTestBridge({ settings: { metrics_enabled: 'false' } })

    expectError(await request(`${quiet.url}/v1/__metrics__`), 404, 111)
  })

  it.each(['/swagger', '/v1/swagger'])('redirects %s to the documentation', async (path) => {
    const { status, headers } = await request(bridge.url + path)

    expect(status).toBe(307)
    expect(headers.get('location')).toBe(`${bridge.url}/v1/docs`)
  })

  it('serves a bucket with the timestamp of the store', async () => {
    const { status, body, headers } = await bridge.ask('')

    expect(status).toBe(200)
    expect(body).toEqual({ data: { id: bridge.user.clientState, last_modified: written } })
    expect(headers.get('etag')).toBe(`"${written}"`)
  })

  it('lists collections with their timestamps', async () => {
    const { status, body } = await bridge.ask('/collections')

    expect(status).toBe(200)
    expect(body.data).toContainEqual({ id: 'history', last_modified: written })
    expect(body.data.map(({ id }: { id: string }) => id).sort()).toEqual(['history', 'tabs'])
  })

  it('serves a collection by its name in lower case, even if it was never used', async () => {
    const used = await bridge.ask('/collections/HiStory')
    const unused = await bridge.ask('/collections/nothing-yet')

    expect([used.status, used.body]).toEqual([200, { data: { id: 'history', last_modified: written } }])
    expect([unused.status, unused.body]).toEqual([200, { data: { id: 'nothing-yet', last_modified: 0 } }])
  })
})

const targets = [
  '/v1/', '/v1/__heartbeat__', '/v1/__lbheartbeat__', '/v1/__version__', '/v1/__api__', '/v1/docs',
  bucket, `${bucket}/collections`, `${bucket}/collections/history`,
  `${bucket}/collections/history/records`, `${bucket}/collections/history/records/h`,
  `${bucket}/collections/history/records/unknown`, '/v1/nothing', '/v2/', '/nothing',
] // prettier-ignore

describe('section 1: methods', () => {
  it('serves HEAD wherever it serves GET: its status and headers, and no body', async () => {
    for (const target of targets) {
      const get = await send('GET', target)
      const head = await send('HEAD', target)

      expect([target, head.status, head.body]).toEqual([target, get.status, ''])
      for (const name of ['content-type', 'etag', 'last-modified', 'location']) {
        if (target.endsWith('/records') && name === 'content-type') continue
        expect([target, name, head.headers.get(name)]).toEqual([target, name, get.headers.get(name)])
      }
    }
  })

  it.each([
    ['/v1/', 'POST', 'GET, HEAD, OPTIONS'],
    ['/v1/__heartbeat__', 'PUT', 'GET, HEAD, OPTIONS'],
    ['/__lbheartbeat__', 'POST', 'GET, HEAD, OPTIONS'],
    ['/v1/__version__', 'DELETE', 'GET, HEAD, OPTIONS'],
    ['/v1/__api__', 'POST', 'GET, HEAD, OPTIONS'],
    ['/v1/docs', 'POST', 'GET, HEAD, OPTIONS'],
    ['/v1/batch', 'GET', 'POST, OPTIONS'],
    ['BUCKET', 'PUT', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections', 'POST', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections/history', 'DELETE', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections/history/records', 'DELETE', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections/history/records/h', 'PATCH', 'GET, HEAD, PUT, DELETE, OPTIONS'],
    ['BUCKET/collections/tabs/records/t', 'PATCH', 'GET, HEAD, OPTIONS'],
    ['/v1/', 'TRACE', 'GET, HEAD, OPTIONS'],
    ['/v1/', 'CONNECT', 'GET, HEAD, OPTIONS'],
  ])('rejects for %s the method %s, with Allow', async (path, method, allow) => {
    const answer = await send(method, path.replace('BUCKET', bucket))

    expectError(parsed(answer), 405, 115)
    expect(answer.headers.get('allow')).toBe(allow)
    expect(bridge.sandbox.records(bridge.user, 'history')).toHaveLength(1)
  })

  it.each([
    ['/v1/', 'GET, HEAD, OPTIONS'],
    ['/v1/batch', 'POST, OPTIONS'],
    ['/__heartbeat__', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections/history/records', 'GET, HEAD, OPTIONS'],
    ['BUCKET/collections/history/records/h', 'GET, HEAD, PUT, DELETE, OPTIONS'],
    ['BUCKET/collections/tabs/records/t', 'GET, HEAD, OPTIONS'],
    ['/v1/nothing', null],
    ['/v2/batch', null],
  ])('tells with OPTIONS which methods %s has', async (path, allow) => {
    const answer = await send('OPTIONS', path.replace('BUCKET', bucket))

    expect([answer.status, answer.headers.get('allow')]).toEqual([204, allow])
  })

  it('answers preflights everywhere, without credentials and never with a redirect', async () => {
    for (const target of [...targets, '/v1/batch', '/', '/__heartbeat__', `${bucket}/collections/`]) {
      const { status, headers, text } = await request(bridge.url + target, {
        method: 'OPTIONS',
        headers: { Origin: 'https://app.example', 'Access-Control-Request-Method': 'PUT' },
      })

      expect([target, status, text]).toEqual([target, 204, ''])
      expect(headers.get('access-control-allow-origin')).toBe('*')
      expect(headers.get('access-control-allow-methods')).toContain('PUT')
    }
  })
})

describe('section 1: paths', () => {
  it.each([
    ['/', '/v1/'],
    ['/__version__', '/v1/__version__'],
    ['/buckets/b/collections', '/v1/buckets/b/collections'],
    ['/v1x', '/v1/v1x'],
    ['/buckets/b/collections/c/records/a%2Fb//c%5C/', '/v1/buckets/b/collections/c/records/a%2Fb//c%5C/'],
    ['/buckets/b?_since=%2215%22&x=%20+a&&y', '/v1/buckets/b?_since=%2215%22&x=%20+a&&y'],
    ['/?', '/v1/?'],
    ['/v1/batch/', '/v1/batch'],
    ['/v1/buckets/b/collections/c/records/?a=%2F&b', '/v1/buckets/b/collections/c/records?a=%2F&b'],
    ['/v1/__heartbeat__/', '/v1/__heartbeat__'],
    ['/v1/nothing/', '/v1/nothing'],
  ])('redirects %s to %s', async (from, to) => {
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'POST']) {
      const answer = await send(method, from, { as: null })

      expect([method, answer.status]).toEqual([method, 307])
      expect(answer.headers.get('location')).toBe(bridge.url + to)
      expect(answer.body).toBe('')
    }
  })

  it.each(['/v2', '/v2/', '/v12/x', '/v0/', '/v2/buckets/b', '/v11/', '/v2/__heartbeat__'])(
    'does not have version %s',
    async (path) => {
      expectError(await request(bridge.url + path), 404, 116)
    },
  )

  const unknownPaths = [
    '/v1/buckets', '/v1/buckets/b/tabs', '/v1/buckets/b/collections/c/things',
    '/v1/Batch', '/v1/constructor',
  ] // prettier-ignore

  it.each(unknownPaths)('finds nothing at %s', async (path) => {
    expectError(await request(bridge.url + path), 404, 111)
  })

  it('is no proxy: finds nothing for CONNECT to another host', async () => {
    expectError(parsed(await send('CONNECT', 'example.org:443')), 404, 111)
  })

  it('uses the configured version, scheme and host in paths, redirects and Next-Page', async () => {
    await using other = await startTestBridge({
      settings: { http_api_version: '2.10', http_scheme: 'https', http_host: 'sync.example.org:8443' },
    })
    other.sandbox.seed(other.user, 'history', 3)

    const list = `/v2/buckets/${other.user.clientState}/collections/history/records?_limit=2`
    const { headers } = await other.ask(list)
    const redirect = await request(`${other.url}/foo?a=1`)
    const root = await request(`${other.url}/v2/`)
    const old = await request(`${other.url}/v1/`)

    expect(headers.get('next-page')).toStartWith(`https://sync.example.org:8443${list}&_token=`)
    expect(redirect.headers.get('location')).toBe('https://sync.example.org:8443/v2/foo?a=1')
    expect(root.body).toMatchObject({ http_api_version: '2.10', url: 'https://sync.example.org:8443/v2' })
    expectError(old, 404, 116)
  })
})

describe('section 1: health', () => {
  it('returns 503 with the same body while the token server fails, and 200 at most 5 s after it recovers', async () => {
    let nowMs = 0
    await using ill = await startTestBridge({ monotonicNow: () => nowMs })
    ill.sandbox.switches.healthy = false

    const down = await request(`${ill.url}/__heartbeat__`)
    const probesBefore = ill.sandbox.requests.token.entries.length
    ill.sandbox.switches.healthy = true
    const remembered = await request(`${ill.url}/v1/__heartbeat__`)
    const probesAfter = ill.sandbox.requests.token.entries.length
    nowMs += 5001
    const well = await request(`${ill.url}/__heartbeat__`)

    expect([down.status, down.body]).toEqual([503, { storage: false, cache: true, permission: true }])
    expect(Number(down.headers.get('retry-after'))).toBe(30)
    expect(remembered.status).toBe(503)
    expect(well.status).toBe(200)
    expect(well.headers.get('retry-after')).toBeNull()
    expect(probesAfter).toBe(probesBefore)
  })

  it('calls no other service for __lbheartbeat__', async () => {
    bridge.sandbox.requests.token.clear()

    await request(`${bridge.url}/__lbheartbeat__`)

    expect(bridge.sandbox.requests.token.entries).toHaveLength(0)
  })

  it('serves the heartbeat whatever credentials and query come with it', async () => {
    const { status, body } = await request(`${bridge.url}/v1/__heartbeat__?_limit=x`, {
      headers: { Authorization: 'Basic x' },
    })

    expect([status, body]).toEqual([200, { storage: true, cache: true, permission: true }])
  })
})
