import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'
import { Locks } from '../../src/domain/bounded.ts'
import type { Operation, OperationOutcome, Step } from '../../src/domain/operation.ts'
import type { SyncRecord } from '../../src/domain/record.ts'
import { zeroTimestamp, timestamp } from '../../src/domain/timestamp.ts'
import type { Precondition } from '../../src/domain/precondition.ts'
import { generousLimits, ModelStorage, type AppliedWrite, type ModelFault } from '../support/model-storage.ts'
import { fresh, sequentially } from './sequential.ts'
import { recordsOf, strictly, transact, type Result } from './transact.ts'

const cases = Number(process.env.BATCH_CASES ?? 600)
const collections = ['c0', 'c1', 'c2']
const ids = ['a', 'b', 'c', 'd']

type CollectionOperation = Exclude<Step['operation'], { kind: 'timestamps' }>
type Numbered = { index: number; operation: CollectionOperation }

interface Case {
  seeds: { collection: string; id: string; sortindex: number | undefined }[]
  operations: DraftOperation[]
  /** From that call on, that many calls fail: of all collections, or of one. */
  faults: { call: number; span: number; only: string | null; fault: ModelFault }[]
  others: { call: number; collection: string; id: string; deed: 'put' | 'remove' }[]
  canStage: boolean
  /** Whether nothing may be written if any outcome is an error. */
  isStrict: boolean
  /** Whether collections without seeds have never been written to. */
  hasNewCollections: boolean
}

interface DraftOperation {
  kind: CollectionOperation['kind']
  collection: string
  id: string
  condition: 'none' | 'current' | 'stale' | 'absent' | 'exists' | 'not-current'
  hasPayload: boolean
  sortindex: number | undefined
  ttlSeconds: number | undefined
  limit: number | undefined
}

const cast = <Value>(...values: Value[]) => fc.constantFrom(...values)
/** One of the words, weighted by how often they occur in the text. */
const word = <Word extends string>(text: string) => cast(...(text.split(' ') as Word[]))

const collection = cast(...collections)
const id = cast(...ids)
const call = fc.integer({ min: 1, max: 16 })

const arbitraryCase: fc.Arbitrary<Case> = fc.record({
  seeds: fc.uniqueArray(fc.record({ collection, id, sortindex: cast(undefined, 1, 2) }), {
    maxLength: 8,
    selector: (seed) => seed.collection + seed.id,
  }),
  operations: fc.array(
    fc.record<DraftOperation>({
      kind: word('put put put delete delete get list count'),
      collection,
      id,
      condition: word('none none none current current current stale absent exists not-current'),
      hasPayload: cast(true, true, true, false),
      sortindex: cast(undefined, undefined, 7, 8),
      ttlSeconds: cast(undefined, undefined, undefined, undefined, 0, 5000),
      limit: cast(undefined, undefined, 1, 2),
    }),
    { minLength: 1, maxLength: 10 },
  ),
  faults: fc.array(
    fc.record({
      call,
      span: cast(1, 1, 1, 2, 4, 8, 1000, 1000),
      only: cast(null, ...collections),
      fault: word<ModelFault>(
        'conflict conflict error-before error-after reset-before reset-after hang-before hang-after ' +
          'refused-identity quota moved',
      ),
    }),
    { maxLength: 3 },
  ),
  others: fc.array(fc.record({ call, collection, id, deed: word<'put' | 'remove'>('put put remove') }), {
    maxLength: 3,
  }),
  canStage: cast(true, true, true, false),
  isStrict: cast(true, false, false),
  hasNewCollections: cast(true, false),
})

describe('runTransaction', () => {
  it('agrees with operations executed one by one, with any failures and concurrent writers', async () => {
    const seen = { committed: 0, undone: 0, reported: 0, rejected: 0, refused: 0, moved: 0, probed: 0 }

    await fc.assert(
      fc.asyncProperty(arbitraryCase, async (drawn) => {
        const { storage, result, operations, locks } = await play(drawn)

        const kinds = new Set(result.events.map(({ kind }) => kind))
        seen.committed += kinds.has('committed') ? 1 : 0
        seen.undone += kinds.has('undone') ? 1 : 0
        seen.moved += kinds.has('moved-round') ? 1 : 0
        seen.probed += kinds.has('probed') ? 1 : 0
        const isReported = kinds.has('partial') || kinds.has('unknown')
        seen.reported += isReported ? 1 : 0
        await Bun.sleep(0)
        expect(locks.size).toBe(0)
        expect(storage.earlyWrites).toEqual([])
        expectNothingTwice(storage)
        const isRefused = drawn.isStrict && !strictly(result.outcomes)
        if (result.failure === null && !isRefused) expectSequential(storage, operations, result)
        else {
          seen[isRefused ? 'refused' : 'rejected'] += 1
          if (!isReported) {
            const twins = twinDeletions(storage, operations, result)
            const untouched = without(withoutUs(drawn, storage), twins)
            expect(withoutNewSortindexes(without(storage.contents(), twins), untouched)).toEqual(untouched)
          }
        }
      }),
      {
        numRuns: cases,
        // A fixed seed, so that the result is reproducible; set FC_SEED to try others.
        seed: Number(process.env.FC_SEED ?? 20_780),
        path: process.env.FC_PATH ?? '',
      },
    )

    // The generator must reach each of these cases.
    for (const figure of Object.values(seen)) expect(figure).toBeGreaterThan(0)
  }, 300_000)
})

describe('runTransaction: a bridge that is killed at any call', () => {
  it('tears no puts of one collection, and leaves no id that cannot be written and read', async () => {
    const seen = { between: 0, undeleted: 0 }

    await fc.assert(
      fc.asyncProperty(arbitraryCase, fc.integer({ min: 1, max: 12 }), async (drawn, killedAt) => {
        const storage = seeded(drawn)
        if (!drawn.canStage) storage.maxima = { ...generousLimits, batch: null }
        const operations = drawn.operations
          // A ttl of a client leaves an expired row, which is that client's.
          .map((draft) => ({ ...draft, ttlSeconds: undefined }))
          .map((draft, index) => toOperation(draft, index, storage))
        const before = new Map(collections.map((name) => [name, storage.visible(name)]))
        const killed = Promise.withResolvers<void>()
        let isDead = false
        storage.onCall = ({ number, collection }) => {
          isDead = number >= killedAt
          const other = drawn.others.find(({ call }) => call === number)
          // Another client writes other records, between any two steps.
          if (!isDead && other && collection !== '')
            storage.otherWrites(collection, [{ id: `other${number}`, payload: 'theirs' }])
        }
        storage.hang = () => {
          if (isDead) killed.resolve()
          return isDead
        }

        await Promise.race([transact(storage, operations), killed.promise])
        await Bun.sleep(0)

        for (const name of collections) {
          const mine = operations
            .map((operation, index) => ({ index, operation }))
            .filter(({ operation }) => operation.collection === name)
          const { after } = sequentially(mine, before.get(name)!, 0, new Set())
          const now = storage.visible(name)
          const puts = [...after].filter(
            ([id, { payload }]) => payload !== before.get(name)!.get(id)?.payload,
          )
          const isNew = puts.map(([id, { payload }]) => now.get(id)?.payload === payload)
          expect(new Set(isNew).size).toBeLessThan(2)
          const deleted = [...before.get(name)!.keys()].filter((id) => !after.has(id))
          if (isNew[0] && deleted.some((id) => now.has(id))) seen.undeleted += 1
          if (isDead && storage.log.some(({ by }) => by === 'us')) seen.between += 1
          storage.otherWrites(
            name,
            ids.map((id) => ({ id, payload: 'later' })),
          )
          for (const id of ids) expect(storage.visible(name).get(id)?.payload).toBe('later')
        }
      }),
      { numRuns: Math.ceil(cases / 3), seed: Number(process.env.FC_SEED ?? 20_781) },
    )

    for (const figure of Object.values(seen)) expect(figure).toBeGreaterThan(0)
  }, 300_000)
})

async function play(drawn: Case) {
  const storage = seeded(drawn)
  const operations = drawn.operations.map((draft, index) => toOperation(draft, index, storage))
  if (!drawn.canStage) storage.maxima = { ...generousLimits, batch: null }
  storage.fault = ({ number, collection }) =>
    drawn.faults.find(
      ({ call, span, only }) => number >= call && number < call + span && (only ?? collection) === collection,
    )?.fault ?? null
  storage.onCall = ({ number }) => {
    for (const [place, { call, collection, id, deed }] of drawn.others.entries()) {
      if (call !== number) continue
      if (deed === 'remove') storage.otherRemoves(collection, [id])
      else storage.otherWrites(collection, [otherRecord(id, place)])
    }
  }
  const locks = new Locks()
  const accepts = drawn.isStrict ? strictly : undefined
  const result = await transact(storage, operations, { locks, accepts })
  return { storage, result, operations, locks }
}

function seeded({ seeds, hasNewCollections }: Case): ModelStorage {
  const storage = new ModelStorage()
  if (hasNewCollections) storage.emptyTimestamp = zeroTimestamp
  for (const [place, { collection, id, sortindex }] of seeds.entries()) {
    storage.seed(collection, [{ id, payload: `seed${place}`, ...(sortindex ? { sortindex } : {}) }])
  }
  return storage
}

function otherRecord(id: string, place: number) {
  return { id, payload: `other${place}`, sortindex: 100 + place, ttlSeconds: 900_000 }
}

function toOperation(draft: DraftOperation, index: number, storage: ModelStorage): CollectionOperation {
  const { kind, collection, id, hasPayload, sortindex, ttlSeconds, limit } = draft
  const known =
    kind === 'list' || kind === 'count'
      ? storage.timestampOf(collection)
      : (storage.visible(collection).get(id)?.lastModified ?? 0)
  const precondition = toPrecondition(draft.condition, known)
  switch (kind) {
    case 'put': {
      const input = {
        ...(hasPayload ? { payload: `put${index}` } : {}),
        ...(sortindex === undefined ? {} : { sortindex }),
        ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
      }
      return { kind, collection, id, input, precondition }
    }
    case 'list':
      return { kind, collection, options: { sort: 'newest', ...(limit ? { limit } : {}) }, precondition }
    case 'count':
      return { kind, collection, filter: limit ? { keepsId: (each) => each !== id } : {}, precondition }
    default:
      return { kind, collection, id, precondition }
  }
}

function toPrecondition(condition: DraftOperation['condition'], known: number): Precondition {
  switch (condition) {
    case 'none':
      return { kind: 'none' }
    case 'current':
      return { kind: 'unmodified-since', timestamp: timestamp(known) }
    case 'stale':
      return { kind: 'unmodified-since', timestamp: timestamp(Math.max(0, known - 10)) }
    case 'not-current':
      return { kind: 'differs', timestamp: timestamp(known) }
    default:
      return { kind: condition }
  }
}

/** What the storage would contain without the transaction. */
function withoutUs(drawn: Case, storage: ModelStorage) {
  const alone = seeded(drawn)
  for (const { by, kind, collection, ids, after } of storage.log) {
    if (by !== 'other') continue
    if (kind === 'remove') alone.otherRemoves(collection, ids)
    else
      alone.otherWrites(
        collection,
        ids.map((id) => ({ ...after.get(id)!, ttlSeconds: 900_000 })),
      )
  }
  return alone.contents()
}

/**
 * Records that another client also deleted, while the response to our own deletion was lost or before it was undone. The storage keeps no
 * trace of deletions, so it is unknown whose it was.
 */
function twinDeletions(
  storage: ModelStorage,
  operations: CollectionOperation[],
  result: Result,
): Set<string> {
  const isUndone = result.events.some(({ kind }) => kind === 'undone')
  const probed = new Set(
    result.events.flatMap(({ kind, collections }) => (kind === 'probed' ? collections : [])),
  )
  const twins = storage.log.flatMap(({ by, kind, collection, ids }) =>
    by === 'other' && kind === 'remove' && (isUndone || probed.has(collection))
      ? ids.map((id) => `${collection}/${id}`)
      : [],
  )
  const mayBeOurs = operations.flatMap((operation) =>
    involvesDeletion(operation) ? [`${operation.collection}/${operation.id}`] : [],
  )
  return new Set(twins.filter((twin) => mayBeOurs.includes(twin)))
}

/** Whether applying or undoing it may delete the record. */
function involvesDeletion(operation: CollectionOperation): operation is Extract<Operation, { id: string }> {
  return ['put', 'delete'].includes(operation.kind)
}

function without(contents: ReturnType<ModelStorage['contents']>, twins: Set<string>) {
  return Object.entries(contents).flatMap(([collection, records]) =>
    Object.entries(records)
      .filter(([id]) => !twins.has(`${collection}/${id}`))
      .map(([id, content]) => ({ collection, id, ...content })),
  )
}

/** An undo can't remove a sortindex that a record did not have. */
function withoutNewSortindexes(contents: ReturnType<typeof without>, untouched: ReturnType<typeof without>) {
  return contents.map(({ sortindex, ...content }) => {
    const before = untouched.find(
      ({ collection, id }) => collection === content.collection && id === content.id,
    )
    return { ...content, ...(before && 'sortindex' in before && { sortindex }) }
  })
}

/** Each put has its own payload. */
function expectNothingTwice(storage: ModelStorage): void {
  const ours = storage.log.filter(({ by }) => by === 'us').flatMap(({ payloads }) => payloads)
  const written = ours.filter((payload) => payload.startsWith('put'))
  expect(new Set(written).size).toBe(written.length)
}

function expectSequential(storage: ModelStorage, operations: CollectionOperation[], result: Result): void {
  const numbered = operations.map((operation, index) => ({ index, operation }))
  const failed = new Set<number>()
  for (const [index, { outcome }] of result.outcomes.entries()) if (outcome === 'failed') failed.add(index)
  for (const collection of collections) {
    const mine = numbered.filter(({ operation }) => operation.collection === collection)
    if (mine.length === 0) continue
    const log = storage.log.filter((entry) => entry.collection === collection)
    const first = log.findIndex(({ by }) => by === 'us')
    if (first === -1) expectSomeMoment(storage, collection, mine, log, result, failed)
    else {
      const last = log.findLastIndex(({ by }) => by === 'us')
      // Deletions come last, and are decided again if another client wrote before them.
      const hasDeletes = mine.some(({ operation }) => involvesDeletion(operation))
      const span = log.slice(first, hasDeletes ? undefined : last + 1)
      const isAlone = span.every(({ by }) => by === 'us')
      const twins = twinDeletions(storage, operations, result)
      const hasTwins = mine.some(
        ({ operation }) => 'id' in operation && twins.has(`${collection}/${operation.id}`),
      )
      if (isAlone && !hasTwins) expectMoment(storage, mine, log, first, last, result, failed)
      else expectEachRecord(mine, log, result, failed, twins)
    }
  }
}

/** No other client wrote between our writes: everything happened at one time. */
function expectMoment(
  storage: ModelStorage,
  mine: Numbered[],
  log: AppliedWrite[],
  first: number,
  last: number,
  result: Result,
  failed: Set<number>,
): void {
  const { before, since } = log[first]!
  let expected = sequentially(mine, before, since, failed)
  // A collection created beforehand may have been seen before or after that.
  if (storage.created.has(log[first]!.collection) && !agrees(mine, expected, result, failed, ownTimesOf(log)))
    expected = sequentially(mine, before, zeroTimestamp, failed)
  expectOutcomes(mine, expected, result, failed, ownTimesOf(log))
  expect(contentOf(log[last]!.after)).toEqual(Object.fromEntries(expected.after))
}

/** Others wrote between our steps: each record went from one version to the next on its own. */
function expectEachRecord(
  mine: Numbered[],
  log: AppliedWrite[],
  result: Result,
  failed: Set<number>,
  twins: Set<string>,
): void {
  for (const id of ids) {
    const onId = mine.filter(({ operation }) => 'id' in operation && operation.id === id)
    const touching = log.filter((entry) => entry.ids.includes(id))
    const first = touching.findIndex(({ by }) => by === 'us')
    const last = touching.findLastIndex(({ by }) => by === 'us')
    if (onId.length === 0 || twins.has(`${log[0]!.collection}/${id}`)) continue
    if (first === -1) {
      const moments = log.flatMap(({ before, after }) => [before, after])
      const isConsistent = moments.some((records) =>
        agrees(onId, sequentially(onId, records, 0, failed), result, failed, ownTimesOf(log)),
      )
      expect(isConsistent ? 'agrees' : onId.map(({ index }) => result.outcomes[index])).toBe('agrees')
      continue
    }
    if (touching.slice(first, last + 1).some(({ by }) => by === 'other')) continue
    // A record is replaced in two steps, and the second is decided again if another client wrote after the first.
    const isHalfReplaced =
      touching[last]!.kind === 'remove' && touching.slice(last).some(({ by }) => by === 'other')
    if (isHalfReplaced) continue
    const expected = sequentially(onId, touching[first]!.before, 0, failed)
    expectOutcomes(onId, expected, result, failed, ownTimesOf(log))
    expect(contentOf(touching[last]!.after)[id]).toEqual(expected.after.get(id)!)
  }
}

function agrees(...compared: Parameters<typeof expectOutcomes>): boolean {
  try {
    expectOutcomes(...compared)
    return true
  } catch {
    return false
  }
}

function expectOutcomes(
  some: Numbered[],
  expected: ReturnType<typeof sequentially>,
  result: Result,
  failed: Set<number>,
  ownTimes: Set<number>,
): void {
  for (const { index } of some) {
    expectOutcome(result.outcomes[index]!, expected.outcomes.get(index), failed.has(index), ownTimes)
  }
}

/** Nothing was written: each operation saw a state that existed at some time. */
function expectSomeMoment(
  storage: ModelStorage,
  collection: string,
  mine: Numbered[],
  log: AppliedWrite[],
  result: Result,
  failed: Set<number>,
): void {
  const moments = [
    ...log.map(({ before, since }) => ({ records: before, at: since })),
    { records: storage.visible(collection), at: storage.timestampOf(collection) },
    ...(storage.created.has(collection)
      ? [{ records: new Map<string, SyncRecord>(), at: zeroTimestamp }]
      : []),
  ]
  const isWritten = mine.some(({ operation }) => operation.kind === 'put' || operation.kind === 'delete')
  // A collection that is only read takes several calls. What was created and deleted again
  // leaves no trace, so a condition on the list does not see it.
  const isNothing = mine.some(({ index }) => ['stored', 'deleted'].includes(result.outcomes[index]!.outcome))
  const together = mine.filter(
    ({ operation: { kind } }) => !(isNothing && (kind === 'list' || kind === 'count')),
  )
  for (const group of isWritten ? [together] : together.map((one) => [one])) {
    const isConsistent = moments.some(({ records, at }) =>
      agrees(group, sequentially(mine, records, at, failed), result, failed, new Set([at + 10])),
    )
    if (isConsistent) continue
    const kinds = group.map(({ index }) => JSON.stringify(result.outcomes[index]))
    throw new Error(`No moment agrees with ${kinds.join(', ')} in ${collection}`)
  }
}

function expectOutcome(
  actual: OperationOutcome,
  expected: unknown,
  isFailed: boolean,
  ownTimes: Set<number>,
): void {
  if (isFailed) {
    expect(actual.outcome).toBe('failed')
    return
  }
  const wanted = expected as { outcome: string; ids?: Set<string>; of?: string[]; timestamp: number }
  if (wanted.outcome !== 'page') {
    expect(normalised(actual, ownTimes)).toEqual(normalised(wanted, ownTimes))
    return
  }
  expect(actual.outcome).toBe('page')
  const shown = recordsOf(actual).map(({ id }) => id)
  expect(shown.length).toBe(wanted.ids!.size)
  expect(shown.every((id) => wanted.of!.includes(id))).toBe(true)
  if (actual.outcome === 'page') expect(actual.page.next !== null).toBe(shown.length < wanted.of!.length)
}

// The timestamps of the transaction's writes can't be predicted, so they are not compared.
function normalised(value: unknown, ownTimes: Set<number>): unknown {
  const text = JSON.stringify(value, (key, member) => {
    // The same record, as the storage sent it.
    if (key === 'json') return undefined
    const isTime = key === 'lastModified' || key === 'timestamp'
    return isTime && (member === fresh || ownTimes.has(member)) ? 'own' : member
  })
  return JSON.parse(text)
}

// If the response to a deletion was lost, its earliest possible timestamp is reported, after the snapshot or after the upload.
function ownTimesOf(log: AppliedWrite[]): Set<number> {
  return new Set(
    log.flatMap(({ by, timestamp, since }) => (by === 'us' ? [timestamp, since + 10, timestamp + 10] : [])),
  )
}

function contentOf(records: Map<string, SyncRecord>) {
  const content: Record<string, { payload: string; sortindex?: number }> = {}
  for (const [id, { payload, sortindex }] of records) {
    content[id] = { payload, ...(sortindex === undefined ? {} : { sortindex }) }
  }
  return content
}
