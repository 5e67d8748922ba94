import { judgeCollection } from '../domain/precondition.ts'
import { readSkip } from '../domain/list.ts'
import { baseOptions } from './list-page.ts'
import { readList } from './read-list.ts'
import { isRefusal } from './refusal.ts'
import { runBounded } from './run-bounded.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { BulkStorage, ListOptions, Snapshot } from '../domain/record-storage.ts'
import type { BaseList } from './list-page.ts'
import type { AnswerBudget } from './read-list.ts'
import type { CollectionView, NumberedOperation } from './simulate.ts'

/** Reads what the operations on a collection are judged by, all of it as of the moment of a snapshot. */
export class CollectionReader {
  /** Every record that the operations name and that their outcomes depend on: what a snapshot has to hold. */
  readonly ids: string[]
  readonly #storage: BulkStorage
  readonly #collection: string
  readonly #operations: NumberedOperation[]
  readonly #budget: AnswerBudget
  readonly #firstWrite: number
  #heldBytes = 0

  constructor(
    storage: BulkStorage,
    collection: string,
    operations: NumberedOperation[],
    budget: AnswerBudget,
  ) {
    this.#storage = storage
    this.#collection = collection
    this.#operations = operations
    this.#budget = budget
    this.#firstWrite = operations.findIndex(({ operation }) => isWrite(operation))
    this.ids = [...new Set(operations.flatMap(({ operation }, place) => this.#idsOf(operation, place)))]
  }

  /** Adds to a snapshot what it does not tell; null when the collection has changed since. */
  async read(snapshot: Snapshot): Promise<CollectionView | null> {
    const view: CollectionView = { ...snapshot, lists: new Map(), count: null }
    this.#budget.giveBack(this.#heldBytes)
    this.#heldBytes = 0
    let isWhole = true
    const tasks = this.#operations.flatMap(({ index, operation }, place) => {
      if (operation.kind !== 'list') return []
      const { options, precondition } = operation
      const isOverlaid = place > this.#firstWrite
      if (isOverlaid && isListedById(options)) {
        view.lists.set(index, listFromSnapshot(options.ids!, view))
        return []
      }
      // A list that no write comes before is judged now; what is not shown is not read.
      if (!isOverlaid && judgeCollection(precondition, view.timestamp)) return []
      return async () => {
        const list = await this.#readList(options, isOverlaid, view)
        if (list) view.lists.set(index, list)
        else isWhole = false
      }
    })
    if (this.#operations.some(({ operation }) => operation.kind === 'count')) {
      tasks.push(async () => {
        view.count = await countOrRefusal(this.#storage, this.#collection)
      })
    }
    await runBounded(tasks)
    return isWhole ? view : null
  }

  async #readList(options: ListOptions, isOverlaid: boolean, view: CollectionView): Promise<BaseList | null> {
    const hasOwnPosition = options.position !== undefined && readSkip(options.position) !== null
    const isLocal = isOverlaid || hasOwnPosition
    const asked = isLocal ? baseOptions(options, this.ids.length) : options
    const condition = { kind: 'unmodified-since', timestamp: view.timestamp } as const
    const form = isLocal ? 'records' : 'page'
    const read = await readList(this.#storage, this.#collection, asked, condition, this.#budget, form)
    if (!('list' in read)) return null
    this.#heldBytes += read.heldBytes
    return read.list
  }

  #idsOf(operation: NumberedOperation['operation'], place: number): string[] {
    if ('id' in operation) return [operation.id]
    const isFromSnapshot =
      operation.kind === 'list' && place > this.#firstWrite && isListedById(operation.options)
    return isFromSnapshot ? operation.options.ids! : []
  }
}

function isWrite(operation: NumberedOperation['operation']): boolean {
  return operation.kind === 'put' || operation.kind === 'delete'
}

/** Whether a list that follows a write can be made of the snapshot alone. */
function isListedById({ ids, position }: ListOptions): boolean {
  return ids !== undefined && (!position || readSkip(position) !== null)
}

function listFromSnapshot(ids: string[], view: CollectionView): BaseList {
  const records = ids.flatMap((id) => view.records.get(id) ?? [])
  return { kind: 'records', records, next: null }
}

async function countOrRefusal(storage: BulkStorage, collection: string): Promise<number | ServiceError> {
  try {
    return (await storage.count(collection, {})).count
  } catch (error) {
    if (isRefusal(error) && error.status !== 401) return error
    throw error
  }
}
