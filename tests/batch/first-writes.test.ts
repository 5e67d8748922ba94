import { describe, expect, it } from 'bun:test'
import { Locks } from '../../src/domain/bounded.ts'
import { zeroTimestamp } from '../../src/domain/timestamp.ts'
import { ModelClock, ModelStorage } from '../support/model-storage.ts'
import { list, onlyIfAbsent, put, recordsOf, remove, transact } from './transact.ts'

function unused(clock?: ModelClock): ModelStorage {
  const storage = new ModelStorage(clock)
  storage.emptyTimestamp = zeroTimestamp
  return storage
}

const namesOf = ({ calls }: ModelStorage) => calls.map(({ name }) => name)
const first = put('tabs', 'a', { payload: 'ours' })
const firstIfAbsent = put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent)

describe('runTransaction: the first write to a collection', () => {
  it.each([
    ['before its row was made', 2],
    ['after that, which makes no row first', 3],
  ])('continues with what another writer wrote %s', async (_, call) => {
    const storage = unused()
    storage.onCall = ({ number }) => {
      if (number === call) storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [
      firstIfAbsent,
      put('tabs', 'b', { payload: 'ours' }, onlyIfAbsent),
    ])

    expect(outcomes).toMatchObject([
      { outcome: 'precondition-failed', existing: { payload: 'theirs' } },
      { outcome: 'stored' },
    ])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' }, b: { payload: 'ours' } } })
  })

  it.each(['error-before', 'error-after', 'reset-before', 'reset-after', 'unreachable'] as const)(
    'retries after a read when the creation fails: %s',
    async (fault) => {
      const storage = unused()
      storage.fault = ({ number }) => (number === 2 ? fault : null)

      const { outcomes } = await transact(storage, [first])

      expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored'])
      expect(namesOf(storage).slice(0, 3)).toEqual(['snapshot', 'remove', 'snapshot'])
    },
  )

  it('fails alone if the storage refuses to create the collection; its reads and the others succeed', async () => {
    const storage = unused()
    storage.fault = ({ name, collection }) => (name === 'remove' && collection === 'tabs' ? 'quota' : null)

    const { outcomes } = await transact(storage, [
      first,
      list('tabs'),
      put('forms', 'a', { payload: 'ours' }),
    ])

    expect(outcomes).toMatchObject([
      { outcome: 'failed', error: { status: 403 } },
      { outcome: 'page' },
      { outcome: 'stored' },
    ])
    expect(storage.contents()).toEqual({ forms: { a: { payload: 'ours' } } })
  })

  it('pauses longer each time when the database finds a deadlock', async () => {
    const storage = unused()
    const atMs: number[] = []
    storage.onCall = ({ name }) => void (name === 'remove' && atMs.push(storage.clock.nowMs))
    storage.fault = ({ name }) => (name === 'remove' && atMs.length < 4 ? 'error-before' : null)

    const { outcomes } = await transact(storage, [first])

    const pauses = atMs.slice(1).map((at, place) => at - atMs[place]!)
    expect(outcomes).toMatchObject([{ outcome: 'stored' }])
    expect(pauses).toHaveLength(3)
    expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
    expect(new Set(pauses).size).toBe(3)
  })

  it.each(['moved', 'committed'] as const)(
    'gives up after a few rounds with pauses if the storage never keeps the new collection: %s',
    async (claim) => {
      const storage = unused()
      const startedAtMs = storage.clock.nowMs
      let claims = 0
      storage.remove = async () => {
        claims += 1
        return claim === 'moved'
          ? { outcome: claim }
          : { outcome: claim, timestamp: zeroTimestamp, isAlone: true }
      }

      const { failure } = await transact(storage, [firstIfAbsent])

      expect(failure).toMatchObject({ failure: 'refused', applied: 'no' })
      expect(claims).toBeWithin(2, 6)
      expect(storage.clock.nowMs - startedAtMs).toBeGreaterThanOrEqual(claims * 10)
      expect(storage.log).toEqual([])
    },
  )

  it('creates rows one at a time per node, over all users, and writes concurrently', async () => {
    const clock = new ModelClock()
    const locks = new Locks()
    const most = { remove: 0, write: 0 }
    const watch = (storage: ModelStorage, name: 'remove' | 'write', counts: { now: number }) => {
      const real = storage[name].bind(storage) as (...given: unknown[]) => Promise<never>
      storage[name] = async (...given: unknown[]) => {
        most[name] = Math.max(most[name], (counts.now += 1))
        await Bun.sleep(0)
        return await real(...given).finally(() => (counts.now -= 1))
      }
    }
    const [removing, writing] = [{ now: 0 }, { now: 0 }]
    const storages = Array.from({ length: 20 }, () => unused(clock))
    for (const storage of storages) {
      watch(storage, 'remove', removing)
      watch(storage, 'write', writing)
    }

    const options = { locks, deadlineAtMs: clock.now() + 60_000 }
    const results = await Promise.all(storages.map((storage) => transact(storage, [firstIfAbsent], options)))

    expect(results.flatMap(({ outcomes }) => outcomes.map(({ outcome }) => outcome))).toEqual(
      Array(20).fill('stored'),
    )
    expect(most.remove).toBe(1)
    expect(most.write).toBeGreaterThan(1)
    expect(locks.size).toBe(0)
  })

  it.each([
    ['a list next to a put', [first, list('tabs')]],
    ['a deletion next to a put', [first, remove('tabs', 'theirs')]],
    ['a put without a payload', [put('tabs', 'theirs', { sortindex: 5 })]],
  ])('is decided against what another client has written first: %s', async (_, operations) => {
    const storage = unused()
    storage.onCall = ({ name, number }) => {
      if (name === 'snapshot' && number > 1) {
        storage.onCall = () => {}
        storage.otherWrites('tabs', [{ id: 'theirs', payload: 'theirs' }])
      }
    }

    const { outcomes } = await transact(storage, operations)

    const last = outcomes.at(-1)!
    if (last.outcome === 'page') expect(recordsOf(last).map(({ id }) => id)).toContain('theirs')
    else if (last.outcome === 'stored') expect(last.record).toMatchObject({ payload: 'theirs', sortindex: 5 })
    else expect(last.outcome).toBe('deleted')
    expect(storage.callCounts.snapshot).toBe(2)
  })
})
