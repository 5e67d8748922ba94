import { describe, expect, it } from 'bun:test'
import { UpstreamError } from '../../src/domain/errors.ts'
import type { Step } from '../../src/domain/operation.ts'
import { generousLimits, ModelStorage, type ModelFault } from '../support/model-storage.ts'
import { put, remove, transact } from './transact.ts'

const collections = ['c0', 'c1', 'c2']
const outagesMs = [100, 3000, 10_000]
const requestTimesMs = [30_000, 1000]

/** How a call fails while the storage is down: unreachable, a 503, a 503 after it was applied, or no response. */
const kinds: ModelFault[] = ['unreachable', 'error-before', 'error-after', 'reset-before', 'reset-after']

/** A creation, a replacement, an update and a deletion for each collection. */
const operations: Step['operation'][] = collections.flatMap((collection) => [
  put(collection, 'fresh', { payload: 'new' }),
  remove(collection, 'replaced'),
  put(collection, 'replaced', { payload: 'new' }),
  put(collection, 'updated', { payload: 'new', sortindex: 1 }),
  remove(collection, 'gone'),
])

function stored({ canStage }: { canStage: boolean }): ModelStorage {
  const storage = new ModelStorage()
  for (const collection of collections) {
    storage.seed(collection, [
      { id: 'replaced', payload: 'old', sortindex: 5 },
      { id: 'updated', payload: 'old', sortindex: 7 },
      { id: 'gone', payload: 'old' },
    ])
  }
  if (!canStage) storage.maxima = { ...generousLimits, batch: null }
  return storage
}

interface Outage {
  kind: ModelFault
  ms: number
  /** The first failing call, counted from 1. */
  call: number
}

/** Makes the storage unreachable from that call on, until the time has passed. */
function interrupt(storage: ModelStorage, { kind, ms, call }: Outage): void {
  let untilMs: number | null = null
  storage.fault = ({ number }) => {
    if (number >= call) untilMs ??= storage.clock.now() + ms
    return untilMs !== null && storage.clock.now() < untilMs ? kind : null
  }
}

describe('runTransaction: a storage that is down for a while, during a batch over three collections', () => {
  const cases = [true, false].flatMap((canStage) =>
    requestTimesMs.flatMap((requestMs) => outagesMs.map((ms) => ({ canStage, requestMs, ms }))),
  )

  it.each(cases)(
    'is applied completely or not at all: down for $ms ms at any call, of $requestMs ms for the request, staging $canStage',
    async ({ canStage, requestMs, ms }) => {
      const undisturbed = stored({ canStage })
      const nothing = JSON.stringify(undisturbed.contents())
      await transact(undisturbed, operations)
      const whole = JSON.stringify(undisturbed.contents())
      const calls = undisturbed.calls.length
      expect(whole).not.toBe(nothing)
      expect(calls).toBeGreaterThan(9)

      const torn: unknown[] = []
      for (const kind of kinds) {
        for (let call = 1; call <= calls; call += 1) {
          const storage = stored({ canStage })
          interrupt(storage, { kind, ms, call })
          const deadlineAtMs = storage.clock.now() + requestMs
          const options = { deadlineAtMs, commitReserveMs: requestMs / 6 }

          const { failure, events } = await transact(storage, operations, options)

          const now = JSON.stringify(storage.contents())
          const isWhole = now === (failure === null ? whole : nothing)
          const isReported = events.some((event) => event.kind === 'partial' || event.kind === 'unknown')
          if (!isWhole || isReported) torn.push({ kind, call, now, events })
        }
      }

      expect(torn).toEqual([])
    },
  )

  it.each(kinds)('is applied completely or not at all: only deletions fail for 10 s, %s', async (kind) => {
    const storage = stored({ canStage: true })
    const nothing = storage.contents()
    const undisturbed = stored({ canStage: true })
    await transact(undisturbed, operations)
    const untilMs = storage.clock.now() + 10_000
    // A fence is a deletion as well.
    storage.fault = ({ name }) => (name === 'remove' && storage.clock.now() < untilMs ? kind : null)

    const { failure, events } = await transact(storage, operations)

    const isApplied = failure === null
    expect(storage.contents()).toEqual(isApplied ? undisturbed.contents() : nothing)
    expect(events.map((event) => event.kind)).not.toContain('unknown')
    expect(events.map((event) => event.kind)).not.toContain('partial')
  })

  it.each([8000, 14_000])(
    'is applied completely: its deletion arrives %d ms after it timed out',
    async (lateMs) => {
      const storage = stored({ canStage: true })
      const { remove: removeRecords } = storage
      let late: { atMs: number; given: Parameters<typeof removeRecords> } | null = null
      let isFirst = true
      storage.remove = async (...given) => {
        if (isFirst) late = { atMs: storage.clock.now() + lateMs, given }
        isFirst = false
        throw new UpstreamError('timeout', 'Timed out', { applied: 'unknown' })
      }
      storage.fault = () => {
        if (late && storage.clock.now() >= late.atMs) {
          const { given } = late
          late = null
          void removeRecords.apply(storage, given)
        }
        return null
      }

      const { failure } = await transact(storage, [
        put('c0', 'fresh', { payload: 'new' }),
        remove('c1', 'gone'),
      ])

      expect(failure).toBeNull()
      expect(storage.contents()).toMatchObject({ c0: { fresh: { payload: 'new' } } })
      expect(storage.contents().c1).not.toHaveProperty('gone')
    },
  )

  it('reports a partial write if the storage does not recover', async () => {
    const storage = stored({ canStage: true })
    const isCommit = ({ name }: { name: string }) => name === 'commitStaged'
    let commits = 0
    storage.fault = (call) => {
      if (isCommit(call)) commits += 1
      return commits > 1 ? 'unreachable' : null
    }
    const startedAtMs = storage.clock.now()

    const { failure, events } = await transact(storage, operations)

    expect(failure).not.toBeNull()
    expect(events.map(({ kind }) => kind)).toContain('partial')
    // Fifteen seconds from the first commit, without flooding the storage with calls.
    expect(storage.clock.now() - startedAtMs).toBeWithin(15_000, 17_000)
    expect(storage.calls.length).toBeLessThan(200)
  })

  it('gives up at once while nothing is visible', async () => {
    const storage = stored({ canStage: true })
    interrupt(storage, { kind: 'unreachable', ms: 60_000, call: 7 })
    const startedAtMs = storage.clock.now()

    const { failure } = await transact(storage, operations)

    expect(failure).not.toBeNull()
    // The waits of three collections, which the model adds up.
    expect(storage.clock.now() - startedAtMs).toBeLessThan(3000)
  })
})

describe('runTransaction: commits of several collections', () => {
  const puts = collections.map((collection) => put(collection, 'fresh', { payload: 'new' }))

  it('are completed once one of them is visible, even after a rejected attempt', async () => {
    const storage = stored({ canStage: true })
    const { commitStaged } = storage
    let attempts = 0
    storage.commitStaged = async (...args) => {
      attempts += 1
      if (attempts <= 2) {
        throw new UpstreamError('refused', '', { applied: 'no', status: 503, retryAfterSeconds: 600 })
      }
      return await commitStaged.apply(storage, args)
    }

    const { outcomes, events } = await transact(storage, puts)

    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['stored', 'stored', 'stored'])
    expect(events).toEqual([{ kind: 'committed', collections: ['c0', 'c1', 'c2'] }])
  })
})

describe('runTransaction: a permanently rejected part beside a visible one', () => {
  it.each([
    ['with 503 and a time to wait', new UpstreamError('refused', '', { status: 503, retryAfterSeconds: 60 })],
    ['like a write conflict', new UpstreamError('conflict', '', { status: 503, retryAfterSeconds: 10 })],
    ['with 500', new UpstreamError('refused', '', { status: 500 })],
  ])('is given up, and the other undone, within three seconds: %s', async (_, refusal) => {
    const storage = stored({ canStage: true })
    const before = storage.contents()
    const { commitStaged, write, remove: removeRecords } = storage
    const isRefused = (collection: string) => collection === 'c0' && storage.hasBegunCommit
    const refusing =
      <Given extends [string, ...unknown[]], Result>(call: (...given: Given) => Promise<Result>) =>
      async (...given: Given) => {
        if (isRefused(given[0])) throw refusal
        return await call.apply(storage, given)
      }
    storage.commitStaged = refusing(commitStaged)
    storage.write = refusing(write)
    storage.remove = refusing(removeRecords)
    const startedAtMs = storage.clock.now()

    const { failure, events } = await transact(storage, operations)

    expect(failure).toBe(refusal)
    expect(events).toContainEqual({ kind: 'undone', collections: ['c2', 'c1'] })
    expect(storage.clock.now() - startedAtMs).toBeLessThan(3000)
    expect(storage.contents()).toEqual(before)
  })

  it('is given up, and the other undone, within three seconds: another client keeps changing it', async () => {
    const storage = stored({ canStage: true })
    const before = storage.contents()
    storage.fault = ({ collection }) => (collection === 'c0' && storage.hasBegunCommit ? 'moved' : null)
    const startedAtMs = storage.clock.now()

    const { failure, events } = await transact(storage, operations)

    expect(failure).toBeInstanceOf(UpstreamError)
    expect(events).toContainEqual({ kind: 'undone', collections: ['c2', 'c1'] })
    expect(storage.clock.now() - startedAtMs).toBeLessThan(3000)
    expect(storage.contents()).toEqual(before)
  })
})
