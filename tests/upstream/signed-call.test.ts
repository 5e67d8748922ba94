import { afterEach, describe, expect, it } from 'bun:test'
import { noPrecondition } from '../../src/domain/precondition.ts'
import { limits } from '../../src/load/limits.ts'
import { zeroTimestamp } from '../../src/domain/timestamp.ts'
import { cleanUp, failureOf, idsOf, numbered, openRig, pageOf } from './rig.ts'
import type { BulkStorage } from '../../src/domain/record-storage.ts'

afterEach(cleanUp)

describe('StorageCalls', () => {
  /** The permits that one more user can get. */
  const freeOf = async ({ calls, proxy }: Awaited<ReturnType<typeof openRig>>) => {
    let free = 0
    while (free < 2000 && calls.tryAcquire(proxy.url, 'another')) free += 1
    for (let given = 0; given < free; given += 1) calls.release(proxy.url, 'another')
    return free
  }

  it('abort a read whose client disconnects, and give its permit back', async () => {
    const rig = await openRig()
    const leaving = Array.from({ length: limits.callsPerUser }, () => new AbortController())
    rig.proxy.plan(() => ({ kind: 'hang' }))
    const reads = leaving.map(async (client) =>
      failureOf((await rig.open({ client })).get('tabs', 'a', noPrecondition)),
    )
    await rig.proxy.waitFor(({ index }) => index === leaving.length - 1)

    for (const client of leaving) client.abort()
    const failures = await Promise.all(reads)
    rig.proxy.plan(() => null)

    for (const failure of failures) expect(failure).toMatchObject({ failure: 'abandoned' })
    expect(rig.exchanges.filter(({ target, status }) => target === 'storage' && status !== null)).toEqual([])
    expect(await freeOf(rig)).toBe(limits.callsPerUser)
    expect(await rig.storage.get('tabs', 'a', noPrecondition)).toEqual({ outcome: 'missing' })
  })

  it('finish a write, and the reads after it, although their client disconnects', async () => {
    const { open, proxy, has } = await openRig()
    const at = has([{ id: 'a', payload: 'p' }])
    const client = new AbortController()
    const storage = await open({ client })
    proxy.plan(({ method }) => {
      if (method === 'POST') client.abort()
      return null
    })

    storage.beginCommit()
    const written = await storage.write('tabs', [{ id: 'b', payload: 'q' }], at)
    const read = await storage.get('tabs', 'b', noPrecondition)

    expect(at).not.toBe(zeroTimestamp)
    expect([written.outcome, read.outcome]).toEqual(['committed', 'found'])
  })

  it('renew rejected credentials once, also for a call whose rejection arrives later', async () => {
    const { storage, proxy, renewals } = await openRig()
    const renewed = Promise.withResolvers<void>()
    proxy.plan(async ({ index }) => {
      if (index === 2) renewed.resolve()
      if (index === 1) await renewed.promise
      return index < 2 ? { kind: 'status', status: 401, body: '0' } : null
    })

    const outcomes = await Promise.all(['a', 'b'].map((id) => storage.get('tabs', id, noPrecondition)))

    expect(outcomes).toEqual([{ outcome: 'missing' }, { outcome: 'missing' }])
    expect([renewals.length, proxy.requests.length]).toEqual([1, 4])
  })

  // The new storage is empty, and so unchanged since any timestamp: its part would be taken for that of the old one.
  const ids = Array.from({ length: 150 }, (_, index) => `id${index}`)
  it.each<[string, (storage: BulkStorage) => Promise<unknown>]>([
    ['count', (storage) => storage.count('tabs', { ids })],
    ['snapshot', (storage) => storage.snapshot('tabs', ids, () => true)],
    [
      'list by ids',
      async (storage) => idsOf(pageOf(await storage.list('tabs', { sort: 'newest', ids }, noPrecondition))),
    ],
    [
      'list of two pages',
      async (storage) => idsOf(pageOf(await storage.list('tabs', { sort: 'newest' }, noPrecondition))),
    ],
  ])('mix no two storages in a %s, while its user moves to another one', async (what, read) => {
    const { storage, has, sandbox, user, proxy } = await openRig()
    has(numbered(150))
    if (what === 'list of two pages') sandbox.switches.listCap = 100
    let moved = false
    proxy.plan(({ path }) => {
      if (!path.includes('/storage/')) return null
      // The first part has been read.
      if (proxy.requests.filter((request) => request.path.includes('/storage/')).length === 2 && !moved) {
        moved = true
        sandbox.reassign(user)
      }
      return null
    })

    const failure = await failureOf(read(storage))

    expect([moved, failure]).toMatchObject([true, { name: 'UpstreamError', failure: 'refused' }])
  })
})
