import { describe, expect, it } from 'bun:test'
import { startTestBridge, type AskInit } from '../support/bridge.ts'
import { expectError, putOf, type Place } from './expectations.ts'
import { batchOf, openWorld, statuses } from './world.ts'

const { bridge, storage, bucket, batch, stored } = await openWorld({
  writable: ['history', 'passwords'],
  settings: { max_request_bytes: '300000' },
})
const record = (id: string, collection = 'history') =>
  `/collections/${collection}/records/${encodeURIComponent(id)}`
const storedPasswords = () => bridge.sandbox.records(bridge.user, 'passwords')

describe('section 4: GET record', () => {
  it('returns the record with its version', async () => {
    const written = bridge.sandbox.write(bridge.user, 'history', [
      { id: 'r', payload: 'P\u00e9"\\', sortindex: 5 },
    ])

    const { status, headers, body } = await bridge.ask(record('r'))

    expect(status).toBe(200)
    expect(body).toEqual({ data: { id: 'r', last_modified: written, payload: 'P\u00e9"\\', sortindex: 5 } })
    expect(headers.get('etag')).toBe(`"${written}"`)
    expect(headers.get('last-modified')).toBe(new Date(written).toUTCString())
  })

  it('omits a sortindex that the record does not have', async () => {
    bridge.sandbox.write(bridge.user, 'history', [{ id: 'bare', payload: '' }])

    const { body } = await bridge.ask(record('bare'))

    expect(Object.keys(body.data)).toEqual(['id', 'last_modified', 'payload'])
  })
})

describe('a payload that earlier versions took for a deletion', () => {
  it('is stored and shown like any other, alone and in a batch', async () => {
    const payload = 'deleted through a bridge'

    const written = await bridge.ask(record('plain'), putOf({ payload }))
    const { body } = await batch({
      requests: [
        { method: 'PUT', path: bucket + record('plain2'), body: { data: { payload } } },
        { path: bucket + record('plain') },
        { path: `${bucket}/collections/history/records?in_ids=plain,plain2` },
      ],
    })

    expect([written.status, (await bridge.ask(record('plain'))).status]).toEqual([200, 200])
    expect(body.responses.map(({ status }: { status: number }) => status)).toEqual([200, 200, 200])
    expect(body.responses[2].body.data).toMatchObject([{ payload }, { payload }])
  })
})

describe('section 4: PUT record', () => {
  it('returns 200 with the record as stored, also if it is new', async () => {
    const { status, headers, body } = await bridge.ask(record('new'), putOf({ payload: 'one', sortindex: 7 }))

    const { modified, payload, sortindex } = stored('new')!
    expect([payload, sortindex]).toEqual(['one', 7])
    expect([status, body]).toEqual([
      200,
      { data: { id: 'new', last_modified: modified, payload: 'one', sortindex: 7 } },
    ])
    expect(headers.get('etag')).toBe(`"${modified}"`)
    expect(headers.get('last-modified')).toBe(new Date(modified).toUTCString())
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  })

  it('merges: omitted fields keep their stored value, and the response shows it', async () => {
    bridge.sandbox.write(bridge.user, 'history', [{ id: 'merge', payload: 'kept', sortindex: 3 }])

    const weight = await bridge.ask(record('merge'), putOf({ sortindex: 9 }))
    const payload = await bridge.ask(record('merge'), putOf({ payload: 'new' }))

    expect(weight.body.data).toEqual({
      id: 'merge',
      last_modified: weight.body.data.last_modified,
      payload: 'kept',
      sortindex: 9,
    })
    expect([payload.body.data.payload, payload.body.data.sortindex]).toEqual(['new', 9])
    expect(payload.body.data.last_modified).toBeGreaterThan(weight.body.data.last_modified)
    expect(stored('merge')).toMatchObject({ payload: 'new', sortindex: 9 })
  })

  it('accepts and ignores permissions, and the id and last_modified of the data', async () => {
    const bodies = [
      { data: { payload: 'x', id: 'other', last_modified: null }, permissions: { read: ['me'] } },
      { data: { payload: 'x', id: 12, last_modified: 1 }, permissions: {} },
      { data: { payload: 'x', last_modified: 'never' }, permissions: null },
    ]

    for (const body of bodies) {
      const answer = await bridge.ask(record('own-id'), { method: 'PUT', body })

      expect(answer.status).toBe(200)
      expect(answer.body.data.id).toBe('own-id')
      expect(answer.body.data.last_modified).toBe(stored('own-id')!.modified)
    }
    expect(stored('other')).toBeUndefined()
  })

  it('passes the ttl on', async () => {
    const { status, body } = await bridge.ask(record('fading'), putOf({ payload: 'x', ttl: 100 }))

    expect(status).toBe(200)
    expect(body.data).not.toHaveProperty('ttl')
    const { expiry, modified } = stored('fading')!
    expect(expiry).toBe(modified + 100_000)
  })

  it('accepts JSON with the usual media types, or without one', async () => {
    const types = [
      'application/json',
      'application/json; charset=utf-8',
      'Application/JSON;charset="UTF-8"',
      'application/json;',
      'application/json; odata=verbose; charset=utf-8',
    ]
    for (const type of types) {
      const { status } = await bridge.ask(record('typed'), putOf({ payload: type }, { 'Content-Type': type }))

      expect([type, status]).toEqual([type, 200])
    }
  })

  it.each([
    [{}, 'data in body'],
    [{ data: null }, 'data in body'],
    [{ data: 'text' }, 'data in body'],
    [{ data: {}, extra: 1 }, 'extra in body'],
    [{ data: { payload: 1 } }, 'data.payload in body'],
    [{ data: { payload: null } }, 'data.payload in body'],
    [{ data: { sortindex: 1.5 } }, 'data.sortindex in body'],
    [{ data: { sortindex: 1e10 } }, 'data.sortindex in body'],
    [{ data: { sortindex: -1_000_000_000 } }, 'data.sortindex in body'],
    [{ data: { sortindex: null } }, 'data.sortindex in body'],
    [{ data: { ttl: -1 } }, 'data.ttl in body'],
    [{ data: { ttl: '60' } }, 'data.ttl in body'],
    [{ data: { ttl: 1e10 } }, 'data.ttl in body'],
    [{ data: { payload: 'x', title: 'y' } }, 'data.title in body'],
    ['null', 'body in body'],
    ['[]', 'body in body'],
    ['', 'body in body'],
    ['{"data":{}', 'body in body'],
    ['{"data":{"payload":"a","payload":"b"}}', 'body in body'],
    ['{"data":{"__proto__":{"payload":"x"}}}', '__proto__ in body'],
    ['{"data":{"payload":"\\ud800"}}', 'data.payload in body'],
  ] as [unknown, Place][])('rejects the body %j: %s', async (body, place) => {
    const answer = await bridge.ask(record('refused'), { method: 'PUT', body })

    expectError(answer, 400, 109, place)
    expect(stored('refused')).toBeUndefined()
  })

  it('lists all problems, sorted', async () => {
    const answer = await bridge.ask(record('refused'), {
      method: 'PUT',
      body: { zebra: 1, data: { sortindex: 'a', payload: 1, apple: 2 } },
    })

    expectError(
      answer,
      400,
      109,
      'data.apple in body',
      'data.payload in body',
      'data.sortindex in body',
      'zebra in body',
    )
  })

  it('repeats no value of the body in its errors', async () => {
    const { text } = await bridge.ask(
      record('refused'),
      putOf({ payload: 'fine', sortindex: 'canary-value', title: 'canary-value' }),
    )

    expect(text).not.toContain('canary')
  })

  it('rejects a body that is too large, whether it announces that or not', async () => {
    const text = JSON.stringify({ data: { payload: 'x'.repeat(300_001) } })
    const chunked = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(text))
        controller.close()
      },
    })

    const announced = await bridge.ask(record('large'), { method: 'PUT', body: text })
    const streamed = await fetch(`${bridge.url}/v1${bucket}${record('large')}`, {
      method: 'PUT',
      headers: { ...bridge.identityOf(bridge.user), 'Content-Type': 'application/json' },
      body: chunked,
    })

    expectError(announced, 413, 113)
    expect(streamed.status).toBe(413)
    expect(announced.headers.get('connection')).toBe('close')
    expect(stored('large')).toBeUndefined()
  })
})

describe('section 4: DELETE record', () => {
  it('returns 204 without a body', async () => {
    bridge.sandbox.write(bridge.user, 'history', [{ id: 'gone', payload: 'x' }])

    const { status, headers, text } = await bridge.ask(record('gone'), { method: 'DELETE' })

    expect([status, text]).toEqual([204, ''])
    expect(headers.get('content-type')).toBeNull()
    expect(stored('gone')).toBeUndefined()
  })

  it('returns 404 for an unknown record', async () => {
    expectError(await bridge.ask(record('gone'), { method: 'DELETE' }), 404, 110)
  })

  it.each(['return=representation', 'respond-async, return=representation; foo'])(
    'returns 200 with the tombstone for Prefer: %s',
    async (prefer) => {
      bridge.sandbox.write(bridge.user, 'history', [{ id: 'preferred', payload: 'x' }])

      const { status, body } = await bridge.ask(record('preferred'), {
        method: 'DELETE',
        headers: { Prefer: prefer },
      })

      const collection = await bridge.ask('/collections/history')
      const { last_modified } = collection.body.data
      expect([status, body]).toEqual([200, { data: { id: 'preferred', last_modified, deleted: true } }])
      expect(stored('preferred')).toBeUndefined()
    },
  )

  it('ignores other preferences, and the body that some clients send', async () => {
    bridge.sandbox.write(bridge.user, 'history', [{ id: 'plain', payload: 'x' }])

    const { status } = await bridge.ask(record('plain'), {
      method: 'DELETE',
      headers: { Prefer: 'return=minimal' },
      body: {},
    })

    expect(status).toBe(204)
  })

  it('deletes that record and no other', async () => {
    bridge.sandbox.write(bridge.user, 'passwords', [
      { id: 'a', payload: 'x' },
      { id: 'a,b', payload: 'x' },
      { id: 'b', payload: 'x' },
    ])

    const { status } = await bridge.ask(record('a,b', 'passwords'), { method: 'DELETE' })

    expect(status).toBe(204)
    expect(storedPasswords().map(({ id }) => id)).toEqual(['a', 'b'])
  })
})

describe('section 4: write gate', () => {
  const attempts: AskInit[] = [
    { headers: {}, body: undefined, as: null },
    { headers: { 'Content-Type': 'text/plain', 'If-Match': 'nonsense' }, body: 'not JSON', as: null },
    { headers: { 'If-Match': '"1"' }, body: { data: { payload: 'x' } } },
  ]

  it.each(['PUT', 'DELETE'])(
    'rejects %s if writes are not enabled, before any other check',
    async (method) => {
      bridge.sandbox.requests.storage.clear()
      bridge.sandbox.requests.token.clear()
      for (const attempt of attempts) {
        for (const id of ['x', '%00', '%ff']) {
          const answer = await bridge.ask(`/v1${bucket}/collections/tabs/records/${id}`, {
            method,
            ...attempt,
          })

          expectError(answer, 405, 115)
          expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS')
          const setting = `record_tabs_${method.toLowerCase()}_enabled`
          expect(answer.body.message).toBe(`Method not allowed: ${setting} is off`)
        }
      }
      expect(bridge.sandbox.requests.storage.entries).toHaveLength(0)
      expect(bridge.sandbox.requests.token.entries).toHaveLength(0)
    },
  )

  it('opens separately for each method', async () => {
    await using half = await startTestBridge({
      settings: { record_history_put_enabled: 'true', record_tabs_delete_enabled: 'true' },
    })
    half.sandbox.write(half.user, 'history', [{ id: 'x', payload: 'x' }])
    half.sandbox.write(half.user, 'tabs', [{ id: 'x', payload: 'x' }])

    const answers = [
      await half.ask(record('x'), putOf({ payload: 'y' })),
      await half.ask(record('x'), { method: 'DELETE' }),
      await half.ask(record('x', 'tabs'), putOf({ payload: 'y' })),
      await half.ask(record('x', 'tabs'), { method: 'DELETE' }),
    ]

    expect(answers.map(({ status }) => status)).toEqual([200, 405, 405, 204])
    expect(answers[1]!.headers.get('allow')).toBe('GET, HEAD, PUT, OPTIONS')
    expect(answers[2]!.headers.get('allow')).toBe('GET, HEAD, DELETE, OPTIONS')
  })

  it('is always closed if the service is read-only', async () => {
    await using shut = await startTestBridge({ writable: ['history'], settings: { readonly: 'true' } })
    shut.sandbox.write(shut.user, 'history', [{ id: 'x', payload: 'x' }])

    const put = await shut.ask(record('x'), putOf({ payload: 'y' }))
    const removal = await shut.ask(record('x'), { method: 'DELETE' })
    const path = `/buckets/${shut.user.clientState}${record('x')}`
    const inside = await batchOf(shut)({
      requests: [
        { path, ...putOf({ payload: 'y' }) },
        { path, method: 'DELETE' },
      ],
    })

    expectError(put, 405, 115)
    expectError(removal, 405, 115)
    expect(put.body.message).toBe('Method not allowed: readonly is on')
    expect(statuses(inside)).toEqual([405, 405])
    expect(inside.body.responses[1].body.message).toBe('Method not allowed: readonly is on')
    expect(shut.sandbox.records(shut.user, 'history')).toMatchObject([{ id: 'x', payload: 'x' }])
  })

  it.each(['History', 'HISTORY', 'hIsToRy'])('uses one canonical collection name: %s', async (collection) => {
    const { status, body } = await bridge.ask(
      record(`spelled-${collection}`, collection),
      putOf({ payload: 'x' }),
    )

    expect(status).toBe(200)
    expect(stored(`spelled-${collection}`)).toMatchObject({ modified: body.data.last_modified })
  })
})

describe('section 4: ids', () => {
  it('rejects a payload with NUL, alone and for its own sub-request', async () => {
    const put = putOf({ payload: 'a\0b' })
    const [path, beside] = [record('nul', 'passwords'), record('beside-nul', 'passwords')]

    const alone = await bridge.ask(path, put)
    const inside = await batch({
      requests: [
        { path: bucket + path, ...put },
        { path: bucket + beside, ...putOf({ payload: 'fine' }) },
      ],
    })
    await bridge.ask(beside, { method: 'DELETE' })

    expectError(alone, 400, 109, 'data.payload in body')
    expectError(inside.body.responses[0], 400, 109, 'data.payload in body')
    expect(inside.body.responses[1].status).toBe(200)
  })

  it.each(['raw/b', '/raw+xQ==', 'raw//b', 'raw/', '/', '//'])(
    'with slashes are kept in paths: %s',
    async (id) => {
      bridge.sandbox.write(bridge.user, 'passwords', [{ id, payload: 'slashed' }])
      const path = `${bucket}/collections/passwords/records/${id}`

      const alone = await bridge.ask(`/v1${path}`)
      const head = await bridge.ask(`/v1${path}`, { method: 'HEAD' })
      const inside = await batch({ requests: [{ path }, { path, ...putOf({ payload: 'new' }) }] })

      expect([alone.status, alone.body.data.id, head.status]).toEqual([200, id, 200])
      expect(statuses(inside)).toEqual([200, 200])
      expect(stored(id, 'passwords')?.payload).toBe('new')
    },
  )

  const strangeIds = [
    '{8d8d8d8d-0000-4444-8888-123456789abc}', 'with space', '100%', '%2e%2e', '%41', 'a/b', 'a/b/',
    '/+xQ==', 'a//b', 'a\\b', 'a?b', 'a#b', 'a&b+c=d;e', "!'()*~", '...', '.hidden', '"quoted"',
    '__proto__', 'batch', 'constructor', 'x'.repeat(64), ' leading', 'trailing ',
  ] // prettier-ignore

  it.each(strangeIds)('sends "%s" as one segment', async (id) => {
    bridge.sandbox.requests.storage.clear()
    const before = storedPasswords().length

    const put = await bridge.ask(record(id, 'passwords'), putOf({ payload: id }))
    const get = await bridge.ask(record(id, 'passwords'))
    const all = storedPasswords()
    const removal = await bridge.ask(record(id, 'passwords'), { method: 'DELETE' })

    expect([put.status, get.status, removal.status]).toEqual([200, 200, 204])
    expect(get.body.data).toMatchObject({ id, payload: id })
    expect(all).toHaveLength(before + 1)
    expect(all.find((record) => record.id === id)?.payload).toBe(id)
    expect(storedPasswords()).toHaveLength(before)
    for (const { target } of bridge.sandbox.requests.storage.entries) {
      expect(target).toMatch(
        /^\/1\.5\/\d+\/(?:info\/\w+|storage\/passwords(?:\/[\w%.~-]+)?(?:\?[\w=&,%.~-]*)?)$/,
      )
    }
  })

  it('accepts the braces of a guid raw', async () => {
    bridge.sandbox.write(bridge.user, 'passwords', [{ id: '{guid}', payload: 'x' }])

    const { status, body } = await bridge.ask('/collections/passwords/records/{guid}')

    expect([status, body.data.id]).toEqual([200, '{guid}'])
  })

  const badIds = [
    '%00', 'a%00b', 'a%0d%0ab', '%7f', '%ff', '%C0%AF', '%zz', '%', '%2', 'x'.repeat(65), '%C3%A9',
    '\u{1f600}',
  ] // prettier-ignore

  it.each(badIds)('rejects and names %s, without calling the storage', async (raw) => {
    bridge.sandbox.requests.storage.clear()
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await bridge.ask(`/collections/history/records/${raw}`, {
        method,
        ...(method === 'PUT' && { body: { data: { payload: 'x' } } }),
      })

      expectError(answer, 400, 109, 'record_id in path')
    }
    expect(bridge.sandbox.requests.storage.entries).toHaveLength(0)
  })

  it.each(['GET', 'PUT', 'DELETE'])(
    'returns 400 naming record_id if the storage rejects the id of a %s',
    async (method) => {
      storage.plan(({ path, query }) =>
        (path + query).endsWith('strange') ? { kind: 'status', status: 400, body: '8' } : null,
      )
      const body = method === 'PUT' ? { data: { payload: 'x' } } : undefined

      expectError(await bridge.ask(record('strange'), { method, body }), 400, 109, 'record_id in path')
    },
  )

  it.each(['tabs;x', 'x'.repeat(33), 'Tabs%20', '%2e%2e%2f', 'a%2fb', '%ff', 'caf%C3%A9'])(
    'rejects the collection %s',
    async (collection) => {
      const answer = await bridge.ask(`/collections/${collection}/records`)

      expectError(answer, 400, 109, 'collection_id in path')
    },
  )
})
