import { connect as connectSocket } from 'node:net'
import { describe, expect, it } from 'bun:test'
import { connect, hawk, type SyncClient } from './sync-client.ts'

const json = { 'Content-Type': 'application/json' }

/** What was measured at syncstorage-rs 0.23.3 over PostgreSQL and MariaDB and differs from its documentation. */
describe('sandbox, as the real server does', () => {
  it('stamps every staged record with the commit, also one with only a ttl or nothing', async () => {
    await using sync = await connect()
    await sync.post('/storage/tabs', [
      { id: 'a', payload: 'x' },
      { id: 'b', payload: 'x' },
    ])
    sync.later()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a', ttl: 60 }, { id: 'b' }]))

    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    const times = sync.sandbox.records(sync.user, 'tabs').map(({ id, modified }) => [id, modified])
    expect(times).toEqual([
      ['a', sync.nowMs],
      ['b', sync.nowMs],
    ])
  })

  it('leaves the time of a record that a commit brings itself with only a ttl', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', []))

    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [{ id: 'a', ttl: 60 }])

    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ modified: sync.nowMs - 10 }])
  })

  it('answers X-If-Modified-Since on writes with 304 and does nothing', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()
    const header = { 'X-If-Modified-Since': sync.stamp(-10) }

    const answers = [
      await sync.put('/storage/tabs/a', { payload: 'y' }, header),
      await sync.post('/storage/tabs', [{ id: 'b' }], header),
      await sync.delete('/storage/tabs/a', header),
    ]

    expect(answers.map(({ status, text, modified }) => [status, text, modified])).toEqual(
      Array.from({ length: 3 }, () => [304, '', sync.stamp(-10)]),
    )
    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ id: 'a', payload: 'x' }])
  })

  it.each([
    [{ sortindex: 3 }, 'db error'],
    [{}, 'db error'],
    [{ payload: 'new' }, undefined],
    [{ ttl: 50 }, undefined],
  ])('over MariaDB fails to stage an id again with %j: %s', async (fields, error) => {
    await using sync = await connect({ mode: 'mysql' })
    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'a', payload: 'x' }])
    const batch = encodeURIComponent(batchOf(start))

    const again = await sync.post(`/storage/tabs?batch=${batch}`, [
      { id: 'b', payload: 'y' },
      { id: 'a', ...fields },
    ])
    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    expect(again.status).toBe(202)
    expect(again.json()).toMatchObject({ failed: error ? { a: error, b: error } : {} })
    // What was reported as failed is committed all the same.
    expect(sync.sandbox.records(sync.user, 'tabs').map(({ id }) => id)).toEqual(['a', 'b'])
  })

  it('over MariaDB ignores case and trailing blanks in ids and the case of collections', async () => {
    await using sync = await connect({ mode: 'mysql' })
    await sync.put('/storage/Own/AbC', { payload: 'x' })
    sync.later()

    await sync.put('/storage/oWN/abc%20', { payload: 'y' })
    const list = await sync.get('/storage/own?full=1')
    const collections = await sync.get('/info/collections')

    expect(list.json()).toMatchObject([{ id: 'abc ', payload: 'y' }])
    expect(collections.json()).toEqual({ Own: sync.nowMs / 1000 })
  })

  it('answers 500 for a payload that the database can not hold', async () => {
    await using postgres = await connect()
    await using mysql = await connect({ mode: 'mysql' })
    const statuses = async (sync: SyncClient, payload: string) => {
      sync.later()
      const put = await sync.put('/storage/tabs/a', { payload })
      sync.later()
      const post = await sync.post('/storage/tabs', [{ id: 'a', payload }])
      return [put.status, post.status]
    }

    expect(await statuses(postgres, 'a\0b')).toEqual([500, 500])
    expect(await statuses(postgres, '日本')).toEqual([200, 200])
    expect(await statuses(mysql, 'ÿ\0')).toEqual([200, 200])
    expect(await statuses(mysql, '日本')).toEqual([500, 500])
  })

  it('over PostgreSQL drops the batch that such a payload begins', async () => {
    await using sync = await connect()

    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'a', payload: 'a\0b' }])
    const commit = await sync.post(`/storage/tabs?batch=${batchOf(start)}&commit=true`, [])

    expect([start.status, start.json()]).toEqual([
      202,
      expect.objectContaining({ failed: { a: 'db error' } }),
    ])
    expect([commit.status, commit.text]).toEqual([400, '0'])
  })

  it.each([
    ['postgres', ['none', 'high', 'low']],
    ['mysql', ['high', 'low', 'none']],
  ] as const)('sorts by index in %s mode as %j', async (mode, order) => {
    await using sync = await connect({ mode })
    await sync.post('/storage/tabs', [
      { id: 'low', sortindex: -5 },
      { id: 'none' },
      { id: 'high', sortindex: 5 },
    ])

    const list = await sync.get('/storage/tabs?sort=index')

    expect(list.json()).toEqual([...order])
  })

  it.each(['postgres', 'mysql'] as const)('enforces a quota in %s mode without telling it', async (mode) => {
    await using sync = await connect({ mode, quotaKilobytes: 1 })
    await sync.put('/storage/tabs/a', { payload: 'x'.repeat(1024) })
    sync.later()

    const refused = await sync.put('/storage/tabs/b', { payload: 'x' })
    const quota = await sync.get('/info/quota')

    expect([refused.status, refused.text]).toEqual([403, '14'])
    expect(quota.json()).toEqual([1, null])
  })

  describe('when two writers meet at a collection that has never been written to', () => {
    async function race(mode: 'postgres' | 'mysql', isPrepared: boolean) {
      const sync = await connect({ mode })
      const both = meeting(2)
      if (isPrepared) {
        const since = { 'X-If-Unmodified-Since': '0' }
        await Promise.all([
          sync.delete('/storage/tabs?ids=none', since),
          sync.delete('/storage/tabs?ids=none', since),
        ])
        sync.later()
      }
      sync.sandbox.switches.onFirstWrite = both
      const put = (payload: string) =>
        sync.put('/storage/tabs/a', { payload }, { 'X-If-Unmodified-Since': '0' })

      const first = put('first')
      if (isPrepared) await first
      sync.later()
      const statuses = (await Promise.all([first, put('second')])).map(({ status }) => status)

      const records = sync.sandbox.records(sync.user, 'tabs')
      await sync.sandbox.stop()
      return { statuses, records: records.length }
    }

    it('over PostgreSQL both get 200 and one record is lost', async () => {
      expect(await race('postgres', false)).toEqual({ statuses: [200, 200], records: 1 })
    })

    it('over MariaDB one of them is answered 500', async () => {
      const { statuses, records } = await race('mysql', false)

      expect([statuses.toSorted(), records]).toEqual([[200, 500], 1])
    })

    it('one of them is refused once the row of the collection is there', async () => {
      expect(await race('postgres', true)).toEqual({ statuses: [200, 412], records: 1 })
    })

    it('over PostgreSQL the timestamp of the collection can go back', async () => {
      await using sync = await connect()
      const [early, hasLooked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      sync.sandbox.switches.onFirstWrite = () => {
        hasLooked.resolve()
        return early.promise
      }
      const slow = sync.put('/storage/tabs/a', { payload: 'early' })
      await hasLooked.promise
      sync.sandbox.switches.onFirstWrite = null
      sync.later(50)
      const quick = await sync.put('/storage/tabs/b', { payload: 'late' })
      early.resolve()
      const late = await slow

      expect([quick.modified, late.modified]).toEqual([sync.stamp(), sync.stamp(-50)])
      expect((await sync.get('/storage/tabs')).modified).toBe(sync.stamp(-50))
    })
  })

  it('over PostgreSQL answers a commit well although its own record undid everything', async () => {
    await using sync = await connect()
    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'a', payload: 'x' }])
    const commit = `/storage/tabs?batch=${batchOf(start)}&commit=true`

    const undone = await sync.post(commit, [{ id: 'b', payload: 'a\0b' }])
    const listed = await sync.get('/storage/tabs')
    const again = await sync.post(commit, [])

    expect([undone.status, undone.json()]).toEqual([
      200,
      expect.objectContaining({ failed: { b: 'db error' } }),
    ])
    expect([listed.json(), again.status]).toEqual([[], 200])
    expect(sync.sandbox.records(sync.user, 'tabs').map(({ id }) => id)).toEqual(['a'])
  })

  it('reads true in any case, and tells why records failed', async () => {
    await using sync = await connect()
    const start = await sync.post('/storage/tabs?batch=TRUE', [
      { id: 'a', colour: 'red' },
      { id: 'b', ttl: '5' },
      { id: '' },
      { id: 'c', sortindex: 1_000_000_000 },
    ])

    const commit = await sync.post(`/storage/tabs?batch=${batchOf(start)}&commit=True`, [])

    expect((start.json() as { failed: object }).failed).toEqual({
      a: 'unknown field colour',
      b: 'invalid json',
      '': expect.stringMatching(/^invalid bso: id/),
      c: expect.stringMatching(/^invalid bso: sortindex/),
    })
    expect(commit.status).toBe(200)
  })

  it('takes no blank lines, and a percent sign that begins no escape as it is', async () => {
    await using sync = await connect()
    const headers = { 'Content-Type': 'application/newlines' }

    const blank = await sync.send('POST', '/storage/tabs', { body: '\n{"id":"a"}\n', headers })
    const nothing = await sync.send('POST', '/storage/tabs', { body: '', headers })
    sync.later()
    const put = await sync.put('/storage/tabs/100%', { payload: 'x' })

    expect([blank.status, blank.text, nothing.status]).toEqual([400, '8', 200])
    expect([put.status, sync.sandbox.records(sync.user, 'tabs').map(({ id }) => id)]).toEqual([200, ['100%']])
  })

  it('orders a list that asks for no order as one that asks for nothing', async () => {
    await using sync = await connect()
    await sync.post('/storage/tabs', [{ id: 'b' }, { id: 'a' }, { id: 'c' }])

    expect((await sync.get('/storage/tabs?sort=none')).json()).toEqual(['c', 'b', 'a'])
  })

  it('dates an answer by when its request came', async () => {
    await using sync = await connect()
    sync.sandbox.switches.onFirstWrite = async () => sync.later(50)

    const put = await sync.put('/storage/tabs/a', { payload: 'x' })

    expect([put.text, put.headers.get('X-Weave-Timestamp')]).toEqual([sync.stamp(-50), sync.stamp(-50)])
  })

  it('gives an account that comes with two first requests at once two uids, of which the last counts', async () => {
    await using sync = await connect()
    const stranger = sync.sandbox.addUser('stranger', { registered: false })
    sync.sandbox.switches.onNewAccount = meeting(2)

    const [one, two] = await Promise.all([sync.signIn(stranger), sync.signIn(stranger)])
    const three = await sync.signIn(stranger)

    expect(one?.uid).not.toBe(two?.uid)
    expect(three.uid).toBe(Math.max(one?.uid ?? 0, two?.uid ?? 0))
  })

  it('keeps the sortindex of an expired record', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x', sortindex: 7, ttl: 0 })
    sync.later()

    await sync.put('/storage/tabs/a', { payload: 'y', ttl: 60 })

    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ payload: 'y', sortindex: 7 }])
  })

  it.each(['W2IIJRliR/KzTfvs', '{3d1a7b50-6a8d-4c6e-9a56-6d3bb0b4a2f0}', '+/=', 'a b', '%2F', '!*()~,;:@&$'])(
    'keeps %s as one segment, which may have escapes',
    async (id) => {
      await using sync = await connect()

      const put = await sync.put(`/storage/forms/${encodeURIComponent(id)}`, { payload: 'x' })
      const list = await sync.get('/storage/forms')
      const found = await sync.get(`/storage/forms/${encodeURIComponent(id)}`)

      expect([put.status, list.json(), found.json()]).toEqual([200, [id], expect.objectContaining({ id })])
    },
  )

  it('takes braces in a path as they are', async () => {
    await using sync = await connect()
    const id = '{3d1a7b50-6a8d-4c6e-9a56-6d3bb0b4a2f0}'
    await sync.put(`/storage/passwords/${encodeURIComponent(id)}`, { payload: 'x' })

    const raw = await sendRaw(sync, `/storage/passwords/${id}`)

    expect(raw).toStartWith('HTTP/1.1 200')
    expect(raw).toContain(`"id":"${id}"`)
  })

  it('knows no slash within an id', async () => {
    await using sync = await connect()

    const answer = await sync.get('/storage/forms/W2IIJRliR/KzTfvs')

    expect([answer.status, answer.text]).toEqual([404, '0'])
  })

  it('goes on by time after a page that was reached by counting', async () => {
    await using sync = await connect()
    for (const id of 'abcd') {
      await sync.put(`/storage/tabs/${id}`, { payload: 'x' })
      sync.later()
    }

    const page = await sync.get('/storage/tabs?full=1&limit=1&offset=1')
    const odd = await sync.get('/storage/tabs?full=1&offset=5:5:5')

    expect(page.headers.get('X-Weave-Next-Offset')).toBe(`${sync.nowMs - 20}:1`)
    expect([odd.status, odd.text]).toEqual([200, '[]'])
  })

  it('reads +5 as a timestamp', async () => {
    await using sync = await connect()

    const created = await sync.put('/storage/tabs/a', { payload: 'x' }, { 'X-If-Unmodified-Since': '+5' })
    sync.later()
    const refused = await sync.put('/storage/tabs/a', { payload: 'y' }, { 'X-If-Unmodified-Since': '+5' })

    expect([created.status, refused.status]).toEqual([200, 412])
  })

  it.each([
    String.raw`{"sortindex":1.0}`,
    String.raw`{"ttl":1e2}`,
    String.raw`{"sortindex":-0}`,
    String.raw`{"sort\u0069ndex":1.0}`,
    String.raw`{"payload":"a","payload":"b"}`,
    String.raw`{"payload":"\ud800"}`,
    String.raw`{"payload":"\udc00\ud800"}`,
  ])('refuses to put %s', async (body) => {
    await using sync = await connect()

    const answer = await sync.send('PUT', '/storage/tabs/a', { body, headers: json })

    expect([answer.status, answer.text]).toEqual([400, '8'])
  })

  it.each([
    String.raw`{"payload":"\"sortindex\":1.0, \"payload\": \"payload\":"}`,
    String.raw`{"payload":"\ud83d\ude00 \\ud800"}`,
    String.raw`{"sortindex":-5,"ttl":100}`,
  ])('accepts %s', async (body) => {
    await using sync = await connect()

    const answer = await sync.send('PUT', '/storage/tabs/a', { body, headers: json })

    expect(answer.status).toBe(200)
    const { payload } = JSON.parse(body) as { payload?: string }
    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ payload: payload ?? '' }])
  })

  it('reports 1.0 and bytes that are not UTF-8 in an upload, and takes the last of repeated keys', async () => {
    await using sync = await connect()
    const post = (body: string | Buffer) =>
      sync.send('POST', '/storage/tabs', { body: body as string, headers: json })

    const mixed = await post('[{"id":"a","sortindex":1.0},{"id":"b","payload":"x","payload":"y"}]')
    const half = await post(String.raw`[{"id":"c","payload":"\ud800"}]`)
    const broken = await post(Buffer.from('5b7b226964223a22ff227d5d', 'hex'))

    expect(mixed.json()).toMatchObject({ success: ['b'], failed: { a: expect.any(String) } })
    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ id: 'b', payload: 'y' }])
    expect([half, broken].map(({ status, text }) => [status, text])).toEqual([
      [400, '8'],
      [400, '8'],
    ])
  })

  it.each([
    ['PATCH', '/storage/tabs/a', 'DELETE, GET, PUT'],
    ['PUT', '/storage/tabs', 'DELETE, GET, POST'],
    ['POST', '/info/collections', 'GET'],
    ['GET', '/storage', 'DELETE'],
  ])('answers 405 to %s %s with Allow: %s', async (method, path, allow) => {
    await using sync = await connect()

    const answer = await sync.send(method, path)

    expect([answer.status, answer.headers.get('Allow')]).toEqual([405, allow])
  })

  it('knows the path of the token server without a trailing slash only', async () => {
    await using sync = await connect()

    const answer = await sync.askToken({}, '/1.0/sync/1.5/')

    expect([answer.status, answer.text]).toEqual([404, ''])
  })

  it.each([
    [null, { enabled: false, size: 2_097_152_000 }],
    [2, { enabled: true, size: 2048 }],
  ])('tells in its heartbeat a quota of %s KB', async (quotaKilobytes, quota) => {
    await using sync = await connect({ quotaKilobytes })

    const answer = await fetch(`${sync.sandbox.storageUrl}/__heartbeat__`)

    expect(await answer.json()).toMatchObject({ status: 'Ok', quota })
  })
})

function batchOf(answer: { json(): unknown }): string {
  return (answer.json() as { batch: string }).batch
}

/** A function that so many callers have to have called before any of them goes on. */
function meeting(size: number): () => Promise<void> {
  const all = Promise.withResolvers<void>()
  let present = 0
  return () => {
    present += 1
    if (present === size) all.resolve()
    return all.promise
  }
}

/** The answer to a GET whose path no library has changed. */
function sendRaw({ token, nowMs }: SyncClient, path: string): Promise<string> {
  const url = new URL(token.api_endpoint)
  const target = url.pathname + path
  const credentials = { id: token.id, key: token.key, algorithm: 'sha256' } as const
  // The library parses addresses, which escapes braces; an address in parts is signed as it is.
  const address = { protocol: 'http:', hostname: url.hostname, port: url.port, pathname: target }
  const { header } = hawk.header(address as unknown as string, 'GET', {
    credentials,
    timestamp: Math.floor(nowMs / 1000),
  })
  const head = [
    `GET ${target} HTTP/1.1`,
    `Host: ${url.host}`,
    `Authorization: ${header}`,
    'Connection: close',
  ]
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connectSocket(Number(url.port), url.hostname)
    socket.on('data', (data) => (text += String(data)))
    socket.on('close', () => resolve(text))
    socket.on('error', reject)
    socket.end(`${head.join('\r\n')}\r\n\r\n`)
  })
}
