import { judgeGet } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import { readSkip } from '../domain/list.ts'
import { baseOptions, composePage } from './list-page.ts'
import { readList } from './read-list.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { AnswerBudget } from './read-list.ts'
import type { NumberedOperation } from './simulate.ts'

/** What the reads of a transaction share. */
export interface ReadSurroundings {
  budget: AnswerBudget
}

/**
 * The reads of a collection that the transaction does not write to, as tasks that may run at the same time; each
 * hands over the outcomes of the operations that it has carried out.
 */
export function readTasks(
  storage: BulkStorage,
  collection: string,
  operations: NumberedOperation[],
  around: ReadSurroundings,
): { indices: number[]; run(): Promise<OperationOutcome[]> }[] {
  const gets = operations.flatMap(({ index, operation }) =>
    operation.kind === 'get' ? [{ index, operation }] : [],
  )
  const others = operations.filter(({ operation }) => operation.kind !== 'get')
  const tasks = others.map(({ index, operation }) => ({
    indices: [index],
    run: async () => [await readOne(storage, operation, around)],
  }))
  if (gets.length === 1) {
    const { index, operation } = gets[0]!
    const run = async () => [await storage.get(collection, operation.id, operation.precondition)]
    return [...tasks, { indices: [index], run }]
  }
  if (gets.length === 0) return tasks
  const run = async () => {
    const ids = [...new Set(gets.map(({ operation }) => operation.id))]
    const { records } = await storage.snapshot(collection, ids)
    return gets.map(({ operation }) => judgeGet(operation.precondition, records.get(operation.id) ?? null))
  }
  return [...tasks, { indices: gets.map(({ index }) => index), run }]
}

async function readOne(
  storage: BulkStorage,
  operation: NumberedOperation['operation'],
  around: ReadSurroundings,
): Promise<OperationOutcome> {
  switch (operation.kind) {
    case 'list':
      return await readWholeList(storage, operation, around.budget)
    case 'count': {
      const { collection, precondition } = operation
      const { count, timestamp } = await storage.count(collection, {})
      return judgeCollection(precondition, timestamp) ?? { outcome: 'counted', count, timestamp }
    }
    default:
      throw new TypeError(`A ${operation.kind} is no read of a collection`)
  }
}

async function readWholeList(
  storage: BulkStorage,
  { collection, options, precondition }: Extract<Operation, { kind: 'list' }>,
  budget: AnswerBudget,
): Promise<OperationOutcome> {
  const isLocal = options.position !== undefined && readSkip(options.position) !== null
  const asked = isLocal ? baseOptions(options, 0) : options
  const read = await readList(storage, collection, asked, precondition, budget, isLocal ? 'records' : 'page')
  if (!('list' in read)) return read
  const { list } = read
  switch (list.kind) {
    case 'page':
      return { outcome: 'page', page: list.page }
    case 'records':
      return {
        outcome: 'page',
        page: composePage(options, list, new Map(), options.position!.firstTimestamp),
      }
    case 'too-large':
      return { outcome: 'too-large' }
    case 'failed':
      return { outcome: 'failed', error: list.error }
    default:
      return list satisfies never
  }
}
