import { describe, expect, it } from 'bun:test'
import { Locks } from '../../src/batch/locks.ts'
import { errno, ServiceError } from '../../src/domain/errors.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import { generousLimits, ModelClock, ModelStorage } from '../support/model-storage.ts'
import {
  count,
  get,
  ifMatch,
  ifNoneMatch,
  list,
  onlyIfAbsent,
  onlyIfExists,
  put,
  recordsOf,
  remove,
  transact,
  transactSteps,
} from './transact.ts'

describe('runTransaction: conditions', () => {
  const unchanged = 'If-Match, unchanged'
  const changed = 'If-Match, changed since'
  const exists = 'If-Match: *'
  const known = 'If-None-Match, unchanged'
  const outdated = 'If-None-Match, changed'
  const absent = 'If-None-Match: *'
  const table: [condition: string, method: 'get' | 'put' | 'delete', there: string, missing: string][] = [
    [unchanged, 'get', 'found', 'missing'],
    [unchanged, 'put', 'stored', 'precondition-failed'],
    [unchanged, 'delete', 'deleted', 'missing'],
    [changed, 'get', 'precondition-failed', 'missing'],
    [changed, 'put', 'precondition-failed', 'precondition-failed'],
    [changed, 'delete', 'precondition-failed', 'missing'],
    [exists, 'get', 'found', 'missing'],
    [exists, 'put', 'stored', 'precondition-failed'],
    [exists, 'delete', 'deleted', 'missing'],
    [known, 'get', 'not-modified', 'missing'],
    [known, 'put', 'stored', 'stored'],
    [known, 'delete', 'deleted', 'missing'],
    [outdated, 'get', 'found', 'missing'],
    [outdated, 'put', 'stored', 'stored'],
    [outdated, 'delete', 'deleted', 'missing'],
    [absent, 'get', 'not-modified', 'missing'],
    [absent, 'put', 'precondition-failed', 'stored'],
    [absent, 'delete', 'deleted', 'missing'],
  ]

  function conditionOf(name: string, at: number): Precondition {
    switch (name) {
      case unchanged:
        return ifMatch(at)
      case changed:
        return ifMatch(at - 10)
      case exists:
        return onlyIfExists
      case known:
        return ifNoneMatch(at)
      case outdated:
        return ifNoneMatch(at - 10)
      default:
        return onlyIfAbsent
    }
  }

  for (const [name, method, there, missing] of table) {
    for (const [id, expected] of [
      ['old', there],
      ['new', missing],
    ] as const) {
      for (const companion of ['alone', 'with a write'] as const) {
        it(`${method} of ${id === 'old' ? 'a stored' : 'an unknown'} record with ${name}, ${companion}: ${expected}`, async () => {
          const storage = new ModelStorage()
          const at = storage.seed('tabs', [{ id: 'old', payload: 'before', sortindex: 3 }])
          const condition = conditionOf(name, at)
          const operation =
            method === 'put'
              ? put('tabs', id, { payload: 'after' }, condition)
              : { kind: method, collection: 'tabs', id, precondition: condition }
          const others = companion === 'alone' ? [] : [put('tabs', 'else', { payload: 'x' })]

          const { outcomes } = await transact(storage, [operation, ...others])

          expect(outcomes[0]!.outcome).toBe(expected as never)
          const isUnharmed = expected !== 'stored' && expected !== 'deleted'
          if (isUnharmed) expect(storage.contents().tabs).toMatchObject({ old: { payload: 'before' } })
          if (expected === 'precondition-failed') {
            const existing = { id: 'old', payload: 'before', sortindex: 3, lastModified: at }
            expect(outcomes[0]).toMatchObject({ existing: id === 'old' ? existing : null })
          }
        })
      }
    }
  }

  const lists: [condition: string, expected: string][] = [
    [unchanged, 'page'],
    [changed, 'precondition-failed'],
    [exists, 'page'],
    [known, 'not-modified'],
    [outdated, 'page'],
    [absent, 'page'],
  ]
  for (const [name, expected] of lists) {
    it(`a list and a count with ${name}, alone and beside a write: ${expected}`, async () => {
      const storage = new ModelStorage()
      const at = storage.seed('tabs', [{ id: 'old', payload: 'before' }])
      const condition = conditionOf(name, at)
      const reads = [list('tabs', {}, condition), count('tabs', condition)]

      const alone = await transact(storage, reads)
      const beside = await transact(storage, [...reads, put('tabs', 'x', {})])

      const counted = expected === 'page' ? 'counted' : expected
      expect(alone.outcomes.map(({ outcome }) => outcome)).toEqual([expected, counted] as never)
      expect(beside.outcomes.map(({ outcome }) => outcome)).toEqual([expected, counted, 'stored'] as never)
    })
  }
})

describe('runTransaction: effects of earlier operations', () => {
  it('fails a condition on a version that an earlier operation has replaced, and shows the new one', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [{ id: 'a', payload: 'old', sortindex: 5 }])

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'first' }, ifMatch(at)),
      put('tabs', 'a', { payload: 'second' }, ifMatch(at)),
      remove('tabs', 'a', ifMatch(at)),
      get('tabs', 'a', ifMatch(at)),
      get('tabs', 'a'),
    ])

    const stored = { id: 'a', payload: 'first', sortindex: 5, lastModified: storage.timestampOf('tabs') }
    expect(outcomes).toEqual([
      { outcome: 'stored', record: stored },
      { outcome: 'precondition-failed', existing: stored },
      { outcome: 'precondition-failed', existing: stored },
      { outcome: 'precondition-failed', existing: stored },
      { outcome: 'found', record: stored },
    ])
  })

  it('writes nothing for a record that was created and deleted again', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [{ id: 'b', payload: 'b' }])

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'x' }),
      remove('tabs', 'a'),
      get('tabs', 'a'),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'deleted', 'missing'])
    expect(storage.timestampOf('tabs')).toBe(at)
    expect(storage.callCounts).toEqual({ limits: 1, snapshot: 1 })
  })

  it('keeps the sortindex of a record that was deleted and put anew, as the storage does', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old', sortindex: 5, ttlSeconds: 1000 }])

    const { outcomes } = await transact(storage, [
      remove('tabs', 'a'),
      put('tabs', 'a', { payload: 'new' }, onlyIfAbsent),
      get('tabs', 'a'),
    ])

    const record = { id: 'a', payload: 'new', sortindex: 5, lastModified: storage.timestampOf('tabs') }
    expect(outcomes[1]).toEqual({ outcome: 'stored', record })
    expect(outcomes[2]).toEqual({ outcome: 'found', record })
    storage.clock.nowMs += 2_000_000
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'new', sortindex: 5 } } })
    expect(storage.callCounts).toEqual({ limits: 1, snapshot: 1, write: 1 })
  })

  it('treats a ttl of nought as gone for what comes later', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old', sortindex: 5 }])

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { ttlSeconds: 0 }),
      get('tabs', 'a'),
      put('tabs', 'a', { payload: 'new' }, onlyIfAbsent),
      put('tabs', 'b', { payload: 'b', ttlSeconds: 0 }),
      list('tabs'),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'missing', 'stored', 'stored', 'page'])
    expect(recordsOf(outcomes[4])).toMatchObject([{ id: 'a', payload: 'new' }])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'new', sortindex: 5 } } })
  })

  it('shows an expired row again that it writes over', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old', ttlSeconds: 0 }])

    await transact(storage, [put('tabs', 'a', { payload: 'new' })])

    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'new' } } })
  })

  it('keeps the version of a record of which only the ttl is written', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [{ id: 'a', payload: 'old' }])

    const { outcomes } = await transact(storage, [put('tabs', 'a', { ttlSeconds: 100 }, ifMatch(at))])

    expect(outcomes).toEqual([{ outcome: 'stored', record: { id: 'a', payload: 'old', lastModified: at } }])
    expect(storage.timestampOf('tabs')).toBeGreaterThan(at)
    storage.clock.nowMs += 200_000
    expect(storage.contents()).toEqual({})
  })

  it('counts and dates the collection as earlier operations left it', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [
      { id: 'a', payload: 'a' },
      { id: 'b', payload: 'b' },
    ])

    const { outcomes } = await transact(storage, [
      count('tabs'),
      { kind: 'timestamps' },
      put('tabs', 'c', {}),
      put('tabs', 'a', { payload: 'x' }),
      count('tabs'),
      remove('tabs', 'b'),
      count('tabs'),
      { kind: 'timestamps' },
    ])

    const now = storage.timestampOf('tabs')
    expect(outcomes[0]).toEqual({ outcome: 'counted', count: 2, timestamp: at })
    expect(outcomes[1]).toEqual({ outcome: 'found', timestamp: at, collections: new Map([['tabs', at]]) })
    expect(outcomes[4]).toEqual({ outcome: 'counted', count: 3, timestamp: now })
    expect(outcomes[6]).toEqual({ outcome: 'counted', count: 2, timestamp: now })
    expect(outcomes[7]).toEqual({ outcome: 'found', timestamp: now, collections: new Map([['tabs', now]]) })
  })
})

describe('runTransaction: storage calls', () => {
  const many = Array.from({ length: 25 }, (_, place) => `id${place}`)

  it('needs 2 for a single PUT, of a new record too, and for a single DELETE', async () => {
    const storage = new ModelStorage()

    await transact(storage, [put('tabs', 'a', { payload: 'x' })])
    await transact(storage, [put('tabs', 'a', { payload: 'y' })])
    await transact(storage, [remove('tabs', 'a')])

    const needed = ['snapshot', 'write', 'snapshot', 'write', 'snapshot', 'remove'] as const
    expect(storage.calls.map(({ name }) => name)).toEqual([...needed])
  })

  it('answers a record over an expired one as it was sent', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old', sortindex: 7, ttlSeconds: 1 }])
    storage.clock.nowMs += 2000

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'x' })])

    expect(outcomes).toMatchObject([{ outcome: 'stored', record: { payload: 'x' } }])
    expect(outcomes[0]).not.toHaveProperty('record.sortindex')
    expect(storage.contents().tabs).toEqual({ a: { payload: 'x', sortindex: 7 } })
  })

  it('needs 2 for 25 PUTs to one collection, with conditions or without, once the limits are known', async () => {
    const storage = new ModelStorage()
    const at = storage.seed(
      'tabs',
      many.map((id) => ({ id, payload: 'old' })),
    )

    await transact(
      storage,
      many.map((id) => put('tabs', id, { payload: 'x' })),
    )
    const unconditional = storage.calls.length
    const newer = storage.timestampOf('tabs')
    const { outcomes } = await transact(
      storage,
      many.map((id) => put('tabs', id, { payload: 'y' }, ifMatch(newer))),
    )

    expect(at).toBeGreaterThan(0)
    expect(unconditional).toBe(3)
    expect(storage.calls.length - unconditional).toBe(3)
    expect(storage.callCounts.limits).toBe(2)
    expect(outcomes.every(({ outcome }) => outcome === 'stored')).toBe(true)
  })

  it('needs 1 for 25 PUTs whose conditions all fail', async () => {
    const storage = new ModelStorage()

    await transact(
      storage,
      many.map((id) => put('tabs', id, { payload: 'x' }, onlyIfExists)),
    )

    expect(storage.callCounts).toEqual({ limits: 1, snapshot: 1 })
  })

  for (const collections of [1, 2, 3, 4, 5]) {
    it(`needs 3 for PUTs in each of ${collections} collections, less 1, and the limits`, async () => {
      const storage = new ModelStorage()

      await transact(
        storage,
        many.map((id, place) => put(`c${place % collections}`, id, { payload: 'x' })),
      )

      const staged = { stage: collections - 1, commitStaged: collections - 1 }
      expect(storage.callCounts).toEqual({
        limits: 1,
        snapshot: collections,
        write: 1,
        ...(collections > 1 && staged),
      })
    })

    it(`needs 4 for PUTs and DELETEs in each of ${collections} collections, less 1, and the limits`, async () => {
      const storage = new ModelStorage()
      const names = Array.from({ length: collections }, (_, place) => `c${place}`)
      for (const name of names) storage.seed(name, [{ id: 'old', payload: 'x' }])

      await transact(
        storage,
        names.flatMap((name) => [put(name, 'new', { payload: 'x' }), remove(name, 'old')]),
      )

      expect(storage.calls.length).toBe(4 * collections)
    })
  }

  it('needs 3 for PUTs and DELETEs in one collection', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'a' }])

    await transact(storage, [remove('tabs', 'a'), put('tabs', 'b', {}), get('tabs', 'b')])

    expect(storage.calls.map(({ name }) => name)).toEqual(['snapshot', 'limits', 'write', 'remove'])
  })

  it('reads one record with one call, several of a collection with one too', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'a' }])

    const { outcomes, events } = await transact(storage, [
      get('tabs', 'a'),
      get('tabs', 'b'),
      get('history', 'a'),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['found', 'missing', 'missing'])
    expect(storage.callCounts).toEqual({ snapshot: 1, get: 1 })
    expect(events).toEqual([{ kind: 'read-only' }])
  })

  it('reads the timestamps once for all that ask', async () => {
    const storage = new ModelStorage()

    await transact(storage, [count('tabs'), count('history'), { kind: 'timestamps' }])

    expect(storage.callCounts).toEqual({ collectionTimestamps: 1, count: 2 })
  })

  it('makes none for no operations', async () => {
    const storage = new ModelStorage()

    const { outcomes } = await transact(storage, [])

    expect(outcomes).toEqual([])
    expect(storage.calls).toEqual([])
  })
})

describe('runTransaction: sizes', () => {
  it('stages in several uploads what one can not hold, and gives all records one timestamp', async () => {
    const storage = new ModelStorage()
    storage.maxima = { ...generousLimits, maxPostRecords: 3 }
    const wide = 'x'.repeat(300_000)
    const operations = Array.from({ length: 8 }, (_, place) => put('tabs', `id${place}`, { payload: wide }))

    const { outcomes } = await transact(storage, operations)

    expect(storage.callCounts).toEqual({ limits: 1, snapshot: 1, stage: 3, commitStaged: 1 })
    const times = new Set(
      outcomes.map((outcome) => outcome.outcome === 'stored' && outcome.record.lastModified),
    )
    expect([...times]).toEqual([storage.timestampOf('tabs')])
  })

  it('refuses one record that is too long before anything is written, and writes the others', async () => {
    const storage = new ModelStorage()
    storage.maxima = { ...generousLimits, maxRecordPayloadBytes: 300_000 }

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'x'.repeat(300_001) }),
      get('tabs', 'a'),
      put('tabs', 'b', { payload: 'y' }),
    ])

    expect(outcomes[0]).toEqual({ outcome: 'rejected', reason: 'too-large' })
    expect(outcomes[1]).toEqual({ outcome: 'missing' })
    expect(storage.contents()).toEqual({ tabs: { b: { payload: 'y' } } })
    expect(storage.log[0]!.ids).toEqual(['b'])
  })

  it.each([
    { limit: { maxRequestBytes: 700_000, batch: null }, what: 'where nothing can be staged' },
    {
      limit: { maxPostBytes: 700_000, batch: { maxTotalBytes: 700_000, maxTotalRecords: 100 } },
      what: 'than one staged batch can hold',
    },
    {
      limit: { maxPostRecords: 2, batch: { maxTotalBytes: 9_000_000, maxTotalRecords: 3 } },
      what: 'than one staged batch may have',
    },
  ])('refuses more than one upload takes, $what, with nothing written; reads stand', async ({ limit }) => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    const before = storage.contents()
    storage.maxima = { ...generousLimits, ...limit }
    const wide = 'x'.repeat(300_000)

    const { outcomes } = await transact(storage, [
      ...['a', 'b', 'c', 'd'].map((id) => put('tabs', id, { payload: wide })),
      get('tabs', 'a'),
      put('history', 'a', { payload: 'x' }),
    ])

    for (const outcome of outcomes.slice(0, 4)) {
      expect(outcome).toMatchObject({ outcome: 'failed', error: { status: 413 } })
    }
    expect(outcomes.slice(4)).toMatchObject([
      { outcome: 'found', record: { payload: 'old' } },
      { outcome: 'stored' },
    ])
    expect(storage.contents()).toEqual({ ...before, history: { a: { payload: 'x' } } })
  })
})

describe('runTransaction: refusals', () => {
  it('reports a record that the storage would not take, and what that means for later operations', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'bad', payload: 'old' }])
    storage.refusedIds.set('bad', 'invalid')

    const { outcomes } = await transact(storage, [
      put('tabs', 'bad', { payload: 'new' }),
      get('tabs', 'bad'),
      put('tabs', 'good', { payload: 'x' }),
      list('tabs', { sort: 'oldest' }),
    ])

    expect(outcomes[0]).toEqual({ outcome: 'rejected', reason: 'invalid' })
    expect(outcomes[1]).toMatchObject({ outcome: 'found', record: { payload: 'old' } })
    expect(recordsOf(outcomes[3]).map(({ payload }) => payload)).toEqual(['old', 'x'])
  })

  it('fails a deletion as well that the storage was to replace by a version that it would not take', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'bad', payload: 'old' }])
    storage.refusedIds.set('bad', 'invalid')

    const { outcomes } = await transact(storage, [
      remove('tabs', 'bad'),
      put('tabs', 'bad', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'rejected'])
    expect(storage.contents()).toEqual({ tabs: { bad: { payload: 'old' } } })
  })

  it('reports refusals while staging', async () => {
    const storage = new ModelStorage()
    storage.refusedIds.set('bad', 'too-large')

    const { outcomes } = await transact(storage, [
      put('tabs', 'bad', { payload: 'new' }),
      put('tabs', 'good', { payload: 'x' }),
      put('history', 'good', { payload: 'y' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['rejected', 'stored', 'stored'])
    expect(storage.contents()).toEqual({
      tabs: { good: { payload: 'x' } },
      history: { good: { payload: 'y' } },
    })
  })

  it('fails the writes of a collection over quota, and lets its reads and the other collections stand', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = ({ name, collection }) => (name === 'stage' && collection === 'tabs' ? 'quota' : null)

    const { outcomes, failure } = await transact(storage, [
      put('tabs', 'a', { payload: 'new' }),
      get('tabs', 'a'),
      put('history', 'b', { payload: 'x' }),
    ])

    expect(failure).toBeNull()
    expect(outcomes[0]).toMatchObject({ outcome: 'failed', error: { status: 403 } })
    expect(outcomes[1]).toMatchObject({ outcome: 'found', record: { payload: 'old' } })
    expect(outcomes[2]).toMatchObject({ outcome: 'stored' })
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'old' } }, history: { b: { payload: 'x' } } })
  })

  it('fails all operations of a user whom the storage does not let in, and none of another', async () => {
    const clock = new ModelClock()
    const barred = new ModelStorage(clock)
    const welcome = new ModelStorage(clock)
    barred.fault = () => 'refused-identity'

    const { outcomes } = await transactSteps(
      [
        { storage: barred, operation: put('tabs', 'a', {}) },
        { storage: barred, operation: list('history') },
        { storage: welcome, operation: put('tabs', 'a', { payload: 'x' }) },
      ],
      clock,
    )

    expect(outcomes[0]).toMatchObject({ outcome: 'failed', error: { status: 401 } })
    expect(outcomes[1]).toMatchObject({ outcome: 'failed', error: { status: 401 } })
    expect(outcomes[2]).toMatchObject({ outcome: 'stored' })
    expect(barred.log).toEqual([])
  })

  it('fails a list with a token of which the storage makes nothing, alone', async () => {
    const storage = new ModelStorage()
    const position = { offset: 'junk', firstTimestamp: timestamp(10) }

    const { outcomes } = await transact(storage, [
      list('tabs', { position }),
      list('history', { position }),
      put('tabs', 'a', {}),
    ])

    expect(outcomes[0]).toMatchObject({ outcome: 'failed', error: { status: 400 } })
    expect(outcomes[1]).toMatchObject({ outcome: 'failed', error: { status: 400 } })
    expect(outcomes[2]).toMatchObject({ outcome: 'stored' })
  })
})

describe('runTransaction: other writers', () => {
  it('decides again when somebody wrote after the snapshot', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.onCall = ({ name }) => {
      if (name === 'write' && storage.log.length === 0)
        storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes, events } = await transact(storage, [
      put('tabs', 'a', { payload: 'ours' }, ifMatch(at)),
      put('tabs', 'b', { payload: 'b' }),
    ])

    expect(outcomes[0]).toMatchObject({ outcome: 'precondition-failed', existing: { payload: 'theirs' } })
    expect(outcomes[1]).toMatchObject({ outcome: 'stored' })
    expect(events[0]).toEqual({ kind: 'moved-round', collection: 'tabs' })
  })

  it('gives up after four rounds, with nothing written', async () => {
    const storage = new ModelStorage()
    storage.onCall = ({ name }) => {
      if (name === 'write') storage.otherWrites('tabs', [{ id: 'z', payload: 'theirs' }])
    }

    const { failure } = await transact(storage, [put('tabs', 'a', { payload: 'ours' })])

    expect(failure).toMatchObject({ failure: 'refused', applied: 'no' })
    expect(storage.callCounts).toEqual({ snapshot: 5, write: 5 })
    expect(storage.contents()).toEqual({ tabs: { z: { payload: 'theirs' } } })
  })

  it('keeps its own transactions on one collection apart', async () => {
    const storage = new ModelStorage()
    const locks = new Locks()
    const writers = Array.from({ length: 8 }, (_, place) =>
      transact(storage, [put('tabs', `id${place}`, { payload: 'x' })], { locks }),
    )

    const results = await Promise.all(writers)

    expect(results.every(({ failure }) => failure === null)).toBe(true)
    expect(results.flatMap(({ events }) => events).every(({ kind }) => kind === 'committed')).toBe(true)
    expect(storage.callCounts).toEqual({ snapshot: 8, write: 8 })
  })

  it('writes each of two users where they belong', async () => {
    const clock = new ModelClock()
    const ann = new ModelStorage(clock)
    const bob = new ModelStorage(clock)

    await transactSteps(
      [
        { storage: ann, operation: put('tabs', 'a', { payload: 'ann' }) },
        { storage: bob, operation: put('tabs', 'a', { payload: 'bob' }) },
      ],
      clock,
    )

    expect(ann.contents()).toEqual({ tabs: { a: { payload: 'ann' } } })
    expect(bob.contents()).toEqual({ tabs: { a: { payload: 'bob' } } })
  })
})

describe('runTransaction: time', () => {
  it('begins nothing when the time for a commit is used up', async () => {
    const storage = new ModelStorage()
    const now = storage.clock.now()

    const { failure } = await transact(storage, [put('tabs', 'a', {})], {
      deadlineAtMs: now + 1000,
      commitReserveMs: 1000,
    })

    expect(failure).toMatchObject({ failure: 'timeout', applied: 'no' })
    expect(storage.calls).toEqual([])
  })

  it('commits nothing when reading has taken too long', async () => {
    const storage = new ModelStorage()
    storage.onCall = ({ name }) => {
      if (name === 'snapshot') storage.clock.nowMs += 4500
    }

    const { failure } = await transact(storage, [put('tabs', 'a', {})])

    expect(failure).toMatchObject({ failure: 'timeout', applied: 'no' })
    expect(storage.callCounts).toEqual({ snapshot: 1 })
    expect(storage.hasBegunCommit).toBe(false)
  })

  it('passes the point of no return before the first visible write, and not when only reading', async () => {
    const reading = new ModelStorage()
    const writing = new ModelStorage()

    await transact(reading, [list('tabs'), get('tabs', 'a')])
    await transact(writing, [put('tabs', 'a', {}), put('history', 'a', {})])

    expect(reading.hasBegunCommit).toBe(false)
    expect(writing.hasBegunCommit).toBe(true)
    expect(writing.earlyWrites).toEqual([])
  })

  it('passes the point of no return when a storage writes what it was to stage', async () => {
    const storage = new ModelStorage()
    storage.limits = async () => generousLimits
    storage.maxima = { ...generousLimits, batch: null }

    const { outcomes } = await transact(storage, [put('tabs', 'a', {}), put('history', 'a', {})])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored'])
    expect(storage.hasBegunCommit).toBe(true)
    expect(storage.callCounts).toEqual({ snapshot: 2, stage: 1, write: 1 })
  })
})

describe('runTransaction: what it rejects with', () => {
  it('does not hide a defect behind an upstream failure', async () => {
    const storage = new ModelStorage()
    storage.snapshot = async () => {
      throw new RangeError('a defect')
    }

    const { failure } = await transact(storage, [put('tabs', 'a', {})])

    expect(failure).toBeInstanceOf(RangeError)
  })

  it('rejects when the storage answers 500 and above with a message of its own', async () => {
    const storage = new ModelStorage()
    storage.write = async () => {
      throw new ServiceError(503, errno.backend, 'Another node')
    }

    const { failure } = await transact(storage, [put('tabs', 'a', {})])

    expect(failure).toMatchObject({ status: 503 })
  })
})
