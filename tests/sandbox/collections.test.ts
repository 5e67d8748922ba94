import { describe, expect, it } from 'bun:test'
import { connect } from './sync-client.ts'

describe('DELETE collection', () => {
  it('fact 94: with ids it answers a bare number and counts unknown ids, too', async () => {
    await using sync = await connect()
    await sync.post('/storage/tabs', [{ id: 'a' }, { id: 'b' }])
    sync.later()

    const known = await sync.delete('/storage/tabs?ids=a')
    sync.later()
    const unknown = await sync.delete('/storage/tabs?ids=missing')
    const collection = await sync.get('/storage/tabs')

    expect([known.status, known.text]).toEqual([200, sync.stamp(-10)])
    expect([unknown.status, unknown.text]).toEqual([200, sync.stamp()])
    expect([collection.text, collection.modified]).toEqual(['["b"]', sync.stamp()])
  })

  it('fact 94: deleting the last id leaves the collection, deleting unknown ids creates it', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    await sync.delete('/storage/tabs?ids=a')
    await sync.delete('/storage/fresh?ids=a')
    const collections = await sync.get('/info/collections')

    expect(collections.text).toBe(`{"fresh":${sync.stamp()},"tabs":${sync.stamp()}}`)
  })

  it('facts 94 to 97: Python mode answers objects', async () => {
    await using sync = await connect({ mode: 'python' })
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const ids = await sync.delete('/storage/tabs?ids=a')
    sync.later()
    const collection = await sync.delete('/storage/tabs')
    const store = await sync.delete('/storage')

    expect(ids.text).toBe(`{"modified":${sync.stamp(-10)}}`)
    expect(collection.text).toMatch(/^\{"modified":\d+\.\d\d\}$/)
    expect(store.text).toBe('{}')
  })

  it('fact 94: no ids in ids deletes the whole collection', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    await sync.delete('/storage/tabs?ids=')

    expect((await sync.get('/info/collections')).text).toBe('{}')
  })

  it('fact 95: afterwards it is as if it had never been', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    await sync.delete('/storage/tabs')
    const collections = await sync.get('/info/collections')
    const list = await sync.get('/storage/tabs')
    const created = await sync.post('/storage/tabs', [{ id: 'a' }], { 'X-If-Unmodified-Since': '0' })

    expect(collections.text).toBe('{}')
    expect([list.text, list.modified]).toEqual(['[]', '0.00'])
    expect(created.status).toBe(200)
  })

  it.each(['/storage', ''])('fact 96: DELETE "%s" forgets everything', async (path) => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.delete(path)
    const collections = await sync.get('/info/collections')

    expect([answer.status, answer.text]).toEqual([200, 'null'])
    expect([collections.text, collections.modified]).toEqual(['{}', '0.00'])
  })

  it('fact 97: an unknown collection is deleted with 200', async () => {
    await using sync = await connect()

    const answer = await sync.delete('/storage/unknown')

    expect([answer.status, answer.text]).toEqual([200, '0.00'])
  })
})

describe('info', () => {
  it('fact 98: counts and usage leave out what has expired', async () => {
    await using sync = await connect()
    await sync.post('/storage/tabs', [
      { id: 'a', payload: 'x'.repeat(512) },
      { id: 'b', payload: 'ä'.repeat(256) },
      { id: 'c', payload: 'gone', ttl: 0 },
    ])
    await sync.put('/storage/forms/a', { payload: 'gone', ttl: 0 })

    const counts = await sync.get('/info/collection_counts')
    const usage = await sync.get('/info/collection_usage')

    expect(counts.json()).toEqual({ tabs: 2 })
    expect(usage.json()).toEqual({ tabs: 1 })
    expect(counts.headers.get('X-Weave-Records')).toBe('1')
  })

  it('fact 99: quota is the use in KB and null', async () => {
    await using sync = await connect({ quotaKilobytes: 4 })
    await sync.put('/storage/tabs/a', { payload: 'x'.repeat(1536) })

    const answer = await sync.get('/info/quota')

    expect(answer.json()).toEqual([1.5, null])
  })

  it.each([
    ['PUT', '/storage/tabs/b', {}],
    ['POST', '/storage/tabs', []],
    ['POST', '/storage/tabs?batch=true', []],
  ])('fact 99: over quota %s %s is 403 with body 14', async (method, path, body) => {
    await using sync = await connect({ quotaKilobytes: 1 })
    await sync.put('/storage/tabs/a', { payload: 'x'.repeat(1024) })
    sync.later()

    const headers = { 'Content-Type': 'application/json' }
    const answer = await sync.send(method, path, { body: JSON.stringify(body), headers })

    expect([answer.status, answer.text]).toEqual([403, '14'])
  })

  it('fact 99: Python mode tells the quota and warns when it runs out', async () => {
    await using sync = await connect({ mode: 'python', quotaKilobytes: 1030 })

    const plenty = await sync.put('/storage/tabs/a', { payload: 'x'.repeat(1024) })
    sync.later()
    const scarce = await sync.put('/storage/tabs/b', { payload: 'x'.repeat(10 * 1024) })
    const quota = await sync.get('/info/quota')

    expect(plenty.headers.get('X-Weave-Quota-Remaining')).toBeNull()
    expect(scarce.headers.get('X-Weave-Quota-Remaining')).toBe('1019')
    expect(quota.json()).toEqual([11, 1030])
  })
})

describe('routes', () => {
  it.each([
    ['HEAD', '/storage/tabs'],
    ['PUT', '/storage/tabs'],
    ['PATCH', '/storage/tabs/a'],
    ['POST', '/storage/tabs/a'],
    ['GET', '/storage'],
    ['POST', '/info/collections'],
    ['OPTIONS', '/storage/tabs'],
  ])('fact 101: %s %s is 405 without a body', async (method, path) => {
    await using sync = await connect()

    const answer = await sync.send(method, path)

    expect([answer.status, answer.text]).toEqual([405, ''])
  })

  it.each([
    '/nowhere',
    '/storage/',
    '/storage/tabs/',
    '/storage/tabs/a/b',
    '/storage/bad%20name',
    `/storage/${'c'.repeat(33)}`,
    '/info',
    '/info/secrets',
    '/info/collections/',
  ])('fact 101: %s is 404 with body 0', async (path) => {
    await using sync = await connect()

    const answer = await sync.get(path)

    expect([answer.status, answer.text]).toEqual([404, '0'])
  })

  it.each([
    ['Firefox-iOS-Sync/18.0b1 (iPhone; iPhone OS 13.2.2) (Fennec)', 503],
    ['Firefox-iOS-Sync/9.3', 503],
    ['Firefox-iOS-Sync/20.0b0 (iPhone)', 200],
    ['Firefox-iOS-Sync/120.0', 200],
    ['Firefox/133.0', 200],
  ])('fact 102: User-Agent %s is %d', async (agent, status) => {
    await using sync = await connect()

    const answer = await sync.get('/info/collections', { 'User-Agent': agent })

    expect(answer.status).toBe(status)
    if (status === 503) {
      expect([answer.text, answer.headers.get('Retry-After')]).toEqual(['0', null])
      expect(answer.headers.get('X-Weave-Timestamp')).toBeNull()
    }
  })
})
