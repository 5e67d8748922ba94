import { describe, expect, it } from 'bun:test'
import { Locks } from '../../src/domain/bounded.ts'
import { timestamp, zeroTimestamp } from '../../src/domain/timestamp.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import type { Step } from '../../src/domain/operation.ts'
import { generousLimits, ModelClock, ModelStorage } from '../support/model-storage.ts'
import {
  get,
  ifMatch,
  list,
  onlyIfAbsent,
  onlyIfExists,
  put,
  recordsOf,
  remove,
  transact,
  transactSteps,
  timestamps,
} from './transact.ts'

describe('runTransaction: effects of earlier operations', () => {
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
    expect(storage.callCounts).toEqual({ readLimits: 1, snapshot: 1 })
  })

  it('deletes records whose ids a list cannot contain one by one, after the others', async () => {
    const storage = new ModelStorage()
    const ids = ['b,c', 'a', ' d']
    storage.seed(
      'tabs',
      ids.map((id) => ({ id, payload: 'old' })),
    )

    const { outcomes, events } = await transact(storage, [
      ...ids.map((id) => remove('tabs', id)),
      put('tabs', 'e', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['deleted', 'deleted', 'deleted', 'stored'])
    expect(storage.contents()).toEqual({ tabs: { e: { payload: 'new' } } })
    expect(events).toEqual([{ kind: 'committed', collections: ['tabs'] }])
    expect(storage.log.map(({ ids: some }) => some)).toEqual([['e'], ['a'], ['b,c'], [' d']])
  })

  it('dates the collection as earlier operations left it', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [
      { id: 'a', payload: 'a' },
      { id: 'b', payload: 'b' },
    ])

    const { outcomes } = await transact(storage, [
      timestamps,
      put('tabs', 'c', {}),
      put('tabs', 'a', { payload: 'x' }),
      remove('tabs', 'b'),
      timestamps,
    ])

    const now = storage.timestampOf('tabs')
    expect(outcomes[0]).toEqual({ outcome: 'found', timestamp: at, collections: new Map([['tabs', at]]) })
    expect(outcomes[4]).toEqual({ outcome: 'found', timestamp: now, collections: new Map([['tabs', now]]) })
  })
})

describe('runTransaction: storage calls', () => {
  const names = ['c0', 'c1', 'c2', 'c3', 'c4']
  const many = Array.from({ length: 25 }, (_, place) => `id${place}`)
  const puts = (count: number, precondition?: Precondition) =>
    many.map((id, place) => put(names[place % count]!, id, { payload: 'x' }, precondition))
  const removals = (count: number) => names.slice(0, count).map((name) => remove(name, 'old'))
  /** Several writes are staged; the limits are read once. */
  const together = (count: number) => ({
    readLimits: 1,
    snapshot: count,
    write: 1,
    stage: count - 1,
    commitStaged: count - 1,
  })

  it.each<[string, Step['operation'][], number | Partial<Record<string, number>>]>([
    ['no operations', [], 0],
    ['a PUT of a new record', [put('c0', 'new', { payload: 'x' })], { snapshot: 1, write: 1 }],
    ['a PUT of a stored one', [put('c0', 'old', { payload: 'x' })], { snapshot: 1, write: 1 }],
    ['a DELETE', removals(1), { snapshot: 1, remove: 1 }],
    ['25 PUTs', puts(1), { readLimits: 1, snapshot: 1, write: 1 }],
    ['25 PUTs with conditions', puts(1, onlyIfAbsent), { readLimits: 1, snapshot: 1, write: 1 }],
    ['25 PUTs whose conditions fail', puts(1, onlyIfExists), { readLimits: 1, snapshot: 1 }],
    [
      'a PUT and a DELETE in one collection',
      [...removals(1), put('c0', 'new', {}), get('c0', 'new')],
      { readLimits: 1, snapshot: 1, write: 1, remove: 1 },
    ],
    ['a DELETE and a PUT of one record', [...removals(1), put('c0', 'old', {})], 3],
    ...[2, 3, 4, 5].flatMap((count): [string, Step['operation'][], object][] => [
      [`PUTs in ${count} collections`, puts(count), together(count)],
      [
        `PUTs and DELETEs in ${count} collections`,
        [...puts(count), ...removals(count)],
        { ...together(count), remove: count },
      ],
    ]),
    [
      'DELETEs in a collection next to PUTs in another, neither of which is staged',
      [put('c0', 'new', { payload: 'x' }), ...removals(2).slice(1)],
      { readLimits: 1, snapshot: 2, write: 1, remove: 1 },
    ],
    ['DELETEs in 2 collections', removals(2), { readLimits: 1, snapshot: 2, remove: 2 }],
    ['one record that is read', [get('c0', 'old')], { snapshot: 1 }],
    ['records that are read', [get('c0', 'old'), get('c0', 'none'), get('c1', 'old')], { snapshot: 2 }],
    [
      'timestamps, for all that ask',
      [list('c0'), timestamps, timestamps],
      { collectionTimestamps: 1, list: 1 },
    ],
  ])('are few for %s', async (_, operations, expected) => {
    const storage = new ModelStorage()
    for (const name of names) storage.seed(name, [{ id: 'old', payload: 'x' }])

    const { failure } = await transact(storage, operations)

    expect(failure).toBeNull()
    expect<unknown>(typeof expected === 'number' ? storage.calls.length : storage.callCounts).toEqual(
      expected,
    )
  })

  it.each([1, 2, 3])(
    'are one or two more for each of %d collections that were never written to',
    async (count) => {
      const [plain, conditional] = [new ModelStorage(), new ModelStorage()]
      plain.emptyTimestamp = conditional.emptyTimestamp = zeroTimestamp

      await transact(plain, puts(count))
      await transact(conditional, puts(count, onlyIfAbsent))

      const usual = 3 * count
      expect(plain.calls.length - usual).toBe(count)
      expect(conditional.calls.length - usual).toBe(2 * count)
    },
  )
})

describe('runTransaction: round trips', () => {
  /** The number of calls that waited for one another. Calls that are sent together are one round trip. */
  function countRounds(storage: ModelStorage): () => number {
    let completed = 0
    const names = [
      'readLimits',
      'snapshot',
      'list',
      'write',
      'stage',
      'commitStaged',
      'remove',
      'count',
    ] as const
    for (const name of names) {
      const call = storage[name] as (...given: unknown[]) => Promise<unknown>
      const counted = async (...given: unknown[]) => {
        const round = completed + 1
        await Bun.sleep(1)
        const result = await call(...given)
        completed = Math.max(completed, round)
        return result
      }
      Object.assign(storage, { [name]: counted })
    }
    return () => completed
  }

  const names = ['c0', 'c1', 'c2', 'c3']
  const ids = Array.from({ length: 24 }, (_, index) => `id${index}`)
  const puts = (count: number, precondition?: Precondition) =>
    ids.map((id, place) => put(names[place % count]!, id, { payload: 'x' }, precondition))
  const deletes = (count: number) => names.slice(0, count).map((name) => remove(name, 'old'))
  it.each<[string, Step['operation'][], number]>([
    ['reads', [get('c0', 'old'), list('c1'), get('c2', 'none')], 1],
    ['a PUT', [put('c0', 'new', { payload: 'x' })], 2],
    ['a conditional PUT', [put('c0', 'new', { payload: 'x' }, onlyIfAbsent)], 2],
    ['a DELETE', deletes(1), 2],
    ['24 PUTs in a collection', puts(1), 2],
    ['24 PUTs with conditions', puts(1, onlyIfAbsent), 2],
    ['PUTs and DELETEs in one collection', [...deletes(1), ...puts(1), get('c0', 'id1')], 3],
    ['PUTs in 2 collections', puts(2), 3],
    ['PUTs in 4 collections', puts(4), 3],
    ['PUTs in one and DELETEs in another', [...puts(1), remove('c1', 'old')], 3],
    ['DELETEs in 4 collections', deletes(4), 2],
    ['PUTs and DELETEs in 4 collections', [...puts(4), ...deletes(4)], 4],
  ])('are few for %s, and the answer waits for nothing else', async (_, operations, expected) => {
    const storage = new ModelStorage()
    for (const name of names) storage.seed(name, [{ id: 'old', payload: 'x' }])
    const rounds = countRounds(storage)

    const { failure } = await transact(storage, operations)

    expect([failure, rounds()]).toEqual([null, expected])
  })

  it.each([
    [1, 3],
    [3, 4],
  ])('are one more for the first PUTs in %d new collections', async (count, expected) => {
    const storage = new ModelStorage()
    storage.emptyTimestamp = zeroTimestamp
    const rounds = countRounds(storage)

    await transact(storage, puts(count))

    // The rows of new collections are created one after the other.
    expect(rounds()).toBe(expected + count - 1)
  })
})

describe('runTransaction: sizes', () => {
  it.each([16_384, 16_385])('shows the record of a failed condition, however long: %d', async (length) => {
    const storage = new ModelStorage()
    const payload = 'x'.repeat(length)
    storage.seed('tabs', [{ id: 'a', payload }])

    const written = await transact(storage, [put('tabs', 'a', { payload: 'new' }, ifMatch(1000))])
    const deleted = await transact(storage, [remove('tabs', 'a', ifMatch(1000))])

    for (const { outcomes } of [written, deleted])
      expect(outcomes).toMatchObject([{ outcome: 'precondition-failed', existing: { payload } }])
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
  ])(
    'rejects writes too large for one upload, $what, without writing anything; reads succeed',
    async ({ limit }) => {
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
    },
  )
})

describe('runTransaction: refusals', () => {
  it.each([100, 1])('reports a rejected record, and its effect: %d in an upload', async (maxPostRecords) => {
    const storage = new ModelStorage()
    storage.maxima = { ...generousLimits, maxPostRecords }
    storage.seed('tabs', [{ id: 'bad', payload: 'old' }])
    storage.refusedIds.set('bad', 'invalid')

    const { outcomes } = await transact(storage, [
      put('tabs', 'bad', { payload: 'new' }),
      get('tabs', 'bad'),
      put('tabs', 'good', { payload: 'x' }),
      list('tabs', { sort: 'oldest' }),
    ])

    expect(outcomes[0]).toMatchObject({ outcome: 'failed', error: { status: 400 } })
    expect(outcomes[1]).toMatchObject({ outcome: 'found', record: { payload: 'old' } })
    expect(recordsOf(outcomes[3]).map(({ payload }) => payload)).toEqual(['old', 'x'])
  })

  it('also fails a deletion if the storage rejects the version that replaces it', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'bad', payload: 'old' }])
    storage.refusedIds.set('bad', 'invalid')

    const { outcomes } = await transact(storage, [
      remove('tabs', 'bad'),
      put('tabs', 'bad', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'failed'])
    expect(storage.contents()).toEqual({ tabs: { bad: { payload: 'old' } } })
  })

  it('fails the writes of a collection over quota; its reads and the other collections succeed', async () => {
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

  it('fails all operations of a user whose credentials the storage rejects, and none of others', async () => {
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

  it('fails only the list whose token the storage rejects', async () => {
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
  it('repeats a single write after a conflict', async () => {
    const storage = new ModelStorage()
    storage.fault = ({ number }) => (number === 2 ? 'conflict' : null)

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'x' })])

    expect(outcomes).toMatchObject([{ outcome: 'stored' }])
    expect(storage.callCounts).toEqual({ snapshot: 1, write: 2 })
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
})

describe('runTransaction: time', () => {
  it('commits nothing if reading takes too long', async () => {
    const storage = new ModelStorage()
    storage.onCall = ({ name }) => {
      if (name === 'snapshot') storage.clock.nowMs += 4500
    }

    const { failure } = await transact(storage, [put('tabs', 'a', {})])

    expect(failure).toMatchObject({ failure: 'timeout', applied: 'no' })
    expect(storage.callCounts).toEqual({ snapshot: 1 })
    expect(storage.hasBegunCommit).toBe(false)
  })

  it('is committed if a storage writes instead of staging', async () => {
    const storage = new ModelStorage()
    storage.readLimits = async () => generousLimits
    storage.maxima = { ...generousLimits, batch: null }

    const { outcomes } = await transact(storage, [put('tabs', 'a', {}), put('history', 'a', {})])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored'])
    expect(storage.hasBegunCommit).toBe(true)
    expect(storage.callCounts).toEqual({ snapshot: 2, stage: 1, write: 1 })
  })
})

describe('runTransaction: errors', () => {
  it('do not hide a defect behind an upstream failure', async () => {
    const storage = new ModelStorage()
    storage.snapshot = async () => {
      throw new RangeError('a defect')
    }

    const { failure } = await transact(storage, [put('tabs', 'a', {})])

    expect(failure).toBeInstanceOf(RangeError)
  })
})
