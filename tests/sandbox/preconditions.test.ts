import { describe, expect, it } from 'bun:test'
import { connect, type SyncClient } from './sync-client.ts'

const since = 'X-If-Modified-Since'
const unless = 'X-If-Unmodified-Since'

// Record a at .00, record b at .01, which is the collection's and the store's time, too; the clock is at .02.
async function connectToTwo(options = {}): Promise<SyncClient> {
  const sync = await connect(options)
  await sync.put('/storage/tabs/a', { payload: 'x' })
  sync.later()
  await sync.put('/storage/tabs/b', { payload: 'y' })
  sync.later()
  return sync
}

const [timeOfA, timeOfB] = ['1700000000.00', '1700000000.01']

describe('X-If-Modified-Since', () => {
  it.each([
    ['48', '/storage/tabs', timeOfB, 304, timeOfB],
    ['48', '/storage/tabs', timeOfA, 200, timeOfB],
    ['48', '/storage/tabs', '1800000000', 304, timeOfB],
    ['49', '/storage/tabs/a', timeOfA, 304, timeOfA],
    ['49', '/storage/tabs/b', timeOfA, 200, timeOfB],
    ['50', '/info/collections', timeOfB, 304, timeOfB],
    ['50', '/info/collection_counts', timeOfA, 200, timeOfB],
    ['50', '/info/quota', timeOfB, 304, timeOfB],
    ['58', '/storage/unknown', '0', 304, '0.00'],
  ])('fact %s: GET %s since %s is %d', async (_, path, time, status, modified) => {
    await using sync = await connectToTwo()

    const answer = await sync.get(path, { [since]: time })

    expect([answer.status, answer.modified]).toEqual([status, modified])
    expect(answer.text === '').toBe(status === 304)
  })
})

describe('X-If-Unmodified-Since', () => {
  const requests: [method: string, path: string, body: unknown][] = [
    ['GET', '/storage/tabs', null],
    ['GET', '/storage/tabs/b', null],
    ['GET', '/info/collections', null],
    ['PUT', '/storage/tabs/b', { payload: 'z' }],
    ['POST', '/storage/tabs', [{ id: 'c' }]],
    ['DELETE', '/storage/tabs/b', null],
    ['DELETE', '/storage/tabs?ids=b', null],
    ['DELETE', '/storage/tabs', null],
    ['DELETE', '/storage', null],
  ]
  it.each(requests)(
    'facts 51, 52: %s %s is 412 when older, passes when equal',
    async (method, path, body) => {
      await using sync = await connectToTwo()
      const send = (time: string) => {
        const headers = { 'Content-Type': 'application/json', [unless]: time }
        return sync.send(method, path, body ? { body: JSON.stringify(body), headers } : { headers })
      }

      const older = await send(timeOfA)
      const equal = await send(timeOfB)

      expect([older.status, older.text, older.modified]).toEqual([412, '', timeOfB])
      expect(equal.status).toBe(200)
    },
  )

  it('fact 53: PUT compares with the record, not with the collection', async () => {
    await using sync = await connectToTwo()

    const answer = await sync.put('/storage/tabs/a', { payload: 'z' }, { [unless]: timeOfA })

    expect(answer.status).toBe(200)
  })

  it('fact 54: PUT with 0 only creates', async () => {
    await using sync = await connectToTwo()

    const absent = await sync.put('/storage/tabs/c', { payload: 'z' }, { [unless]: '0' })
    sync.later()
    const present = await sync.put('/storage/tabs/c', { payload: 'z' }, { [unless]: '0' })

    expect([absent.status, present.status]).toEqual([200, 412])
  })

  it('fact 55: POST compares with the collection; 0 passes when there is none', async () => {
    await using sync = await connectToTwo()

    const statuses = [
      (await sync.post('/storage/tabs', [{ id: 'a' }], { [unless]: timeOfA })).status,
      (await sync.post('/storage/tabs', [], { [unless]: '0' })).status,
      (await sync.post('/storage/history', [{ id: 'a' }], { [unless]: '0' })).status,
    ]

    expect(statuses).toEqual([412, 412, 200])
  })

  it('fact 56: DELETE of ids compares with the collection', async () => {
    await using sync = await connectToTwo()

    const answer = await sync.delete('/storage/tabs?ids=a', { [unless]: timeOfA })

    expect(answer.status).toBe(412)
  })

  it('fact 57: DELETE of a record compares with the record; a missing one is 404', async () => {
    await using sync = await connectToTwo()

    const statuses = [
      (await sync.delete('/storage/tabs/missing', { [unless]: '0' })).status,
      (await sync.delete('/storage/tabs/b', { [unless]: timeOfA })).status,
      (await sync.delete('/storage/tabs/a', { [unless]: timeOfA })).status,
    ]

    expect(statuses).toEqual([404, 412, 200])
  })

  it('fact 58: what is missing has timestamp 0, so any value passes', async () => {
    await using sync = await connectToTwo()
    await sync.delete('/storage/tabs/a')
    sync.later()

    const deleted = await sync.put('/storage/tabs/a', { payload: 'back' }, { [unless]: timeOfA })
    const unknown = await sync.get('/storage/unknown', { [unless]: '0' })

    expect([deleted.status, unknown.status, unknown.modified]).toEqual([200, 200, '0.00'])
  })

  const unreadable: Record<string, string>[] = [
    { [since]: timeOfB, [unless]: timeOfB },
    { [unless]: '-1' },
    { [unless]: 'soon' },
    { [since]: '' },
    { [since]: '1700000000,00' },
  ]
  it.each(unreadable)('fact 59: %j is 400', async (headers) => {
    await using sync = await connectToTwo()

    const answer = await sync.get('/storage/tabs', headers)

    expect([answer.status, answer.text]).toEqual([400, '0'])
  })

  it('fact 60: append and commit of a batch compare with the collection, too', async () => {
    await using sync = await connectToTwo()
    const start = await sync.post('/storage/tabs?batch=true', [{ id: 'c' }], { [unless]: timeOfB })
    const { batch } = start.json() as { batch: string }
    sync.sandbox.write(sync.user, 'tabs', [{ id: 'd' }])

    const statuses = [
      (await sync.post('/storage/tabs?batch=true', [], { [unless]: timeOfB })).status,
      (await sync.post(`/storage/tabs?batch=${batch}`, [], { [unless]: timeOfB })).status,
      (await sync.post(`/storage/tabs?batch=${batch}&commit=true`, [], { [unless]: timeOfB })).status,
    ]

    expect(start.status).toBe(202)
    expect(statuses).toEqual([412, 412, 412])
  })

  it.each([
    ['postgres', 412],
    ['mysql', 412],
    ['spanner', 200],
    ['python', 200],
  ] as const)('fact 61: in %s mode, creating over an expired record is %d', async (mode, status) => {
    await using sync = await connect({ mode })
    await sync.put('/storage/tabs/a', { payload: 'x', ttl: 1 })
    sync.later(1000)

    const hidden = await sync.get('/storage/tabs/a')
    const answer = await sync.put('/storage/tabs/a', { payload: 'y' }, { [unless]: '0' })

    expect([hidden.status, answer.status]).toEqual([404, status])
  })
})
