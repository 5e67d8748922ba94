import { describe, expect, it } from 'bun:test'
import { formatSeconds, parseSeconds } from '../../src/sandbox/timestamps.ts'
import { beginning, connect } from './sync-client.ts'

const decimals = /^\d+\.\d\d$/

describe('formatSeconds', () => {
  it.each([
    [0, '0.00'],
    [10, '0.01'],
    [990, '0.99'],
    [1_700_000_000_000, '1700000000.00'],
    [1_700_000_000_509, '1700000000.50'],
  ])('fact 35: %d ms are %s', (ms, text) => {
    expect(formatSeconds(ms)).toBe(text)
  })
})

describe('parseSeconds', () => {
  it.each([
    ['0', 0],
    ['1700000000', 1_700_000_000_000],
    ['1700000000.129', 1_700_000_000_120],
    ['1.7e9', 1_700_000_000_000],
    // 2.01 * 1000 is 2009.9999999999998 in binary.
    ['2.01', 2000],
    ['2.02', 2020],
    ['+5', 5000],
    ['5.', 5000],
    ['-0.0', 0],
  ])('fact 47: %s is %d ms', (text, ms) => {
    expect(parseSeconds(text)).toBe(ms)
  })

  it.each(['', '-1', 'x', '1,5', '0x10', 'Infinity', 'NaN', '1e999'])(
    'fact 59: "%s" is no timestamp',
    (text) => {
      expect(parseSeconds(text)).toBeNull()
    },
  )
})

describe('storage timestamps', () => {
  it('fact 35: every header and number has two decimals, zeros too', async () => {
    await using sync = await connect()

    const put = await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later(100)
    const post = await sync.post('/storage/tabs', [{ id: 'b' }])
    const texts = [
      put.text,
      post.text,
      (await sync.get('/info/collections')).text,
      (await sync.get('/storage/tabs/a')).text,
      (await sync.get('/storage/tabs?full=1')).text,
    ]

    const found = texts.flatMap((text) => text.match(/\d{10}(\.\d*)?/g))
    expect(found).toEqual([sync.stamp(-100), ...[0, 0, -100, 0, -100].map((offset) => sync.stamp(offset))])
    expect(found.every((text) => decimals.test(text ?? ''))).toBe(true)
    expect(post.headers.get('X-Weave-Timestamp')).toBe(sync.stamp())
    expect(post.modified).toBe(sync.stamp())
  })

  it('fact 36: time is kept in steps of 10 ms, rounded down, in Python mode up', async () => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })
    rust.later(19)
    python.later(11)

    const answers = [
      await rust.put('/storage/tabs/a', { payload: 'x' }),
      await python.put('/storage/tabs/a', { payload: 'x' }),
    ]

    expect(answers.map(({ text }) => text)).toEqual(['1700000000.01', '1700000000.02'])
  })

  it('fact 36: timestamps of a collection strictly increase', async () => {
    await using sync = await connect()
    const seen: number[] = []

    for (let index = 0; index < 5; index += 1) {
      seen.push(Number((await sync.put('/storage/tabs/a', { payload: String(index) })).text))
      sync.later()
    }

    expect(seen).toEqual([0, 0.01, 0.02, 0.03, 0.04].map((later) => 1_700_000_000 + later))
  })

  const secondWrites: [what: string, method: string, path: string, body: unknown][] = [
    ['PUT', 'PUT', '/storage/tabs/b', { payload: 'y' }],
    ['POST', 'POST', '/storage/tabs', [{ id: 'b' }]],
    ['the start of a batch', 'POST', '/storage/tabs?batch=true', [{ id: 'b' }]],
    ['DELETE of a record', 'DELETE', '/storage/tabs/a', null],
    ['DELETE of ids', 'DELETE', '/storage/tabs?ids=a', null],
    ['DELETE of a collection', 'DELETE', '/storage/tabs', null],
  ]
  it.each(secondWrites)(
    'fact 37: %s within the same quantum is 503 and changes nothing',
    async (_, method, path, body) => {
      await using sync = await connect()
      await sync.put('/storage/tabs/a', { payload: 'x' })
      const before = sync.sandbox.records(sync.user, 'tabs')

      sync.later(9)
      const headers = { 'Content-Type': 'application/json' }
      const answer = await sync.send(method, path, body ? { body: JSON.stringify(body), headers } : {})

      expect([answer.status, answer.text, answer.headers.get('Retry-After')]).toEqual([503, '0', '10'])
      expect(sync.sandbox.records(sync.user, 'tabs')).toEqual(before)
    },
  )

  it('fact 37: a conflict is reported before a failed precondition', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })

    const answer = await sync.put('/storage/tabs/a', { payload: 'y' }, { 'X-If-Unmodified-Since': '0' })

    expect(answer.status).toBe(503)
  })

  it('fact 37: reads are answered within the quantum of a write', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })

    const answer = await sync.get('/storage/tabs/a')

    expect(answer.status).toBe(200)
  })

  it('fact 37: in Python mode the server first tries once more by itself', async () => {
    await using sync = await connect({ mode: 'python', clock: () => beginning + performance.now() })

    const statuses = [
      (await sync.put('/storage/tabs/a', {})).status,
      (await sync.put('/storage/tabs/a', {})).status,
    ]

    expect(statuses).toEqual([200, 200])
  })

  it('fact 38: two collections, or two users, may be written in the same quantum', async () => {
    await using sync = await connect()
    const token = await sync.signIn(sync.sandbox.addUser('bob'))
    const body = { body: '{}', headers: { 'Content-Type': 'application/json' } }

    const statuses = [
      (await sync.put('/storage/tabs/a', {})).status,
      (await sync.put('/storage/history/a', {})).status,
      (await sync.send('PUT', '/storage/tabs/a', { ...body, token })).status,
    ]

    expect(statuses).toEqual([200, 200, 200])
  })

  it('fact 39: X-Weave-Timestamp is on every answer and not older than X-Last-Modified', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.nowMs -= 5000

    const answers = [
      await sync.get('/storage/tabs'),
      await sync.get('/storage/tabs/missing'),
      await sync.get('/storage/tabs?limit=x'),
      await sync.get('/nowhere'),
      await sync.put('/storage/tabs', {}),
    ]

    expect(answers.map(({ status }) => status)).toEqual([200, 404, 400, 404, 405])
    const [now, written] = [sync.stamp(), sync.stamp(5000)]
    expect(answers.map(({ headers }) => headers.get('X-Weave-Timestamp'))).toEqual([
      written,
      now,
      now,
      now,
      now,
    ])
  })

  it('fact 40: X-Last-Modified is on 200, 202, 304 and 412 but not on refusals', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    const conflict = await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answers = [
      await sync.get('/storage/tabs'),
      await sync.post('/storage/tabs?batch=true', []),
      await sync.get('/storage/tabs', { 'X-If-Modified-Since': sync.stamp() }),
      await sync.put('/storage/tabs/a', {}, { 'X-If-Unmodified-Since': '0' }),
      await sync.get('/storage/tabs?limit=x'),
      await sync.send('GET', '/storage/tabs', { token: { ...sync.token, key: 'x' } }),
      await sync.get('/storage/tabs/missing'),
      conflict,
    ]

    expect(answers.map(({ status }) => status)).toEqual([200, 202, 304, 412, 400, 401, 404, 503])
    const written = sync.stamp(-10)
    expect(answers.map(({ modified }) => modified)).toEqual([
      ...Array(4).fill(written),
      ...Array(4).fill(null),
    ])
  })

  it('fact 41: the collection has the timestamp of the last write or delete', async () => {
    await using sync = await connect()
    const modified = async () => (await sync.get('/storage/tabs')).modified
    const seen: (string | null)[] = []

    await sync.put('/storage/tabs/a', { payload: 'x' })
    seen.push(await modified())
    sync.later()
    await sync.post('/storage/tabs', [{ id: 'b' }, { id: 'c' }])
    seen.push(await modified())
    sync.later()
    await sync.delete('/storage/tabs/a')
    seen.push(await modified())
    sync.later()
    await sync.delete('/storage/tabs?ids=b,c')
    seen.push(await modified())

    expect(seen).toEqual(['1700000000.00', '1700000000.01', '1700000000.02', '1700000000.03'])
  })

  it('fact 42: the store has the newest timestamp, also after a collection was deleted', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()
    await sync.put('/storage/history/a', { payload: 'x' })
    const before = await sync.get('/info/collections')
    sync.later()

    await sync.delete('/storage/history')
    const after = await sync.get('/info/collections')

    expect(before.modified).toBe(sync.stamp(-10))
    expect(after.modified).toBe(sync.stamp())
    expect(after.text).toBe(`{"tabs":${sync.stamp(-20)}}`)
  })

  it('fact 42: in Python mode the store goes back in time', async () => {
    await using sync = await connect({ mode: 'python' })
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()
    await sync.put('/storage/history/a', { payload: 'x' })
    sync.later()

    await sync.delete('/storage/history')
    const after = await sync.get('/info/collections')

    expect(after.modified).toBe(sync.stamp(-20))
  })

  it('fact 43: DELETE of a record has its old timestamp in the header and the new one in the body', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.delete('/storage/tabs/a')

    expect([answer.modified, answer.text]).toEqual([sync.stamp(-10), `{"modified":${sync.stamp()}}`])
  })

  it('fact 44: DELETE of ids has the new timestamp in the header', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.delete('/storage/tabs?ids=a')

    expect(answer.modified).toBe(sync.stamp())
  })

  it('fact 45: DELETE of a collection answers with the timestamp of the store', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.delete('/storage/tabs')
    const store = await sync.get('/info/collections')

    expect([answer.modified, answer.text]).toEqual([sync.stamp(-10), sync.stamp()])
    expect(store.modified).toBe(answer.text)
  })

  it('fact 46: info/configuration needs no signature and was modified at 0.00', async () => {
    await using sync = await connect()

    const response = await fetch(`${sync.token.api_endpoint}/info/configuration`)

    expect([response.status, response.headers.get('X-Last-Modified')]).toEqual([200, '0.00'])
    expect(await response.json()).toMatchObject({ max_post_records: 100, max_total_records: 10_000 })
  })

  it('fact 46: it knows no preconditions', async () => {
    await using sync = await connect()

    const answer = await sync.get('/info/configuration', { 'X-If-Modified-Since': sync.stamp() })

    expect(answer.status).toBe(200)
  })

  it('fact 46: in Python mode it needs one', async () => {
    await using sync = await connect({ mode: 'python' })

    const response = await fetch(`${sync.token.api_endpoint}/info/configuration`)
    const signed = await sync.get('/info/configuration')

    expect([response.status, signed.status]).toEqual([401, 200])
  })
})
