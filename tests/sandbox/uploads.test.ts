import { describe, expect, it } from 'bun:test'
import { connect, type Answer } from './sync-client.ts'

interface Outcome {
  modified: number
  success: string[]
  failed: Record<string, string>
}

const outcome = (answer: Answer) => answer.json() as Outcome

describe('POST collection', () => {
  it('fact 87: everything gets one timestamp, bad records fail by themselves', async () => {
    await using sync = await connect()

    const answer = await sync.post('/storage/tabs', [
      { id: 'a', payload: 'x' },
      { id: 'b', payload: 5 },
      { id: 'c', ttl: 'soon' },
      { id: 'd', payload: 'y' },
      { id: 'e', colour: 'red' },
    ])
    const records = sync.sandbox.records(sync.user, 'tabs')

    expect(answer.status).toBe(200)
    expect(outcome(answer)).toEqual({
      modified: 1_700_000_000,
      success: ['a', 'd'],
      failed: { b: expect.any(String), c: expect.any(String), e: expect.any(String) },
    })
    expect(records.map(({ id, modified }) => [id, modified])).toEqual([
      ['a', sync.nowMs],
      ['d', sync.nowMs],
    ])
    expect(answer.modified).toBe(sync.stamp())
  })

  it('fact 87: records are merged as by PUT', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x', sortindex: 3 })
    sync.later()

    await sync.post('/storage/tabs', [{ id: 'a', payload: 'y' }])

    expect(sync.sandbox.records(sync.user, 'tabs')[0]).toMatchObject({ payload: 'y', sortindex: 3 })
  })

  it('fact 87: newlines are accepted as well as JSON', async () => {
    await using sync = await connect()

    const answer = await sync.send('POST', '/storage/tabs', {
      body: '{"id":"a"}\n{"id":"b"}\n',
      headers: { 'Content-Type': 'application/newlines' },
    })

    expect(outcome(answer).success).toEqual(['a', 'b'])
  })

  it.each(['{}', '"a"', '5', 'null', '[', '', '["a"]', '[null]', '[[]]', '[{"payload":"x"}]', '[{"id":5}]'])(
    'fact 88: %s is 400 with body 8 and stores nothing',
    async (body) => {
      await using sync = await connect()

      const answer = await sync.send('POST', '/storage/tabs', {
        body: body.startsWith('[{') ? body.replace('[', '[{"id":"good"},') : body,
        headers: { 'Content-Type': 'application/json' },
      })

      expect([answer.status, answer.text]).toEqual([400, '8'])
      expect(sync.sandbox.records(sync.user, 'tabs')).toEqual([])
    },
  )

  it('fact 88: a duplicate id is 400 with body 8', async () => {
    await using sync = await connect()

    const answer = await sync.post('/storage/tabs', [{ id: 'a' }, { id: 'b' }, { id: 'a' }])

    expect([answer.status, answer.text]).toEqual([400, '8'])
  })

  it('fact 85: an id that is too long or not printable fails by itself', async () => {
    await using sync = await connect()

    const answer = await sync.post('/storage/tabs', [
      { id: 'a'.repeat(65) },
      { id: 'ä' },
      { id: '' },
      { id: 'b' },
    ])

    expect(outcome(answer).success).toEqual(['b'])
    expect(Object.keys(outcome(answer).failed)).toEqual(['a'.repeat(65), 'ä', ''])
  })

  it('fact 89: the records after the hundredth fail with "retry bso"', async () => {
    await using sync = await connect()
    const ids = Array.from({ length: 103 }, (_, index) => `r${index}`)

    const answer = await sync.post(
      '/storage/tabs',
      ids.map((id) => ({ id })),
    )

    expect(outcome(answer).success).toEqual(ids.slice(0, 100))
    expect(outcome(answer).failed).toEqual({ r100: 'retry bso', r101: 'retry bso', r102: 'retry bso' })
  })

  it('facts 81, 90: payloads beyond the limits fail with "retry bytes"', async () => {
    await using sync = await connect({ limits: { max_record_payload_bytes: 10, max_post_bytes: 25 } })

    const answer = await sync.post('/storage/tabs', [
      { id: 'a', payload: 'x'.repeat(10) },
      { id: 'b', payload: 'x'.repeat(11) },
      { id: 'c', payload: 'x'.repeat(4) },
      { id: 'd', payload: 'x'.repeat(4) },
    ])

    expect(outcome(answer)).toMatchObject({
      success: ['a', 'c'],
      failed: { b: 'retry bytes', d: 'retry bytes' },
    })
  })

  it('fact 91: an empty upload moves the collection', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })
    sync.later()

    const answer = await sync.post('/storage/tabs', [])
    const collections = await sync.get('/info/collections')

    expect([answer.status, outcome(answer).success]).toEqual([200, []])
    expect(collections.text).toBe(`{"tabs":${sync.stamp()}}`)
  })

  it.each([
    ['X-Weave-Records', '101', '', 400, '17'],
    ['X-Weave-Records', '100', '', 200, null],
    ['X-Weave-Bytes', '2621441', '', 400, '17'],
    ['X-Weave-Total-Records', '10001', '?batch=true', 400, '17'],
    ['X-Weave-Total-Bytes', '262144001', '?batch=true', 400, '17'],
    ['X-Weave-Total-Records', '10001', '', 400, '17'],
    ['X-Weave-Total-Bytes', '262144001', '', 400, '17'],
    ['X-Weave-Total-Bytes', '4294967295', '', 400, '17'],
    ['X-Weave-Total-Bytes', '4294967296', '', 400, '0'],
    ['X-Weave-Records', 'many', '', 400, '0'],
    ['X-Weave-Bytes', '1.5', '', 400, '0'],
    ['X-Weave-Records', '-1', '', 400, '0'],
  ])('fact 92: %s: %s on POST%s is %d', async (name, value, query, status, text) => {
    await using sync = await connect()

    const answer = await sync.post(`/storage/tabs${query}`, [{ id: 'a' }], { [name]: value })

    expect(answer.status).toBe(status)
    if (text !== null) expect(answer.text).toBe(text)
  })
})
