import { describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import type { ListOptions } from '../../src/domain/record-storage.ts'
import { timestamp } from '../../src/domain/timestamp.ts'
import { ModelStorage } from '../support/model-storage.ts'
import { get, ifMatch, list, onlyIfAbsent, put, recordsOf, remove, transact, timestamps } from './transact.ts'

const seeds = ['a', 'b', 'c', 'd', 'e'].map((id, place) => ({
  id,
  payload: `old ${id}`,
  sortindex: 10 + place,
}))

function library(): ModelStorage {
  const storage = new ModelStorage()
  for (const seed of seeds) storage.seed('tabs', [seed])
  return storage
}

const writes = [
  put('tabs', 'b', { payload: 'new b', sortindex: 99 }),
  remove('tabs', 'd'),
  put('tabs', 'f', { payload: 'new f', sortindex: 1 }),
]

describe('runTransaction: lists', () => {
  const variants: [name: string, options: Partial<ListOptions>][] = [
    ['newest first', {}],
    ['newest, limited', { limit: 3 }],
    ['oldest, limited', { sort: 'oldest', limit: 2 }],
    ['by index, limited', { sort: 'index', limit: 4 }],
    ['of some ids, limited', { ids: ['a', 'c', 'd', 'f', 'nobody'], limit: 1 }],
    ['without some ids, limited', { keepsId: (id) => id !== 'a' && id !== 'f', limit: 2 }],
  ]
  for (const [name, options] of variants) {
    it(`after writes show what a list after the commit shows: ${name}`, async () => {
      const storage = library()

      const { outcomes } = await transact(storage, [...writes, list('tabs', options)])
      const after = await transact(storage, [list('tabs', options)])

      // Excluded records shorten a page of the storage; a page composed here is full.
      const shown = sorted(recordsOf(after.outcomes[0]))
      const isShorter = options.keepsId && options.limit
      expect(sorted(recordsOf(outcomes[3]))).toEqual(isShorter ? expect.arrayContaining(shown) : shown)
      const [inside, outside] = [outcomes[3]!, after.outcomes[0]!]
      if (inside.outcome !== 'page' || outside.outcome !== 'page') throw new TypeError('no page')
      expect(inside.page.timestamp).toBe(storage.timestampOf('tabs'))
      expect(inside.page.next === null).toBe(outside.page.next === null)
      expect(inside.page.count).toBe(recordsOf(inside).length)
    })
  }

  it('after writes respect time bounds, with the timestamps that the writes get', async () => {
    const storage = library()
    const c = storage.visible('tabs').get('c')!.lastModified
    const future = timestamp(storage.clock.nowMs + 1_000_000)

    const { outcomes } = await transact(storage, [
      ...writes,
      list('tabs', { newer: c }),
      list('tabs', { older: c }),
      list('tabs', { older: future }),
    ])

    expect(
      recordsOf(outcomes[3])
        .map(({ id }) => id)
        .sort(),
    ).toEqual(['b', 'e', 'f'])
    expect(recordsOf(outcomes[4]).map(({ id }) => id)).toEqual(['a'])
    expect(recordsOf(outcomes[5]).length).toBe(5)
  })

  it.each(['newest', 'oldest', 'index'] as const)('can be read page by page: %s', async (sort) => {
    const storage = library()
    const first = await transact(storage, [...writes, list('tabs', { sort, limit: 2 })])
    const ids = recordsOf(first.outcomes[3]).map(({ id }) => id)
    let outcome = first.outcomes[3]!
    while (outcome.outcome === 'page' && outcome.page.next) {
      const { next: position } = outcome.page
      const { outcomes } = await transact(storage, [list('tabs', { sort, limit: 2, position })])
      outcome = outcomes[0]!
      ids.push(...recordsOf(outcome).map(({ id }) => id))
    }

    expect(ids).toEqual({ newest: 'fbeca', oldest: 'acebf', index: 'becaf' }[sort].split(''))
    expect(outcome.outcome === 'page' && outcome.page.timestamp).toBe(storage.timestampOf('tabs'))
  })

  it.each(['newest', 'oldest', 'index'] as const)(
    'that continue a page from before the write fail: %s',
    async (sort) => {
      const storage = library()
      const first = await transact(storage, [list('tabs', { sort, limit: 2 })])
      const [page] = first.outcomes
      if (page?.outcome !== 'page') throw new TypeError('no page')
      const position = page.page.next!

      const { outcomes } = await transact(storage, [...writes, list('tabs', { sort, limit: 2, position })])

      expect(outcomes[3]).toMatchObject({ outcome: 'failed', error: { status: 400 } })
      expect(outcomes.slice(0, 3).map(({ outcome }) => outcome)).toEqual(['stored', 'deleted', 'stored'])
    },
  )

  it('that find the collection changed since the snapshot are read again with it', async () => {
    const storage = library()
    storage.onCall = ({ number }) => {
      if (number === 2) storage.otherWrites('tabs', [{ id: 'z', payload: 'theirs' }])
    }

    const { outcomes, events } = await transact(storage, [list('tabs'), put('tabs', 'a', { payload: 'new' })])

    expect(recordsOf(outcomes[0]).length).toBe(6)
    expect(storage.callCounts).toEqual({ snapshot: 2, list: 2, write: 1 })
    expect(events.map(({ kind }) => kind)).toEqual(['moved-round', 'committed'])
  })

  it('whose condition fails are not read', async () => {
    const storage = library()

    const { outcomes } = await transact(storage, [list('tabs', {}, ifMatch(10)), put('tabs', 'a', {})])

    expect(outcomes[0]).toMatchObject({ outcome: 'precondition-failed' })
    expect(storage.callCounts).toEqual({ snapshot: 1, write: 1 })
  })

  it('are not started once much more was read than a response may contain', async () => {
    const storage = library()
    storage.streamChunkBytes = 64

    const { outcomes } = await transact(
      storage,
      Array.from({ length: 25 }, () => list('tabs')),
      { maxResponseBytes: 60 },
    )

    expect(outcomes.map((each) => each.outcome === 'failed' && each.error.status)).toEqual(
      Array(25).fill(413),
    )
    expect(storage.callCounts.list).toBeLessThan(10)
  })

  it('fail the whole batch, before anything is written, if there is no memory for them', async () => {
    const storage = library()
    const grow = () => {
      throw new UpstreamError('overload', 'No memory')
    }

    const { failure } = await transact(storage, [list('tabs'), put('tabs', 'a', { payload: 'new' })], {
      memory: { grow, shrink() {} },
    })

    expect(failure).toMatchObject({ failure: 'overload', applied: 'no' })
    expect(storage.log).toEqual([])
  })

  it('are aborted when the time for the request is over, however they continue', async () => {
    const storage = library()
    storage.streamChunkBytes = 1
    const read = storage.list
    storage.list = async (...call) => {
      storage.clock.nowMs += 6000
      return await read.apply(storage, call)
    }

    const { failure } = await transact(storage, [list('tabs')])

    expect(failure).toMatchObject({ failure: 'timeout' })
    expect(storage.cancelledStreams).toBe(1)
  })

  it('leave room for requested records, counted as often as they are requested', async () => {
    const storage = library()
    storage.seed('forms', [{ id: 'large', payload: 'x'.repeat(100) }])

    const { outcomes } = await transact(
      storage,
      [
        ...Array.from({ length: 5 }, () => get('forms', 'large')),
        put('forms', 'large', { payload: 'y' }, onlyIfAbsent),
        put('forms', 'small', { payload: 'y' }),
        get('forms', 'small'),
      ],
      { maxResponseBytes: 250 },
    )

    const kinds = outcomes.map(({ outcome }) => outcome).join(' ')
    expect(kinds).toBe('found found failed failed failed failed stored found')
    expect(outcomes[2]).toMatchObject({ error: { status: 413 } })
  })

  it('leave room for collections, counted for each operation that requests them', async () => {
    const storage = library()
    const asked = Array.from({ length: 3 }, () => timestamps)
    const names = Array.from({ length: 10 }, (_, index) => `more-${index}`)
    for (const name of names) storage.seed(name, [{ id: 'a', payload: '' }])

    const { outcomes } = await transact(storage, [...asked, put('forms', 'a', { payload: 'new' })], {
      maxResponseBytes: 2000,
    })

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['found', 'failed', 'failed', 'stored'])
    expect(outcomes[1]).toMatchObject({ error: { status: 413 } })
  })

  it('leave room for serialized records, where one character may take six', async () => {
    const storage = library()
    storage.seed('forms', [{ id: 'controls', payload: '\u0001'.repeat(100) }])
    const operations = Array.from({ length: 2 }, () => get('forms', 'controls'))

    const { outcomes } = await transact(storage, operations, { maxResponseBytes: 1200 })

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['found', 'failed'])
  })

  it('leave no room for a write that keeps fields: it fails alone, before anything is written', async () => {
    const storage = library()
    storage.seed('forms', [{ id: 'large', payload: 'x'.repeat(100) }])
    const move = (sortindex: number) => put('forms', 'large', { sortindex })
    const bounds = { maxResponseBytes: 250 }

    const two = await transact(storage, [get('forms', 'large'), move(1), move(2)], bounds)
    const three = await transact(storage, [move(3), move(4), move(5)], bounds)

    expect(two.outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'stored', 'stored'])
    expect(three.outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored', 'failed'])
    expect(three.outcomes[2]).toMatchObject({ error: { status: 413 } })
    expect(storage.visible('forms').get('large')).toMatchObject({ sortindex: 4 })
  })

  it('that are too long together are cut off, and the writes succeed', async () => {
    const storage = library()
    storage.streamChunkBytes = 64

    const { outcomes } = await transact(
      storage,
      [list('tabs'), list('tabs', { limit: 1 }), put('tabs', 'a', { payload: 'new' }), list('tabs')],
      { maxResponseBytes: 200 },
    )

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['failed', 'page', 'stored', 'failed'])
    // Four chunks of the list that is too large, twice, those of the short list, and the snapshot: memory is reserved before more is read.
    expect(storage.piecesRead).toBeLessThanOrEqual(4 + 2 + 4 + 1)
    expect(storage.cancelledStreams).toBe(2)
    expect(storage.contents().tabs!.a!.payload).toBe('new')
  })

  it('fail the whole batch, before anything is written, if their stream fails', async () => {
    const storage = library()
    const { list: read } = storage
    storage.list = async (...call) => {
      const outcome = await read.apply(storage, call)
      if (outcome.outcome !== 'page') return outcome
      const document = {
        read: () => Promise.reject(new UpstreamError('connection-lost', 'Cut off')),
        cancel() {},
      }
      return { ...outcome, page: { ...outcome.page, document } }
    }

    const { failure } = await transact(storage, [list('tabs'), put('tabs', 'a', { payload: 'new' })])

    expect(failure).toMatchObject({ failure: 'connection-lost' })
    expect(storage.log).toEqual([])
  })
})

function sorted(records: { id: string }[]) {
  return records.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}
