import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'bun:test'
import { noPrecondition } from '../../src/domain/precondition.ts'
import { zeroTimestamp, timestamp } from '../../src/domain/timestamp.ts'
import { failureOf, idsOf, pageOf, recordsOf, startRig } from './rig.ts'
import type { ByteSource } from '../../src/domain/record-storage.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import type { BulkStorage, ListFilter, ListOptions } from '../../src/domain/record-storage.ts'
import type { SandboxOptions } from '../support/sandbox.ts'
import type { AddressInfo } from 'node:net'
import type { UpstreamError } from '../../src/domain/errors.ts'
import type { Rig } from './rig.ts'

const rigs: Rig[] = []
afterEach(async () => {
  await Promise.all(rigs.splice(0).map((rig) => rig.stop()))
})

async function start(options?: SandboxOptions) {
  const rig = await startRig(options)
  rigs.push(rig)
  const has = (records: { id: string; payload?: string; sortindex?: number }[], collection = 'tabs') =>
    timestamp(rig.sandbox.write(rig.user, collection, records))
  return { ...rig, has, storage: await rig.open() }
}

const numbered = (count: number, prefix = 'id') =>
  Array.from({ length: count }, (_, index) => ({ id: `${prefix}${index}`, payload: `payload ${index}` }))

async function listPage(storage: BulkStorage, options: Partial<ListOptions> = {}, collection = 'tabs') {
  return pageOf(await storage.list(collection, { sort: 'newest', ...options }, noPrecondition))
}

const since = (kind: 'unmodified-since' | 'differs', at: number): Precondition => ({
  kind,
  timestamp: timestamp(at),
})

describe('list', () => {
  it('is the collection in the exposed form, in one request', async () => {
    const { storage, has, proxy, user } = await start()
    const first = has([{ id: 'a', payload: '{"ciphertext":"x"}', sortindex: 7 }])
    const second = has([{ id: '{b}', payload: 'ü' }])

    const page = await listPage(storage)

    expect(page).toMatchObject({ timestamp: second, count: 2, next: null })
    expect(page.document).toBeInstanceOf(Uint8Array)
    expect(await recordsOf(page)).toEqual([
      { id: '{b}', last_modified: second, payload: 'ü' },
      { id: 'a', last_modified: first, payload: '{"ciphertext":"x"}', sortindex: 7 },
    ])
    expect(proxy.requests).toHaveLength(1)
    const { target, headers } = proxy.requests[0]!
    expect(target).toBe(`/1.5/${user.uid}/storage/tabs?full=1&sort=newest`)
    expect(headers.toJSON()).toEqual({
      accept: 'application/newlines',
      'accept-encoding': 'identity',
      authorization: expect.stringMatching(/^Hawk id="[^"]+", ts="1700000000", nonce="nonce1", mac="[^"]+"$/),
      connection: 'keep-alive',
      host: headers.get('host')!,
      'user-agent': 'Test/1.0',
    })
  })

  it('is empty, and never changed, for a collection that was never used', async () => {
    const { storage } = await start()

    expect(await listPage(storage)).toEqual({
      timestamp: zeroTimestamp,
      document: new Uint8Array(Buffer.from('{"data":[]}')),
      count: 0,
      next: null,
    })
  })

  it('selects by time, order, ids and number', async () => {
    const { storage, has } = await start()
    const times = ['a', 'b', 'c', 'd'].map((id, index) => has([{ id, payload: id, sortindex: index % 2 }]))

    expect(await idsOf(await listPage(storage, { newer: times[0]! }))).toEqual(['d', 'c', 'b'])
    expect(await idsOf(await listPage(storage, { older: times[2]!, sort: 'oldest' }))).toEqual(['a', 'b'])
    expect(await idsOf(await listPage(storage, { ids: ['b', 'x', 'a'], sort: 'oldest' }))).toEqual(['a', 'b'])
    expect((await idsOf(await listPage(storage, { sort: 'index' }))).slice(0, 2).toSorted()).toEqual([
      'b',
      'd',
    ])
    expect(await idsOf(await listPage(storage, { excludedIds: new Set(['b', 'd']) }))).toEqual(['c', 'a'])
    expect(await listPage(storage, { excludedIds: new Set(['b', 'd']) })).toMatchObject({ count: 2 })
  })

  it.each(['newest', 'oldest', 'index'] as const)(
    'yields each record once over pages, %s first',
    async (sort) => {
      const { storage, has } = await start()
      const all = numbered(23)
      has(all.slice(0, 10))
      const at = has(all.slice(10))
      const collected: string[] = []
      const counts: (number | null)[] = []

      let position: ListOptions['position']
      do {
        const page = await listPage(storage, { sort, limit: 5, position })
        expect(page.timestamp).toBe(at)
        collected.push(...(await idsOf(page)))
        counts.push(page.count)
        position = page.next ?? undefined
      } while (position)

      expect(collected.toSorted()).toEqual(all.map(({ id }) => id).toSorted())
      expect(counts).toEqual([5, 5, 5, 5, 3])
    },
  )

  it("keeps the first page's timestamp while the collection changes", async () => {
    const { storage, has } = await start()
    const at = has(numbered(10))
    const first = await listPage(storage, { limit: 5 })
    has([{ id: 'later' }])

    const second = await listPage(storage, { limit: 5, position: first.next! })

    expect(second.timestamp).toBe(at)
  })

  it('is everything without a limit, also when the storage makes pages of it', async () => {
    const { storage, sandbox, proxy, user } = await start()
    sandbox.seed(user, 'history', 1500)
    const whole = await recordsOf(await listPage(storage, {}, 'history'))
    sandbox.switches.listCap = 400

    const page = await listPage(storage, {}, 'history')
    const records = await recordsOf(page)

    expect(page).toMatchObject({ count: null, next: null })
    expect(records).toEqual(whole)
    expect(records).toHaveLength(1500)
    const guards = proxy.requests.slice(1).map(({ headers }) => headers.get('x-if-unmodified-since'))
    expect(guards).toEqual([null, ...Array(3).fill((page.timestamp / 1000).toFixed(2))])
  })

  it('tells the number of a long list before it has been read', async () => {
    const { storage, sandbox, user } = await start()
    sandbox.seed(user, 'history', 3000)

    const page = await listPage(storage, {}, 'history')

    expect(page.document).not.toBeInstanceOf(Uint8Array)
    expect(page.count).toBe(3000)
    expect(await recordsOf(page)).toHaveLength(3000)
  })

  it('breaks off when the collection changes between the pages of the storage', async () => {
    const { storage, has, sandbox } = await start()
    has(numbered(30))
    sandbox.switches.listCap = 10
    const page = await listPage(storage)
    has([{ id: 'later' }])

    expect(await failureOf(recordsOf(page))).toMatchObject({ failure: 'refused' })
  })

  it.each([
    ['is reset', { kind: 'reset-mid-body', afterBytes: 300_000 }],
    ['ends early', { kind: 'truncate', afterBytes: 300_000 }],
  ] as const)('breaks off when the connection of a long list %s', async (_, fault) => {
    const { storage, sandbox, user, proxy } = await start()
    sandbox.seed(user, 'history', 3000)
    proxy.plan(() => fault)

    // A reset may overtake the bytes before it, so that it already fails the list and not the stream.
    const read = listPage(storage, {}, 'history').then(recordsOf)

    expect(await failureOf(read)).toMatchObject({ failure: 'connection-lost' })
  })

  it('breaks off when an unframed list ends before its announced number of records', async () => {
    const { storage, has, proxy } = await start()
    has(numbered(3))
    proxy.plan(() => ({ kind: 'rewrite', body: (real) => real.slice(0, real.indexOf('\n') + 1) }))

    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'connection-lost' })
  })

  it('asks once more for a long list that breaks off before its first piece', async () => {
    const { storage, has, proxy } = await start()
    has(Array.from({ length: 20 }, (_, index) => ({ id: `id${index}`, payload: 'x'.repeat(40_000) })))
    proxy.plan(({ index }) => (index === 0 ? { kind: 'reset-mid-body', afterBytes: 0 } : null))

    expect((await recordsOf(await listPage(storage))).length).toBe(20)
    expect(proxy.requests).toHaveLength(2)
  })

  it('asks once more for a short list that breaks off', async () => {
    const { storage, has, proxy } = await start()
    has(numbered(3))
    proxy.plan(({ index }) => (index === 0 ? { kind: 'reset-mid-body', afterBytes: 20 } : null))

    expect(await recordsOf(await listPage(storage))).toHaveLength(3)
  })

  it('stops reading when its reader leaves', async () => {
    const { storage, sandbox, user, proxy } = await start()
    sandbox.seed(user, 'history', 3000)
    proxy.plan(({ index }) => (index === 0 ? { kind: 'hang-mid-body', afterBytes: 300_000 } : null))
    const page = await listPage(storage, {}, 'history')

    ;(page.document as ByteSource).cancel()

    expect(await recordsOf(await listPage(storage, { limit: 3 }, 'history'))).toHaveLength(3)
  })

  it('understands a storage that lists JSON arrays only', async () => {
    const { storage, has, proxy } = await start()
    const at = has(numbered(3))
    proxy.plan(() => ({ kind: 'rewrite', body: (real) => `[${real.trim().split('\n').join(',')}]` }))

    const page = await listPage(storage, { sort: 'oldest' })

    expect(page.count).toBe(3)
    expect(await recordsOf(page)).toContainEqual({ id: 'id1', last_modified: at, payload: 'payload 1' })
  })

  it('judges preconditions by the collection', async () => {
    const { storage, has } = await start()
    const at = has(numbered(2))
    const list = (precondition: Precondition) => storage.list('tabs', { sort: 'newest' }, precondition)

    expect(await list(since('differs', at))).toEqual({ outcome: 'not-modified', timestamp: at })
    expect(await list(since('differs', at - 1))).toMatchObject({ outcome: 'page' })
    expect(await list(since('unmodified-since', at))).toMatchObject({ outcome: 'page' })
    expect(await list(since('unmodified-since', at - 1))).toEqual({
      outcome: 'precondition-failed',
      timestamp: at,
    })
    expect(await list({ kind: 'absent' })).toMatchObject({ outcome: 'page' })
    expect(await list({ kind: 'exists' })).toMatchObject({ outcome: 'page' })
  })

  it('names the token when the storage refuses a position, else the query', async () => {
    const { storage, has } = await start()
    has(numbered(3))
    const position = { offset: 'rubbish', firstTimestamp: timestamp(10) }

    const page = await failureOf(listPage(storage, { limit: 1, position }))

    expect(page).toMatchObject({
      status: 400,
      errno: 109,
      extras: { problems: [{ location: 'querystring', name: '_token' }] },
    })
  })

  it('leaves out the first records of a position that counts them', async () => {
    const { storage, has } = await start()
    has(numbered(9))
    const all = await idsOf(await listPage(storage))
    const position = { offset: 'skip:4', firstTimestamp: timestamp(10) }

    const limited = await listPage(storage, { limit: 3, position })
    const next = await listPage(storage, { limit: 3, position: limited.next! })
    const rest = await listPage(storage, { position })

    expect(limited).toMatchObject({ count: 3, timestamp: timestamp(10) })
    expect(await idsOf(limited)).toEqual(all.slice(4, 7))
    expect(await idsOf(next)).toEqual(all.slice(7))
    expect(next.next).toBeNull()
    expect(await idsOf(rest)).toEqual(all.slice(4))
  })
})

describe('list of more ids than a request can name', () => {
  it.each(['newest', 'oldest', 'index'] as const)('is one list, %s first, page by page', async (sort) => {
    const { storage, sandbox, user } = await start()
    sandbox.seed(user, 'history', 260)
    const all = await recordsOf(await listPage(storage, { sort }, 'history'))
    const ids = all.map(({ id }) => id).toSorted()

    const whole = await recordsOf(await listPage(storage, { sort, ids: [...ids, 'unknown'] }, 'history'))
    const first = await listPage(storage, { sort, ids, limit: 150 }, 'history')
    const second = await listPage(storage, { sort, ids, limit: 150, position: first.next! }, 'history')

    const rank = (record: (typeof all)[number]) =>
      sort === 'index' ? (record.sortindex ?? -1e9) : record.last_modified
    expect(whole.map(rank)).toEqual(all.map(rank))
    expect(whole.map(({ id }) => id).toSorted()).toEqual(ids)
    expect([first.count, second.count, second.next]).toEqual([150, 110, null])
    expect([...(await recordsOf(first)), ...(await recordsOf(second))]).toEqual(whole)
  })

  it('orders records of one moment by their ids', async () => {
    const { storage, has } = await start()
    has(numbered(150))
    const ids = numbered(150).map(({ id }) => id)

    expect(await idsOf(await listPage(storage, { ids }))).toEqual(ids.toSorted())
  })

  it('never names more than 100', async () => {
    const { storage, sandbox, user, proxy } = await start()
    sandbox.seed(user, 'history', 10)

    await listPage(storage, { ids: numbered(250).map(({ id }) => id) }, 'history')

    expect(proxy.requests.map(({ query }) => query.get('ids')!.split(',').length)).toEqual([100, 100, 50])
  })

  it('selects by time, and judges preconditions', async () => {
    const { storage, has } = await start()
    const early = has(numbered(60))
    const late = has(numbered(60, 'late'))
    const ids = [...numbered(60), ...numbered(60, 'late')].map(({ id }) => id)
    const list = (precondition: Precondition) => storage.list('tabs', { sort: 'newest', ids }, precondition)

    expect(await listPage(storage, { ids, newer: early })).toMatchObject({ count: 60, timestamp: late })
    expect(await listPage(storage, { ids, older: late })).toMatchObject({ count: 60 })
    expect(await listPage(storage, { ids, excludedIds: new Set(['id1']) })).toMatchObject({ count: 119 })
    expect(await list(since('unmodified-since', early))).toEqual({
      outcome: 'precondition-failed',
      timestamp: late,
    })
    expect(await list(since('differs', late))).toEqual({ outcome: 'not-modified', timestamp: late })
  })

  it('begins again when the collection changes meanwhile, three times', async () => {
    const { storage, has, proxy, sandbox, user } = await start()
    has(numbered(150))
    const ids = numbered(150).map(({ id }) => id)
    let changes = 0
    proxy.plan(({ headers }) => {
      if (headers.has('x-if-unmodified-since') && changes < 3) {
        changes += 1
        sandbox.write(user, 'tabs', [{ id: 'id149', payload: `change ${changes}` }])
      }
      return null
    })

    const page = await listPage(storage, { ids })

    expect(await recordsOf(page)).toContainEqual(
      expect.objectContaining({ id: 'id149', payload: 'change 3' }),
    )
    expect(page.count).toBe(150)
    expect(proxy.requests).toHaveLength(8)

    changes = -1
    expect(await failureOf(listPage(storage, { ids }))).toMatchObject({ failure: 'refused', applied: 'no' })
  })
})

describe('get', () => {
  it('is the record', async () => {
    const { storage, has, proxy, user } = await start()
    const lastModified = has([{ id: "{a} b,c'", payload: 'x', sortindex: 3 }], 'passwords')

    const outcome = await storage.get('passwords', "{a} b,c'", noPrecondition)

    expect(outcome).toEqual({
      outcome: 'found',
      record: { id: "{a} b,c'", lastModified, payload: 'x', sortindex: 3 },
    })
    expect(proxy.requests[0]!.target).toBe(`/1.5/${user.uid}/storage/passwords/%7Ba%7D%20b%2Cc%27`)
  })

  it('judges preconditions by the record', async () => {
    const { storage, has } = await start()
    const at = has([{ id: 'a', payload: 'x' }])
    const record = { id: 'a', lastModified: at, payload: 'x' }
    const found = { outcome: 'found' as const, record }
    has([{ id: 'b' }])
    const get = (precondition: Precondition, id = 'a') => storage.get('tabs', id, precondition)

    expect(await get(since('unmodified-since', at))).toEqual(found)
    expect(await get(since('unmodified-since', at - 10))).toEqual({
      outcome: 'precondition-failed',
      existing: record,
    })
    expect(await get(since('differs', at))).toEqual({ outcome: 'not-modified', timestamp: at })
    expect(await get(since('differs', at - 10))).toEqual(found)
    expect(await get({ kind: 'absent' })).toEqual({ outcome: 'not-modified', timestamp: at })
    expect(await get({ kind: 'exists' })).toEqual(found)
    for (const kind of ['unmodified-since', 'differs'] as const) {
      expect(await get(since(kind, at), 'unknown')).toEqual({ outcome: 'missing' })
    }
    expect(await get({ kind: 'absent' }, 'unknown')).toEqual({ outcome: 'missing' })
  })

  it('finds an expired record missing, whatever the precondition', async () => {
    const { storage, sandbox, user, clock } = await start()
    const at = sandbox.write(user, 'tabs', [{ id: 'a', payload: 'x', ttl: 60 }])
    clock.nowMs += 100_000

    expect(await storage.get('tabs', 'a', since('differs', at))).toEqual({ outcome: 'missing' })
    expect(await storage.get('tabs', 'a', since('unmodified-since', at - 10))).toEqual({ outcome: 'missing' })
  })

  it('finds a record of another spelling missing', async () => {
    const { storage, has } = await start({ mode: 'mysql' })
    has([{ id: 'AbC', payload: 'x' }])

    expect(await storage.get('tabs', 'abc', noPrecondition)).toEqual({ outcome: 'missing' })
    expect(await storage.get('tabs', 'AbC', noPrecondition)).toMatchObject({ outcome: 'found' })
  })

  it.each([
    ['another record', '{"id":"z","modified":1.00,"payload":""}'],
    ['no JSON', '<html>'],
    ['no record', '[]'],
    ['a record without a time', '{"id":"a","payload":""}'],
  ])('takes %s for nonsense', async (_, body) => {
    const { storage, has, proxy } = await start()
    has([{ id: 'a' }])
    proxy.plan(() => ({ kind: 'rewrite', body }))

    expect(await failureOf(storage.get('tabs', 'a', noPrecondition))).toMatchObject({
      failure: 'bad-response',
    })
  })

  it('names the record id when the storage refuses it', async () => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'status', status: 400, body: '0' }))

    expect(await failureOf(storage.get('tabs', 'a', noPrecondition))).toMatchObject({
      status: 400,
      extras: { problems: [{ location: 'path', name: 'record_id' }] },
    })
  })

  it.each(['.', '..', ''])('sends nothing for the id "%s"', async (id) => {
    const { storage, proxy } = await start()

    expect(await failureOf(storage.get('tabs', id, noPrecondition))).toBeInstanceOf(RangeError)
    expect(await failureOf(storage.get(id, 'storage', noPrecondition))).toBeInstanceOf(RangeError)
    expect(proxy.requests).toEqual([])
  })
})

describe('collectionTimestamps, count and limits', () => {
  it('tell of all collections', async () => {
    const { storage, has } = await start()
    const tabs = has(numbered(3))
    const history = has(numbered(2), 'history')
    const collections = new Map([
      ['tabs', tabs],
      ['history', history],
    ])

    const outcome = await storage.collectionTimestamps()

    expect(outcome).toEqual({ timestamp: history, collections })
    expect(await storage.count('tabs', {})).toEqual({ count: 3, timestamp: tabs })
    expect(await storage.count('unknown', {})).toEqual({ count: 0, timestamp: zeroTimestamp })
    expect(await storage.count('constructor', {})).toMatchObject({ count: 0 })
  })

  it('count what a list with the same filters holds, by ids alone', async () => {
    const { storage, has, proxy } = await start()
    const times = ['a', 'b', 'c', 'd,e'].map((id) => has([{ id, payload: id }]))
    const count = async (filter: ListFilter) => (await storage.count('tabs', filter)).count

    expect(await storage.count('tabs', { newer: times[0]! })).toEqual({ count: 3, timestamp: times[3]! })
    expect(await count({ older: times[2]! })).toBe(2)
    expect(await count({ excludedIds: new Set(['a', 'x']) })).toBe(3)
    expect(await count({ ids: ['a', 'b', 'x', 'd,e'], newer: times[0]! })).toBe(2)
    expect(await count({ ids: ['d,e'], older: times[3]! })).toBe(0)
    expect(await count({ ids: ['a', 'b'], excludedIds: new Set(['a', 'b']) })).toBe(0)
    expect(await storage.count('unknown', { newer: times[0]! })).toEqual({
      count: 0,
      timestamp: zeroTimestamp,
    })
    expect(proxy.requests.some(({ query }) => query.has('full'))).toBe(false)
  })

  it('count over pages and many ids as one whole, again when the collection changes', async () => {
    const { storage, has, sandbox, proxy } = await start()
    has(numbered(30))
    sandbox.switches.listCap = 10
    let changed = zeroTimestamp
    proxy.plan(({ index }) => {
      if (index === 1) changed = has([{ id: 'id30' }])
      return null
    })
    const ids = numbered(250).map(({ id }) => id)

    expect(await storage.count('tabs', { newer: timestamp(10) })).toEqual({ count: 31, timestamp: changed })
    expect(await storage.count('tabs', { ids })).toEqual({ count: 31, timestamp: changed })
  })

  it('leave out names that can not be asked for', async () => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'rewrite', body: '{"tabs":1.5,"Upper":2.00,"a/b":3,"..":4}' }))

    const outcome = await storage.collectionTimestamps()

    expect(outcome).toMatchObject({ collections: new Map([['tabs', timestamp(1500)]]) })
  })

  it.each(['[]', '{"tabs":"1.00"}', '{"tabs":-1}', '0', 'text'])('take %s for nonsense', async (body) => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'rewrite', body }))

    expect(await failureOf(storage.collectionTimestamps())).toMatchObject({
      failure: 'bad-response',
    })
    expect(await failureOf(storage.count('tabs', {}))).toMatchObject({ failure: 'bad-response' })
  })

  it('remember what a node accepts for ten minutes', async () => {
    const { storage, proxy, clock } = await start({ limits: { max_post_records: 7 } })

    const limits = await storage.limits()
    clock.nowMs += 599_000
    expect(await storage.limits()).toEqual(limits)
    expect(proxy.requests).toHaveLength(1)
    clock.nowMs += 1001
    await storage.limits()

    expect(proxy.requests).toHaveLength(2)
    expect(limits).toEqual({
      maxRequestBytes: 2_625_536,
      maxPostBytes: 2_621_440,
      maxPostRecords: 7,
      maxRecordPayloadBytes: 2_621_440,
      batch: { maxTotalBytes: 262_144_000, maxTotalRecords: 10_000 },
    })
  })

  it('assume the limits of old servers where none are told', async () => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'status', status: 404, body: '0' }))

    expect(await storage.limits()).toEqual({
      maxRequestBytes: 266_240,
      maxPostBytes: 266_240,
      maxPostRecords: 100,
      maxRecordPayloadBytes: 262_144,
      batch: null,
    })
  })
})

describe('snapshot', () => {
  it('is the named records, with any ids, and the timestamp of the collection', async () => {
    const { storage, has } = await start()
    has([
      { id: 'a', payload: '1' },
      { id: 'b,c', payload: '2' },
      { id: '{d}', payload: '3' },
      { id: 'e', payload: '4' },
    ])
    const at = has([{ id: 'e', payload: '5' }])

    const snapshot = await storage.snapshot('tabs', ['a', 'b,c', '{d}', 'unknown', 'un,known'])

    expect(snapshot.timestamp).toBe(at)
    expect([...snapshot.records].map(([id, { payload }]) => [id, payload]).toSorted()).toEqual([
      ['a', '1'],
      ['b,c', '2'],
      ['{d}', '3'],
    ])
  })

  it('never sends an empty list of ids', async () => {
    const { storage, has, proxy } = await start()
    const at = has([{ id: 'b,c', payload: '2' }])

    expect(await storage.snapshot('tabs', [])).toEqual({ timestamp: at, records: new Map() })
    expect((await storage.snapshot('tabs', ['b,c'])).records.size).toBe(1)

    expect(proxy.requests.every(({ query }) => query.get('ids') !== '')).toBe(true)
    expect(proxy.requests.map(({ query }) => query.get('limit'))).toEqual(['1', '1', null])
  })

  it('takes in all that the storage makes pages of', async () => {
    const { storage, has, sandbox } = await start()
    has(numbered(150))
    sandbox.switches.listCap = 40

    const { records } = await storage.snapshot(
      'tabs',
      numbered(150).map(({ id }) => id),
    )

    expect(records.size).toBe(150)
  })

  it('leaves out records of another spelling', async () => {
    const { storage, has } = await start({ mode: 'mysql' })
    has([{ id: 'AbC', payload: 'x' }])

    expect((await storage.snapshot('tabs', ['abc'])).records.size).toBe(0)
  })

  it('begins again when the collection changes meanwhile', async () => {
    const { storage, has, proxy, sandbox, user } = await start()
    has(numbered(101))
    let changes = 0
    proxy.plan(({ query }) => {
      // Between the two portions.
      if (query.get('ids') === 'id100' && changes++ === 0)
        sandbox.write(user, 'tabs', [{ id: 'id0', payload: 'new' }])
      return null
    })

    const { records, timestamp: at } = await storage.snapshot(
      'tabs',
      numbered(101).map(({ id }) => id),
    )

    expect(records.get('id0')?.payload).toBe('new')
    expect(records.get('id0')?.lastModified).toBe(at)
  })
})

describe('a read that fails', () => {
  it.each([
    [
      { status: 403, body: '14' },
      { name: 'ServiceError', status: 403, errno: 121 },
    ],
    [
      { status: 400, body: '14' },
      { name: 'ServiceError', status: 403, errno: 121 },
    ],
    [
      { status: 413, body: '17' },
      { name: 'ServiceError', status: 413, errno: 113 },
    ],
    [
      { status: 400, body: '17' },
      { name: 'ServiceError', status: 413, errno: 113 },
    ],
    [
      { status: 409, body: '' },
      { name: 'ServiceError', status: 409, errno: 122 },
    ],
    [
      { status: 429, headers: { 'Retry-After': '7.5' } },
      { name: 'ServiceError', status: 429, errno: 117, extras: { retryAfterSeconds: 8 } },
    ],
    [{ status: 513 }, { name: 'ServiceError', status: 410, errno: 202 }],
    [
      { status: 404, body: '0' },
      { failure: 'bad-response', status: 404 },
    ],
    [{ status: 405 }, { failure: 'bad-response', status: 405 }],
    [
      { status: 406, body: '0' },
      { failure: 'bad-response', status: 406 },
    ],
    [{ status: 304 }, { failure: 'bad-response', status: 304 }],
    [{ status: 412 }, { failure: 'bad-response', status: 412 }],
    [
      { status: 202, body: '[]' },
      { failure: 'bad-response', status: 202 },
    ],
    [
      { status: 500, body: '0' },
      { failure: 'refused', status: 500, retryAfterSeconds: null },
    ],
    [
      { status: 502, body: '<html>secret</html>' },
      { failure: 'refused', status: 502 },
    ],
    [
      { status: 503, headers: { 'Retry-After': '600' }, body: '"server issue: secret"' },
      { failure: 'refused', status: 503, retryAfterSeconds: 600 },
    ],
    [{ status: 200, headers: { 'X-Last-Modified': 'NaN' } }, { failure: 'bad-response' }],
    [{ status: 200 }, { failure: 'bad-response' }],
    [{ status: 200, headers: { 'X-Last-Modified': '1.00' }, body: 'not JSON' }, { failure: 'bad-response' }],
  ])('answers %j with %j', async (answer, expected) => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'status', ...answer }))

    const failure = await failureOf(listPage(storage))

    expect(failure).toMatchObject(expected)
    expect(Bun.inspect(failure)).not.toContain('secret')
  })

  it('lets the storage announce its end', async () => {
    const { storage, proxy } = await start()
    proxy.plan(() => ({ kind: 'status', status: 513, headers: { 'X-Weave-Alert': '{"code":"hard-eol"}' } }))

    await failureOf(listPage(storage))

    expect(storage.notices.alert).toBe('{"code":"hard-eol"}')
  })

  it('collects what all answers say besides', async () => {
    const { storage, proxy } = await start()
    const backoffs = ['10', '30', '20']
    proxy.plan(({ index }) => ({ kind: 'rewrite', headers: { 'X-Weave-Backoff': backoffs[index]! } }))

    await listPage(storage)
    await storage.count('tabs', {})
    await storage.get('tabs', 'a', noPrecondition)

    expect(storage.notices).toEqual({ backoffSeconds: 30, alert: null, quotaRemaining: null })
  })

  it('waits no longer than the deadline of the request', async () => {
    const { open, proxy, clock } = await start()
    const storage = await open({ deadlineAtMs: clock.nowMs + 300 })
    proxy.plan(() => ({ kind: 'hang' }))

    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'timeout' })
    clock.nowMs += 300
    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'timeout', applied: 'no' })

    expect(proxy.requests).toHaveLength(1)
  })

  it.each<[string, (storage: BulkStorage) => Promise<unknown>]>([
    ['a list', async (storage) => await recordsOf(await listPage(storage))],
    ['a count', (storage) => storage.count('tabs', { newer: timestamp(10) })],
    ['a snapshot', (storage) => storage.snapshot('tabs', ['id1', 'id2'])],
  ])('does not follow offsets that go round in circles: %s', async (_, read) => {
    const { storage, proxy } = await start()
    proxy.plan(({ index, query }) => ({
      kind: 'status',
      status: 200,
      headers: { 'X-Last-Modified': '20.00', 'X-Weave-Next-Offset': ['a:1', 'b:1'][index % 2]! },
      body: query.has('full') ? '[{"id":"id1","modified":20.00,"payload":"x"}]' : '["id1"]',
    }))

    expect(await failureOf(read(storage))).toMatchObject({ failure: 'bad-response' })
    expect(proxy.requests.length).toBeLessThan(4)
  })

  it.each<[string, string, UpstreamError['failure'] | null]>([
    ['neither length, chunks nor count', '', 'bad-response'],
    ['a count that does not fit', 'X-Weave-Records: 2\r\n', 'connection-lost'],
    ['a count that fits', 'X-Weave-Records: 1\r\n', null],
  ])('takes no list for whole whose end nobody can see: %s', async (_, headers, expected) => {
    const line = '{"id":"a","modified":10.00,"payload":"x"}\n'
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        // An orderly end and a reset look alike to the runtime's client.
        socket.end(`HTTP/1.1 200 OK\r\nX-Last-Modified: 10.00\r\n${headers}\r\n${line}`)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { open, tokenServer, identity } = await start()
    const credentials = await tokenServer.exchange(identity())
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/1.5/${credentials.uid}`
    const storage = await open({ credentials: { ...credentials, endpoint } })

    const outcome = await listPage(storage)
      .then(recordsOf)
      .then(() => null)
      .catch((error: UpstreamError) => error.failure)
    server.close()

    expect(outcome).toBe(expected)
  })

  it('has no deadline any more once the answer streams', async () => {
    const { open, has, sandbox, clock } = await start()
    has(numbered(30))
    sandbox.switches.listCap = 10
    const storage = await open({ deadlineAtMs: clock.nowMs + 1000 })

    const page = await listPage(storage)
    clock.nowMs += 60_000

    expect(await recordsOf(page)).toHaveLength(30)
  })

  it('ends when the client hangs up', async () => {
    const { open, proxy } = await start()
    const client = new AbortController()
    const storage = await open({ client })
    proxy.plan(() => ({ kind: 'hang' }))

    const failure = failureOf(listPage(storage))
    await proxy.waitFor(({ index }) => index === 0)
    client.abort()

    expect(await failure).toMatchObject({ failure: 'abandoned' })
  })
})

describe('refused credentials', () => {
  it('are renewed once, and the read is repeated', async () => {
    const { storage, has, proxy, renewals } = await start()
    has(numbered(3))
    proxy.plan(({ index }) => (index < 2 ? { kind: 'status', status: 401, body: '0' } : null))

    const pages = await Promise.all([listPage(storage), listPage(storage)])

    expect(pages.map(({ count }) => count)).toEqual([3, 3])
    expect(renewals).toHaveLength(1)
  })

  it('are an error the second time', async () => {
    const { storage, proxy, renewals } = await start()
    proxy.plan(() => ({ kind: 'status', status: 401, body: '0' }))

    expect(await failureOf(listPage(storage))).toMatchObject({
      name: 'ServiceError',
      status: 401,
      errno: 105,
    })

    expect(proxy.requests).toHaveLength(2)
    expect(renewals).toHaveLength(1)
  })

  it('lead reads that stand alone to where the user has moved', async () => {
    const { storage, has, sandbox, user } = await start()
    has(numbered(3))
    sandbox.reassign(user)

    expect(await listPage(storage)).toMatchObject({ count: 0, timestamp: zeroTimestamp })
  })

  it('refuse a snapshot of where the user has moved, on which a write would be judged', async () => {
    const { storage, has, sandbox, user } = await start()
    has(numbered(3))
    sandbox.reassign(user)

    expect(await failureOf(storage.snapshot('tabs', ['a']))).toMatchObject({
      failure: 'refused',
      applied: 'no',
    })
  })

  it('stop a list that would go on elsewhere', async () => {
    const { storage, has, sandbox, user } = await start()
    has(numbered(30))
    sandbox.switches.listCap = 10
    const page = await listPage(storage)
    sandbox.reassign(user)

    expect(await failureOf(recordsOf(page))).toMatchObject({ failure: 'refused', applied: 'no' })
  })
})
