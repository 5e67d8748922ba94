import { describe, expect, it } from 'bun:test'
import { Locks } from '../../src/batch/locks.ts'
import type { Operation } from '../../src/domain/operation.ts'
import { UpstreamError } from '../../src/domain/errors.ts'
import { generousLimits, ModelStorage } from '../support/model-storage.ts'
import type { ModelFault } from '../support/model-storage.ts'
import { get, put, remove, transact } from './transact.ts'

const faults: ModelFault[] = [
  'error-before',
  'error-after',
  'reset-before',
  'reset-after',
  'hang-before',
  'hang-after',
  'refused-identity',
  'quota',
  'moved',
  'conflict',
]

// Definite answers below 500: they may end as outcomes of single operations, and undo nothing.
const refusals = new Set<ModelFault>(['refused-identity', 'quota'])

/** `size` operations over `collections` collections: creations, updates, replacements, deletions and reads. */
function batchOf(size: number, collections: number): Operation[] {
  return Array.from({ length: size }, (_, place) => {
    const collection = `c${place % collections}`
    const id = `id${place}`
    switch (Math.floor(place / collections) % 5) {
      case 0:
        return put(collection, id, { payload: `new${place}`, sortindex: 9 })
      case 1:
        return put(collection, `fresh${place}`, { payload: `new${place}` })
      case 2:
        return remove(collection, id)
      case 3:
        return put(collection, id, { payload: `new${place}`, ttlSeconds: 500 })
      default:
        return get(collection, id)
    }
  })
}

function seededFor(size: number, collections: number, canStage: boolean): ModelStorage {
  const storage = new ModelStorage()
  for (let place = 0; place < size; place += 1) {
    storage.seed(`c${place % collections}`, [{ id: `id${place}`, payload: `old${place}`, sortindex: place }])
  }
  if (!canStage) storage.maxima = { ...generousLimits, batch: null }
  return storage
}

interface Shape {
  size: number
  collections: number
  canStage: boolean
  /** How many calls it takes when nothing breaks, and what is there afterwards. */
  calls: number
  whole: string
}

/** Runs with the fault; says what is wrong with the result, or nothing. */
async function verdict(
  { size, collections, canStage, whole }: Shape,
  fault: ModelFault,
  hits: (call: number) => boolean,
): Promise<string | null> {
  const storage = seededFor(size, collections, canStage)
  const untouched = storage.contents()
  const operations = batchOf(size, collections)
  storage.fault = ({ number }) => (hits(number) ? fault : null)
  const locks = new Locks()

  const { outcomes, failure, events } = await transact(storage, operations, { locks })

  const now = JSON.stringify(storage.contents())
  if (locks.size > 0) return 'a lock is held'
  if (storage.earlyWrites.length > 0) return 'something was visible before the point of no return'
  if (events.some(({ kind }) => kind === 'partial' || kind === 'unknown')) {
    return failure === null ? 'reported a half, and resolved' : null
  }
  if (failure !== null) {
    if (!(failure instanceof UpstreamError)) return `rejected with ${String(failure)}`
    return now === JSON.stringify(untouched) ? null : `rejected, but left ${now}`
  }
  const failed = outcomes.filter(({ outcome }) => outcome === 'failed').length
  if (failed > 0) return refusals.has(fault) ? null : 'failed for no reason'
  return now === whole ? null : `resolved, but left ${now}`
}

describe('runTransaction: a fault at every storage call', () => {
  for (const fault of faults) {
    it(
      `is all or nothing with ${fault} at the k-th call only`,
      async () => {
        for (const shape of await shapes(manySizes)) {
          for (let k = 1; k <= shape.calls; k += 1) {
            const wrong = await verdict(shape, fault, (call) => call === k)

            if (wrong !== null) expect({ ...shape, k, wrong }).toBe('all or nothing' as never)
          }
        }
      },
      timeoutMs,
    )

    it(
      `is all or nothing, or says that it is not, with ${fault} from the k-th call on`,
      async () => {
        for (const shape of await shapes(fewSizes)) {
          for (let k = 1; k <= shape.calls; k += 1) {
            const wrong = await verdict(shape, fault, (call) => call >= k)

            if (wrong !== null) expect({ ...shape, k, wrong }).toBe('all or nothing' as never)
          }
        }
      },
      timeoutMs,
    )

    it(
      `is all or nothing, or says that it is not, with ${fault} at five calls from the k-th on`,
      async () => {
        for (const shape of await shapes(fewSizes)) {
          for (let k = 1; k <= shape.calls; k += 1) {
            const wrong = await verdict(shape, fault, (call) => call >= k && call < k + 5)

            if (wrong !== null) expect({ ...shape, k, wrong }).toBe('all or nothing' as never)
          }
        }
      },
      timeoutMs,
    )
  }

  it('takes everything back when the commit of one collection keeps failing', async () => {
    for (const { size, collections, canStage } of await shapes(fewSizes)) {
      if (collections === 1) continue
      for (let failing = 0; failing < collections; failing += 1) {
        const storage = seededFor(size, collections, canStage)
        const untouched = storage.contents()
        const commits = new Set(['write', 'commitStaged'])
        storage.fault = ({ name, collection }) => {
          return commits.has(name) && collection === `c${failing}` ? 'conflict' : null
        }

        const { failure, events } = await transact(storage, batchOf(size, collections))

        expect(failure).toBeInstanceOf(UpstreamError)
        expect(storage.contents()).toEqual(untouched)
        expect(events.map(({ kind }) => kind)).not.toContain('partial')
      }
    }
  })
})

// Beyond eight a batch has several of each kind of operation in each collection, and more of them is more of the same.
const manySizes = [1, 2, 3, 5, 8, 12, 25]
const fewSizes = [1, 3, 8, 25]
const timeoutMs = 300_000

const known = new Map<number[], Promise<Shape[]>>()

function shapes(sizes: number[]): Promise<Shape[]> {
  return known.getOrInsertComputed(sizes, () => shapesOf(sizes))
}

async function shapesOf(sizes: number[]): Promise<Shape[]> {
  const all: Shape[] = []
  for (const size of sizes) {
    for (let collections = 1; collections <= Math.min(4, size); collections += 1) {
      for (const canStage of collections === 1 ? [true] : [true, false]) {
        const storage = seededFor(size, collections, canStage)
        await transact(storage, batchOf(size, collections))
        const whole = JSON.stringify(storage.contents())
        all.push({ size, collections, canStage, calls: storage.calls.length, whole })
      }
    }
  }
  return all
}
