import { describe, expect, it } from 'bun:test'
import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import { generousLimits, ModelStorage, type ModelCall, type ModelFault } from '../support/model-storage.ts'
import { ifMatch, list, onlyIfAbsent, put, recordsOf, remove, transact } from './transact.ts'

function at(number: number, fault: ModelFault): (call: ModelCall) => ModelFault | null {
  return (call) => (call.number === number ? fault : null)
}

describe('runTransaction: a lost response', () => {
  it('to a write that is applied later, after the probe, does not cause a second write', async () => {
    const storage = new ModelStorage()
    const write = storage.write.bind(storage)
    let isFirst = true
    storage.write = async (collection, records, since) => {
      if (!isFirst) return await write(collection, records, since)
      isFirst = false
      storage.onCall = ({ name }) => {
        if (name !== 'write') return
        storage.onCall = () => {}
        storage.otherWrites(collection, records)
      }
      throw new UpstreamError('connection-lost', 'No response')
    }

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'new' }, onlyIfAbsent)])

    expect(outcomes[0]).toMatchObject({
      outcome: 'stored',
      record: { payload: 'new', lastModified: storage.timestampOf('tabs') },
    })
    expect(storage.log.length).toBe(1)
  })

  // The first write is held back. Its repetition is refused, as when a quota has been reached in the meantime.
  it.each([
    ['arrives before the next look', true, false, 'stored'],
    ['arrives after the response', false, false, 'unknown'],
    ['was staged, and arrives after the response', false, true, 'unknown'],
    ['was staged, and arrives before the next look', true, true, 'stored'],
  ])(
    'to a write whose repetition is refused is never a refusal: it %s',
    async (_, arrives, isStaged, end) => {
      const storage = new ModelStorage()
      storage.seed('tabs', [{ id: 'z', payload: 'old' }])
      if (isStaged) storage.maxima = { ...generousLimits, maxPostRecords: 1 }
      const name = isStaged ? 'commitStaged' : 'write'
      const first: { apply: (() => Promise<unknown>) | null } = { apply: null }
      const call = storage[name].bind(storage) as (...given: unknown[]) => Promise<never>
      storage[name] = async (...given: unknown[]) => {
        if (first.apply !== null) {
          if (arrives) await first.apply()
          throw new ServiceError(403, errno.forbidden, 'Quota')
        }
        first.apply = async () => await call(...given)
        throw new UpstreamError('connection-lost', 'No response')
      }

      const { outcomes, failure } = await transact(storage, [
        put('tabs', 'a', { payload: 'new' }),
        put('tabs', 'b', { payload: 'new' }),
      ])
      if (!arrives) await first.apply!()

      expect(storage.contents().tabs).toMatchObject({ a: { payload: 'new' }, b: { payload: 'new' } })
      const ends =
        failure instanceof UpstreamError ? ['unknown'] : outcomes.map(({ outcome }) => `${outcome}`)
      expect(new Set(ends)).toEqual(new Set([end]))
    },
  )

  it('to a single write is probed until the deadline, and no longer', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = ({ number }) => (number >= 2 ? 'reset-after' : null)
    const startedAtMs = storage.clock.now()

    const { failure, events } = await transact(storage, [put('tabs', 'a', { payload: 'new' })])

    expect(failure).toMatchObject({ applied: 'unknown' })
    expect(events.at(-1)).toEqual({ kind: 'unknown', collections: ['tabs'] })
    expect(storage.clock.now() - startedAtMs).toBeWithin(4900, 5100)
  })

  it('still counts as applied if another client overwrites one of our records', async () => {
    const storage = new ModelStorage()
    storage.fault = at(3, 'reset-after')
    storage.onCall = ({ number }) => {
      if (number === 4) storage.otherWrites('tabs', [{ id: 'b', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent),
      put('tabs', 'b', { payload: 'ours' }, onlyIfAbsent),
    ])

    const ours = storage.visible('tabs').get('a')!.lastModified
    expect(outcomes).toEqual([
      { outcome: 'stored', record: { id: 'a', payload: 'ours', lastModified: ours } },
      { outcome: 'stored', record: { id: 'b', payload: 'ours', lastModified: ours } },
    ])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'ours' }, b: { payload: 'theirs' } } })
  })

  it("to a deletion never gives the collection a timestamp after another client's later write", async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = at(2, 'reset-after')
    storage.onCall = ({ number }) => {
      if (number === 3) storage.otherWrites('tabs', [{ id: 'b', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [remove('tabs', 'a')])

    const theirs = storage.visible('tabs').get('b')!.lastModified
    const [deleted] = outcomes
    expect(deleted?.outcome === 'deleted' && deleted.timestamp).toBeLessThan(theirs)
  })

  it('to a deletion among puts keeps what another client wrote before the probe', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [
      { id: 'a', payload: 'old' },
      { id: 'b', payload: 'old' },
    ])
    storage.fault = ({ name }) =>
      name === 'remove' && storage.callCounts.remove === 1 ? 'reset-after' : null
    storage.onCall = ({ name }) => {
      if (name === 'snapshot' && storage.callCounts.remove === 1)
        storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes, events } = await transact(storage, [
      remove('tabs', 'a'),
      remove('tabs', 'b'),
      put('tabs', 'c', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['deleted', 'deleted', 'stored'])
    expect(events.map(({ kind }) => kind)).toEqual(['probed', 'committed'])
    expect(storage.callCounts.remove).toBe(1)
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' }, c: { payload: 'new' } } })
  })

  it('to a deletion that another writer came before is decided again', async () => {
    const storage = new ModelStorage()
    const at = storage.seed('tabs', [
      { id: 'a', payload: 'old' },
      { id: 'b', payload: 'old' },
    ])
    storage.fault = ({ name }) =>
      name === 'remove' && storage.callCounts.remove === 1 ? 'reset-before' : null
    storage.onCall = ({ name }) => {
      if (name === 'snapshot' && storage.callCounts.remove === 1)
        storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [remove('tabs', 'a', ifMatch(at)), remove('tabs', 'b')])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['precondition-failed', 'deleted'])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' } } })
  })

  it('to a commit of a batch that the storage has forgotten causes another upload', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.commitStaged = async () => {
      throw new UpstreamError('refused', 'Status 400', { status: 400, applied: 'no' })
    }

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'a' }),
      put('history', 'a', { payload: 'a' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored'])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'a' } }, history: { a: { payload: 'a' } } })
    expect(storage.callCounts.write).toBe(2)
  })

  it('to a commit of such a batch causes a few more if one upload is not enough', async () => {
    const storage = new ModelStorage()
    storage.maxima = { ...generousLimits, maxPostRecords: 2 }
    const puts = ['a', 'b', 'c'].map((id) => put('tabs', id, { payload: id }))
    const commits: string[] = []
    const { commitStaged } = storage
    let forgotten = 1
    storage.commitStaged = async (collection, batch, since) => {
      if (commits.push(batch) > forgotten) return await commitStaged(collection, batch, since)
      throw new UpstreamError('refused', 'Status 400', { status: 400, applied: 'no' })
    }

    const { outcomes } = await transact(storage, puts)
    forgotten = Infinity
    const { failure } = await transact(storage, puts)

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored', 'stored'])
    expect(failure).toMatchObject({ status: 400, applied: 'no' })
    expect(commits).toHaveLength(2 + 6)
    expect(new Set(commits).size).toBe(8)
  })

  it('to a late commit leaves that commit without effect once the others are undone', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    const { commitStaged } = storage
    const late: Parameters<typeof commitStaged>[] = []
    storage.commitStaged = async (...call) => {
      late.push(call)
      throw new UpstreamError('connection-lost', 'No response')
    }

    const { failure, events } = await transact(storage, [
      put('tabs', 'a', { payload: 'new' }),
      put('history', 'a', { payload: 'new' }),
    ])
    const ends = await Promise.all(late.map((call) => commitStaged(...call)))

    expect(failure).toMatchObject({ failure: 'connection-lost' })
    expect(events).toContainEqual({ kind: 'undone', collections: ['history'] })
    expect(new Set(ends.map(({ outcome }) => outcome))).toEqual(new Set(['moved']))
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'old' } } })
  })

  it('to a commit that is applied after a timeout does not conflict with it', async () => {
    const storage = new ModelStorage()
    const then = storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    const { commitStaged, write } = storage
    const timedOut = Promise.withResolvers<void>()
    storage.write = async (...call) => {
      await timedOut.promise
      return await write(...call)
    }
    let first: Parameters<typeof commitStaged> | null = null
    storage.commitStaged = async (...call) => {
      if (first) {
        await commitStaged(...first)
        return await commitStaged(...call)
      }
      first = call
      setTimeout(timedOut.resolve, 10)
      throw new UpstreamError('refused', 'Later', { status: 503, retryAfterSeconds: 600 })
    }

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'new' }, ifMatch(then)),
      put('history', 'a', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored'])
    expect(storage.contents().tabs).toEqual({ a: { payload: 'new' } })
  })

  it('followed by a failed condition in an unchanged collection is retried a few times, and given up', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = ({ name }) => {
      if (name !== 'write') return null
      return storage.callCounts.write === 1 ? 'reset-before' : 'moved'
    }

    const { failure } = await transact(storage, [put('tabs', 'a', { payload: 'new' })])

    expect(failure).toMatchObject({ failure: 'refused', status: 412 })
    expect(storage.callCounts.write).toBeLessThan(8)
  })

  it('reports the records that the storage had rejected', async () => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'bad', payload: 'old' }])
    storage.refusedIds.set('bad', 'invalid')
    storage.fault = at(4, 'reset-after')

    const { outcomes } = await transact(storage, [
      put('tabs', 'good', { payload: 'x' }, onlyIfAbsent),
      put('tabs', 'bad', { payload: 'y' }),
      list('tabs', { sort: 'oldest' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'failed', 'page'])
    expect(recordsOf(outcomes[2]).map(({ payload }) => payload)).toEqual(['old', 'x'])
  })
})

describe('runTransaction: a write that times out', () => {
  const writes = ({ callCounts: { write = 0, remove: removals = 0, commitStaged = 0 } }: ModelStorage) =>
    write + removals + commitStaged

  it.each([
    ['a put', put('tabs', 'a', { payload: 'new' })],
    ['a deletion', remove('tabs', 'a')],
  ])('is looked at: it was applied, so it succeeds and is not sent again: %s', async (_, operation) => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = at(2, 'hang-after')

    const { outcomes, events } = await transact(storage, [operation])

    expect(outcomes[0]!.outcome).toBeOneOf(['stored', 'deleted'])
    expect(events.map(({ kind }) => kind)).toEqual(['probed', 'committed'])
    expect(writes(storage)).toBe(1)
  })

  it.each([
    ['a put', put('tabs', 'a', { payload: 'new' })],
    ['a deletion', remove('tabs', 'a')],
  ])('is looked at: nothing is visible, so it fails and is not sent again: %s', async (_, operation) => {
    const storage = new ModelStorage()
    storage.seed('tabs', [{ id: 'a', payload: 'old' }])
    storage.fault = at(2, 'hang-before')
    const startedAtMs = storage.clock.now()

    const { failure, events } = await transact(storage, [operation])

    expect(failure).toMatchObject({ failure: 'timeout' })
    expect(events.map(({ kind }) => kind)).toEqual(['probed'])
    expect(storage.callCounts.snapshot).toBe(2)
    expect(writes(storage)).toBe(1)
    expect(storage.clock.now() - startedAtMs).toBeWithin(100, 150)
  })

  it('in every collection of a batch: none is sent again, and none can be applied late', async () => {
    const storage = new ModelStorage()
    const names = ['tabs', 'history', 'forms']
    for (const name of names) storage.seed(name, [{ id: 'a', payload: 'old' }])
    const before = storage.contents()
    const { write, commitStaged } = storage
    const late: (() => Promise<{ outcome: string }>)[] = []
    const hang = () => {
      storage.clock.nowMs += 100
      throw new UpstreamError('timeout', 'No response')
    }
    storage.write = async (...given) => (late.push(() => write(...given)), hang())
    storage.commitStaged = async (...given) => (late.push(() => commitStaged(...given)), hang())
    const startedAtMs = storage.clock.now()

    const { failure } = await transact(
      storage,
      names.map((name) => put(name, 'a', { payload: 'new' })),
    )
    const gaveUpAfterMs = storage.clock.now() - startedAtMs
    const ends = await Promise.all(late.map((apply) => apply()))

    expect(failure).toMatchObject({ failure: 'timeout' })
    expect(late).toHaveLength(3)
    expect(ends.map(({ outcome }) => outcome)).toEqual(['moved', 'moved', 'moved'])
    expect(storage.contents()).toEqual(before)
    // The model adds up the times of the three calls, which are sent together.
    expect(gaveUpAfterMs).toBeLessThan(3 * 100 + 200)
  })

  it('next to a visible one is sent again, until everything is visible', async () => {
    const storage = new ModelStorage()
    storage.fault = ({ name }) => {
      if (name !== 'commitStaged') return null
      storage.fault = () => null
      return 'hang-before'
    }

    const { outcomes, events } = await transact(storage, [
      put('tabs', 'a', { payload: 'new' }),
      put('history', 'a', { payload: 'new' }),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored'])
    expect(events.map(({ kind }) => kind)).toEqual(['probed', 'probed', 'committed'])
    expect(storage.callCounts.commitStaged).toBe(2)
  })

  it('while it is staged is not sent again', async () => {
    const storage = new ModelStorage()
    storage.fault = ({ name }) => (name === 'stage' ? 'hang-after' : null)

    const { failure } = await transact(storage, [
      put('tabs', 'a', { payload: 'new' }),
      put('history', 'a', { payload: 'new' }),
    ])

    expect(failure).toMatchObject({ failure: 'timeout' })
    expect(storage.callCounts.stage).toBe(1)
    expect(storage.log).toEqual([])
  })
})
