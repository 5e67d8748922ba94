import { beforeAll, beforeEach, describe, expect, it } from 'bun:test'
import { request, type Answer } from '../support/bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { expectError } from './expectations.ts'
import { openWorld } from './world.ts'

const { bridge, storage, bucket, batch, send } = await openWorld()
const records = '/collections/history/records'
const idsOf = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id)

bridge.sandbox.load(bridge.user, 'history', [
  { id: 'a', modified: 1_700_000_000_010, payload: 'A', sortindex: 3 },
  { id: 'b', modified: 1_700_000_000_020, payload: 'B "quoted" \u00e9\u{1f600}' },
  { id: 'c', modified: 1_700_000_000_030, payload: '', sortindex: -7 },
  { id: 'd', modified: 1_700_000_000_040, payload: 'D', sortindex: 100 },
  { id: 'e', modified: 1_700_000_000_050, payload: 'E', sortindex: 0 },
])

beforeEach(() => void (bridge.sandbox.switches.listCap = null))

const storedIds = (user: SandboxUser) => bridge.sandbox.records(user, 'history').map(({ id }) => id)

describe('section 3: a list', () => {
  it('shows each record in the exposed form', async () => {
    const { status, headers, text, body } = await bridge.ask(records)

    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(Object.keys(body)).toEqual(['data'])
    expect(body.data).toEqual([
      { id: 'e', last_modified: 1_700_000_000_050, payload: 'E', sortindex: 0 },
      { id: 'd', last_modified: 1_700_000_000_040, payload: 'D', sortindex: 100 },
      { id: 'c', last_modified: 1_700_000_000_030, payload: '', sortindex: -7 },
      { id: 'b', last_modified: 1_700_000_000_020, payload: 'B "quoted" \u00e9\u{1f600}' },
      { id: 'a', last_modified: 1_700_000_000_010, payload: 'A', sortindex: 3 },
    ])
    expect(text).not.toContain('"sortindex":null')
  })

  it('has the version of the collection in its headers', async () => {
    const { headers } = await bridge.ask(records)

    expect(headers.get('etag')).toBe('"1700000000050"')
    expect(headers.get('last-modified')).toBe('Tue, 14 Nov 2023 22:13:20 GMT')
    expect(headers.get('total-records')).toBe('5')
    expect(headers.get('next-page')).toBeNull()
  })

  it.each(['unused', 'a.b_c-9', 'x'.repeat(32)])('is empty for %s, which was never used', async (name) => {
    const { status, headers, body } = await bridge.ask(`/collections/${name}/records`)

    expect([status, body]).toEqual([200, { data: [] }])
    expect(headers.get('etag')).toBe('"0"')
    expect(headers.get('total-records')).toBe('0')
  })
})

describe('section 3: several lists at a time', () => {
  it('each send their own bytes, while batches and files are sent, too', async () => {
    const names = ['one', 'two', 'three', 'four', 'five', 'six']
    for (const [index, name] of names.entries()) {
      const payload = name.repeat(300 * (index + 1)) + '\u{1f600}'
      const record = (id: number) => ({ id: `${id}`, modified: 1_700_000_000_000 + 10 * id, payload })
      bridge.sandbox.load(
        bridge.user,
        name,
        Array.from({ length: 15 }, (_, id) => record(id)),
      )
    }
    const paths = names.map((name) => `/collections/${name}/records`)
    const requests = paths.map((path) => ({ method: 'GET', path: bucket + path }))
    const askAll = async () => [
      ...(await Promise.all(paths.map((path) => bridge.ask(path)))).map(({ text }) => text),
      (await bridge.ask('/v1/docs/page.css')).text,
      (await batch({ requests: requests.slice(0, 3) })).text,
    ]
    const first = await askAll()
    expect(first.slice(0, 6).map((text) => JSON.parse(text).data[14].payload.length)).toEqual([
      902, 1802, 4502, 4802, 6002, 5402,
    ])

    for (let round = 0; round < 10; round += 1)
      for (const texts of await Promise.all([askAll(), askAll(), askAll()])) expect(texts).toEqual(first)
  })
})

describe('section 3: filters', () => {
  it.each([
    ['_since=1700000000030', ['e', 'd']],
    ['_since=%221700000000030%22', ['e', 'd']],
    ['_since="1700000000030"', ['e', 'd']],
    ['gt_last_modified=1700000000030', ['e', 'd']],
    ['_since=1700000000030&gt_last_modified="1700000000030"', ['e', 'd']],
    // Floored to 10 ms, never rounded up: a record of the next step is not lost.
    ['_since=1700000000039', ['e', 'd']],
    ['_since=0', ['e', 'd', 'c', 'b', 'a']],
    ['_since=null&_limit=null&_token=null&_sort=null', ['e', 'd', 'c', 'b', 'a']],
    ['_since=999999999999999', []],
    ['_before=1700000000030', ['b', 'a']],
    ['lt_last_modified=%221700000000030%22', ['b', 'a']],
    // Raised to the next 10 ms: what changed at the step before it is not lost.
    ['_before=1700000000039', ['c', 'b', 'a']],
    ['_since=1700000000010&_before=1700000000040', ['c', 'b']],
    ['_since=1700000000010&min_last_modified=1700000000030', ['e', 'd', 'c']],
    ['_before=1700000000050&max_last_modified=1700000000020', ['b', 'a']],
    ['in_ids=c,a', ['c', 'a']],
    ['in_id=c,a', ['c', 'a']],
    ['in_ids=%20c%20,+a,,%20,', ['c', 'a']],
    ['in_ids=c,c,c', ['c']],
    [`in_ids=${'c,'.repeat(4999)}c`, ['c']],
    ['in_ids=a,b&in_id=b,c', ['b']],
    // In a list of ids, `null` is an id like any other.
    ['in_ids=null', []],
    ['in_ids=', []],
    ['in_ids', []],
    ['in_id=', []],
    ['exclude_id=b,d', ['e', 'c', 'a']],
    ['exclude_id=', ['e', 'd', 'c', 'b', 'a']],
    ['in_ids=a,b,c&exclude_id=b', ['c', 'a']],
    ['_sort=-last_modified', ['e', 'd', 'c', 'b', 'a']],
    ['_sort=oldest', ['a', 'b', 'c', 'd', 'e']],
    ['_sort=last_modified', ['a', 'b', 'c', 'd', 'e']],
    ['_limit=999999999999', ['e', 'd', 'c', 'b', 'a']],
    ['_expected="5"&unknown=1&__proto__=1&constructor=2&x=%zz', ['e', 'd', 'c', 'b', 'a']],
    ['_sort=newest&_sort=oldest', ['a', 'b', 'c', 'd', 'e']],
    ['_since=x&_since=1700000000040', ['e']],
    ['%5Fsince=1700000000040', ['e']],
  ] as [string, string[]][])('%s', async (query, expected) => {
    const answer = await bridge.ask(`${records}?${query}`)

    expect([answer.status, idsOf(answer)]).toEqual([200, expected])
  })

  it.each(['index', '-sortindex'])('_sort=%s orders by sortindex', async (sort) => {
    const answer = await bridge.ask(`${records}?_sort=${sort}&exclude_id=b`)

    expect(idsOf(answer)).toEqual(['d', 'a', 'e', 'c'])
  })

  it('reads no records if a list of ids is empty', async () => {
    bridge.sandbox.requests.storage.clear()

    const { headers } = await bridge.ask(`${records}?in_ids=`)

    expect(headers.get('etag')).toBe('"1700000000050"')
    expect(headers.get('total-records')).toBe('0')
    expect(bridge.sandbox.requests.storage.entries.some(({ target }) => target.includes('/storage/'))).toBe(
      false,
    )
  })

  const badQueries = [
    '_since=-1', '_since=1.5', '_since=', '_since=%2212', '_since=%zz', '_since=%ff', '_since=1%00',
    '_before=x', 'gt_last_modified=x', 'lt_last_modified=1.5', '_sort=', '_sort=constructor', '_limit=0',
    '_limit=1.5', '_limit=1e3', '_limit=', `_limit=${'9'.repeat(30)}`, '_token=', '_token=garbage',
    '_token=%00', 'in_ids=a,..,b', 'in_ids=a%00b', 'in_ids=%ff',
    'in_id=%00', 'not_id=%00', '_since=1&gt_last_modified=20',
    ...['in_ids', 'in_id', 'exclude_id'].map((name) => `${name}=${'x,'.repeat(5000)}x`),
    `in_ids=${'x'.repeat(65)}`, 'exclude_id=a%0ab', '_limit=1&_limit=x',
    ...['_since', '_limit', '_token'].map((name) => `${name}=${'9'.repeat(3000)}`),
  ] // prettier-ignore

  it.each(badQueries.map((query) => [query.slice(0, 60), query]))(
    'rejects and names %s',
    async (_, query) => {
      const answer = await bridge.ask(`${records}?${query}`)

      expectError(answer, 400, 109, `${query.split('=')[0]!} in querystring`)
    },
  )

  it('rejects endless queries', async () => {
    const answer = await bridge.ask(`${records}?${'x=1&'.repeat(1500)}`)

    expectError(answer, 400, 109, 'querystring in querystring')
  })

  it('finds more ids than the storage accepts at once, each once and in order', async () => {
    const user = bridge.sandbox.addUser('many-ids')
    bridge.sandbox.seed(user, 'history', 250)
    const all = storedIds(user)

    const answer = await bridge.ask(`${records}?in_ids=${all.map(encodeURIComponent).join(',')}`, {
      as: user,
    })

    expect(idsOf(answer).toSorted()).toEqual(all.toSorted())
    const times = answer.body.data.map(({ last_modified }: { last_modified: number }) => last_modified)
    expect(times).toEqual(times.toSorted((a: number, b: number) => b - a))
    expect(answer.headers.get('total-records')).toBe('250')
  })
})

async function follow(first: string, user: SandboxUser, between?: () => void): Promise<Answer[]> {
  const pages = [await bridge.ask(first, { as: user })]
  for (;;) {
    const next = pages.at(-1)!.headers.get('next-page')
    if (next === null || pages.length > 100) return pages
    between?.()
    pages.push(await request(next, { headers: bridge.identityOf(user) }))
  }
}

describe('section 3: pages', () => {
  const many = bridge.sandbox.addUser('pages')
  beforeAll(() => void bridge.sandbox.seed(many, 'history', 53))

  it.each(['newest', 'oldest', 'index'])('yields each record exactly once, sorted by %s', async (sort) => {
    const pages = await follow(`${records}?_limit=7&_sort=${sort}`, many)

    expect(pages.map(idsOf).map((ids) => ids.length)).toEqual([7, 7, 7, 7, 7, 7, 7, 4])
    expect(pages.flatMap(idsOf).toSorted()).toEqual(storedIds(many).toSorted())
    expect(pages.at(-1)!.status).toBe(200)
  })

  it('has no next page if the limit is exactly the size', async () => {
    const { headers, body } = await bridge.ask(`${records}?_limit=53`, { as: many })

    expect(body.data).toHaveLength(53)
    expect(headers.get('next-page')).toBeNull()
  })

  it('keeps the query in Next-Page unchanged, including unknown parameters', async () => {
    const query = '_limit=10&_sort=oldest&my%20own=%22%2B%22&empty&_since="1"'
    const { headers } = await bridge.ask(`${records}?${query}`, { as: many })

    const next = headers.get('next-page')!
    const prefix = `${bridge.url}/v1/buckets/${many.clientState}${records}?${query}&_token=`
    expect(decodeURI(next)).toStartWith(decodeURI(prefix))
    const second = await request(next, { headers: bridge.identityOf(many) })
    expect(second.headers.get('next-page')!.match(/_token=/g)).toHaveLength(1)
  })

  it('counts records only without limit and token', async () => {
    const pages = await follow(`${records}?_limit=30`, many)
    const none = await bridge.ask(`${records}?in_ids=&_limit=5`, { as: many })

    expect(pages.map(({ headers }) => headers.get('total-records'))).toEqual([null, null])
    expect(none.headers.get('total-records')).toBeNull()
  })

  it('carries the ETag of the first page on all, so that a change meanwhile is seen later', async () => {
    const user = bridge.sandbox.addUser('etag')
    bridge.sandbox.seed(user, 'history', 30)
    let changes = 0

    const pages = await follow(`${records}?_limit=10&_sort=oldest`, user, () => {
      bridge.sandbox.write(user, 'history', [{ id: `late-${changes++}`, payload: 'x' }])
    })

    const tags = new Set(pages.map(({ headers }) => headers.get('etag')))
    expect(pages.length).toBeGreaterThan(2)
    expect(tags.size).toBe(1)
    expect(new Set(pages.map(({ headers }) => headers.get('last-modified'))).size).toBe(1)
    const [tag] = tags
    const later = await bridge.ask(`${records}?_since=${encodeURIComponent(tag!)}`, { as: user })
    expect(idsOf(later)).toContain('late-0')
  })

  it('returns all records at once even if the storage pages', async () => {
    bridge.sandbox.switches.listCap = 10

    const answer = await bridge.ask(records, { as: many })

    expect(idsOf(answer).toSorted()).toEqual(storedIds(many).toSorted())
    expect(answer.headers.get('next-page')).toBeNull()
    expect(answer.headers.get('total-records')).toBeNull()
  })

  it('continues to page if the storage returns less than the limit', async () => {
    bridge.sandbox.switches.listCap = 10

    const pages = await follow(`${records}?_limit=25`, many)

    expect(pages.flatMap(idsOf).toSorted()).toEqual(storedIds(many).toSorted())
  })
})

describe('section 3: HEAD of a list', () => {
  it.each([
    ['', '5'],
    ['?_since="1700000000030"', '2'],
    ['?in_ids=a,b,unknown', '2'],
    ['?exclude_id=a', '4'],
    ['?_since=1700000000010&in_ids=a,b,c&exclude_id=c', '1'],
    ['?in_ids=', '0'],
    ['?_limit=2', null],
  ] as const)('of %j counts what GET would list, under both names: %p', async (query, count) => {
    const inBatch = await batch({ requests: [{ method: 'HEAD', path: bucket + records + query }] })
    bridge.sandbox.requests.storage.clear()
    const alone = await bridge.ask(records + query, { method: 'HEAD' })
    const [response] = inBatch.body.responses

    for (const { status, headers } of [alone, { ...response, headers: new Headers(response.headers) }]) {
      expect(status).toBe(200)
      expect(headers.get('total-records')).toBe(count)
      expect(headers.get('total-objects')).toBe(count)
      expect(headers.get('etag')).toBe('"1700000000050"')
      expect(headers.get('last-modified')).toBe('Tue, 14 Nov 2023 22:13:20 GMT')
    }
    // No records are read for that.
    const asked = bridge.sandbox.requests.storage.entries.map(({ target }) => target)
    expect(asked.filter((target) => target.includes('full='))).toEqual([])
  })

  const inFuture = Buffer.from('1.999999999999999.1').toString('base64url')

  it.each(['_limit=0', `_token=${inFuture}`, `in_ids=a&_token=${inFuture}`, `in_ids=&_token=${inFuture}`])(
    'rejects %s, which GET rejects',
    async (query) => {
      for (const method of ['GET', 'HEAD']) {
        const { status } = await bridge.ask(`${records}?${query}`, { method })

        expect([method, status]).toEqual([method, 400])
      }
    },
  )
})

describe('section 3: notices and failures of the storage', () => {
  it.each([
    ['123.45', '123.45'],
    ['-1.5', '-1.5'],
    ['much', null],
    ['1, 2', null],
  ])('relays the quota if it is a number: %s', async (quota, relayed) => {
    storage.plan(() => ({ kind: 'rewrite', headers: { 'X-Weave-Quota-Remaining': quota } }))

    const { headers } = await bridge.ask(records)

    expect(headers.get('quota-remaining')).toBe(relayed)
  })

  it.each(['fails', 'comes after a change'])(
    'cuts the connection when the second page of the storage %s',
    async (how) => {
      bridge.sandbox.switches.listCap = 20
      const as = bridge.sandbox.addUser(`cut-${how}`)
      const payload = 'x'.repeat(20_000)
      bridge.sandbox.write(
        as,
        'history',
        Array.from({ length: 60 }, (_, index) => ({ id: `r${index}`, payload })),
      )
      storage.plan(({ query }) => {
        if (!query.has('offset')) return null
        if (how === 'fails') return { kind: 'reset-before' }
        bridge.sandbox.write(as, 'history', [{ id: 'new', payload: 'x' }])
        return null
      })

      const { status, headers, text } = await send('GET', `/v1/buckets/${as.clientState}${records}`, { as })

      expect([status, headers.get('transfer-encoding')]).toEqual([200, 'chunked'])
      expect(text).not.toEndWith('0\r\n\r\n')
      expect(text).not.toContain(']}')
    },
  )
})

describe("section 3: Kinto's filters on the fields of every record", () => {
  const base = 1_700_000_000_000

  it.each([
    ['id=b', 'b'],
    ['id=b,d', 'd b'],
    ['id="b"', 'b'],
    ['id=', ''],
    ['in_id="b", "d"', 'd b'],
    ['in_ids="b",d,"1"', 'd b'],
    ['exclude_id="b","d"', 'e c a'],
    ['id=b,d&in_ids=d,e', 'd'],
    ['not_id=b', 'e d c a'],
    ['not_id=b,c&exclude_id=e', 'd a'],
    [`min_last_modified=${base + 30}`, 'e d c'],
    [`min_last_modified=${base + 31}`, 'e d'],
    [`max_last_modified=${base + 30}`, 'c b a'],
    [`max_last_modified=${base + 29}`, 'b a'],
    [`max_last_modified="${base + 31}"`, 'c b a'],
    [`min_last_modified=${base + 20}&max_last_modified=${base + 40}`, 'd c b'],
    [`min_last_modified=${base + 20}&_since=${base + 30}`, 'e d'],
    [`min_last_modified=${base + 20}&not_id=d&_sort=oldest`, 'b c e'],
  ])('list what %s selects', async (query, ids) => {
    const list = await bridge.ask(`${records}?${query}`)
    const head = await bridge.ask(`${records}?${query}`, { method: 'HEAD' })
    const { body } = await batch({ requests: [{ path: `${bucket}${records}?${query}` }] })

    expect(idsOf(list).join(' ')).toBe(ids)
    expect(head.headers.get('total-records')).toBe(String(ids === '' ? 0 : ids.split(' ').length))
    expect(body.responses[0].body.data.map(({ id }: { id: string }) => id).join(' ')).toBe(ids)
  })

  it('stay in the address of the next page', async () => {
    const first = await bridge.ask(`${records}?min_last_modified=${base + 20}&not_id=d&_limit=2`)
    const next = new URL(first.headers.get('next-page')!)
    const second = await request(next.href, { headers: { ...bridge.identityOf(bridge.user) } })

    expect([...idsOf(first), ...idsOf(second)]).toEqual(['e', 'c', 'b'])
    expect(next.searchParams.get('not_id')).toBe('d')
  })

  it.each(['min_last_modified=x', 'max_last_modified=-1', 'id=\u00e9'])('reject %s', async (query) => {
    const name = query.split('=')[0]!

    expectError(await bridge.ask(`${records}?${query}`), 400, 109, `${name} in querystring`)
  })
})
