import { describe, expect, it } from 'bun:test'
import { connect, hawk, type Answer, type SyncClient } from './sync-client.ts'

interface Listed {
  id: string
  modified: number
  payload: string
  sortindex?: number
}

const next = (answer: Answer) => answer.headers.get('X-Weave-Next-Offset')
const ids = (answer: Answer) => (answer.json() as Listed[]).map(({ id }) => id)

// Five records: two at .00, one each at .01, .02 and .03, with sortindexes 3 1 2 and two unset.
async function connectToFive(options = {}): Promise<SyncClient> {
  const sync = await connect(options)
  await sync.post('/storage/tabs', [
    { id: 'a', sortindex: 3 },
    { id: 'b', sortindex: 1 },
  ])
  sync.later()
  await sync.post('/storage/tabs', [{ id: 'c', sortindex: 2, payload: 'x', ttl: 1000 }])
  sync.later()
  await sync.post('/storage/tabs', [{ id: 'd' }])
  sync.later()
  await sync.post('/storage/tabs', [{ id: 'e' }])
  return sync
}

async function followPages(sync: SyncClient, query: string): Promise<{ seen: string[]; pages: Answer[] }> {
  const pages = [await sync.get(`/storage/tabs?${query}`)]
  for (let offset = next(pages[0]!); offset !== null; offset = next(pages.at(-1)!)) {
    pages.push(await sync.get(`/storage/tabs?${query}&offset=${encodeURIComponent(offset)}`))
  }
  const seen = pages.flatMap((page) => page.json() as (string | Listed)[])
  return { pages, seen: seen.map((record) => (typeof record === 'string' ? record : record.id)) }
}

describe('GET collection', () => {
  it('fact 62: an unknown collection is an empty list from time 0.00', async () => {
    await using sync = await connect()

    const answer = await sync.get('/storage/unknown')

    expect([answer.status, answer.text, answer.modified]).toEqual([200, '[]', '0.00'])
    expect(answer.headers.get('Content-Type')).toBe('application/json')
  })

  it('fact 64: without full it is an array of ids, newest first', async () => {
    await using sync = await connectToFive()

    const answer = await sync.get('/storage/tabs')

    expect(answer.json()).toEqual(['e', 'd', 'c', 'b', 'a'])
  })

  it.each(['full=1', 'full=0', 'full=', 'full'])('fact 65: %s asks for whole records', async (query) => {
    await using sync = await connectToFive()

    const answer = await sync.get(`/storage/tabs?${query}&ids=c`)

    expect(answer.text).toBe('[{"id":"c","modified":1700000000.01,"payload":"x","sortindex":2}]')
  })

  it.each([
    ['newer=1700000000.01', ['e', 'd']],
    ['newer=1700000000.005', ['e', 'd', 'c']],
    ['older=1700000000.02', ['c', 'b', 'a']],
    ['newer=1700000000&older=1700000000.03', ['d', 'c']],
  ])('fact 66: %s is strict', async (query, expected) => {
    await using sync = await connectToFive()

    const answer = await sync.get(`/storage/tabs?${query}`)

    expect(answer.json()).toEqual(expected)
  })

  it.each([
    ['ids=b,d,missing', 200, ['d', 'b']],
    ['ids=%20b%20,,d', 200, ['d', 'b']],
    ['ids=', 200, ['e', 'd', 'c', 'b', 'a']],
    [`ids=${Array(99).fill('x').join()},a`, 200, ['a']],
    [`ids=${Array(100).fill('x').join()},a`, 400, 0],
    [`ids=${'x'.repeat(65)}`, 400, 0],
    ['ids=%C3%A4', 400, 0],
  ])('fact 67: %s is %d', async (query, status, expected) => {
    await using sync = await connectToFive()

    const answer = await sync.get(`/storage/tabs?${query}`)

    expect([answer.status, answer.json()]).toEqual([status, expected])
  })

  it('fact 67: in Python mode empty ids are 400', async () => {
    await using sync = await connectToFive({ mode: 'python' })

    const answer = await sync.get('/storage/tabs?ids=')

    expect([answer.status, answer.text]).toEqual([400, '1'])
  })

  it.each([
    ['sort=newest', ['e', 'd', 'c', 'b', 'a']],
    ['sort=oldest', ['a', 'b', 'c', 'd', 'e']],
    ['sort=index&ids=a,b,c', ['a', 'c', 'b']],
  ])('fact 68: %s orders the list', async (query, expected) => {
    await using sync = await connectToFive()

    const answer = await sync.get(`/storage/tabs?full=1&${query}`)

    expect(ids(answer)).toEqual(expected)
  })

  it.each(['sort=up', 'limit=-1', 'limit=x', 'limit=4294967296', 'newer=x', 'older=-1', 'limit=1&limit=2'])(
    'fact 68: %s is 400',
    async (query) => {
      await using sync = await connectToFive()

      const answer = await sync.get(`/storage/tabs?${query}`)

      expect([answer.status, answer.text]).toEqual([400, '0'])
    },
  )

  const queries = [
    '',
    'full=1',
    'sort=oldest',
    'full=1&sort=oldest',
    'full=1&sort=index',
    'full=1&sort=newest',
  ]
  it.each(queries.flatMap((query) => [1, 2, 3].map((limit) => [query, limit] as const)))(
    'facts 69, 70: following the offset of "%s" by %d yields each record once',
    async (query, limit) => {
      await using sync = await connectToFive()
      const whole = await sync.get(`/storage/tabs?${query}`)

      const { seen, pages } = await followPages(sync, `${query}&limit=${limit}`)

      const all = whole.json() as (string | Listed)[]
      expect(seen).toEqual(all.map((record) => (typeof record === 'string' ? record : record.id)))
      expect(pages).toHaveLength(Math.ceil(5 / limit))
      const counts = pages.map((page) => [Number(page.headers.get('X-Weave-Records')), page.modified])
      expect(counts).toEqual(pages.map((page) => [(page.json() as unknown[]).length, '1700000000.03']))
    },
  )

  it('fact 69: pages hold together when many records share a timestamp', async () => {
    await using sync = await connect()
    sync.sandbox.seed(sync.user, 'tabs', 100, { recordsPerTimestamp: 30, payloadBytes: 10 })

    const { seen } = await followPages(sync, 'full=1&sort=oldest&limit=7')

    expect(new Set(seen).size).toBe(100)
    expect(seen).toHaveLength(100)
  })

  it.each([
    ['postgres', 'full=1', '1700000000020:1'],
    ['postgres', 'full=1&sort=oldest', '1700000000000:2'],
    ['postgres', 'full=1&sort=index', '2'],
    ['postgres', 'sort=newest', '2'],
    ['spanner', 'full=1&sort=newest', '2'],
  ] as const)('fact 69: in %s mode the offset after two of "%s" is %s', async (mode, query, offset) => {
    await using sync = await connectToFive({ mode })

    const answer = await sync.get(`/storage/tabs?${query}&limit=2`)

    expect(next(answer)).toBe(offset)
  })

  it('fact 69: the last page, and an exact fit, have no offset; limit 0 has offset 0', async () => {
    await using sync = await connectToFive()

    const exact = await sync.get('/storage/tabs?limit=5')
    const none = await sync.get('/storage/tabs?limit=0')

    expect(next(exact)).toBeNull()
    expect([none.text, next(none)]).toEqual(['[]', '0'])
  })

  it('fact 71: in mysql mode a list without limit ends at the cap', async () => {
    await using sync = await connectToFive({ mode: 'mysql' })

    const defaultCap = sync.sandbox.switches.listCap
    sync.sandbox.switches.listCap = 2
    const { seen, pages } = await followPages(sync, 'full=1')

    expect(defaultCap).toBe(10_000)
    expect(pages).toHaveLength(3)
    expect(seen).toEqual(['e', 'd', 'c', 'b', 'a'])
  })

  it.each([
    'x',
    '1:x',
    '-1',
    '',
    '1:',
    '1700000000010:1&newer=1700000000.02',
    '1700000000020:0&older=1700000000.01',
  ])('fact 72: offset %s is 400', async (offset) => {
    await using sync = await connectToFive()

    const answer = await sync.get(`/storage/tabs?full=1&limit=1&offset=${offset}`)

    expect(answer.status).toBe(400)
  })

  it('fact 73: application/newlines has one value a line', async () => {
    await using sync = await connectToFive()

    const full = await sync.get('/storage/tabs?full=1&ids=a,c', { Accept: 'application/newlines' })
    const bare = await sync.get('/storage/tabs?ids=a,c', { Accept: 'application/newlines' })
    const none = await sync.get('/storage/unknown', { Accept: 'application/newlines' })

    expect(full.text).toBe(
      '{"id":"c","modified":1700000000.01,"payload":"x","sortindex":2}\n' +
        '{"id":"a","modified":1700000000.00,"payload":"","sortindex":3}\n',
    )
    expect(full.headers.get('Content-Type')).toBe('application/newlines')
    expect([bare.text, none.text]).toEqual(['"c"\n"a"\n', ''])
  })

  it.each([
    ['application/json', 200],
    ['*/*', 200],
    ['application/json;q=0.9, text/html', 200],
    ['text/plain', 406],
    ['application/*', 406],
    ['junk', 200],
    ['Application/JSON', 200],
    ['text/plain, application/json;q=0.9', 406],
    ['text/plain;q=0.1, */*;q=0.2', 200],
    ['text/html', 406],
  ])('fact 73: Accept: %s is %d', async (Accept, status) => {
    await using sync = await connectToFive()

    const list = await sync.get('/storage/tabs', { Accept })
    const record = await sync.get('/storage/tabs/a', { Accept })

    expect([list.status, record.status]).toEqual([status, 200])
    if (status === 406) expect(list.text).toBe('0')
  })

  it('facts 71, 100: mysql folds ids of lists, spanner has an order of its own', async () => {
    await using mysql = await connectToFive({ mode: 'mysql' })
    await using spanner = await connectToFive({ mode: 'spanner' })

    const folded = await mysql.get('/storage/tabs?ids=A,B')
    const unordered = await spanner.get('/storage/tabs?full=1')

    expect((folded.json() as string[]).toSorted()).toEqual(['a', 'b'])
    expect(ids(unordered)).not.toEqual(['e', 'd', 'c', 'b', 'a'])
  })

  it.each(['application/json', 'application/newlines'])(
    'streams a large list as %s with its headers first',
    async (Accept) => {
      await using sync = await connect()
      sync.sandbox.seed(sync.user, 'history', 5000)

      const answer = await sync.get('/storage/history?full=1&sort=oldest', { Accept })

      const records = Accept.endsWith('json')
        ? (answer.json() as Listed[])
        : answer.text
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line) as Listed)
      expect(records.map(({ id }) => id).toSorted()).toEqual(
        sync.sandbox.records(sync.user, 'history').map(({ id }) => id),
      )
      expect(answer.headers.get('X-Weave-Records')).toBe('5000')
      expect(records.every(({ payload }) => payload.length === 400)).toBe(true)
    },
  )

  it('shows a slow reader the list as it was when it was asked for', async () => {
    await using sync = await connect()
    sync.sandbox.seed(sync.user, 'history', 5000, { payloadBytes: 4000 })
    const response = await startReading(sync, '/storage/history?full=1')

    sync.sandbox.write(sync.user, 'history', [{ id: 'late', payload: 'x' }])
    sync.sandbox.remove(sync.user, 'history')
    const records = (await response.json()) as Listed[]

    expect(records).toHaveLength(5000)
    expect(sync.sandbox.records(sync.user, 'history')).toEqual([])
  })

  it('goes on after a reader left in the middle', async () => {
    await using sync = await connect()
    sync.sandbox.seed(sync.user, 'history', 5000, { payloadBytes: 4000 })
    const response = await startReading(sync, '/storage/history?full=1')

    await response.body?.cancel()
    sync.sandbox.remove(sync.user, 'history')
    const answer = await sync.get('/storage/history')

    expect(answer.text).toBe('[]')
  })
})

async function startReading(sync: SyncClient, path: string): Promise<Response> {
  const { id, key, api_endpoint: endpoint } = sync.token
  const credentials = { id, key, algorithm: 'sha256' } as const
  const timestamp = Math.floor(sync.nowMs / 1000)
  const { header } = hawk.header(endpoint + path, 'GET', { credentials, timestamp })
  return fetch(endpoint + path, { headers: { Authorization: header } })
}
