import { describe, expect, it } from 'bun:test'
import type { Step } from '../../src/domain/operation.ts'
import type { RecordWrite } from '../../src/domain/record-storage.ts'
import { UpstreamError } from '../../src/domain/errors.ts'
import { generousLimits, ModelStorage, type ModelFault } from '../support/model-storage.ts'
import { put, remove, transact } from './transact.ts'

/** A storage that can't stage, so `tabs` is committed before `zoo`, whose commit fails. The changes to `tabs` must be undone. */
function doomed(): ModelStorage {
  const storage = new ModelStorage()
  storage.maxima = { ...generousLimits, batch: null }
  storage.fault = ({ name, collection }) => (name === 'write' && collection === 'zoo' ? 'conflict' : null)
  return storage
}

const doom: Step['operation'] = put('zoo', 'z', { payload: 'z' })

/** A storage that rejects the deletion in `zoo`, the last of all phases. Everything in `tabs` is visible by then, and must be undone. */
function doomedLast(): ModelStorage {
  const storage = new ModelStorage()
  storage.seed('zoo', [{ id: 'z', payload: 'z' }])
  storage.fault = ({ name, collection }) => (name === 'remove' && collection === 'zoo' ? 'conflict' : null)
  return storage
}

const lastDoom: Step['operation'] = remove('zoo', 'z')

describe('runTransaction: undo', () => {
  const withSortindex = { id: 'a', payload: 'old', sortindex: 4 }
  const light = { id: 'a', payload: 'old' }
  it.each<[string, RecordWrite, Step['operation'][]]>([
    ['payload and sortindex', withSortindex, [put('tabs', 'a', { payload: 'new', sortindex: 2 })]],
    ['a record that had no sortindex', light, [put('tabs', 'a', { payload: 'new', sortindex: 2 })]],
    ['that a record was not there', withSortindex, [put('tabs', 'b', { payload: 'new' })]],
    ['a deleted record', withSortindex, [remove('tabs', 'a')]],
    [
      'a deleted record next to a new one',
      withSortindex,
      [remove('tabs', 'a'), put('tabs', 'b', { payload: 'new' })],
    ],
    [
      'all but what expired',
      light,
      [put('tabs', 'a', { payload: 'new' }), put('tabs', 'b', { ttlSeconds: 0 })],
    ],
    ['a replaced record', withSortindex, [remove('tabs', 'a'), put('tabs', 'a', { payload: 'new' })]],
    ...[0, 60].flatMap((ttlSeconds): [string, RecordWrite, Step['operation'][]][] => [
      [`a life of more than ${ttlSeconds} s`, light, [put('tabs', 'a', { ttlSeconds })]],
      [`that, and a payload`, light, [put('tabs', 'a', { payload: 'new', ttlSeconds })]],
    ]),
  ])('restores %s', async (_, record, operations) => {
    const storage = doomedLast()
    storage.seed('tabs', [record])
    const untouched = storage.contents()

    const { failure, events } = await transact(storage, [...operations, lastDoom])
    storage.clock.nowMs += 120_000

    expect(failure).toBeInstanceOf(UpstreamError)
    expect(storage.contents()).toEqual(untouched)
    expect(events).toEqual([{ kind: 'undone', collections: ['tabs'] }])
  })

  it.each([
    ['before the undo', 'remove zoo', 2],
    ['during the undo', 'write tabs', 2],
  ])('keeps what another client writes for a deleted id: %s', async (_, moment, count) => {
    const storage = doomedLast()
    storage.seed('tabs', [
      { id: 'a', payload: 'old' },
      { id: 'b', payload: 'old' },
    ])
    let seen = 0
    storage.onCall = ({ name, collection }) => {
      if (`${name} ${collection}` !== moment || (seen += 1) !== count) return
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { events } = await transact(storage, [
      remove('tabs', 'a'),
      remove('tabs', 'b'),
      put('tabs', 'c', { payload: 'new' }),
      lastDoom,
    ])

    expect(events).toEqual([{ kind: 'undone', collections: ['tabs'] }])
    expect(storage.contents()).toEqual({
      tabs: { a: { payload: 'theirs' }, b: { payload: 'old' } },
      zoo: { z: { payload: 'z' } },
    })
  })

  it('restores deleted records first, each in the version that was deleted, and not those that others deleted', async () => {
    const storage = doomedLast()
    storage.seed('tabs', [
      { id: 'a', payload: 'old' },
      { id: 'b', payload: 'old' },
      { id: 'c', payload: 'old' },
    ])
    storage.onCall = ({ name, collection }) => {
      if (name !== 'remove' || collection !== 'tabs') return
      storage.onCall = () => {}
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
      storage.otherRemoves('tabs', ['b'])
    }

    await transact(storage, [
      ...['a', 'b', 'c'].map((id) => remove('tabs', id)),
      put('tabs', 'd', { payload: 'new' }),
      lastDoom,
    ])

    expect(storage.contents().tabs).toEqual({ a: { payload: 'theirs' }, c: { payload: 'old' } })
    const ours = storage.log.filter(({ by }) => by === 'us').map(({ kind, ids }) => [kind, ...ids].join(' '))
    expect(ours).toEqual(['write d', 'remove a c', 'write a c', 'remove d'])
  })

  /** A batch over three collections, of which one loses so many responses, the first of them to its commit. */
  async function withLost(count: number) {
    const storage = new ModelStorage()
    const before = storage.contents()
    let lost = 0
    storage.fault = ({ name, collection }) => {
      const isLost =
        collection === 'c0' && (name === 'commitStaged' || storage.callCounts.commitStaged !== undefined)
      return isLost && (lost += 1) <= count ? 'error-after' : null
    }
    const puts = ['c0', 'c1', 'c2'].map((name) => put(name, 'a', { payload: 'new' }))
    return { storage, before, ...(await transact(storage, puts)) }
  }

  it('is not needed if the commit in doubt turns out to have been applied', async () => {
    // For as long as the commit is tried again before the undo.
    const { failure, events, storage } = await withLost(5)

    expect([failure, events.at(-1)]).toEqual([null, { kind: 'committed', collections: ['c0', 'c1', 'c2'] }])
    expect(storage.log.map(({ kind }) => kind)).toEqual(['write', 'write', 'write'])
  })

  it('continues if a commit in doubt turns out to have been applied, once the others are undone', async () => {
    // One more, to the look before the undo.
    const { failure, events, storage, before } = await withLost(6)

    expect(failure).not.toBeNull()
    expect(events).toContainEqual({ kind: 'undone', collections: ['c2', 'c1', 'c0'] })
    expect(storage.contents()).toEqual(before)
  })

  it('keeps what another client overwrites or deletes after a lost response', async () => {
    const storage = doomed()
    storage.seed('tabs', [
      { id: 'a', payload: 'old' },
      { id: 'b', payload: 'old' },
      { id: 'c', payload: 'old' },
    ])
    const conflict = storage.fault
    storage.fault = (call) =>
      call.name === 'write' && call.collection === 'tabs' && storage.callCounts.write === 1
        ? 'reset-after'
        : conflict(call)
    storage.onCall = ({ name, collection }) => {
      if (name !== 'snapshot' || collection !== 'tabs' || storage.callCounts.write === undefined) return
      storage.onCall = () => {}
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
      storage.otherRemoves('tabs', ['c'])
    }

    await transact(storage, [
      put('tabs', 'a', { payload: 'new' }),
      put('tabs', 'b', { payload: 'new' }),
      put('tabs', 'c', { payload: 'new' }),
      doom,
    ])

    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' }, b: { payload: 'old' } } })
  })

  it.each<[string, ModelFault]>([
    ['remove', 'reset-after'],
    ['write', 'unreachable'],
  ])('continues once it has begun, even if its %s fails', async (name, fault) => {
    const storage = doomed()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    const untouched = storage.contents()
    storage.fault = (call) => {
      const isBegun = storage.callCounts.remove !== undefined
      if (call.collection === 'zoo') return call.name === 'write' && !isBegun ? 'conflict' : null
      if (!isBegun || call.name !== name) return null
      storage.fault = () => null
      return fault
    }

    const { events } = await transact(storage, [
      put('tabs', 'a', { payload: 'new', sortindex: 2 }),
      put('tabs', 'b', { payload: 'new' }),
      doom,
    ])

    expect(events).toEqual([{ kind: 'undone', collections: ['tabs'] }])
    expect(storage.contents()).toEqual(untouched)
  })

  it.each(['of the record', 'of all writes'])(
    'is given up when its time is over if the storage rejects it: %s',
    async (refusal) => {
      const storage = doomed()
      storage.seed('tabs', [{ id: 'a', payload: 'old' }])
      storage.onCall = ({ name, collection }) => {
        if (name !== 'write' || collection !== 'zoo') return
        if (refusal === 'of the record') storage.refusedIds.set('a', 'invalid')
        else storage.fault = (call) => (call.collection === 'zoo' ? 'conflict' : 'quota')
      }
      const startedAtMs = storage.clock.now()

      const { events } = await transact(storage, [put('tabs', 'a', { payload: 'new' }), doom])

      expect(events).toEqual([{ kind: 'partial', collections: ['tabs'] }])
      expect(storage.clock.now() - startedAtMs).toBeWithin(15_000, 20_000)
    },
  )
})
