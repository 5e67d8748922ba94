import { describe, expect, it } from 'bun:test'
import { limits } from '../../src/load/limits.ts'
import { request, startTestBridge, type Answer } from '../support/bridge.ts'
import { expectError, type Place } from './expectations.ts'
import { batchOf, openWorld, statuses } from './world.ts'

const { bridge, storage, bucket, batch, stored } = await openWorld({
  writable: ['history', 'passwords', 'forms'],
  settings: { max_request_bytes: '300000' },
})
const recordsOf = (collection: string) => `${bucket}/collections/${collection}/records`
const records = recordsOf('history')
let made = 0

const id = () => `r${made++}`
const put = (path: string, payload: string, more: object = {}) => ({
  method: 'PUT',
  path,
  body: { data: { payload } },
  ...more,
})
/** The response to the only request of a batch. */
const only = async (request: object) => (await batch({ requests: [request] })).body.responses[0]

describe('section 5: the envelope', () => {
  it('returns responses in order, each with status, path, headers and body', async () => {
    const [one, two] = [id(), id()]

    const answer = await batch({
      requests: [put(`${records}/${one}`, 'a'), { path: `${records}/${two}?x=1` }, { path: '/' }],
    })

    const { status, body } = answer
    expect(status).toBe(200)
    expect(Object.keys(body)).toEqual(['responses'])
    for (const response of body.responses) {
      expect(Object.keys(response).sort()).toEqual(['body', 'headers', 'path', 'status'])
    }
    expect(body.responses.map(({ path }: { path: string }) => path)).toEqual([
      `/v1${records}/${one}`,
      `/v1${records}/${two}`,
      '/v1',
    ])
    expect(statuses(answer)).toEqual([200, 404, 200])
    expect(body.responses[0].body.data).toMatchObject({ id: one, payload: 'a' })
    expect(body.responses[1].body).toMatchObject({ code: 404, errno: 110 })
    expect(body.responses[2].body.project_name).toBe('Sync Bridge')
  })

  it('returns records up to a limit, however short the requests are', async () => {
    const one = id()
    const payload = 'x'.repeat(limits.batchResponseBytes / 10.5)
    bridge.sandbox.write(bridge.user, 'history', [{ id: one, payload }])
    const requests = Array.from({ length: 15 }, () => ({}))

    const answer = await batch({ defaults: { path: `${records}/${one}` }, requests })

    expect(answer.status).toBe(200)
    expect(statuses(answer)).toEqual(requests.map((_, index) => (index < 10 ? 200 : 413)))
    expect(answer.body.responses[14].body).toMatchObject({ code: 413, errno: 113 })
  })

  it('accepts an empty list as a valid batch', async () => {
    const { status, body } = await batch({ requests: [] })

    expect([status, body]).toEqual([200, { responses: [] }])
  })

  it('reads by default, if method and body are omitted or empty', async () => {
    const one = id()
    bridge.sandbox.write(bridge.user, 'history', [{ id: one, payload: 'x' }])

    const answer = await batch({
      requests: [
        { path: `${records}/${one}` },
        { path: `${records}/${one}`, body: {}, headers: {} },
        { method: 'GET', path: records, body: {} },
        { method: 'DELETE', path: `${records}/${one}`, body: {} },
      ],
    })

    expect(statuses(answer)).toEqual([200, 200, 200, 204])
  })

  it('accepts as many requests as configured and no more', async () => {
    const requests = Array.from({ length: 25 }, () => ({ path: '/__lbheartbeat__' }))

    const most = await batch({ requests })
    const more = await batch({ requests: [...requests, { path: '/' }] })

    expect(statuses(most)).toEqual(Array(25).fill(200))
    expectError(more, 400, 109, 'requests in body')
  })

  it.each([
    ['null', 'body in body'],
    ['', 'body in body'],
    [{}, 'requests in body'],
    [{ requests: 'x' }, 'requests in body'],
    [{ requests: [1] }, 'requests.0 in body'],
    [{ requests: [{}] }, 'requests.0.path in body'],
    [{ requests: [{ path: '/' }, { path: '' }] }, 'requests.1.path in body'],
    [{ requests: [{ path: 'x' }] }, 'requests.0.path in body'],
    [{ requests: [{ path: 'http://evil.example/' }] }, 'requests.0.path in body'],
    [{ requests: [{ path: '//evil.example' }] }, 'requests.0.path in body'],
    [{ requests: [{ path: '/\\evil.example' }] }, 'requests.0.path in body'],
    [{ requests: [{ path: '/x#y' }] }, 'requests.0.path in body'],
    [{ requests: [{ path: '/', method: 'get' }] }, 'requests.0.method in body'],
    [{ requests: [{ path: '/', method: 'TRACE' }] }, 'requests.0.method in body'],
    [{ requests: [{ path: '/', headers: [] }] }, 'requests.0.headers in body'],
    [{ requests: [{ path: '/', headers: { Prefer: 1 } }] }, 'requests.0.headers.Prefer in body'],
    [{ requests: [{ path: '/', headers: { Prefer: 'a\r\nb' } }] }, 'requests.0.headers.Prefer in body'],
    [{ requests: [{ path: '/', body: 'text' }] }, 'requests.0.body in body'],
    [{ requests: [{ path: '/', more: 1 }] }, 'requests.0.more in body'],
    [{ requests: [], more: 1 }, 'more in body'],
    [{ requests: [], defaults: [] }, 'defaults in body'],
    [{ requests: [], defaults: { body: 'x' } }, 'defaults.body in body'],
    ['{"requests":[{"path":"/","headers":{"__proto__":"x"}}]}', '__proto__ in body'],
    ['{"requests":[{"path":"/","body":{"a":{"b":[{"constructor":1}]}}}]}', 'constructor in body'],
    ['{"requests":[],"defaults":{"body":{"\\u005f_proto__":{"polluted":1}}}}', '__proto__ in body'],
  ] as [unknown, Place][])('rejects %j: %s', async (body, place) => {
    const answer = await batch(body)

    expectError(answer, 400, 109, place)
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  it('lists all problems of a batch, sorted', async () => {
    const answer = await batch({
      requests: [{ path: 'x' }, { method: 'get', path: 'y' }],
      defaults: { path: 'z' },
    })

    expectError(
      answer,
      400,
      109,
      'defaults.path in body',
      'requests.0.path in body',
      'requests.1.method in body',
      'requests.1.path in body',
    )
  })

  it('lists at most 20 problems', async () => {
    const { body } = await batch({ requests: Array.from({ length: 25 }, () => ({ path: 'x' })) })

    expect(body.details).toHaveLength(20)
  })

  const innerBatches = [
    '/batch', '/v1/batch', '/batch/', '/v1/batch?x=1', '/%62atch', '/v1/%62%61tch', '/x/../batch',
    '/./batch', '/v1/buckets/%2e%2e/batch',
  ] // prettier-ignore

  it.each(innerBatches)('rejects a nested batch: %s', async (path) => {
    const answer = await batch({
      requests: [{ path: '/' }, { method: 'POST', path, body: { requests: [] } }],
    })

    expectError(answer, 400, 109, 'requests.1.path in body')
  })

  it('rejects one that only the defaults name', async () => {
    const answer = await batch({ defaults: { path: '/batch' }, requests: [{}] })

    expectError(answer, 400, 109, 'requests.0.path in body')
  })

  it('serves a record with that name', async () => {
    const answer = await batch({ requests: [{ path: `${records}/batch` }, { path: '/BATCH' }] })

    expect(answer.body.responses.map(({ body }: { body: { errno: number } }) => body.errno)).toEqual([
      110, 111,
    ])
  })

  it('does not treat impossible paths as a defect', async () => {
    const odd = ['/\t/[', '/\n//x:y', '/ ', '/%', '/\u0000', '/\ud800', '/caf\u00e9']
    const paths = [...odd, `/${'a/'.repeat(5000)}`]

    const answer = await batch({ requests: paths.map((path) => ({ path })) })

    expect([200, 400]).toContain(answer.status)
    if (answer.status === 200) for (const status of statuses(answer)) expect([400, 404]).toContain(status)
  })

  it('requires JSON', async () => {
    const answer = await batch('{"requests":[]}', { headers: { 'Content-Type': 'text/plain' } })

    expectError(answer, 415, 107, 'Content-Type in header')
  })

  it('is limited in size', async () => {
    const large = await batch({ requests: [put(`${records}/x`, 'x'.repeat(300_000))] })

    expectError(large, 413, 113)
  })
})

describe('section 5: defaults', () => {
  it('are merged under each request: bodies deeply, headers whatever their case', async () => {
    const [one, two] = [id(), id()]
    bridge.sandbox.write(bridge.user, 'history', [{ id: two, payload: 'there' }])

    const answer = await batch({
      defaults: {
        method: 'PUT',
        path: `${records}/${one}`,
        headers: { 'iF-nOnE-mAtCh': '*' },
        body: { data: { payload: 'default', sortindex: 5 } },
      },
      requests: [
        { body: { data: { payload: 'own' } } },
        { path: `${records}/${two}` },
        { path: `${records}/${two}`, headers: { 'IF-NONE-MATCH': '"1"' }, body: { data: { sortindex: 6 } } },
        { method: 'GET', path: `${records}/${two}`, headers: { 'If-None-Match': '"1"' } },
      ],
    })

    expect(statuses(answer)).toEqual([200, 412, 200, 200])
    expect(stored(one)).toMatchObject({ payload: 'own', sortindex: 5 })
    expect(stored(two)).toMatchObject({ payload: 'default', sortindex: 6 })
  })

  it("are overridden by the request and override the batch's own headers", async () => {
    const one = id()
    const timestamp = bridge.sandbox.write(bridge.user, 'history', [{ id: one, payload: 'x' }])
    const path = `${records}/${one}`
    const requests = [{ path }, { path, headers: { 'if-none-match': '"1"' } }]

    const envelope = await batch({ requests }, { headers: { 'If-None-Match': `"${timestamp}"` } })
    const defaults = await batch(
      { requests, defaults: { headers: { 'IF-NONE-MATCH': `"${timestamp}"` } } },
      { headers: { 'If-None-Match': '"2"' } },
    )

    expect(statuses(envelope)).toEqual([304, 200])
    expect(statuses(defaults)).toEqual([304, 200])
  })

  it('a condition overrides either condition of the defaults, and one of the defaults either of the envelope', async () => {
    const one = id()
    const timestamp = bridge.sandbox.write(bridge.user, 'history', [{ id: one, payload: 'x' }])
    const path = `${records}/${one}`
    const current = { 'if-match': `"${timestamp}"` }
    const unchanged = { 'If-None-Match': `"${timestamp}"` }

    const own = await batch({
      requests: [{ path }, { path, headers: current }],
      defaults: { headers: unchanged },
    })
    const defaults = await batch(
      { requests: [{ path }], defaults: { headers: current } },
      { headers: { 'If-None-Match': `"${timestamp}"` } },
    )

    expect(statuses(own)).toEqual([304, 200])
    expect(statuses(defaults)).toEqual([200])
  })

  it('drop headers that belong to the connection', async () => {
    const headers = {
      Host: 'evil.example',
      'Content-Length': '99',
      'Transfer-Encoding': 'chunked',
      Connection: 'close',
      'X-Forwarded-Host': 'evil.example',
      Origin: 'https://evil.example',
    }

    const answer = await batch({ requests: [{ path: '/', headers }] })

    expect(answer.body.responses[0].body.url).toBe(`${bridge.url}/v1`)
    expect(answer.headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('section 5: paths and methods', () => {
  it('accepts paths with and without the version, with queries, decoded once', async () => {
    const one = '{guid in braces}'
    bridge.sandbox.write(bridge.user, 'passwords', [{ id: one, payload: 'x' }])
    const passwords = recordsOf('passwords')
    const escaped = encodeURIComponent(one)

    const answer = await batch({
      requests: [
        { path: `${passwords}/${escaped}` },
        { path: `/v1${passwords}/${escaped}` },
        { path: `/v1${passwords}/` },
        { path: `${passwords}?in_ids=${escaped}&_sort=oldest` },
        { path: `${passwords}/${encodeURIComponent(escaped)}` },
        { path: `${passwords}/${one}` },
      ],
    })

    expect(statuses(answer)).toEqual([200, 200, 200, 200, 404, 200])
    expect(answer.body.responses[3].body.data).toMatchObject([{ id: one }])
    expect(answer.body.responses[3].path).toBe(`/v1${passwords}`)
  })

  it.each([
    ['/v2/', 404, 116],
    ['/unknown', 404, 111],
    ['/docs', 404, 111],
    ['/buckets/b//collections', 404, 111],
  ])('finds nothing at %s: %i errno %i', async (path, status, errno) => {
    expectError(await only({ path }), status, errno)
  })

  it.each(['..', '.', '%2e%2e', '%2E', 'a%00b', 'a\u0001b', '%ff', '%zz', 'caf\u00e9'])(
    'rejects the id "%s" without calling the storage',
    async (raw) => {
      bridge.sandbox.requests.storage.clear()

      const answer = await batch({
        requests: [
          { path: `${records}/${raw}` },
          { method: 'DELETE', path: `${records}/${raw}` },
          put(`${records}/${raw}`, 'x'),
          { method: 'DELETE', path: `${recordsOf('%2e%2e')}/storage` },
        ],
      })

      expect(statuses(answer)).toEqual([400, 400, 400, 405])
      expect(answer.body.responses[0].body.details[0].name).toBe('record_id')
      expect(bridge.sandbox.requests.storage.entries).toHaveLength(0)
    },
  )

  it('rejects methods and disabled writes like single requests, with Allow', async () => {
    const answer = await batch({
      requests: [
        { method: 'POST', path: records },
        { method: 'PATCH', path: `${records}/x` },
        { method: 'DELETE', path: records },
        put(`${recordsOf('tabs')}/x`, 'x'),
        { method: 'PUT', path: '/' },
      ],
    })

    expect(statuses(answer)).toEqual([405, 405, 405, 405, 405])
    expect(answer.body.responses[1].headers.Allow).toBe('GET, HEAD, PUT, DELETE, OPTIONS')
    expect(bridge.sandbox.records(bridge.user, 'tabs')).toEqual([])
  })

  it('serves resources that need no credentials', async () => {
    const answer = await batch({
      requests: ['/', '/__version__', '/__heartbeat__', '/__lbheartbeat__'].map((path) => ({ path })),
    })

    expect(statuses(answer)).toEqual([200, 200, 200, 200])
    expect(answer.body.responses[2].body).toEqual({ storage: true, cache: true, permission: true })
    expect(answer.body.responses[3].body).toEqual({})
  })

  it('has the pages and the count of a list', async () => {
    const user = bridge.sandbox.addUser('batch-lists')
    bridge.sandbox.seed(user, 'forms', 5)
    const forms = `/buckets/${user.clientState}/collections/forms/records`

    const { body } = await batch(
      {
        requests: [
          { path: `${forms}?_limit=2&_sort=oldest` },
          { path: forms },
          { method: 'HEAD', path: `${forms}?_before=1` },
        ],
      },
      { as: user },
    )
    const next = await request(body.responses[0].headers['Next-Page'], { headers: bridge.identityOf(user) })

    expect(body.responses[0].headers['Next-Page']).toStartWith(
      `${bridge.url}/v1${forms}?_limit=2&_sort=oldest&_token=`,
    )
    expect(next.body.data).toHaveLength(2)
    expect(body.responses[1].headers['Total-Records']).toBe('5')
    expect(body.responses[1].body.data).toHaveLength(5)
    expect(body.responses[2].headers['Total-Records']).toBe('0')
  })
})

describe('section 5: sub-responses', () => {
  it('have canonical header names, and empty bodies as {}', async () => {
    const one = id()
    const timestamp = bridge.sandbox.write(bridge.user, 'history', [{ id: one, payload: 'x' }])
    const path = `${records}/${one}`

    const answer = await batch({
      requests: [
        { path },
        { path, headers: { 'If-None-Match': `"${timestamp}"` } },
        { method: 'HEAD', path },
        { method: 'HEAD', path: `${records}/unknown-${one}` },
        { method: 'DELETE', path },
      ],
    })

    const { body } = answer
    expect(statuses(answer)).toEqual([200, 304, 200, 404, 204])
    const version = { ETag: `"${timestamp}"`, 'Last-Modified': new Date(timestamp).toUTCString() }
    expect(body.responses[0].headers).toMatchObject(version)
    expect(body.responses[1]).toMatchObject({ headers: version, body: {} })
    expect(Object.keys(body.responses[1].body)).toEqual([])
    expect(body.responses[2]).toMatchObject({ headers: version })
    expect(body.responses[2].body).toEqual({})
    expect(body.responses[3].body).toEqual({})
    const { last_modified } = body.responses[4].body.data
    expect(body.responses[4].body).toEqual({ data: { id: one, last_modified, deleted: true } })
    expect(last_modified).toBeGreaterThan(timestamp)
  })

  it('name what is missing in a PUT without a body', async () => {
    expectError(await only({ method: 'PUT', path: `${records}/${id()}` }), 400, 109, 'data in body')
  })

  it('lift the longest Backoff to the envelope', async () => {
    const pauses = new Map([
      ['history', '12'],
      ['forms', '77'],
      ['passwords', '5'],
    ])
    storage.plan(({ path }) => {
      const collection = [...pauses.keys()].find((name) => path.includes(`/storage/${name}`))
      return collection ? { kind: 'rewrite', headers: { 'X-Weave-Backoff': pauses.get(collection)! } } : null
    })

    const { headers, body } = await batch({
      requests: [...pauses.keys()].map((collection) => ({ path: recordsOf(collection) })),
    })

    expect(body.responses).toHaveLength(3)
    expect(headers.get('backoff')).toBe('77')
  })

  it('lift it over all participating users, too', async () => {
    const bob = bridge.sandbox.addUser('batch-backoff')
    const pauses = new Map([
      [bridge.user.uid, '61'],
      [bob.uid, '7'],
    ])
    storage.plan(({ path }) => {
      const pause = pauses.get(Number(path.split('/')[2]))
      return { kind: 'rewrite', headers: { 'X-Weave-Backoff': pause! } }
    })

    const ofBob = `/buckets/${bob.clientState}/collections/history/records`
    const answer = await batch({
      requests: [{ path: records }, { path: ofBob, headers: bridge.identityOf(bob) }],
    })

    expect(statuses(answer)).toEqual([200, 200])
    expect(answer.headers.get('backoff')).toBe('61')
  })
})

describe('section 5: identities', () => {
  it('requires the batch itself to be authenticated', async () => {
    const bodies: unknown[] = [{ requests: [] }, { requests: [{ path: '/' }] }, 'not JSON']
    for (const body of bodies) {
      const answer = await batch(body, { as: null })

      expectError(answer, 401, 104)
      expect(answer.headers.get('www-authenticate')).toBe('BrowserID, Bearer')
    }
    for (const authorization of ['Basic x', 'Bearer', 'BrowserID a b']) {
      const headers = { Authorization: authorization }
      expectError(await batch({ requests: [] }, { headers, as: null }), 401, 104)
    }
  })

  it('lets a sub-request act for another user, and both see only their own records', async () => {
    const bob = bridge.sandbox.addUser('batch-bob')
    const one = id()
    const bobs = `/buckets/${bob.clientState}/collections/history/records/${one}`

    const answer = await batch({
      requests: [
        put(`${records}/${one}`, 'of alice'),
        put(bobs, 'of bob', { headers: bridge.identityOf(bob) }),
        { path: `${records}/${one}` },
        { path: bobs, headers: bridge.identityOf(bob) },
        { path: bobs },
      ],
    })

    expect(statuses(answer)).toEqual([200, 200, 200, 200, 401])
    expect(answer.body.responses[2].body.data.payload).toBe('of alice')
    expect(answer.body.responses[3].body.data.payload).toBe('of bob')
    expect(stored(one)?.payload).toBe('of alice')
    expect(bridge.sandbox.records(bob, 'history')).toMatchObject([{ id: one, payload: 'of bob' }])
  })

  it('returns 401 for just the sub-requests whose identity is rejected', async () => {
    const one = id()
    const refused = { Authorization: 'Bearer not-a-token' }

    const answer = await batch({
      requests: [
        put(`${records}/${one}`, 'first'),
        { path: `${records}/${one}`, headers: refused },
        { path: `${records}/${one}`, headers: { Authorization: 'Basic x' } },
        put(`${records}/${one}-2`, 'last'),
      ],
    })

    expect(statuses(answer)).toEqual([200, 401, 401, 200])
    expect(answer.body.responses[1].body.errno).toBe(105)
    expect(answer.body.responses[2].body.errno).toBe(104)
    expect(answer.body.responses[1].headers['WWW-Authenticate']).toBe('BrowserID, Bearer')
    expect([stored(one)?.payload, stored(`${one}-2`)?.payload]).toEqual(['first', 'last'])
  })

  it('does not read a large body when the identity of the batch is rejected', async () => {
    const headers = { Authorization: 'Bearer refused', 'X-KeyID': bridge.user.keyId }
    const requests = [{ path: '/', body: { padding: 'x'.repeat(70_000) } }]

    const answer = await batch({ requests }, { headers, as: null })

    expectError(answer, 401, 105)
  })

  it('returns 401 inside 200 if the identity of the batch is rejected', async () => {
    const headers = { Authorization: 'Bearer refused-everywhere', 'X-KeyID': bridge.user.keyId }

    const answer = await batch({ requests: [{ path: records }, { path: '/' }] }, { headers, as: null })

    expect(answer.status).toBe(200)
    expect(statuses(answer)).toEqual([401, 200])
  })
})

describe('section 5: one transaction', () => {
  it('shows each request the effects of the earlier ones', async () => {
    const one = id()
    const path = `${records}/${one}`

    const answer = await batch({
      requests: [
        { path },
        put(path, 'one'),
        { path },
        put(path, 'two', { headers: { 'If-None-Match': '*' } }),
        { method: 'PUT', path, body: { data: { sortindex: 4 } } },
        { path },
        { method: 'DELETE', path },
        { path },
        put(path, 'again', { headers: { 'If-None-Match': '*' } }),
        { path },
      ],
    })

    const { body } = answer
    expect(statuses(answer)).toEqual([404, 200, 200, 412, 200, 200, 204, 404, 200, 200])
    expect(body.responses[3].body.details.existing.payload).toBe('one')
    expect(body.responses[5].body.data).toMatchObject({ payload: 'one', sortindex: 4 })
    expect(body.responses[9].body.data.payload).toBe('again')
    expect(stored(one)).toMatchObject({
      payload: 'again',
      modified: body.responses[9].body.data.last_modified,
    })
  })

  it('gives the records of one commit one timestamp, which is the stored one', async () => {
    const [one, two] = [id(), id()]

    const { body } = await batch({ requests: [put(`${records}/${one}`, 'x'), put(`${records}/${two}`, 'y')] })

    const times = body.responses.map((response: { body: Answer['body'] }) => response.body.data.last_modified)
    expect(times).toEqual([stored(one)!.modified, stored(two)!.modified])
    expect(times[0]).toBe(times[1])
  })

  it.each([0, 1, 2, 3])('keeps the others when request %i is rejected', async (place) => {
    const ids = [id(), id(), id()]
    const requests: object[] = ids.map((one) => put(`${records}/${one}`, 'x'))
    requests.splice(place, 0, { method: 'PUT', path: `${records}/bad`, body: { data: { payload: 1 } } })

    const answer = await batch({ requests })

    expect(statuses(answer)).toEqual([0, 1, 2, 3].map((index) => (index === place ? 400 : 200)))
    for (const one of ids) expect(stored(one)?.payload).toBe('x')
  })

  it.each(['status', 'reset-before'] as const)(
    'is 503 as a whole, and without effect, if the storage fails: %s',
    async (kind) => {
      const [one, two] = [id(), id()]
      storage.plan(({ method, path }) => {
        if (method === 'GET' || !path.includes('/storage/forms')) return null
        return kind === 'status' ? { kind, status: 503, headers: { 'Retry-After': '99' } } : { kind }
      })

      const answer = await batch({
        requests: [put(`${records}/${one}`, 'x'), put(`${recordsOf('forms')}/${two}`, 'x'), { path: '/' }],
      })

      expectError(answer, 503, 201)
      expect(Number(answer.headers.get('retry-after'))).toBe(kind === 'status' ? 99 : 30)
      expect(answer.body).not.toHaveProperty('responses')
      expect([stored(one), stored(two, 'forms')]).toEqual([undefined, undefined])
    },
  )

  it('is 503 if the token server fails', async () => {
    await using lonely = await startTestBridge({ tokenServerUrl: 'http://127.0.0.1:1' })
    const path = `/buckets/${lonely.user.clientState}`

    expectError(await batchOf(lonely)({ requests: [{ path: '/' }, { path }] }), 503, 201)
  })
})

describe('section 5: a member `data` next to the requests', () => {
  it.each([[{}], [[]], ['x'], [{ requests: 1 }]])(
    'is ignored, as old Python clients send it: %j',
    async (data) => {
      const answer = await bridge.ask('/v1/batch', { method: 'POST', body: { data, requests: [] } })

      expect([answer.status, answer.body]).toEqual([200, { responses: [] }])
    },
  )

  it('is the only one: others are 400', async () => {
    const answer = await bridge.ask('/v1/batch', { method: 'POST', body: { date: {}, requests: [] } })

    expect([answer.status, answer.body.errno]).toEqual([400, 109])
  })
})

describe('section 5: a strict batch', () => {
  const strict = { headers: { Prefer: 'handling=strict' } }
  const remove = (path: string, more: object = {}) => ({ method: 'DELETE', path, ...more })

  it.each([
    ['handling=strict', true],
    ['return=representation, Handling="strict"', true],
    ['handling=lenient', false],
    ['handling=strictly', false],
  ])('is requested by Prefer: %s: %p', async (prefer, isStrict) => {
    const one = id()
    const requests = [put(`${records}/${one}`, 'a'), { path: `${records}/unknown` }]

    const answer = await batch({ requests }, { headers: { Prefer: prefer } })

    expect(statuses(answer)).toEqual([200, 404])
    expect(answer.headers.get('preference-applied')).toBe(isStrict ? 'handling=strict' : null)
    expect(stored(one) !== undefined).toBe(!isStrict)
  })

  it('that succeeds is written', async () => {
    const [one, two] = [id(), id()]
    bridge.sandbox.write(bridge.user, 'history', [{ id: two, payload: 'old' }])

    const answer = await batch(
      { requests: [put(`${records}/${one}`, 'a'), remove(`${records}/${two}`), { path: records }] },
      strict,
    )

    expect(statuses(answer)).toEqual([200, 204, 200])
    expect(answer.headers.get('preference-applied')).toBe('handling=strict')
    expect([stored(one) !== undefined, stored(two) !== undefined]).toEqual([true, false])
  })

  const changed = { headers: { 'If-Match': '"10"' } }
  it.each<[string, number, (path: string) => object]>([
    ['404 for a record', 404, () => ({ path: `${records}/unknown` })],
    ['404 for a path', 404, () => ({ path: '/nowhere' })],
    ['405', 405, () => put(`${recordsOf('tabs')}/a`, 'x')],
    ['400 for a body', 400, (path) => put(path, 'x', { body: { data: { nonsense: 1 } } })],
    ['400 for a query', 400, () => ({ path: `${records}?_limit=0` })],
    ['401', 401, (path) => ({ path, headers: { Authorization: 'Bearer nobody' } })],
    ['412 for a put', 412, (path) => put(path, 'x', changed)],
    ['412 for a deletion', 412, (path) => remove(path, changed)],
    ['412 for a list', 412, () => ({ path: records, ...changed })],
    ['412 for a collection', 412, () => ({ path: `${bucket}/collections/history`, ...changed })],
    ['413', 413, (path) => put(path, 'x'.repeat(2_000_000))],
  ])('writes nothing for %s, and answers every request as if it had', async (_, status, refused) => {
    const [one, two, three, kept] = [id(), id(), id(), id()]
    const own = await startTestBridge({ writable: ['history', 'forms'] })
    own.sandbox.write(own.user, 'history', [
      { id: kept, payload: 'old' },
      { id: two, payload: 'old' },
    ])
    own.sandbox.switches.limits.max_record_payload_bytes = 1_000_000
    const inOwn = (request: object) =>
      JSON.parse(JSON.stringify(request).replaceAll(bridge.user.clientState, own.user.clientState))
    const requests = [
      put(`${records}/${one}`, 'new'),
      refused(`${records}/${kept}`),
      remove(`${records}/${two}`),
      put(`${recordsOf('forms')}/${three}`, 'new'),
      { path: `${records}/${one}` },
    ].map(inOwn)
    const writes = () => own.sandbox.requests.storage.entries.filter(({ method }) => method !== 'GET')
    const before = own.sandbox.records(own.user, 'history')

    const answer = await batchOf(own)({ requests }, strict)

    expect(statuses(answer)).toEqual([200, status, 204, 200, 200])
    expect(answer.headers.get('preference-applied')).toBe('handling=strict')
    expect(answer.body.responses[0].body.data).toMatchObject({ id: one, payload: 'new' })
    expect(answer.body.responses[4].body).toEqual(answer.body.responses[0].body)
    expect(writes()).toEqual([])
    expect(own.sandbox.records(own.user, 'history')).toEqual(before)
    await own.stop()
  })

  it('writes nothing when another client changes a record before its deletion', async () => {
    const [one, two] = [id(), id()]
    const at = bridge.sandbox.write(bridge.user, 'history', [{ id: two, payload: 'old' }])
    let isFirst = true
    storage.plan(({ method }) => {
      if (method === 'DELETE' && isFirst) {
        isFirst = false
        bridge.sandbox.write(bridge.user, 'history', [{ id: two, payload: 'theirs' }])
      }
      return null
    })

    const answer = await batch(
      {
        requests: [
          put(`${records}/${one}`, 'new'),
          remove(`${records}/${two}`, { headers: { 'If-Match': `"${at}"` } }),
        ],
      },
      strict,
    )

    expect(statuses(answer)).toEqual([200, 412])
    expect(answer.body.responses[1].body.details.existing).toMatchObject({ id: two, payload: 'theirs' })
    expect(stored(one) !== undefined).toBe(false)
  })

  it('can be requested by web pages, which can see that it was', async () => {
    const answer = await batch(
      { requests: [] },
      { headers: { ...strict.headers, Origin: 'https://app.test' } },
    )

    expect(answer.headers.get('access-control-expose-headers')).toContain('Preference-Applied')
    expect(answer.headers.get('preference-applied')).toBe('handling=strict')
  })
})
