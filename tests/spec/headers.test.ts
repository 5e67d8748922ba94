import { describe, expect, it } from 'bun:test'
import { request, startTestBridge, type Answer, type TestBridge } from '../support/bridge.ts'
import { expectCommonHeaders, expectError, putOf } from './expectations.ts'
import { openWorld } from './world.ts'

const allowed = 'https://app.example'
const records = '/collections/history/records'
const { bridge, storage, send } = await openWorld({ writable: ['history'] })
const { bridge: strict } = await openWorld({
  writable: ['history'],
  settings: { cors_origins: `${allowed}, http://localhost:3000`, cors_max_age_seconds: '77' },
})
const { bridge: slow, storage: slowStorage } = await openWorld({ settings: { backoff: '25' } })
const atEnd = { eos: '2030-01-01', eos_message: 'Moving h\u00f6me', eos_url: 'https://example.org/end' }
let nowMs = Date.parse('2029-12-31T23:59:59Z')
const clock = () => nowMs
const { bridge: ending } = await openWorld({
  writable: ['history'],
  settings: atEnd,
  now: clock,
  sandbox: { clock },
})
bridge.sandbox.write(bridge.user, 'history', [{ id: 'r', payload: 'x' }])
// The first write to a collection is two writes, and this clock stands still between them.
ending.sandbox.write(ending.user, 'history', [{ id: 'earlier', payload: 'x' }])

/** A response of every kind, by name; `send` uses the credentials of the bridge's user. */
const kinds: [string, number, (send: Send) => Promise<Answer>][] = [
  ['the root view', 200, (send) => send('/v1/')],
  ['a list', 200, (send) => send(records)],
  ['a HEAD of a list', 200, (send) => send(records, { method: 'HEAD' })],
  ['an empty list', 200, (send) => send('/collections/unused/records')],
  ['a written record', 200, (send) => send(`${records}/w`, putOf({ payload: 'x' }))],
  ['a record', 200, (send) => send(`${records}/w`)],
  [
    'an unchanged list',
    304,
    async (send) => {
      const { headers } = await send(records)
      return await send(records, { headers: { 'If-None-Match': headers.get('etag')! } })
    },
  ],
  ['an unchanged record', 304, (send) => send(`${records}/w`, { headers: { 'If-None-Match': '*' } })],
  ['a deleted record', 204, (send) => send(`${records}/w`, { method: 'DELETE' })],
  ['a batch', 200, (send) => send('/v1/batch', { method: 'POST', body: { requests: [] } })],
  ['the liveness probe', 200, (send) => send('/__lbheartbeat__')],
  ['the heartbeat', 200, (send) => send('/v1/__heartbeat__')],
  ['the API document', 200, (send) => send('/v1/__api__')],
  ['a redirect to a version', 307, (send) => send('/_x')],
  ['a redirect to a path', 307, (send) => send(`${records}/`)],
  ['a preflight', 204, (send) => send('/v1/', { method: 'OPTIONS' })],
  ['a bad query', 400, (send) => send(`${records}?_limit=x`)],
  ['a bad header', 400, (send) => send(records, { headers: { 'If-Match': 'x' } })],
  ['a bad body', 400, (send) => send(`${records}/w`, { method: 'PUT', body: '{' })],
  ['missing credentials', 401, (send) => send('', { as: null, headers: {} })],
  ['refused credentials', 401, (send) => send(records, { headers: { Authorization: 'Bearer no' } })],
  ['an unknown path', 404, (send) => send('/v1/unknown')],
  ['an unknown version', 404, (send) => send('/v9/')],
  ['an unknown record', 404, (send) => send(`${records}/unknown`)],
  ['an unsupported method', 405, (send) => send(records, { method: 'PATCH' })],
  ['a shut gate', 405, (send) => send('/collections/tabs/records/x', { method: 'DELETE' })],
  ['a failed precondition', 412, (send) => send(`${records}/unknown`, putOf({}, { 'If-Match': '*' }))],
  [
    'a wrong media type',
    415,
    (send) => send(`${records}/w`, { method: 'PUT', headers: { 'Content-Type': 'a/b' }, body: '' }),
  ],
]

type Send = TestBridge['ask']

const exposed = [
  'ETag', 'Last-Modified', 'Next-Page', 'Total-Records', 'Total-Objects', 'Quota-Remaining', 'Backoff',
  'Retry-After', 'Alert', 'Content-Length', 'WWW-Authenticate', 'Preference-Applied',
] // prettier-ignore

describe('section 7: headers of every response', () => {
  it.each(kinds)('%s (%i), without Origin', async (_, status, ask) => {
    const answer = await ask(bridge.ask)

    expect(answer.status).toBe(status)
    expectCommonHeaders(answer.headers)
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
    expect(answer.headers.get('retry-after')).toBeNull()
    expect(answer.headers.get('alert')).toBeNull()
    expect(answer.headers.get('backoff')).toBeNull()
    if (answer.text !== '') expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    if ([204, 304, 307].includes(status)) expect(answer.headers.get('content-type')).toBeNull()
  })

  it.each(kinds)('%s (%i), for a page of another origin', async (_, status, ask) => {
    const answer = await ask((path, init = {}) =>
      bridge.ask(path, { ...init, headers: { ...init.headers, Origin: 'https://any.example' } }),
    )

    expect(answer.status).toBe(status)
    expectCommonHeaders(answer.headers)
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    const names = answer.headers.get('access-control-expose-headers')!.split(', ')
    expect(names.toSorted()).toEqual(exposed.toSorted())
  })

  it('the documentation page, with its own policy', async () => {
    const { headers } = await request(`${bridge.url}/v1/docs`, { headers: { Origin: allowed } })

    expectCommonHeaders(headers, { isDocs: true })
    expect(headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(headers.get('content-security-policy')).not.toContain('http')
    expect(headers.get('access-control-allow-origin')).toBe('*')
  })

  it('a failure of the storage and of the token server', async () => {
    storage.plan(() => ({ kind: 'status', status: 503 }))
    const failed = await bridge.ask(records, { headers: { Origin: allowed } })
    await using lonely = await startTestBridge({ tokenServerUrl: 'http://127.0.0.1:1' })
    const unreachable = await lonely.ask(records, { headers: { Origin: allowed } })
    const unhealthy = await request(`${lonely.url}/__heartbeat__`, { headers: { Origin: allowed } })

    for (const { status, headers } of [failed, unreachable, unhealthy]) {
      expect(status).toBe(503)
      expectCommonHeaders(headers)
      expect(headers.get('access-control-allow-origin')).toBe('*')
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    }
  })

  it.each([
    ['GET', '/v1/', ['Host: a b'], 400],
    ['GET', '/v1/', ['Content-Length: 3000'], 400],
    ['GET', '//evil.example', [], 404],
    ['TRACE', '/v1/', [], 405],
  ] as [string, string, string[], number][])(
    'an early rejection: %s %s %j',
    async (method, target, lines, status) => {
      const init = { as: null, lines: [...lines, `Origin: ${allowed}`], body: 'abc' }
      const answer = await send(method, target, init)

      expect(answer.status).toBe(status)
      expectCommonHeaders(answer.headers)
      expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    },
  )
})

describe('section 7: CORS with a list of origins', () => {
  it.each(kinds)('%s (%i) is allowed for a listed origin, which it names', async (_, status, ask) => {
    const answer = await ask((path, init = {}) =>
      strict.ask(path, { ...init, headers: { ...init.headers, Origin: allowed } }),
    )

    expect(answer.status).toBe(status)
    expect(answer.headers.get('access-control-allow-origin')).toBe(allowed)
    expect(answer.headers.get('vary')).toContain('Origin')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
  })

  const otherOrigins = [
    'https://evil.example', `${allowed}.evil.example`, 'http://app.example', `${allowed}:8443`, 'null', '',
  ] // prettier-ignore

  it.each(otherOrigins)('rejects the origin "%s" before anything is done', async (origin) => {
    strict.sandbox.requests.storage.clear()
    strict.sandbox.requests.token.clear()
    const headers = { Origin: origin }
    const put = await strict.ask(`${records}/evil`, putOf({ payload: 'x' }, headers))
    const root = await strict.ask('/v1/', { headers })
    const preflight = await strict.ask(`${records}/evil`, { method: 'OPTIONS', headers, as: null })

    for (const answer of [put, root, preflight]) {
      expectError(answer, 400, 107, 'Origin in header')
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
      expectCommonHeaders(answer.headers)
    }
    expect(strict.sandbox.requests.storage.entries).toHaveLength(0)
    expect(strict.sandbox.requests.token.entries).toHaveLength(0)
  })

  it('accepts requests without an Origin', async () => {
    expect((await strict.ask('/v1/')).status).toBe(200)
  })

  it('answers preflights with the allowed headers', async () => {
    const { status, headers, text } = await request(`${strict.url}/v1/batch`, {
      method: 'OPTIONS',
      headers: {
        Origin: allowed,
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'x-own, authorization, x-own-2,bad name, ',
      },
    })

    expect([status, text]).toEqual([204, ''])
    expect(headers.get('access-control-allow-headers')).toBe(
      'Authorization, Content-Type, If-Match, If-None-Match, X-Client-State, X-KeyID, Prefer, x-own, x-own-2',
    )
    for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
      expect(headers.get('access-control-allow-methods')).toContain(method)
    }
    expect(headers.get('access-control-max-age')).toBe('77')
  })

  it('does not reflect an endless or opaque origin', async () => {
    const long = await bridge.ask('/v1/', { headers: { Origin: `https://${'a'.repeat(5000)}` } })
    const opaque = await bridge.ask('/v1/', { headers: { Origin: 'null' } })

    expectError(long, 400, 107, 'Origin in header')
    expect(JSON.stringify(long.headers.toJSON())).not.toContain('aaaa')
    expect(opaque.headers.get('access-control-allow-origin')).toBe('*')
  })
})

describe('section 7: Backoff', () => {
  it.each([
    [{ 'X-Weave-Backoff': '30' }, '30'],
    [{ 'X-Backoff': '31' }, '31'],
    [{ 'X-Weave-Backoff': '30', 'X-Backoff': '40' }, '40'],
    [{ 'X-Weave-Backoff': '2.1' }, '3'],
    [{ 'X-Weave-Backoff': '0' }, null],
    ...['-1', 'soon', 'NaN', 'Infinity', '1e3', '', '1, 2'].map((junk) => [
      { 'X-Weave-Backoff': junk },
      null,
    ]),
    [{ 'X-Weave-Backoff': '1000000000' }, '86400'],
  ] as [Record<string, string>, string | null][])('%j becomes %p', async (headers, expected) => {
    storage.plan(() => ({ kind: 'rewrite', headers }))

    const answer = await bridge.ask(records)

    expect(answer.headers.get('backoff')).toBe(expected)
  })

  it('is not sent with errors', async () => {
    storage.plan(() => ({ kind: 'status', status: 503, headers: { 'X-Weave-Backoff': '30' } }))
    const failed = await bridge.ask(records)
    storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '30' } }))
    const missing = await bridge.ask(`${records}/unknown`)

    expect([failed.status, failed.headers.get('backoff')]).toEqual([503, null])
    expect([missing.status, missing.headers.get('backoff')]).toEqual([404, null])
  })

  it('is the larger of the configured one and that of the storage, on every status below 400', async () => {
    const root = await slow.ask('/v1/')
    const redirect = await slow.ask('/_x')
    const quiet = await slow.ask(records)
    const unchanged = await slow.ask(records, { headers: { 'If-None-Match': '"0"' } })
    const error = await slow.ask('/v1/unknown')
    slowStorage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '90' } }))
    const loaded = await slow.ask(records)
    slowStorage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': '9' } }))
    const light = await slow.ask(records)

    const answers = [root, redirect, quiet, unchanged, error, loaded, light]
    expect(answers.map(({ status }) => status)).toEqual([200, 307, 200, 304, 404, 200, 200])
    const pauses = answers.map(({ headers }) => headers.get('backoff'))
    expect(pauses).toEqual(['25', '25', '25', '25', null, '90', '25'])
    const caching = answers.map(({ headers }) => headers.get('cache-control'))
    // Browsers would repeat a stored Backoff with every 304.
    expect(caching).toEqual(pauses.map((pause) => (pause === null ? 'no-cache' : 'no-cache, no-store')))
  })
})

describe('section 7: Alert', () => {
  const alertOf = async (value: string) => {
    storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Alert': value } }))
    const { headers } = await bridge.ask(records)
    return JSON.parse(headers.get('alert') ?? 'null') as unknown
  }

  it("wraps the storage's plain text", async () => {
    const message = 'no "hard-eol" yet'

    expect(await alertOf(message)).toEqual({ code: 'soft-eol', message })
  })

  it('relays the known members of a JSON alert', async () => {
    const alert = { code: 'hard-eol', message: 'Over', url: 'https://example.org/' }

    expect(await alertOf(JSON.stringify({ ...alert, more: 1 }))).toEqual(alert)
  })

  it.each(['{"code":"other"}', '[]', '{"code"', '7', 'null'])(
    'wraps JSON that is not an alert: %s',
    async (text) => {
      expect(await alertOf(text)).toEqual({ code: 'soft-eol', message: text })
    },
  )

  it('drops an endless text', async () => {
    expect(await alertOf('x'.repeat(10_000))).toBeNull()
  })

  it('is sent with errors and 304 responses, too', async () => {
    storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Alert': 'words' } }))

    const missing = await bridge.ask(`${records}/unknown`)
    const unchanged = await bridge.ask(`${records}/r`, { headers: { 'If-None-Match': '*' } })

    expect([missing.status, unchanged.status]).toEqual([404, 304])
    for (const { headers } of [missing, unchanged])
      expect(JSON.parse(headers.get('alert')!).message).toBe('words')
  })

  it('is hard-eol if the storage has been shut down, with a batch too', async () => {
    storage.plan(() => ({ kind: 'status', status: 513, headers: { 'X-Weave-Alert': 'words' } }))

    const list = await bridge.ask(records)
    const batch = await bridge.ask('/v1/batch', {
      method: 'POST',
      body: { requests: [{ path: `/buckets/${bridge.user.clientState}${records}` }] },
    })

    expectError(list, 410, 202)
    expect([batch.status, batch.body.responses[0].status]).toEqual([200, 410])
    for (const { headers } of [list, batch])
      expect(JSON.parse(headers.get('alert')!)).toEqual({ code: 'hard-eol' })
  })
})

describe('section 7: end of service', () => {
  const details = { message: atEnd.eos_message, url: atEnd.eos_url }

  it.each(kinds)('in the future: a soft-eol with %s (%i)', async (_, status, ask) => {
    nowMs += 20
    const answer = await ask(ending.ask)

    expect(answer.status).toBe(status)
    const text = answer.headers.get('alert')!
    expect(text).toMatch(/^[ -~]+$/)
    expect(JSON.parse(text)).toEqual({ code: 'soft-eol', ...details })
  })

  it('in the past: 410 and hard-eol everywhere', async () => {
    nowMs = Date.parse('2030-01-01T00:00:00Z')
    const requests: [string, object][] = [
      ['/v1/', {}],
      ['/v1/unknown', {}],
      ['/', { redirect: 'manual' }],
      ['/v9/', {}],
      ['/v1/docs', {}],
      ['/v1/__version__', {}],
      ['/v1/batch', { method: 'POST' }],
      [`/v1/buckets/b${records}`, {}],
      [`/v1/buckets/b${records}/x`, { method: 'DELETE' }],
      [`/v1/buckets/b${records}/x`, { method: 'PATCH' }],
    ]
    for (const [path, init] of requests) {
      const answer = await request(ending.url + path, init)

      expectError(answer, 410, 202)
      expectCommonHeaders(answer.headers, { isLegacy: path.includes('/b/') })
      expect(JSON.parse(answer.headers.get('alert')!)).toEqual({ code: 'hard-eol', ...details })
      expect(answer.headers.get('retry-after')).toBeNull()
    }
  })

  it('in the past: heartbeats and preflights still work', async () => {
    nowMs = Date.parse('2030-06-01')

    const answers = await Promise.all([
      request(`${ending.url}/__heartbeat__`),
      request(`${ending.url}/v1/__heartbeat__`),
      request(`${ending.url}/__lbheartbeat__`),
      request(`${ending.url}/v1/__lbheartbeat__`),
      request(`${ending.url}/v1/`, { method: 'OPTIONS', headers: { Origin: allowed } }),
    ])

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 204])
  })
})
