import { afterEach, describe, expect, it } from 'bun:test'
import { timestamp, zeroTimestamp } from '../../src/domain/timestamp.ts'
import { noPrecondition } from '../../src/domain/precondition.ts'
import { failureOf, numbered, openRig, cleanUp, since } from './rig.ts'

afterEach(cleanUp)

describe('get', () => {
  it('treats an expired record as missing, whatever the precondition', async () => {
    const { storage, sandbox, user, clock } = await openRig()
    const at = sandbox.write(user, 'tabs', [{ id: 'a', payload: 'x', ttl: 60 }])
    clock.nowMs += 100_000

    expect(await storage.get('tabs', 'a', since('differs', at))).toEqual({ outcome: 'missing' })
    expect(await storage.get('tabs', 'a', since('unmodified-since', at - 10))).toEqual({ outcome: 'missing' })
  })

  it('treats a record of another spelling as missing', async () => {
    const { storage, has } = await openRig({ mode: 'mysql' })
    has([{ id: 'AbC', payload: 'x' }])

    expect(await storage.get('tabs', 'abc', noPrecondition)).toEqual({ outcome: 'missing' })
    expect(await storage.get('tabs', 'AbC', noPrecondition)).toMatchObject({ outcome: 'found' })
  })
})

describe('collectionTimestamps, count and limits', () => {
  it('count over pages and many ids as one whole, again if the collection changes', async () => {
    const { storage, has, sandbox, proxy } = await openRig()
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

  it("omit names that can't be requested", async () => {
    const { storage, proxy } = await openRig()
    proxy.plan(() => ({ kind: 'rewrite', body: '{"tabs":1.5,"Upper":2.00,"a/b":3,"..":4}' }))

    const outcome = await storage.collectionTimestamps()

    expect(outcome).toMatchObject({ collections: new Map([['tabs', timestamp(1500)]]) })
  })

  it.each(['[]', '{"tabs":"1.00"}', '{"tabs":-1}', '0', 'text'])('reject %s as unusable', async (body) => {
    const { storage, proxy } = await openRig()
    proxy.plan(() => ({ kind: 'rewrite', body }))

    expect(await failureOf(storage.collectionTimestamps())).toMatchObject({
      failure: 'bad-response',
    })
    expect(await failureOf(storage.count('tabs', {}))).toMatchObject({ failure: 'bad-response' })
  })

  it('cache the limits of a node for ten minutes', async () => {
    const { storage, proxy, clock } = await openRig({ limits: { max_post_records: 7 } })

    const limits = await storage.readLimits()
    clock.nowMs += 599_000
    expect(await storage.readLimits()).toEqual(limits)
    expect(proxy.requests).toHaveLength(1)
    clock.nowMs += 1001
    await storage.readLimits()

    expect(proxy.requests).toHaveLength(2)
    expect(limits).toEqual({
      maxRequestBytes: 2_625_536,
      maxPostBytes: 2_621_440,
      maxPostRecords: 7,
      maxRecordPayloadBytes: 2_621_440,
      batch: { maxTotalBytes: 262_144_000, maxTotalRecords: 10_000 },
      collections: new Map(),
    })
  })

  it('have those of a collection, which inherit the others', async () => {
    const collections = { bookmarks: { max_record_payload_bytes: 4_000_000 } }
    const { storage } = await openRig({ limits: { max_post_records: 7, collections } })

    const limits = await storage.readLimits()

    const { collections: _, ...others } = limits
    expect(limits.collections?.get('bookmarks')).toEqual({ ...others, maxRecordPayloadBytes: 4_000_000 })
  })

  it('assume the limits of old servers if none are announced', async () => {
    const { storage, proxy } = await openRig()
    proxy.plan(() => ({ kind: 'status', status: 404, body: '0' }))

    expect(await storage.readLimits()).toEqual({
      maxRequestBytes: 266_240,
      maxPostBytes: 266_240,
      maxPostRecords: 100,
      maxRecordPayloadBytes: 262_144,
      batch: null,
      collections: new Map(),
    })
  })
})

describe('snapshot', () => {
  it('never sends an empty list of ids', async () => {
    const { storage, has, proxy } = await openRig()
    const at = has([{ id: 'b,c', payload: '2' }])

    expect(await storage.snapshot('tabs', [], () => true)).toMatchObject({
      timestamp: at,
      records: new Map(),
    })
    expect((await storage.snapshot('tabs', ['b,c'], () => true)).records.size).toBe(1)

    expect(proxy.requests.every(({ query }) => query.get('ids') !== '')).toBe(true)
    expect(proxy.requests.map(({ query }) => query.get('limit'))).toEqual(['1', '1', null])
  })

  it('omits records of another spelling', async () => {
    const { storage, has } = await openRig({ mode: 'mysql' })
    has([{ id: 'AbC', payload: 'x' }])

    expect((await storage.snapshot('tabs', ['abc'], () => true)).records.size).toBe(0)
  })
})
