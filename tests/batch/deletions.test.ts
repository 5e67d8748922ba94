import { describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import { generousLimits, ModelStorage } from '../support/model-storage.ts'
import { absentId, get, ifMatch, list, onlyIfExists, put, recordsOf, remove, transact } from './transact.ts'
import type { Step } from '../../src/domain/operation.ts'
import type { Timestamp } from '../../src/domain/timestamp.ts'

/** A storage with two records in `tabs`, and their common version. */
function stored(): { storage: ModelStorage; at: Timestamp } {
  const storage = new ModelStorage()
  const at = storage.seed('tabs', [
    { id: 'a', payload: 'old' },
    { id: 'b', payload: 'old' },
  ])
  return { storage, at }
}

/** Lets another client write after the upload is visible, before the deletion arrives. */
function beforeDeletion(storage: ModelStorage, write: () => void): void {
  storage.onCall = ({ name }) => {
    if (name !== 'remove') return
    storage.onCall = () => {}
    write()
  }
}

const kindsOf = (outcomes: { outcome: string }[]) => outcomes.map(({ outcome }) => outcome)
const ours = (storage: ModelStorage) => storage.log.filter(({ by }) => by === 'us')
const upload = put('tabs', 'new', { payload: 'new' })

describe('runTransaction: deletions', () => {
  it('come after the uploads of all collections, and leave no rows', async () => {
    const { storage } = stored()
    storage.seed('forms', [{ id: 'f', payload: 'old' }])

    await transact(storage, [remove('tabs', 'a'), upload, remove('forms', 'f'), put('forms', 'g', {})])
    storage.otherWrites('tabs', [{ id: 'a', payload: 'later' }])

    expect(ours(storage).map(({ kind }) => kind)).toEqual(['write', 'write', 'remove', 'remove'])
    expect(storage.contents().tabs).toMatchObject({ a: { payload: 'later' } })
  })

  it('are sent a hundred at a time, each on the timestamp of the one before', async () => {
    const storage = new ModelStorage()
    const ids = Array.from({ length: 250 }, (_, index) => `id${index}`)
    storage.seed(
      'tabs',
      ids.map((id) => ({ id, payload: 'old' })),
    )

    const { outcomes } = await transact(storage, [...ids.map((id) => remove('tabs', id)), upload])

    expect(new Set(kindsOf(outcomes))).toEqual(new Set(['deleted', 'stored']))
    expect(ours(storage).map((write) => write.ids.length)).toEqual([1, 100, 100, 50])
    expect(storage.contents()).toEqual({ tabs: { new: { payload: 'new' } } })
    expect(storage.callCounts.snapshot).toBe(1)
  })

  it('see what they were told to delete, and lists before and after see the right records', async () => {
    const { storage, at } = stored()

    const { outcomes } = await transact(storage, [
      list('tabs'),
      upload,
      list('tabs'),
      remove('tabs', 'a'),
      list('tabs'),
      get('tabs', 'a'),
    ])

    const [before, , between, , after] = outcomes
    const [uploaded, deleted] = ours(storage).map(({ timestamp }) => timestamp)
    expect(recordsOf(between).map(({ id }) => id)).toSatisfy(
      (ids: string[]) => ids.toSorted().join() === 'a,b,new',
    )
    expect(recordsOf(after).map(({ id }) => id)).toEqual(['new', 'b'])
    expect([before, between, after]).toMatchObject(
      [at, uploaded, deleted].map((timestamp) => ({ page: { timestamp } })),
    )
    expect(outcomes[1]).toMatchObject({ record: { lastModified: uploaded! } })
    expect(outcomes[3]).toEqual({ outcome: 'deleted', id: 'a', timestamp: deleted! })
    expect(outcomes[5]!.outcome).toBe('missing')
  })
})

describe('runTransaction: a deletion before which another client writes', () => {
  it('of records that did not change is sent again', async () => {
    const { storage } = stored()
    beforeDeletion(storage, () => storage.otherWrites('tabs', [{ id: 'c', payload: 'theirs' }]))

    const { outcomes, events } = await transact(storage, [remove('tabs', 'a'), upload, list('tabs')])

    expect(kindsOf(outcomes)).toEqual(['deleted', 'stored', 'page'])
    expect(events.map(({ kind }) => kind)).toEqual(['moved-round', 'committed'])
    expect(storage.callCounts).toMatchObject({ snapshot: 2, write: 1, remove: 2 })
    expect(Object.keys(storage.contents().tabs!)).toEqual(['b', 'c', 'new'])
    // Later than the upload, this timestamp would hide what the other client wrote.
    const [uploaded] = ours(storage)
    expect(outcomes[2]).toMatchObject({ page: { timestamp: uploaded!.timestamp } })
  })

  it('of a record that changed happens, unless it has a condition', async () => {
    const { storage, at } = stored()
    beforeDeletion(storage, () =>
      storage.otherWrites('tabs', [
        { id: 'a', payload: 'theirs' },
        { id: 'b', payload: 'theirs' },
      ]),
    )

    const { outcomes } = await transact(storage, [
      remove('tabs', 'a', ifMatch(at)),
      remove('tabs', 'b'),
      upload,
    ])

    expect(outcomes[0]).toMatchObject({ outcome: 'precondition-failed', existing: { payload: 'theirs' } })
    expect(kindsOf(outcomes.slice(1))).toEqual(['deleted', 'stored'])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' }, new: { payload: 'new' } } })
  })

  it('of a record that is gone meanwhile is done', async () => {
    const { storage } = stored()
    beforeDeletion(storage, () => storage.otherRemoves('tabs', ['a']))

    const { outcomes } = await transact(storage, [remove('tabs', 'a'), upload])

    expect(kindsOf(outcomes)).toEqual(['deleted', 'stored'])
    expect(storage.callCounts.remove).toBe(1)
  })

  it('again and again is given up, and the upload undone', async () => {
    const { storage } = stored()
    const before = storage.contents()
    const { remove: removeRecords } = storage
    storage.remove = async (collection, ids, since) =>
      ids.includes('a') ? { outcome: 'moved' } : await removeRecords(collection, ids, since)

    const { failure, events } = await transact(storage, [remove('tabs', 'a'), upload])

    expect(failure).toBeInstanceOf(UpstreamError)
    expect(events.at(-1)).toEqual({ kind: 'undone', collections: ['tabs'] })
    expect(storage.contents()).toEqual(before)
  })

  it('is decided completely again if nothing else is visible', async () => {
    const { storage } = stored()
    beforeDeletion(storage, () => storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }]))

    const { outcomes } = await transact(storage, [get('tabs', 'a'), remove('tabs', 'a'), list('tabs')])

    expect(outcomes[0]).toMatchObject({ outcome: 'found', record: { payload: 'theirs' } })
    expect(outcomes[1]!.outcome).toBe('deleted')
    expect(outcomes[2]).toMatchObject({ page: { timestamp: storage.timestampOf('tabs') } })
  })

  it('is preceded by an upload if that makes a put of its collection succeed', async () => {
    const { storage } = stored()
    beforeDeletion(storage, () => storage.otherWrites('tabs', [{ id: 'c', payload: 'theirs' }]))

    const { outcomes } = await transact(storage, [
      remove('tabs', 'a'),
      put('tabs', 'c', { payload: 'ours' }, onlyIfExists),
      put('forms', 'f', { payload: 'new' }),
    ])

    expect(kindsOf(outcomes)).toEqual(['deleted', 'stored', 'stored'])
    expect(storage.contents()).toMatchObject({ tabs: { c: { payload: 'ours' } }, forms: { f: {} } })
    expect(Object.keys(storage.contents().tabs!)).toEqual(['b', 'c'])
    expect(ours(storage).map(({ collection, kind }) => `${kind} ${collection}`)).toEqual([
      'write forms',
      'write tabs',
      'remove tabs',
    ])
  })

  it('with an id that has a path of its own is decided by that record alone', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [
      { id: 'a,b', payload: 'old' },
      { id: 'c,d', payload: 'old' },
    ])
    let deletions = 0
    storage.onCall = ({ name }) => {
      if (name === 'remove' && (deletions += 1) === 2)
        storage.otherWrites('tabs', [{ id: 'c,d', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [
      remove('tabs', 'a,b', ifMatch(at)),
      remove('tabs', 'c,d', ifMatch(at)),
      upload,
    ])

    expect(kindsOf(outcomes)).toEqual(['deleted', 'precondition-failed', 'stored'])
    expect(storage.contents().tabs).toMatchObject({ 'c,d': { payload: 'theirs' } })
  })
})

describe('runTransaction: a last deletion whose response is lost', () => {
  it.each(['reset-after', 'reset-before'] as const)(
    'is looked at until its result is known, because nothing of it was kept for an undo: %s',
    async (fault) => {
      const storage = new ModelStorage()
      // Too long to be kept without a need.
      storage.seed('tabs', [{ id: 'a', payload: 'x'.repeat(20_000) }])
      let looks = 0
      storage.fault = ({ name, collection }) => {
        if (collection !== 'tabs') return null
        if (name === 'remove' && storage.callCounts.remove === 1) return fault
        // Longer than the commit is tried again before the undo.
        return name === 'snapshot' && storage.callCounts.remove && (looks += 1) < 8 ? 'unreachable' : null
      }

      const { failure, events } = await transact(storage, [
        put('forms', 'f', { payload: 'new' }),
        remove('tabs', 'a'),
      ])

      expect(looks).toBeGreaterThan(7)
      expect([failure, events.at(-1)!.kind]).toEqual([null, 'committed'])
      expect(storage.contents()).toEqual({ forms: { f: { payload: 'new' } } })
    },
  )
})

describe('runTransaction: a deletion that the storage refuses', () => {
  it('fails alone, and what is visible stays', async () => {
    const { storage } = stored()
    storage.fault = ({ name }) => (name === 'remove' ? 'quota' : null)

    const { outcomes, failure } = await transact(storage, [remove('tabs', 'a'), upload, get('tabs', 'a')])

    expect(failure).toBeNull()
    expect(outcomes).toMatchObject([
      { outcome: 'failed', error: { status: 403 } },
      { outcome: 'stored' },
      { outcome: 'found' },
    ])
    expect(Object.keys(storage.contents().tabs!)).toEqual(['a', 'b', 'new'])
  })

  it('for its credentials undoes what is visible', async () => {
    const { storage } = stored()
    const before = storage.contents()
    let refusals = 0
    storage.fault = ({ name }) => (name === 'remove' && (refusals += 1) <= 6 ? 'refused-identity' : null)

    const { failure } = await transact(storage, [remove('tabs', 'a'), upload])

    expect(failure).toMatchObject({ failure: 'refused', status: 401 })
    expect(storage.contents()).toEqual(before)
  })
})

describe('runTransaction: a bridge that is killed', () => {
  const names = ['tabs', 'forms']
  const operations: Step['operation'][] = names.flatMap((name) => [
    remove(name, 'a'),
    put(name, 'b', { payload: 'new' }),
    put(name, 'new', { payload: 'new' }),
    remove(name, 'c'),
  ])
  const ids = ['a', 'b', 'c', 'new']

  function seeded(canStage: boolean): ModelStorage {
    const storage = new ModelStorage()
    if (!canStage) storage.maxima = { ...generousLimits, batch: null }
    for (const name of names)
      storage.seed(
        name,
        ['a', 'b', 'c'].map((id) => ({ id, payload: 'old' })),
      )
    return storage
  }

  it.each([true, false])(
    'leaves the puts of a collection whole, and every id can be written and read: staging %j',
    async (canStage) => {
      const whole = seeded(canStage)
      await transact(whole, operations)
      const undone: string[] = []

      for (let kill = 1; kill <= whole.calls.length; kill += 1) {
        const storage = seeded(canStage)
        const killed = Promise.withResolvers<void>()
        storage.hang = () => {
          const isDead = storage.calls.length >= kill
          if (isDead) killed.resolve()
          return isDead
        }
        void transact(storage, operations)
        await killed.promise
        await Bun.sleep(0)

        for (const name of names) {
          const { b, new: created, ...others } = storage.contents()[name]!
          expect([b?.payload, created?.payload]).toBeOneOf([
            ['old', undefined],
            ['new', 'new'],
          ])
          if (created && (others.a || others.c)) undone.push(name)
          for (const id of ids) storage.otherWrites(name, [{ id, payload: 'later' }])
          expect(storage.contents()[name]).toEqual(
            Object.fromEntries(ids.map((id) => [id, { payload: 'later' }])),
          )
        }
      }

      // That is what a kill costs: deletions that did not happen yet.
      expect(undone).not.toEqual([])
    },
  )
})

describe('runTransaction: the id that no record has', () => {
  it('is all that the fence of a lost write deletes', async () => {
    const { storage } = stored()
    storage.seed('tabs', [{ id: 'none', payload: 'a record of a client' }])
    const removed: string[][] = []
    const { remove: removeRecords } = storage
    storage.remove = async (collection, ids, since) => {
      removed.push(ids)
      return await removeRecords(collection, ids, since)
    }
    storage.fault = ({ name, collection }) =>
      collection === 'tabs' && ['write', 'commitStaged'].includes(name) ? 'reset-before' : null

    await transact(storage, [upload, put('forms', 'f', { payload: 'new' })])

    expect(removed.flat()).toContain(absentId)
    expect(storage.contents().tabs).toMatchObject({ none: { payload: 'a record of a client' } })
  })
})
