import { describe, expect, it } from 'bun:test'
import { connect } from './sync-client.ts'

const json = { 'Content-Type': 'application/json' }

describe('record', () => {
  it('fact 63: GET of an unknown one is 404 with body 0', async () => {
    await using sync = await connect()

    const answer = await sync.get('/storage/tabs/missing')

    expect([answer.status, answer.text, answer.modified]).toEqual([404, '0', null])
  })

  it('fact 74: sortindex is omitted when unset, ttl always', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x', ttl: 100 })
    await sync.put('/storage/history/a', { payload: 'x', sortindex: 0 })

    const texts = [(await sync.get('/storage/tabs/a')).text, (await sync.get('/storage/history/a')).text]

    expect(texts).toEqual([
      `{"id":"a","modified":${sync.stamp()},"payload":"x"}`,
      `{"id":"a","modified":${sync.stamp()},"payload":"x","sortindex":0}`,
    ])
  })

  it('fact 75: PUT answers a bare number, creates, and merges what is given', async () => {
    await using sync = await connect()

    const created = await sync.put('/storage/tabs/a', { payload: 'x', sortindex: 5 })
    sync.later()
    const merged = await sync.put('/storage/tabs/a', { payload: 'y' })
    const afterPayload = await sync.get('/storage/tabs/a')
    sync.later()
    await sync.put('/storage/tabs/a', { sortindex: 7, payload: null, ttl: null })
    const afterIndex = await sync.get('/storage/tabs/a')

    expect([created.status, created.text]).toEqual([200, sync.stamp(-20)])
    expect(merged.text).toBe(sync.stamp(-10))
    expect(afterPayload.json()).toEqual({ id: 'a', modified: 1_700_000_000.01, payload: 'y', sortindex: 5 })
    expect(afterIndex.json()).toEqual({ id: 'a', modified: 1_700_000_000.02, payload: 'y', sortindex: 7 })
  })

  it('fact 76: PUT of a ttl alone keeps the record time but moves the collection', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.put('/storage/tabs/a', { ttl: 60 })
    const record = await sync.get('/storage/tabs/a')
    const collection = await sync.get('/storage/tabs')

    expect(answer.text).toBe(sync.stamp())
    expect([record.modified, collection.modified]).toEqual([sync.stamp(-10), sync.stamp()])
  })

  it('fact 77: PUT without payload creates an empty one', async () => {
    await using sync = await connect()

    await sync.put('/storage/tabs/a', {})
    const record = await sync.get('/storage/tabs/a')

    expect(record.json()).toMatchObject({ payload: '' })
  })

  it('fact 78: a record is hidden once its ttl has passed, at once with ttl 0', async () => {
    await using sync = await connect()
    await sync.post('/storage/tabs', [{ id: 'a', ttl: 10 }, { id: 'b', ttl: 0 }, { id: 'c' }])
    const listed = async () => (await sync.get('/storage/tabs')).json()

    const first = await listed()
    sync.later(9999)
    const before = await listed()
    sync.later(1)
    const after = await listed()

    expect([first, before, after]).toEqual([['c', 'a'], ['c', 'a'], ['c']])
    expect((await sync.get('/storage/tabs/a')).status).toBe(404)
  })

  it('fact 79: a new PUT without ttl leaves an expired record hidden, one with ttl revives it', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x', ttl: 0 })

    sync.later()
    const without = await sync.put('/storage/tabs/a', { payload: 'y' })
    const hidden = await sync.get('/storage/tabs/a')
    sync.later()
    await sync.put('/storage/tabs/a', { payload: 'z', ttl: 999_999_999 })
    const revived = await sync.get('/storage/tabs/a')

    expect([without.status, hidden.status, revived.status]).toEqual([200, 404, 200])
    expect(revived.json()).toMatchObject({ payload: 'z' })
  })

  it.each([
    [{ colour: 'red' }],
    [{ sortindex: 'x' }],
    [{ sortindex: '5' }],
    [{ sortindex: 1.5 }],
    [{ sortindex: 1_000_000_000 }],
    [{ sortindex: -1_000_000_000 }],
    [{ ttl: 1.5 }],
    [{ ttl: -1 }],
    [{ ttl: '5' }],
    [{ ttl: 1_000_000_000 }],
    [{ payload: 5 }],
    [{ payload: { a: 1 } }],
    [{ id: '' }],
    [{ id: 5 }],
    [[]],
    [null],
    ['text'],
  ])('fact 80: PUT of %j is 400 with body 8', async (body) => {
    await using sync = await connect()

    const answer = await sync.put('/storage/tabs/a', body)

    expect([answer.status, answer.text]).toEqual([400, '8'])
    expect(sync.sandbox.records(sync.user, 'tabs')).toEqual([])
  })

  it.each(['', '{', '{"payload":"x"'])('fact 80: PUT of the text %s is 400 with body 8', async (body) => {
    await using sync = await connect()
    await using python = await connect({ mode: 'python' })

    const answers = [
      await sync.send('PUT', '/storage/tabs/a', { body, headers: json }),
      await python.send('PUT', '/storage/tabs/a', { body, headers: json }),
    ]

    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [400, '8'],
      [400, '6'],
    ])
  })

  it.each([
    [{ sortindex: 999_999_999 }],
    [{ sortindex: -999_999_999 }],
    [{ ttl: 999_999_999 }],
    [{ modified: 5 }],
    [{ collection: 'x' }],
  ])('accepts %j', async (body) => {
    await using sync = await connect()

    const answer = await sync.put('/storage/tabs/a', body)

    expect(answer.status).toBe(200)
  })

  it('in Python mode a sortindex may be digits and a ttl of more than a year is forgotten', async () => {
    await using sync = await connect({ mode: 'python' })

    await sync.put('/storage/tabs/a', { sortindex: '12', ttl: 31_536_001 })
    const [record] = sync.sandbox.records(sync.user, 'tabs')

    expect(record).toMatchObject({ sortindex: 12, expiry: null })
  })

  it('fact 81: a payload over the limit, counted in bytes, is 400 with body 8', async () => {
    await using sync = await connect({ limits: { max_record_payload_bytes: 10 } })

    const fits = await sync.put('/storage/tabs/a', { payload: 'äääää' })
    sync.later()
    const over = await sync.put('/storage/tabs/a', { payload: 'äääääx' })

    expect([fits.status, over.status, over.text]).toEqual([200, 400, '8'])
  })

  it('fact 81: a collection may have a limit of its own', async () => {
    await using sync = await connect({ limits: { collections: { tabs: { max_record_payload_bytes: 3 } } } })

    const statuses = [
      (await sync.put('/storage/tabs/a', { payload: '1234' })).status,
      (await sync.put('/storage/history/a', { payload: '1234' })).status,
    ]

    expect(statuses).toEqual([400, 200])
  })

  it('fact 82: a Content-Length over the limit is 413 with body 17', async () => {
    await using sync = await connect({ limits: { max_request_bytes: 20 } })

    const put = await sync.put('/storage/tabs/a', { payload: 'x'.repeat(20) })
    const post = await sync.post('/storage/tabs', [{ id: 'a', payload: 'x'.repeat(20) }])

    expect([put.status, put.text, post.status, post.text]).toEqual([413, '17', 413, '17'])
  })

  it.each([
    ['PUT', null, 415, '0'],
    ['PUT', 'application/octet-stream', 415, '0'],
    ['PUT', 'text/plain', 200, null],
    ['PUT', 'text/plain;charset=UTF-8', 400, '8'],
    ['PUT', 'application/json; charset=utf-8', 200, null],
    ['PUT', 'application/newlines', 400, '8'],
    ['POST', null, 415, '0'],
    ['POST', 'text/html', 415, '0'],
    ['POST', 'text/plain', 200, null],
    ['POST', 'text/plain;charset=UTF-8', 200, null],
  ])('fact 83: %s with Content-Type %s is %d', async (method, type, status, text) => {
    await using sync = await connect()
    const path = method === 'PUT' ? '/storage/tabs/a' : '/storage/tabs'
    const body = method === 'PUT' ? '{"payload":"x"}' : '[{"id":"a"}]'

    const answer = await sync.send(method, path, {
      body,
      headers: type === null ? {} : { 'Content-Type': type },
    })

    expect(answer.status).toBe(status)
    if (text !== null) expect(answer.text).toBe(text)
  })

  it('fact 83: in Python mode a missing Content-Type means JSON', async () => {
    await using sync = await connect({ mode: 'python' })

    const answer = await sync.send('PUT', '/storage/tabs/a', { body: '{"payload":"x"}' })

    expect(answer.status).toBe(200)
  })

  it('fact 84: the id in a PUT body is ignored', async () => {
    await using sync = await connect()

    await sync.put('/storage/tabs/a', { id: 'b', payload: 'x' })

    expect(sync.sandbox.records(sync.user, 'tabs').map(({ id }) => id)).toEqual(['a'])
  })

  it.each([
    ['a'.repeat(64), 200],
    ['a'.repeat(65), 404],
    ['%20', 200],
    ['~', 200],
    ['%7F', 404],
    ['%C3%A4', 404],
    ['%ZZ', 200],
    ['a/b', 404],
    ['', 404],
  ])('fact 85: PUT to the id "%s" is %d', async (id, status) => {
    await using sync = await connect()

    const answer = await sync.put(`/storage/tabs/${id}`, { payload: 'x' })

    expect(answer.status).toBe(status)
  })

  it('fact 86: the crypto collection refuses an initialisation vector of zeros', async () => {
    await using sync = await connect()
    const payload = JSON.stringify({ IV: 'AAAAAAAAAAAAAAAAAAAAAA==', ciphertext: 'x', hmac: 'y' })

    const put = await sync.put('/storage/crypto/keys', { payload })
    const post = await sync.post('/storage/crypto', [{ id: 'keys', payload }])
    const elsewhere = await sync.put('/storage/tabs/keys', { payload })

    expect([put.status, put.text, post.status, post.text]).toEqual([400, '8', 400, '8'])
    expect(elsewhere.status).toBe(200)
  })

  it('fact 93: DELETE answers the new timestamp once, then 404', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const first = await sync.delete('/storage/tabs/a')
    sync.later()
    const second = await sync.delete('/storage/tabs/a')
    const collection = await sync.get('/storage/tabs')

    expect([first.status, first.text]).toEqual([200, `{"modified":${sync.stamp(-10)}}`])
    expect([second.status, second.text]).toEqual([404, '0'])
    expect(collection.modified).toBe(sync.stamp(-10))
  })

  it('fact 93: DELETE of an expired record is 404; DELETE of ids removes it', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x', ttl: 0 })
    sync.later()

    const expired = await sync.delete('/storage/tabs/a')
    await sync.delete('/storage/tabs?ids=a')
    sync.later()
    await sync.put('/storage/tabs/a', { payload: 'y' }, { 'X-If-Unmodified-Since': '0' })

    expect(expired.status).toBe(404)
    expect((await sync.get('/storage/tabs/a')).json()).toMatchObject({ payload: 'y' })
  })

  it('fact 100: in mysql mode ids are compared without case and trailing blanks, the last spelling wins', async () => {
    await using sync = await connect({ mode: 'mysql' })

    await sync.put('/storage/tabs/AbC', { payload: 'first', sortindex: 4 })
    sync.later()
    await sync.put('/storage/tabs/abc%20', { payload: 'second' })
    const answer = await sync.get('/storage/tabs/aBc')
    const list = await sync.get('/storage/tabs')

    expect(answer.json()).toMatchObject({ id: 'abc ', payload: 'second', sortindex: 4 })
    expect(list.json()).toEqual(['abc '])
  })

  it('fact 100: otherwise ids are exact', async () => {
    await using sync = await connect()

    await sync.post('/storage/tabs', [{ id: 'AbC' }, { id: 'abc' }, { id: 'abc ' }])

    expect((await sync.get('/storage/tabs')).json()).toHaveLength(3)
  })
})
