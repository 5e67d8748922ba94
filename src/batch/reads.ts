import { isRefusal } from '../domain/errors.ts'
import { joinBytes } from '../domain/bytes.ts'
import { readListDocument } from '../domain/list.ts'
import { evaluateCollection, evaluateGet } from '../domain/precondition.ts'
import { runBounded } from '../domain/bounded.ts'
import { noRoom, type Budget } from './context.ts'
import { baseOptions, type BaseList } from './list-page.ts'
import { isWrite, type CollectionView, type NumberedOperation } from './simulate.ts'
import type { FailedOutcome, Operation, OperationOutcome, OutcomeOf } from '../domain/operation.ts'
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
    if (operation.kind !== 'list') continue
    const run = async () => void outcomes.set(index, await readList(storage, operation, index, budget))
    reads.push({ indices: [index], run })
  }
  const readRecords = async () => {
    const ids = [...new Set(gets.map(({ operation }) => operation.id))]
    const { records } = await storage.snapshot(gets[0]!.operation.collection, ids)
    for (const { index, operation } of gets)
      outcomes.set(index, evaluateGet(operation.precondition, records.get(operation.id) ?? null))
  }
  if (gets.length > 0) reads.push({ indices: gets.map(({ index }) => index), run: readRecords })
  return reads
}

/**
 * Adds the lists to the view of a collection that the transaction writes to; false if the collection has changed since. A refusal affects
 * only its own list.
 */
export async function completeView(
  storage: BulkStorage,
  operations: NumberedOperation[],
  view: CollectionView,
  budget: Budget,
): Promise<boolean> {
  let isWhole = true
  const precondition = { kind: 'unmodified-since', timestamp: view.timestamp } as const
  const firstWrite = operations.findIndex(({ operation }) => isWrite(operation))
  const tasks = operations.flatMap(({ index, operation }, place) => {
    if (operation.kind !== 'list') return []
    const isOverlaid = place > firstWrite
    // If no write precedes the list, its precondition is evaluated now, and a failed one saves the read.
    if (!isOverlaid && evaluateCollection(operation.precondition, view.timestamp)) return []
    const options = isOverlaid ? baseOptions(operation.options, operations.length) : operation.options
    return async () => {
      const list = await orRefusal(readList(storage, { ...operation, options, precondition }, index, budget))
      if (list.outcome === 'precondition-failed') isWhole = false
      else view.lists.set(index, isOverlaid && list.outcome === 'page' ? recordsOf(list.page) : list)
    }
  })
  await runBounded(tasks)
  return isWhole
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
