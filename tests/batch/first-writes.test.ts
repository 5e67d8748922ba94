import { describe, expect, it } from 'bun:test'
import { zeroTimestamp } from '../../src/domain/timestamp.ts'
import { ModelStorage } from '../support/model-storage.ts'
import { list, onlyIfAbsent, onlyIfExists, put, transact } from './transact.ts'

function unused(): ModelStorage {
  const storage = new ModelStorage()
  storage.emptyTimestamp = zeroTimestamp
  return storage
}

const namesOf = ({ calls }: ModelStorage) => calls.map(({ name }) => name)
const puts = (count: number, collection = 'tabs') =>
  Array.from({ length: count }, (_, index) => put(collection, `id${index}`, { payload: 'x' }))

describe('runTransaction: the first write to a collection', () => {
  it('makes the collection exist beforehand', async () => {
    const storage = unused()

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'x' })])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored'])
    expect(namesOf(storage)).toEqual(['snapshot', 'remove', 'write'])
  })

  it('looks once more where something is conditional', async () => {
    const storage = unused()

    await transact(storage, [put('tabs', 'a', { payload: 'x' }, onlyIfAbsent)])

    expect(namesOf(storage)).toEqual(['snapshot', 'remove', 'snapshot', 'write'])
  })

  it('sees what came between, from whoever does not make the collection exist first', async () => {
    const storage = unused()
    storage.onCall = ({ number }) => {
      if (number === 3) storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent)])

    expect(outcomes).toMatchObject([{ outcome: 'precondition-failed', existing: { payload: 'theirs' } }])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' } } })
  })

  it('does not come before a write that is not due', async () => {
    const storage = unused()

    const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'x' }, onlyIfExists)])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['precondition-failed'])
    expect(namesOf(storage)).toEqual(['snapshot'])
  })

  it('goes on with the collection of another writer who was first', async () => {
    const storage = unused()
    storage.onCall = ({ number }) => {
      if (number === 2) storage.otherWrites('tabs', [{ id: 'a', payload: 'theirs' }])
    }

    const { outcomes } = await transact(storage, [
      put('tabs', 'a', { payload: 'ours' }, onlyIfAbsent),
      put('tabs', 'b', { payload: 'ours' }, onlyIfAbsent),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['precondition-failed', 'stored'])
    expect(storage.contents()).toEqual({ tabs: { a: { payload: 'theirs' }, b: { payload: 'ours' } } })
  })

  it.each(['error-before', 'error-after', 'reset-before', 'reset-after', 'unreachable'] as const)(
    'is tried again after a look when making it exist fails: %s',
    async (fault) => {
      const storage = unused()
      storage.fault = ({ number }) => (number === 2 ? fault : null)

      const { outcomes } = await transact(storage, [put('tabs', 'a', { payload: 'x' })])

      expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored'])
      expect(namesOf(storage).slice(0, 3)).toEqual(['snapshot', 'remove', 'snapshot'])
    },
  )

  it('needs at most 4 calls for 25 puts, 5 with conditions, and 4 for each of several collections', async () => {
    const [plain, conditional, several] = [unused(), unused(), unused()]

    await transact(plain, puts(25))
    await transact(
      conditional,
      puts(25).map((each) => ({ ...each, precondition: onlyIfAbsent })),
    )
    await transact(several, [...puts(8, 'tabs'), ...puts(8, 'forms'), ...puts(8, 'history')])

    expect(plain.calls.length).toBeLessThanOrEqual(4)
    expect(conditional.calls.length).toBeLessThanOrEqual(5)
    expect(several.calls.length).toBeLessThanOrEqual(12)
  })

  it('shows lists of the same transaction as if one had come after the other', async () => {
    const storage = unused()

    const { outcomes } = await transact(storage, [
      list('tabs'),
      put('tabs', 'a', { payload: 'x' }),
      list('tabs'),
    ])

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['page', 'stored', 'page'])
  })
})
