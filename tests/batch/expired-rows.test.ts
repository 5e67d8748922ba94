import { describe, expect, it } from 'bun:test'
import { OtherWriters, rowRemovalMs } from '../../src/batch/other-writers.ts'
import { fieldLimits, tombstonePayload } from '../../src/domain/record.ts'
import { ModelStorage } from '../support/model-storage.ts'
import { onlyIfAbsent, put, remove, transact } from './transact.ts'

const { ttlSeconds } = fieldLimits

/** A storage with one record, and its deletion among puts. */
function stored(): ModelStorage {
  const storage = new ModelStorage()
  storage.seed('tabs', [{ id: 'a', payload: 'old' }])
  return storage
}

const deletion = [remove('tabs', 'a'), put('tabs', 'b', { payload: 'new' })]

/** Lets another client write after the deletion is committed, before its row is removed. */
function beforeRemoval(storage: ModelStorage, write: () => void): void {
  storage.onCall = ({ name }) => {
    if (name !== 'remove') return
    storage.onCall = () => {}
    write()
  }
}

/** Imitates another bridge that deletes a record among puts. */
function deletesElsewhere(storage: ModelStorage): void {
  storage.otherWrites('tabs', [{ id: 'a', payload: tombstonePayload, ttlSeconds: 0 }])
}

describe('runTransaction: rows of deleted records', () => {
  it('are not revived when another bridge creates and deletes the record meanwhile', async () => {
    const storage = stored()
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }])
      deletesElsewhere(storage)
    })

    const { outcomes } = await transact(storage, deletion)

    expect(outcomes[0]).toMatchObject({ outcome: 'deleted' })
    expect(storage.contents()).toEqual({ tabs: { b: { payload: 'new' } } })
    storage.otherWrites('tabs', [{ id: 'a', payload: 'later' }])
    expect(storage.contents().tabs).toMatchObject({ a: { payload: 'later' } })
  })

  it('are left to the other bridge if it removes them itself', async () => {
    const storage = stored()
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }])
      deletesElsewhere(storage)
      storage.onCall = ({ name }) => {
        if (name === 'rewrittenSince' && storage.callCounts.rewrittenSince === 2)
          storage.otherRemoves('tabs', ['a'])
      }
    })

    await transact(storage, deletion)

    expect(storage.callCounts.stage).toBeUndefined()
    expect(storage.contents()).toEqual({ tabs: { b: { payload: 'new' } } })
  })

  it("become visible with Firefox's new record in a version that is new to every device", async () => {
    const storage = stored()
    let seenByDevices = 0
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
      seenByDevices = storage.timestampOf('tabs')
    })

    const { events } = await transact(storage, deletion)

    const shown = storage.visible('tabs').get('a')
    expect(shown?.payload).toBe('theirs')
    expect(shown?.lastModified).toBeGreaterThan(seenByDevices)
    expect(events.map(({ kind }) => kind)).toEqual(['committed'])
  })

  it('are reported if they cannot be removed in time', async () => {
    const storage = stored()
    storage.fault = ({ name, number }) => (name === 'remove' && number < 500 ? 'unreachable' : null)

    const { events } = await transact(storage, deletion)

    expect(events.map(({ kind }) => kind)).toEqual(['unremoved', 'committed'])
  })

  it.each([
    { kind: 'an empty record', record: { id: 'a', payload: '', ttlSeconds } },
    { kind: 'an invisible record', record: { id: 'a', payload: 'later' } },
  ])('are kept when another client writes $kind just before they would be revealed', async ({ record }) => {
    const storage = stored()
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
      storage.onCall = ({ name }) => {
        if (name !== 'commitStaged') return
        storage.onCall = () => {}
        storage.otherWrites('tabs', [record])
      }
    })

    await transact(storage, deletion)

    expect(storage.contents()).toEqual({ tabs: { a: { payload: record.payload }, b: { payload: 'new' } } })
  })

  it('are removed once found to be tombstones, even if another client writes other records meanwhile', async () => {
    const storage = stored()
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }])
      deletesElsewhere(storage)
      storage.onCall = ({ name }) => {
        if (name !== 'remove') return
        storage.onCall = () => {}
        storage.otherWrites('tabs', [{ id: 'c', payload: 'theirs' }])
      }
    })

    await transact(storage, deletion)

    expect(Object.keys(storage.contents().tabs!)).toEqual(['b', 'c'])
  })

  it('are removed once, even if the response to their removal is lost', async () => {
    const storage = stored()
    storage.fault = ({ name }) =>
      name === 'remove' && storage.callCounts.remove === 1 ? 'reset-after' : null

    const { failure } = await transact(storage, deletion)

    expect(failure).toBeNull()
    expect(storage.log.filter(({ kind }) => kind === 'remove')).toHaveLength(1)
  })

  it('are inspected again if they are rewritten between their revelation and the next read', async () => {
    const storage = stored()
    beforeRemoval(storage, () => {
      storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }])
      deletesElsewhere(storage)
      storage.onCall = ({ name }) => {
        if (name !== 'snapshot' || !storage.callCounts.commitStaged) return
        storage.onCall = () => {}
        deletesElsewhere(storage)
        storage.otherWrites('tabs', [{ id: 'a', payload: 'later' }])
      }
    })

    await transact(storage, deletion)

    expect(storage.contents().tabs).toMatchObject({ a: { payload: 'later' } })
  })
})

describe('runTransaction: a record that must be absent, whose row another bridge is removing', () => {
  /** Firefox has written into the row of a record that was just deleted elsewhere. */
  function hidden(): ModelStorage {
    const storage = stored()
    deletesElsewhere(storage)
    storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    return storage
  }

  /** Imitates the other bridge's next check. */
  function atNextLook(storage: ModelStorage, act: () => void): void {
    storage.onCall = ({ name }) => {
      if (name !== 'snapshot' || storage.callCounts.snapshot !== 2) return
      storage.onCall = () => {}
      act()
    }
  }

  it('is not created over what Firefox has written there', async () => {
    const storage = hidden()
    atNextLook(storage, () => storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }]))

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent)])

    expect(outcomes).toMatchObject([{ outcome: 'precondition-failed', existing: { payload: 'theirs' } }])
  })

  it('keeps its payload when only some fields are written', async () => {
    const storage = hidden()
    atNextLook(storage, () => storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs', ttlSeconds }]))

    const { outcomes } = await transact(storage, [put('tabs', 'a', { sortindex: 3 })])

    expect(outcomes).toMatchObject([{ outcome: 'stored', record: { payload: 'theirs', sortindex: 3 } }])
  })

  it('is created if it was only visible to a read that waited for its deletion', async () => {
    const storage = stored()
    storage.otherWrites('tabs', [{ id: 'a', payload: tombstonePayload, ttlSeconds }])

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent)])

    expect(outcomes).toMatchObject([{ outcome: 'stored' }])
  })

  it('is created after a few checks if no one removes the row', async () => {
    const storage = stored()
    storage.otherWrites('tabs', [{ id: 'a', payload: 'short-lived', ttlSeconds: 0 }])

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent)])

    expect(outcomes).toMatchObject([{ outcome: 'stored' }])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'ours' } } })
    expect(storage.callCounts.snapshot).toBeLessThan(10)
  })

  it('costs no call in a collection that only this process changes, or that has not changed lately', async () => {
    const storage = stored()
    const otherWriters = new OtherWriters(storage.clock.now)
    const create = (id: string) =>
      transact(storage, [put('tabs', id, { payload: 'ours' }, onlyIfAbsent)], { otherWriters })

    await create('b')
    await create('c')
    expect(storage.callCounts).toEqual({ snapshot: 2, write: 2 })
    storage.otherWrites('tabs', [{ id: 'd', payload: 'theirs' }])
    await create('e')
    expect(storage.callCounts.rewrittenSince).toBe(1)
    await create('f')
    expect(storage.callCounts.rewrittenSince).toBe(2)
    storage.clock.nowMs += rowRemovalMs
    await create('g')

    expect(storage.callCounts.rewrittenSince).toBe(2)
  })
})
