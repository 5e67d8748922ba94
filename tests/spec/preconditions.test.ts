import { describe, expect, it } from 'bun:test'
import { expectError, putOf } from './expectations.ts'
import { openWorld, statuses } from './world.ts'

const { bridge, bucket, batch, stored } = await openWorld({ writable: ['history'] })
const historyPath = '/collections/history/records'
let made = 0

/** An existing record and its timestamp. */
function existing(name: string, content: object = { payload: 'old' }) {
  const id = `${name}-${made++}`
  const timestamp = bridge.sandbox.write(bridge.user, 'history', [{ id, payload: 'old', ...content }])
  return { id, timestamp, path: `${historyPath}/${id}` }
}

type Method = 'GET' | 'HEAD' | 'PUT' | 'DELETE'

interface Seen {
  status: number
  headers: Headers
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
  body: any
}

/** Both forms of a request: alone, and as the only request of a batch. */
const ways = {
  async alone(method: Method, path: string, headers: Record<string, string>): Promise<Seen> {
    return await bridge.ask(path, { method, headers, ...(method === 'PUT' && { body: newContent }) })
  },
  async batch(method: Method, path: string, headers: Record<string, string>): Promise<Seen> {
    const content = method === 'PUT' && { body: newContent }
    const { body } = await batch({ requests: [{ method, path: bucket + path, headers, ...content }] })
    const [response] = body.responses
    return { ...response, headers: new Headers(response.headers) }
  },
}

const newContent = { data: { payload: 'new' } }

const statusOfDelete = 204

type Given = (timestamp: number) => Record<string, string>

const changedSince: Given = (timestamp) => ({ 'If-Match': `"${timestamp - 10}"` })
const unchangedSince: Given = (timestamp) => ({ 'If-Match': `"${timestamp}"` })
const anyMatch: Given = () => ({ 'If-Match': '*' })
const noneMatchUnchanged: Given = (timestamp) => ({ 'If-None-Match': `"${timestamp}"` })
const noneMatchChanged: Given = (timestamp) => ({ 'If-None-Match': `"${timestamp - 10}"` })
const noneMatchNewer: Given = (timestamp) => ({ 'If-None-Match': `"${timestamp + 10}"` })
const noneMatchAny: Given = () => ({ 'If-None-Match': '*' })

type Row = [string, Given, Record<Method, number>]

const onExisting: Row[] = [
  ['If-Match, changed since', changedSince, { GET: 412, HEAD: 412, PUT: 412, DELETE: 412 }],
  ['If-Match, unchanged', unchangedSince, { GET: 200, HEAD: 200, PUT: 200, DELETE: statusOfDelete }],
  ['If-Match: *', anyMatch, { GET: 200, HEAD: 200, PUT: 200, DELETE: statusOfDelete }],
  ['If-None-Match, unchanged', noneMatchUnchanged, { GET: 304, HEAD: 304, PUT: 200, DELETE: statusOfDelete }],
  ['If-None-Match, changed', noneMatchChanged, { GET: 200, HEAD: 200, PUT: 200, DELETE: statusOfDelete }],
  ['If-None-Match, newer', noneMatchNewer, { GET: 200, HEAD: 200, PUT: 200, DELETE: statusOfDelete }],
  ['If-None-Match: *', noneMatchAny, { GET: 304, HEAD: 304, PUT: 412, DELETE: statusOfDelete }],
]

const onMissing: Row[] = [
  ['If-Match', unchangedSince, { GET: 404, HEAD: 404, PUT: 412, DELETE: 404 }],
  ['If-Match: *', anyMatch, { GET: 404, HEAD: 404, PUT: 412, DELETE: 404 }],
  ['If-None-Match: "ts"', noneMatchUnchanged, { GET: 404, HEAD: 404, PUT: 200, DELETE: 404 }],
  ['If-None-Match: *', noneMatchAny, { GET: 404, HEAD: 404, PUT: 200, DELETE: 404 }],
]

// Each row meets every method, alone or in a batch; each method and each status is met both ways.
const cells = (rows: Row[]) =>
  rows.flatMap(([name, given, statuses], row) =>
    (Object.entries(statuses) as [Method, number][]).map(([method, status], column) => {
      const way = (row + column) % 2 === 0 ? ('alone' as const) : ('batch' as const)
      return [method, way, name, status, given] as const
    }),
  )

describe('section 4: preconditions on a record', () => {
  it.each(cells(onExisting))('%s %s, existing, %s: %i', async (method, way, _, status, given) => {
    const { id, timestamp, path } = existing('existing', { sortindex: 4 })

    const answer = await ways[way](method, path, given(timestamp))

    expect(answer.status).toBe(status)
    const version = method === 'PUT' && status === 200 ? stored(id)!.modified : timestamp
    if (status !== 204) {
      expect(answer.headers.get('etag')).toBe(`"${version}"`)
      expect(answer.headers.get('last-modified')).toBe(new Date(version).toUTCString())
    }
    if (status === 412 && method !== 'HEAD') {
      expectError(answer, 412, 114)
      expect(answer.body.details).toEqual({
        existing: { id, last_modified: timestamp, payload: 'old', sortindex: 4 },
      })
    }
    if (status === 304) expect(answer.body ?? {}).toEqual({})
    if (status === 200 && method === 'GET') expect(answer.body.data.payload).toBe('old')
    const left = method === 'PUT' && status === 200 ? 'new' : status === 204 ? undefined : 'old'
    expect(stored(id)?.payload).toBe(left)
  })

  it.each(cells(onMissing))('%s %s, missing, %s: %i', async (method, way, _, status, given) => {
    const id = `missing-${made++}`

    const answer = await ways[way](method, `${historyPath}/${id}`, given(1_700_000_000_000))

    expect(answer.status).toBe(status)
    if (status === 404 && method !== 'HEAD') expectError(answer, 404, 110)
    if (status === 412) expectError(answer, 412, 114)
    expect(stored(id)?.payload).toBe(method === 'PUT' && status === 200 ? 'new' : undefined)
  })

  it('never repeats a write or a read for a precondition, except for existing records', async () => {
    const { timestamp, path } = existing('cost')
    bridge.sandbox.requests.storage.clear()

    await bridge.ask(path, { headers: noneMatchUnchanged(timestamp) })
    const read = bridge.sandbox.requests.storage.entries.length
    await bridge.ask(path, putOf({ payload: 'new' }, changedSince(timestamp)))

    expect(read).toBe(1)
    expect(bridge.sandbox.requests.storage.entries.length - read).toBeLessThanOrEqual(2)
    expect(bridge.sandbox.requests.storage.entries.some(({ method }) => method !== 'GET')).toBe(false)
  })
})

describe('section 4: preconditions on a list', () => {
  const listRows: [string, Given, number][] = [
    ['If-Match, changed since', changedSince, 412],
    ['If-Match, unchanged', unchangedSince, 200],
    ['If-Match: *', anyMatch, 200],
    ['If-None-Match, unchanged', noneMatchUnchanged, 304],
    ['If-None-Match, changed', noneMatchChanged, 200],
    ['If-None-Match: *', noneMatchAny, 200],
  ]

  // Each row meets every method, way and query, but not all of their combinations.
  const queries = ['', '?_limit=1', '?in_ids=', '?in_ids=a,b']
  const listCells = listRows.flatMap(([name, given, status], row) =>
    queries.map((query, index) => {
      const method = (row + index) % 2 === 0 ? ('GET' as const) : ('HEAD' as const)
      return [
        method,
        query,
        index < 2 ? ('alone' as const) : ('batch' as const),
        name,
        status,
        given,
      ] as const
    }),
  )

  it.each(listCells)('%s%s %s, %s: %i', async (method, query, way, _, status, given) => {
    const [newest] = bridge.sandbox.records(bridge.user, 'tabs')
    const timestamp =
      newest?.modified ?? bridge.sandbox.write(bridge.user, 'tabs', [{ id: 'a', payload: 'old' }])

    const answer = await ways[way](method, `/collections/tabs/records${query}`, given(timestamp))

    expect(answer.status).toBe(status)
    expect(answer.headers.get('etag')).toBe(`"${timestamp}"`)
    expect(answer.headers.get('last-modified')).toBe(new Date(timestamp).toUTCString())
    if (status === 412 && method === 'GET') expectError(answer, 412, 114)
    if (status === 304) expect(answer.body ?? {}).toEqual({})
  })

  it('has the version zero while a collection was never used', async () => {
    const path = '/collections/unused/records'

    const unchanged = await bridge.ask(path, { headers: { 'If-None-Match': '"0"' } })
    const matching = await bridge.ask(path, { headers: { 'If-Match': '"0"' } })
    const starred = await bridge.ask(path, { headers: { 'If-Match': '*' } })

    expect([unchanged.status, matching.status, starred.status]).toEqual([304, 200, 200])
  })

  it.each(['', '/collections', '/collections/tabs'])('also applies to the metadata at "%s"', async (path) => {
    const { headers } = await bridge.ask(path)
    const timestamp = Number(headers.get('etag')!.replaceAll('"', ''))

    const unchanged = await bridge.ask(path, { headers: noneMatchUnchanged(timestamp) })
    const changed = await bridge.ask(path, { headers: noneMatchChanged(timestamp) })
    const failed = await bridge.ask(path, { headers: changedSince(timestamp) })
    const star = await bridge.ask(path, { headers: noneMatchAny(timestamp) })

    expect([unchanged.status, changed.status, failed.status, star.status]).toEqual([304, 200, 412, 200])
    expect(unchanged.headers.get('etag')).toBe(`"${timestamp}"`)
  })
})

describe('section 4: forms of a precondition', () => {
  const badForms = [
    'abc', '""', '"-1"', '"1.5"', '" 1"', '"1', '"1", "2"', '"*"', 'w/"1"', '9'.repeat(400),
  ] // prettier-ignore

  it.each(badForms.flatMap((form) => [['If-Match', form] as const, ['If-None-Match', form] as const]))(
    'rejects %s: %s',
    async (name, form) => {
      const answers = [
        await ways.alone('GET', `${historyPath}/x`, { [name]: form }),
        await ways.batch('PUT', `${historyPath}/x`, { [name]: form }),
        await ways.alone('DELETE', `${historyPath}/x`, { [name]: form }),
        await ways.batch('GET', historyPath, { [name]: form }),
      ]

      for (const answer of answers) expectError(answer, 400, 107, `${name} in header`)
    },
  )

  it('ignores dates, including malformed ones', async () => {
    const { path } = existing('dates')
    const future = new Date(Date.now() + 86_400_000).toUTCString()

    const headers = { 'If-Modified-Since': future, 'If-Unmodified-Since': 'x' }
    const past = { 'If-Unmodified-Since': new Date(0).toUTCString() }
    const read = await bridge.ask(path, { headers })
    const write = await bridge.ask(path, putOf({ payload: 'new' }, past))

    expect([read.status, write.status]).toEqual([200, 200])
  })

  it('floors If-Match to 10 ms, and compares If-None-Match exactly', async () => {
    const { timestamp, path } = existing('floor')
    const statusOf = async (headers: Record<string, string>) => (await bridge.ask(path, { headers })).status

    const statuses = [
      await statusOf({ 'If-Match': `"${timestamp + 9}"` }),
      await statusOf({ 'If-Match': `"${timestamp - 1}"` }),
      await statusOf({ 'If-None-Match': `"${timestamp + 9}"` }),
      await statusOf({ 'If-None-Match': `"${timestamp - 1}"` }),
    ]
    const write = await bridge.ask(path, putOf({ payload: 'new' }, { 'If-Match': `"${timestamp - 1}"` }))

    expect(statuses).toEqual([200, 412, 200, 200])
    expectError(write, 412, 114)
  })

  it('returns the contents of a wiped collection, whatever newer version a client names', async () => {
    const { user, sandbox } = bridge
    const before = sandbox.write(user, 'addons', [{ id: 'wiped', payload: 'old' }])
    sandbox.remove(user, 'addons')
    const headers = { 'If-None-Match': `"${before}"` }

    const answers = await Promise.all(
      ['/records', '/records?in_ids=wiped', '/records?_limit=5', ''].map((rest) =>
        bridge.ask(`/collections/addons${rest}`, { headers }),
      ),
    )
    const inside = await batch({ requests: [{ path: `${bucket}/collections/addons/records`, headers }] })

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(statuses(inside)).toEqual([200])
  })

  it.each([
    '"%d"',
    '%d',
    'W/"%d"',
    '"%d-gzip"',
    'W/"%d-gzip"',
    '%d-gzip',
    '"%d--gzip"',
    '"%d;gzip"',
    '"%d-br"',
    'W/"%d;br"',
    '"%d-zstd"',
    '"%d--zstd"',
    '"%d-deflate"',
    'W/"%d--deflate"',
  ])('accepts the spelling %s everywhere', async (spelling) => {
    const { id, timestamp, path } = existing('spelled')
    const version = spelling.replace('%d', String(timestamp))
    const older = spelling.replace('%d', String(timestamp - 10))
    const escaped = encodeURIComponent(version)

    const matched = await bridge.ask(path, { headers: { 'If-Match': version } })
    const failed = await bridge.ask(path, { headers: { 'If-Match': older } })
    const unchanged = await bridge.ask(path, { headers: { 'If-None-Match': version } })
    const since = await bridge.ask(`${historyPath}?_since=${escaped}`)
    const before = await bridge.ask(`${historyPath}?in_ids=${id}&_before=${escaped}`)

    expect([matched.status, failed.status, unchanged.status]).toEqual([200, 412, 304])
    expect([since.status, before.status]).toEqual([200, 200])
    expect([since.body.data, before.body.data]).toEqual([[], []])
  })

  it.each(['W/%d', 'W/"%d'])('accepts %s in a query: Kinto clients remove quotes', async (spelling) => {
    const { timestamp, path } = existing('unquoted')
    const version = spelling.replace('%d', String(timestamp))

    const since = await bridge.ask(`${historyPath}?_since=${encodeURIComponent(version)}`)
    const matched = await bridge.ask(path, { headers: { 'If-Match': version } })

    expect([since.status, since.body.data]).toEqual([200, []])
    expectError(matched, 400, 107, 'If-Match in header')
  })

  it.each([
    '"%d-lzma"',
    '"%d-"',
    '"%d---gzip"',
    '"%d-gzip-gzip"',
    '"%dgzip"',
    '"%d gzip"',
    '"-gzip"',
    '"%d"-gzip',
  ])('rejects the spelling %s everywhere', async (spelling) => {
    const version = spelling.replace('%d', '1700000000000')

    const matched = await bridge.ask(historyPath, { headers: { 'If-None-Match': version } })
    const since = await bridge.ask(`${historyPath}?_since=${encodeURIComponent(version)}`)

    expectError(matched, 400, 107, 'If-None-Match in header')
    expectError(since, 400, 109, '_since in querystring')
  })

  it('compares If-None-Match as it came, not rounded to steps of the storage', async () => {
    const { timestamp, path } = existing('exact')

    const answers = await Promise.all(
      [path, historyPath, `${historyPath}?_limit=5`, '/collections/history'].map((each) =>
        bridge.ask(each, { headers: { 'If-None-Match': `"${timestamp + 5}-gzip"` } }),
      ),
    )

    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  })

  it('admits one of many concurrent creators and one of many concurrent writers', async () => {
    const path = `${historyPath}/race-${made++}`
    const put = (headers: Record<string, string>) =>
      Promise.all(
        Array.from({ length: 8 }, (_, index) => bridge.ask(path, putOf({ payload: `${index}` }, headers))),
      )

    const creations = await put({ 'If-None-Match': '*' })
    const version = creations.find(({ status }) => status === 200)!.headers.get('etag')!
    const writes = await put({ 'If-Match': version })

    for (const answers of [creations, writes]) {
      const statuses = answers.map(({ status }) => status)
      expect(statuses.toSorted()).toEqual([200, 412, 412, 412, 412, 412, 412, 412])
    }
    const winner = writes.find(({ status }) => status === 200)!
    for (const { status, body } of writes) {
      if (status === 412) expect(body.details.existing).toEqual(winner.body.data)
    }
  })
})
