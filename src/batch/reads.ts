import { isRefusal } from '../domain/errors.ts'
import { joinBytes } from '../domain/bytes.ts'
import { readListDocument } from '../domain/list.ts'
import { evaluateCollection, evaluateGet } from '../domain/precondition.ts'
import { runBounded } from '../domain/bounded.ts'
import { noRoom, type Budget } from './context.ts'
import { baseOptions, type BaseList } from './list-page.ts'
import { isWhole, isWrite, touchedIds, type CollectionView, type NumberedOperation } from './simulate.ts'
import type { FailedOutcome, Operation, OperationOutcome, OutcomeOf } from '../domain/operation.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { BulkStorage, ByteSource, RecordPage } from '../domain/record-storage.ts'

/** A read that sets the outcomes of the operations with these indices. */
export interface Read {
  indices: number[]
  run(): Promise<void>
}

/** The reads of a collection that the transaction does not write to; may run concurrently. */
export function readsOf(
  storage: BulkStorage,
  operations: NumberedOperation[],
  outcomes: Map<number, OperationOutcome>,
  budget: Budget,
): Read[] {
  const reads: Read[] = []
  const gets: { index: number; operation: Extract<Operation, { kind: 'get' }> }[] = []
  for (const { index, operation } of operations) {
    if (operation.kind === 'get') gets.push({ index, operation })
    if (operation.kind !== 'list' && operation.kind !== 'count') continue
    const read = () =>
      operation.kind === 'list' ? readList(storage, operation, index, budget) : readCount(storage, operation)
    reads.push({ indices: [index], run: async () => void outcomes.set(index, await read()) })
  }
  const readRecords = async () => {
    const { collection } = gets[0]!.operation
    const ids = [...new Set(gets.map(({ operation }) => operation.id))]
    const keeps = (id: string, length: number) => budget.keep(recordKey(storage, collection, id), length)
    const { records } = await storage.snapshot(collection, ids, keeps)
    for (const { index, operation } of gets) {
      const record = records.get(operation.id) ?? null
      const outcome = isWhole(record)
        ? evaluateGet(operation.precondition, record)
        : ({ outcome: 'failed', error: noRoom() } as const)
      outcomes.set(index, outcome)
    }
  }
  if (gets.length > 0) reads.push({ indices: gets.map(({ index }) => index), run: readRecords })
  return reads
}

/** Names a record among those of all users. */
export function recordKey(storage: BulkStorage, collection: string, id: string): string {
  return JSON.stringify([storage.owner, collection, id])
}

/**
 * Adds the lists and counts to the view of a collection that the transaction writes to; false if the collection has changed since. A
 * refusal affects only its own list.
 */
export async function completeView(
  storage: BulkStorage,
  operations: NumberedOperation[],
  view: CollectionView,
  budget: Budget,
): Promise<boolean> {
  let isCurrent = true
  const precondition = { kind: 'unmodified-since', timestamp: view.timestamp } as const
  const firstWrite = operations.findIndex(({ operation }) => isWrite(operation))
  const touched = touchedIds(operations)
  const tasks = operations.flatMap(({ index, operation }, place) => {
    if (operation.kind !== 'list' && operation.kind !== 'count') return []
    const isAfterWrites = place > firstWrite
    // If no write precedes the list, its precondition is evaluated now, and a failed one saves the read.
    if (!isAfterWrites && evaluateCollection(operation.precondition, view.timestamp)) return []
    return async () => {
      const base = await orRefusal(
        operation.kind === 'list'
          ? readBase(
              storage,
              { ...operation, precondition },
              isAfterWrites ? operations.length : 0,
              index,
              budget,
            )
          : countOthers(storage, operation, touched, view.timestamp),
      )
      const isMoved = base.outcome === 'counted' && base.timestamp !== view.timestamp
      if (base.outcome === 'precondition-failed' || isMoved) isCurrent = false
      else view.lists.set(index, base)
    }
  })
  await runBounded(tasks)
  return isCurrent
}

/** Counts the records that the transaction does not touch, as of `timestamp`. */
async function countOthers(
  storage: BulkStorage,
  { collection, filter }: Extract<Operation, { kind: 'count' }>,
  touched: ReadonlySet<string>,
  timestamp: Timestamp,
): Promise<OutcomeOf['count']> {
  if (filter.ids?.length === 0) return { outcome: 'counted', count: 0, timestamp }
  const keepsId = (id: string) => !touched.has(id) && filter.keepsId?.(id) !== false
  return { outcome: 'counted', ...(await storage.count(collection, { ...filter, keepsId })) }
}

/** Reads a list; if up to `overlaid` writes precede it, as records to merge them in. A later page can't be merged: see `Simulation`. */
async function readBase(
  storage: BulkStorage,
  operation: Extract<Operation, { kind: 'list' }>,
  overlaid: number,
  index: number,
  budget: Budget,
): Promise<BaseList> {
  if (overlaid === 0 || operation.options.position) return await readList(storage, operation, index, budget)
  const options = baseOptions(operation.options, overlaid)
  const list = await readList(storage, { ...operation, options }, index, budget)
  return list.outcome === 'page' ? recordsOf(list.page) : list
}

/** Counts records without reading them. */
async function readCount(
  storage: BulkStorage,
  { collection, filter, precondition }: Extract<Operation, { kind: 'count' }>,
): Promise<OutcomeOf['count']> {
  const counted = await storage.count(collection, filter)
  return evaluateCollection(precondition, counted.timestamp) ?? { outcome: 'counted', ...counted }
}

/** The result, or the refusal as a failed outcome. Throws a refusal of the credentials, which affects everything. */
async function orRefusal<Result>(read: Promise<Result>): Promise<Result | FailedOutcome> {
  try {
    return await read
  } catch (error) {
    if (!isRefusal(error) || error.status === 401) throw error
    return { outcome: 'failed', error }
  }
}

/** Reads a list into memory, within the budget. */
async function readList(
  storage: BulkStorage,
  { collection, options, precondition }: Extract<Operation, { kind: 'list' }>,
  index: number,
  budget: Budget,
): Promise<OutcomeOf['list'] | FailedOutcome> {
  if (budget.isSpent) return { outcome: 'failed', error: noRoom() }
  const outcome = await storage.list(collection, options, precondition)
  if (outcome.outcome !== 'page') return outcome
  const document = await readBytes(outcome.page.document, index, budget)
  if (!document) return { outcome: 'failed', error: noRoom() }
  return { outcome: 'page', page: { ...outcome.page, document } }
}

/** Parses a buffered list, so that written records can be merged in. */
function recordsOf({ document, next }: RecordPage): BaseList {
  return { outcome: 'records', records: readListDocument(document as Uint8Array), next }
}

/** The bytes of a list, reserved for that operation; null if there is no room. */
async function readBytes(
  document: Uint8Array | ByteSource,
  index: number,
  budget: Budget,
): Promise<Uint8Array | null> {
  if (document instanceof Uint8Array) return budget.hold(index, document.byteLength) ? document : null
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      budget.requireTime()
      const piece = await document.read()
      if (piece === null) return joinBytes(chunks)
      chunks.push(piece)
      length += piece.byteLength
      if (budget.hold(index, length)) continue
      budget.hold(index, 0)
      return null
    }
  } finally {
    document.cancel()
  }
}
