import { describe, expect, it } from 'bun:test'
import { zeroTimestamp } from '../../src/domain/timestamp.ts'
import { ModelStorage, type ModelCall } from '../support/model-storage.ts'
import { get, ifMatch, list, onlyIfAbsent, put, recordsOf, remove, strictly, transact } from './transact.ts'
import type { Step } from '../../src/domain/operation.ts'

/** The version of the records in `forms`. */
const seededAtMs = 1_700_000_000_030

function stored(): ModelStorage {
  const storage = new ModelStorage()
  storage.seed('tabs', [
    { id: 'a', payload: 'old' },
    { id: 'b', payload: 'old' },
  ])
  storage.seed('forms', [{ id: 'f', payload: 'old' }])
  return storage
}

const fine: Step['operation'][] = [
  put('tabs', 'a', { payload: 'new' }),
  put('tabs', 'c', { payload: 'new' }),
  remove('tabs', 'b'),
  put('forms', 'g', { payload: 'new' }),
]

describe('runTransaction: outcomes that are not accepted', () => {
  it('are written like any other if they are accepted', async () => {
    const storage = stored()

    const { events } = await transact(storage, fine, { accepts: strictly })

    expect(events).toEqual([{ kind: 'committed', collections: ['tabs', 'forms'] }])
    expect(storage.contents()).toMatchObject({ tabs: { a: { payload: 'new' } }, forms: { g: {} } })
    expect(storage.callCounts).toEqual({
      readLimits: 1,
      snapshot: 2,
      stage: 1,
      commitStaged: 1,
      write: 1,
      remove: 1,
    })
  })

  it.each<[string, Step['operation']]>([
    ['a failed precondition', put('tabs', 'a', { payload: 'x' }, onlyIfAbsent)],
    ['a missing record to delete', remove('tabs', 'none')],
    ['a missing record to read', get('other', 'none')],
    ['a failed precondition of a list', list('tabs', {}, ifMatch(10))],
  ])('are answered as if written, with no call but reads: %s', async (_, refused) => {
    const storage = stored()
    const before = storage.contents()

    const { outcomes, events } = await transact(storage, [...fine, refused, list('forms')], {
      accepts: strictly,
    })

    expect(outcomes.slice(0, 4).map(({ outcome }) => outcome)).toEqual([
      'stored',
      'stored',
      'deleted',
      'stored',
    ])
    expect(recordsOf(outcomes.at(-1)).map(({ id }) => id)).toEqual(['g', 'f'])
    expect(events).toEqual([{ kind: 'read-only', collections: [] }])
    expect(storage.contents()).toEqual(before)
    const { readLimits, snapshot, list: lists, ...writes } = storage.callCounts
    expect(writes).toEqual({})
    expect([readLimits, snapshot]).not.toContain(undefined)
    expect(lists ?? 0).toBeLessThan(3)
  })

  it('do not even create a collection', async () => {
    const storage = new ModelStorage()
    storage.emptyTimestamp = zeroTimestamp

    await transact(storage, [put('tabs', 'a', {}), remove('tabs', 'none')], { accepts: strictly })

    expect(storage.callCounts.remove).toBeUndefined()
    expect(storage.timestampOf('tabs')).toBe(zeroTimestamp)
  })

  const before = (storage: ModelStorage, wanted: string, act: () => void) => {
    storage.onCall = ({ name, collection }: ModelCall) => {
      if (`${name} ${collection}` !== wanted) return
      storage.onCall = () => {}
      act()
    }
  }
  it.each<[string, (storage: ModelStorage) => void, Step['operation'][]]>([
    ['a record that is rejected when staged', ({ refusedIds }) => refusedIds.set('a', 'invalid'), []],
    ['a record that is rejected in the commit', ({ refusedIds }) => refusedIds.set('g', 'invalid'), []],
    [
      'an upload that is rejected as a whole',
      (storage) =>
        void (storage.fault = ({ name, collection }) =>
          name === 'write' && collection === 'forms' ? 'quota' : null),
      [],
    ],
    [
      'a record that another client changes before its deletion',
      (storage) =>
        before(storage, 'remove tabs', () => storage.otherWrites('tabs', [{ id: 'b', payload: 'theirs' }])),
      [],
    ],
    [
      'a record that another client changes before its upload',
      (storage) =>
        before(storage, 'write forms', () => storage.otherWrites('forms', [{ id: 'f', payload: 'theirs' }])),
      [put('forms', 'f', { payload: 'new' }, ifMatch(seededAtMs))],
    ],
    [
      'a deletion that the storage refuses',
      (storage) =>
        void (storage.fault = ({ name, ids }) => (name === 'remove' && ids?.[0] === 'b' ? 'quota' : null)),
      [],
    ],
  ])('because of what happens later leave nothing: %s', async (_, disturb, more) => {
    const storage = stored()
    const conditional = fine.map((operation) =>
      operation.kind === 'delete'
        ? { ...operation, precondition: ifMatch(storage.timestampOf('tabs')) }
        : operation,
    )
    const ours = (contents: ReturnType<ModelStorage['contents']>) =>
      Object.values(contents)
        .flatMap((records) => Object.values(records))
        .filter(({ payload }) => payload === 'new')
    disturb(storage)

    const { outcomes, failure, events } = await transact(storage, [...conditional, ...more], {
      accepts: strictly,
    })

    expect(failure).toBeNull()
    expect(strictly(outcomes)).toBe(false)
    expect(events.map(({ kind }) => kind)).not.toContain('committed')
    expect(ours(storage.contents())).toEqual([])
    expect(Object.keys(storage.contents().tabs!)).toEqual(['a', 'b'])
  })

  it('are an error if what became visible cannot be undone', async () => {
    const storage = stored()
    storage.refusedIds.set('g', 'invalid')
    storage.fault = ({ number }) => (number > 6 ? 'unreachable' : null)

    const { failure, events } = await transact(storage, fine, { accepts: strictly })

    expect(failure).toMatchObject({ failure: 'refused' })
    expect(events.map(({ kind }) => kind)).toContain('partial')
  })
})
