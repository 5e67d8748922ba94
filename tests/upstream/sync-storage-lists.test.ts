import { afterEach, describe, expect, it, jest } from 'bun:test'
import { toEndpoint } from '../../src/domain/credentials.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import { noPrecondition, type Precondition } from '../../src/domain/precondition.ts'
import { failureOf, idsOf, numbered, openRig, pageOf, recordsOf, cleanUp, since, startRaw } from './rig.ts'
import type { ByteSource, BulkStorage, ListFilter, ListOptions } from '../../src/domain/record-storage.ts'
import { eventually } from '../support/eventually.ts'
import { UpstreamError } from '../../src/domain/errors.ts'
import { limits } from '../../src/load/limits.ts'

afterEach(async () => {
  jest.useRealTimers()
  await cleanUp()
})

async function listPage(storage: BulkStorage, options: Partial<ListOptions> = {}, collection = 'tabs') {
  return pageOf(await storage.list(collection, { sort: 'newest', ...options }, noPrecondition))
}

describe('list', () => {
  it('holds a permit of its user while it streams, and waits for one without a call until its deadline', async () => {
    const { open, has, lists, proxy } = await openRig()
    has(numbered(10, 'x'.repeat(60)).map((record) => ({ ...record, payload: 'x'.repeat(50_000) })))
    const storage = await open({ deadlineAtMs: 1_700_000_000_000 + 50_000 })
    const impatient = await open({ deadlineAtMs: 1_700_000_000_000 + 1000 })
    const documents = []
    for (let count = 0; count < limits.listsPerUser; count += 1)
      documents.push((await listPage(storage)).document as ByteSource)
    for (let other = 0; other < 2000 && lists.tryAcquire(proxy.url, `other ${other}`); other += 1);

    expect(documents[0]!.hasWaiters!()).toBe(false)
    const newcomer = lists.acquire(proxy.url, 'newcomer')
    expect(documents[0]!.hasWaiters!()).toBe(true)
    expect(await failureOf(listPage(impatient))).toMatchObject({ failure: 'overload' })
    documents[0]!.cancel()
    await newcomer
    expect(documents[1]!.hasWaiters!()).toBe(false)

    for (const document of documents) document.cancel()
    for (let other = 0; other < 2000 && lists.tryAcquire(proxy.url, `later ${other}`); other += 1);
    const waiting = listPage(storage)
    await eventually('the list waits for a permit', () => lists.hasWaiters(proxy.url))
    lists.release(proxy.url, 'newcomer')
    expect(await recordsOf(await waiting)).toHaveLength(10)
    expect(proxy.requests).toHaveLength(limits.listsPerUser + 3)
  })

  it('needs no permit if it fits into one response', async () => {
    const { has, lists, proxy, storage } = await openRig()
    has(numbered(10).map((record) => ({ ...record, payload: 'x'.repeat(20_000) })))
    for (let other = 0; other < 2000 && lists.tryAcquire(proxy.url, `other ${other}`); other += 1);

    expect((await listPage(storage)).document).toBeInstanceOf(Uint8Array)
  })

  it('returns the collection in the exposed form, in one request', async () => {
    const { storage, has, proxy, user } = await openRig()
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

  it('is read again if it contains records under the timestamp of a collection without any', async () => {
    const { storage, has, proxy } = await openRig()
    const at = has(numbered(3))
    proxy.plan(({ index }) =>
      index === 0 ? { kind: 'rewrite', headers: { 'x-last-modified': '0.00' } } : null,
    )

    const page = await listPage(storage)

    expect(page).toMatchObject({ timestamp: at, count: 3 })
    expect(proxy.requests).toHaveLength(2)
  })

  it('omits the first records of a position that counts them', async () => {
    const { storage, has } = await openRig()
    const written = has(numbered(9))
    const all = await idsOf(await listPage(storage))
    const position = { offset: 'skip:4', firstTimestamp: written }

    const limited = await listPage(storage, { limit: 3, position })
    const next = await listPage(storage, { limit: 3, position: limited.next! })
    const rest = await listPage(storage, { position })

    expect(limited).toMatchObject({ count: 3, timestamp: written })
    expect(await idsOf(limited)).toEqual(all.slice(4, 7))
    expect(await idsOf(next)).toEqual(all.slice(7))
    expect(next.next).toBeNull()
    expect(await idsOf(rest)).toEqual(all.slice(4))
  })
})

describe('a page after one that was cut here', () => {
  it.each([
    [1000, 11],
    [1001, 2],
    [3000, 2],
  ])('takes few requests: %d records in %d', async (count, requests) => {
    const { storage, has, proxy } = await openRig()
    const records = Array.from({ length: count + 7 }, (_, index) => ({ id: `id${index}`, payload: 'x' }))
    const version = has(records)
    const all = await idsOf(await listPage(storage))
    const before = proxy.requests.length

    const rest = await listPage(storage, { position: { offset: 'skip:7', firstTimestamp: version } })

    expect(await idsOf(rest)).toEqual(all.slice(7))
    expect(proxy.requests.length - before).toBe(requests)
  })
})

describe('a filter that no storage has', () => {
  const even = ({ sortindex = 1 }: { sortindex?: number }) => sortindex % 2 === 0
  const filters: [name: string, filter: ListFilter, selects: (index: number) => boolean][] = [
    ['of ids', { keepsId: (id) => !id.endsWith('3') }, (index) => index % 10 !== 3],
    ['of records', { keepsRecord: even }, (index) => index % 2 === 0],
    [
      'of both',
      { keepsId: (id) => !id.endsWith('4'), keepsRecord: even },
      (index) => index % 2 === 0 && index % 10 !== 4,
    ],
  ]
  for (const bytes of [10, 20_000]) {
    it.each(filters)(
      `selects the same in lists, pages, lists by ids and counts: %s, ${bytes} bytes each`,
      async (_, filter, selects) => {
        const { storage, has } = await openRig()
        const records = Array.from({ length: 130 }, (_, index) => {
          return { id: `id${index}`, payload: 'x'.repeat(bytes), sortindex: index }
        })
        // No list of ids can name this one.
        const odd = { id: 'x,y', payload: 'x'.repeat(bytes), sortindex: 130 }
        const version = has([...records, odd])
        const ids = records.map(({ id }) => id)
        const expected = ids.filter((_, index) => selects(index)).toSorted()
        const listed = async (options: Partial<ListOptions>) =>
          (await idsOf(await listPage(storage, options))).toSorted()
        const all = [...expected, odd.id].toSorted()
        const skip = (count: number) => ({ offset: `skip:${count}`, firstTimestamp: version })

        expect(await listed(filter)).toEqual(all)
        expect(await listed({ ...filter, ids })).toEqual(expected)
        expect(await listed({ ...filter, ids: ids.slice(0, 20) })).toEqual(
          ids
            .slice(0, 20)
            .filter((_, index) => selects(index))
            .toSorted(),
        )
        expect(await storage.count('tabs', filter)).toEqual({ count: all.length, timestamp: version })
        expect(await storage.count('tabs', { ...filter, ids })).toMatchObject({ count: expected.length })
        const pages = await Promise.all(
          [0, 30, 60, 90, 120].map((count) =>
            listed({ ...filter, sort: 'oldest', limit: 30, position: skip(count) }),
          ),
        )
        expect(pages.flat().toSorted()).toEqual(all)
        expect(pages.map(({ length }) => length)).toEqual(
          [0, 30, 60, 90, 120].map((count) => Math.max(0, Math.min(30, all.length - count))),
        )
      },
    )
  }
})

describe('the next page of a list', () => {
  it.each(['newest', 'oldest', 'index'] as const)(
    'is rejected if the collection was emptied or replaced since, %s first',
    async (sort) => {
      const { open, has, sandbox, user, later } = await openRig()
      has(numbered(150))
      const ids = numbered(150).map(({ id }) => id)
      for (const named of [{}, { ids }]) {
        const first = await listPage(await open(), { sort, limit: 50, ...named })
        sandbox.remove(user, 'tabs')

        const second = listPage(await open(), { sort, limit: 50, position: first.next!, ...named })

        expect(await failureOf(second)).toMatchObject({ status: 400 })
        later()
        has(numbered(150))
      }
    },
  )
})

describe('a list of more ids than a request can name', () => {
  it.each(['newest', 'oldest', 'index'] as const)('is one list, %s first, page by page', async (sort) => {
    const { storage, sandbox, user } = await openRig()
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

  it('orders records with equal timestamps by id', async () => {
    const { storage, has } = await openRig()
    has(numbered(150))
    const ids = numbered(150).map(({ id }) => id)

    const sorted = ids.toSorted()
    expect(await idsOf(await listPage(storage, { ids }))).toEqual(sorted.toReversed())
    expect(await idsOf(await listPage(storage, { ids, sort: 'oldest' }))).toEqual(sorted)
  })

  it.each([10, 20_000])('selects by time, and evaluates preconditions: %d bytes each', async (bytes) => {
    const { storage, has } = await openRig()
    const early = has(numbered(60).map((record) => ({ ...record, payload: 'x'.repeat(bytes) })))
    const late = has(numbered(60, 'late'))
    const ids = [...numbered(60), ...numbered(60, 'late')].map(({ id }) => id)
    const list = (precondition: Precondition) => storage.list('tabs', { sort: 'newest', ids }, precondition)

    expect(await listPage(storage, { ids, newer: early })).toMatchObject({ count: 60, timestamp: late })
    expect(await listPage(storage, { ids, older: late })).toMatchObject({ count: 60 })
    expect(await listPage(storage, { ids, newer: late })).toMatchObject({ count: 0 })
    expect(await listPage(storage, { ids, keepsId: (id) => id !== 'id1' })).toMatchObject({ count: 119 })
    expect(await list(since('unmodified-since', early))).toEqual({
      outcome: 'precondition-failed',
      timestamp: late,
    })
    expect(await list(since('differs', late))).toEqual({ outcome: 'not-modified', timestamp: late })
  })

  it('starts again if the collection changes meanwhile, three times', async () => {
    const { storage, has, proxy, sandbox, user } = await openRig()
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

describe('a response larger than 64 MiB', () => {
  it('streams in a list by ids until the collection changes, and is no outage in a snapshot', async () => {
    const { storage, has } = await openRig()
    const ids = numbered(120).map(({ id }) => id)
    const payload = 'x'.repeat(1024 * 1024)
    has(ids.slice(66).map((id) => ({ id, payload: 'small' })))
    for (let at = 0; at < 66; at += 22) has(ids.slice(at, at + 22).map((id) => ({ id, payload })))

    const { document, count } = await listPage(storage, { ids })
    let bytes = 0
    const source = document as ByteSource
    for (let piece = await source.read(); piece; piece = await source.read()) bytes += piece.length

    expect(count).toBe(120)
    expect(bytes).toBeGreaterThan(66 * payload.length)
    const { records } = await storage.snapshot('tabs', ids, (_, length) => length < 10)
    const lengths = [...records.values()].map(({ payload }) => payload?.length ?? null)
    expect(new Set(lengths)).toEqual(new Set([5, null]))

    const two = await listPage(storage, { ids, limit: 2 })
    const others = await listPage(storage, { ids, limit: 118, position: two.next! })
    has([{ id: 'id0', payload: 'changed' }])
    expect([two.count, others.count, others.next]).toEqual([2, 118, null])
    expect(await failureOf(recordsOf(others))).toMatchObject({ failure: 'refused' })
  })
})

describe('a read that fails', () => {
  it.each<[number, string, lastModified?: string]>([
    ...[404, 405, 406, 304, 412].map((status): [number, string] => [status, '0']),
    [202, '[]'],
    [200, ''],
    ...['NaN', '-1.00', '1e9', '1.234', '1,00', '1.00, 2.00', '0x10'].map(
      (time): [number, string, string] => [200, '', time],
    ),
    [200, 'not JSON', '1.00'],
  ])('rejects %d "%s" as invalid', async (...row) => {
    const [status, body, lastModified] = row
    const headers: Record<string, string> = lastModified ? { 'X-Last-Modified': lastModified } : {}
    const { storage, proxy } = await openRig()
    proxy.plan(() => ({ kind: 'status', status, headers, body }))

    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'bad-response' })
  })

  it('holds the memory needed to read a list that is one endless line', async () => {
    const { open, proxy } = await openRig()
    let held = 0
    const storage = await open({ holder: { memory: { grow: (bytes) => void (held += bytes), shrink() {} } } })
    const body = `{${' '.repeat(1_000_000)}`
    const headers = { 'X-Last-Modified': '1.00', 'X-Weave-Records': '1' }
    proxy.plan(() => ({ kind: 'status', status: 200, headers, body }))

    await failureOf(listPage(storage).then(recordsOf))

    expect(held).toBeGreaterThanOrEqual(800_000)
  })

  it('does not wait for a permit after its client disconnected', async () => {
    const client = new AbortController()
    const { open, proxy } = await openRig()
    proxy.plan(() => ({ kind: 'hang' }))
    const others = Array.from({ length: 100 }, async () => void listPage(await open()).catch(() => {}))
    await Promise.all(others)

    const waiting = failureOf(listPage(await open({ client })))
    client.abort()

    expect(await waiting).toMatchObject({ failure: 'abandoned' })
    proxy.release()
  })

  it('waits no longer than the deadline of the request', async () => {
    const { open, proxy, clock } = await openRig()
    const storage = await open({ deadlineAtMs: clock.nowMs + 3000 })
    proxy.plan(() => ({ kind: 'hang' }))

    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'timeout' })
    clock.nowMs += 3000
    expect(await failureOf(listPage(storage))).toMatchObject({ failure: 'timeout', applied: 'no' })

    expect(proxy.requests).toHaveLength(1)
  })

  const line = '{"id":"a","modified":10.00,"payload":"x"}\n'
  it.each<[string, (storage: BulkStorage) => Promise<unknown>]>([
    ['a list', async (storage) => await recordsOf(await listPage(storage))],
    ['a count', (storage) => storage.count('tabs', { newer: timestamp(10) })],
    ['a snapshot', (storage) => storage.snapshot('tabs', ['id1', 'id2'], () => true)],
  ])('does not follow offsets that repeat: %s', async (_, read) => {
    const { storage, proxy } = await openRig()
    proxy.plan(({ index, query }) => ({
      kind: 'status',
      status: 200,
      headers: {
        'X-Last-Modified': '20.00',
        ...(index < 9 && { 'X-Weave-Next-Offset': ['a:1', 'b:1'][index % 2]! }),
      },
      body: query.get('ids')
        ? '{"id":"id1","modified":20.00,"payload":"x"}\n'
        : query.has('full')
          ? line
          : '["id1"]',
    }))

    expect(await failureOf(read(storage))).toMatchObject({ failure: 'bad-response' })
    expect(proxy.requests.length).toBeLessThan(4)
  })

  const lines = async (storage: BulkStorage) => await recordsOf(await listPage(storage))
  const count = (storage: BulkStorage) => storage.count('tabs', { newer: timestamp(1) })
  it.each<
    [string, string, string, (storage: BulkStorage) => Promise<unknown>, UpstreamError['failure'] | null]
  >([
    ['a list with neither length, chunks nor count', line, '', lines, 'bad-response'],
    ['a list with a count that does not fit', line, 'X-Weave-Records: 2\r\n', lines, 'connection-lost'],
    ['a list with a count that fits', line, 'X-Weave-Records: 1\r\n', lines, null],
    ['ids with a count that does not fit', '["a"]', 'X-Weave-Records: 2\r\n', count, 'connection-lost'],
    ['ids whose array does not end', '["a"', '', count, 'bad-response'],
    ['ids whose array ends', '["a"]', '', count, null],
  ])(
    'does not treat a list as complete if its end is undetectable: %s',
    async (_, body, headers, read, expected) => {
      // A regular end and a reset look alike to the runtime's client.
      const url = await startRaw(`HTTP/1.1 200 OK\r\nX-Last-Modified: 10.00\r\n${headers}\r\n${body}`)
      const { open, tokenServer, identity } = await openRig()
      const credentials = await tokenServer.exchange(identity())
      const endpoint = toEndpoint(new URL(`${url}/1.5/${credentials.uid}`))
      const storage = await open({ credentials: { ...credentials, endpoint } })

      const outcome = await read(storage)
        .then(() => null)
        .catch((error: UpstreamError) => error.failure)

      expect(outcome).toBe(expected)
    },
  )

  it.each<[string, number, Record<string, string>, (storage: BulkStorage) => Promise<unknown>]>([
    ['a count', 0, {}, (storage) => storage.count('tabs', { newer: timestamp(1) })],
    ['a list', 0, {}, (storage) => listPage(storage)],
    ['the second page of a list', 1, {}, async (storage) => recordsOf(await listPage(storage))],
    [
      'a count, as one JSON array for which there is no memory',
      0,
      { 'X-Last-Modified': '10.00' },
      (storage) => storage.count('tabs', { newer: timestamp(1) }),
    ],
  ])('releases its permit, however long the discarded response is: %s', async (...row) => {
    const [, failing, headers, read] = row
    const { open, has, proxy, sandbox, calls } = await openRig()
    has(numbered(150))
    const full = () => {
      throw new UpstreamError('overload', 'There is no memory')
    }
    const storage = await open({ holder: { memory: { grow: full, shrink() {} } } })
    sandbox.switches.listCap = failing === 1 ? 100 : null
    const body = `[${' '.repeat(1_000_000)}]`
    const unreadable = { 'X-Last-Modified': 'x', ...headers }
    proxy.plan(({ index }) => (index === failing ? { kind: 'rewrite', headers: unreadable, body } : null))

    await failureOf(read(storage))

    expect(proxy.requests).toHaveLength(failing + 1)
    // All that one user may have: no other call is in flight.
    let free = 0
    while (free < 2000 && calls.tryAcquire(proxy.url, 'another')) free += 1
    expect(free).toBe(limits.callsPerUser)
  })

  it('does not accept invalid UTF-8 as ids', async () => {
    const { storage, proxy } = await openRig()
    const headers = { 'X-Last-Modified': '10.00' }
    // What the storage sends, one byte per character.
    for (const line of ['"a\xff"\n', '"a"\n\xc3']) {
      proxy.plan(() => ({ kind: 'status', status: 200, headers, body: Buffer.from(line, 'latin1') }))

      const failure = await failureOf(storage.count('tabs', { newer: timestamp(1) }))

      expect(failure).toMatchObject({ failure: 'bad-response' })
    }
  })
})

describe('rejected credentials', () => {
  it("reject a snapshot from the user's new node, on which a write would be decided", async () => {
    const { storage, has, sandbox, user } = await openRig()
    has(numbered(3))
    sandbox.reassign(user)

    expect(await failureOf(storage.snapshot('tabs', ['a'], () => true))).toMatchObject({
      failure: 'refused',
      applied: 'no',
    })
  })
})
