import { describe, expect, it } from 'bun:test'
import { connect, type Answer } from './sync-client.ts'

interface Started {
  batch: string
  success: string[]
  failed: Record<string, string>
}

const batchOf = (answer: Answer) => (answer.json() as Started).batch
const unless = 'X-If-Unmodified-Since'

describe('batch upload', () => {
  it.each(['batch=true', 'batch=', 'batch'])(
    'fact 103: %s stages records that nobody sees',
    async (query) => {
      await using sync = await connect()
      await sync.put('/storage/tabs/old', { payload: 'x' })
      sync.later()

      const answer = await sync.post(`/storage/tabs?${query}`, [{ id: 'a' }, { id: 'b', payload: 5 }])
      const list = await sync.get('/storage/tabs')

      expect(answer.status).toBe(202)
      expect(answer.json()).toEqual({
        batch: expect.any(String),
        success: ['a'],
        failed: { b: expect.any(String) },
      })
      expect(answer.modified).toBe(sync.stamp(-10))
      expect([list.text, list.modified]).toEqual(['["old"]', sync.stamp(-10)])
    },
  )

  it('fact 104: append is 202, commit 200 with one new timestamp for all', async () => {
    await using sync = await connect()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))

    sync.later()
    const append = await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'b' }])
    sync.later()
    const commit = await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [{ id: 'c' }])
    const records = sync.sandbox.records(sync.user, 'tabs')

    expect([append.status, batchOf(append)]).toEqual([202, batch])
    expect([commit.status, commit.modified]).toEqual([200, sync.stamp()])
    expect(commit.text).toBe(`{"modified":${sync.stamp()},"success":["c"],"failed":{}}`)
    expect(records.map(({ id, modified }) => [id, modified])).toEqual([
      ['a', sync.nowMs],
      ['b', sync.nowMs],
      ['c', sync.nowMs],
    ])
  })

  it('fact 104: appending an id again merges the fields', async () => {
    await using sync = await connect()
    const batch = batchOf(
      await sync.post('/storage/tabs?batch=true', [{ id: 'a', payload: 'x', sortindex: 1 }]),
    )

    await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'a', payload: 'y' }])
    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ payload: 'y', sortindex: 1 }])
  })

  it('fact 105: start and commit in one request are a plain upload', async () => {
    await using sync = await connect()

    const answer = await sync.post('/storage/tabs?batch=true&commit=true', [{ id: 'a' }])

    expect(answer.status).toBe(200)
    expect(answer.json()).toEqual({ modified: 1_700_000_000, success: ['a'], failed: {} })
  })

  it.each(['commit=true', 'batch=true&commit=1', 'batch=true&commit=', 'batch=true&commit=false'])(
    'fact 106: %s is 400',
    async (query) => {
      await using sync = await connect()

      const answer = await sync.post(`/storage/tabs?${query}`, [{ id: 'a' }])

      expect([answer.status, answer.text]).toEqual([400, '0'])
    },
  )

  it('fact 107: an id that is foreign, unknown or of another collection is 400', async () => {
    await using sync = await connect()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))
    const token = await sync.signIn(sync.sandbox.addUser('bob'))

    const answers = [
      await sync.post(`/storage/history?batch=${batch}`, []),
      await sync.post('/storage/tabs?batch=nonsense', []),
      await sync.post('/storage/tabs?batch=nonsense&commit=true', []),
      await sync.send('POST', `/storage/tabs?batch=${batch}`, {
        token,
        body: '[]',
        headers: { 'Content-Type': 'application/json' },
      }),
    ]

    expect(answers.map(({ status, text }) => `${status} ${text}`)).toEqual(Array(4).fill('400 0'))
  })

  it('fact 107: a batch lives for two hours', async () => {
    await using sync = await connect({ tokenDurationSeconds: 100_000 })
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))

    sync.later(2 * 3600 * 1000 - 1)
    const before = await sync.post(`/storage/tabs?batch=${batch}`, [])
    sync.later(1)
    const after = await sync.post(`/storage/tabs?batch=${batch}`, [])

    expect([before.status, after.status]).toEqual([202, 400])
  })

  it('fact 108: a second commit is 400, or 412 with the old precondition', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/old', { payload: 'x' })
    const since = sync.stamp()
    sync.later()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))
    const commit = (headers = {}) => sync.post(`/storage/tabs?batch=${batch}&commit=true`, [], headers)

    const first = await commit({ [unless]: since })
    sync.later()
    const conditional = await commit({ [unless]: since })
    const plain = await commit()

    expect([first.status, conditional.status, plain.status]).toEqual([200, 412, 400])
  })

  it('fact 108: a commit that fails its precondition leaves the batch', async () => {
    await using sync = await connect()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))
    sync.sandbox.write(sync.user, 'tabs', [{ id: 'other' }])

    const refused = await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [], { [unless]: '0' })
    const repeated = await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    expect([refused.status, repeated.status]).toEqual([412, 200])
  })

  it('fact 109: a batch may have no records, and a commit none of its own, but not zero bytes', async () => {
    await using sync = await connect()
    const headers = { 'Content-Type': 'application/json' }
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', []))

    const bare = await sync.send('POST', `/storage/tabs?batch=${batch}&commit=true`, { body: '', headers })
    const empty = await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    expect([bare.status, bare.text]).toEqual([400, '8'])
    expect([empty.status, empty.json()]).toEqual([200, expect.objectContaining({ success: [], failed: {} })])
  })

  it('fact 110: ttl is counted from the commit', async () => {
    await using sync = await connect()
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a', ttl: 10 }]))

    sync.later(60_000)
    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    expect(sync.sandbox.records(sync.user, 'tabs')).toMatchObject([{ expiry: sync.nowMs + 10_000 }])
  })

  it('fact 111: without batching a start is applied at once and an id is 400', async () => {
    await using sync = await connect({ batching: false })

    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'a' }])
    sync.later()
    const append = await sync.post('/storage/tabs?batch=1', [{ id: 'b' }])
    const configuration = await sync.get('/info/configuration')

    expect([start.status, start.json()]).toEqual([
      200,
      { modified: 1_700_000_000, success: ['a'], failed: {} },
    ])
    expect(append.status).toBe(400)
    expect(configuration.json()).toEqual({
      max_request_bytes: 2_625_536,
      max_record_payload_bytes: 2_621_440,
      max_quota_limit: 2_097_152_000,
    })
  })

  it('fact 112: in mysql mode appending an id again overwrites every staged payload', async () => {
    await using sync = await connect({ mode: 'mysql' })
    const start = await sync.post('/storage/tabs?batch=true', [
      { id: 'a', payload: 'first' },
      { id: 'b', payload: 'other' },
    ])
    const batch = encodeURIComponent(batchOf(start))

    await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'a', payload: 'second' }])
    await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [])

    const payloads = sync.sandbox.records(sync.user, 'tabs').map(({ payload }) => payload)
    expect(payloads).toEqual(['second', 'second'])
  })

  it.each([
    ['postgres', /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/],
    ['mysql', /^[A-Za-z0-9]+=+$/],
    ['spanner', /^[0-9a-f]{32}$/],
    ['python', /^[A-Za-z0-9]+=+$/],
  ] as const)('fact 113: in %s mode the id has its form and survives encoding', async (mode, form) => {
    await using sync = await connect({ mode })
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a' }]))

    const answer = await sync.post(`/storage/tabs?batch=${encodeURIComponent(batch)}&commit=true`, [])

    expect(batch).toMatch(form)
    expect(answer.status).toBe(200)
  })

  it('refuses to grow beyond the totals', async () => {
    await using sync = await connect({ limits: { max_total_records: 2, max_total_bytes: 10 } })
    const batch = batchOf(await sync.post('/storage/tabs?batch=true', [{ id: 'a', payload: '12345' }]))

    const answers = [
      await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'b' }, { id: 'c' }]),
      await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'b', payload: '123456' }]),
      await sync.post(`/storage/tabs?batch=${batch}`, [{ id: 'b', payload: '12345' }]),
    ]

    expect(answers.map(({ status }) => status)).toEqual([400, 400, 202])
    expect(answers[0]?.text).toBe('17')
  })
})
