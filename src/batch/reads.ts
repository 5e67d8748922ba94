import { isRefusal, UpstreamError } from '../domain/errors.ts'
import { readListDocument } from '../domain/list.ts'
import { judgeCollection, judgeGet } from '../domain/precondition.ts'
import { runBounded } from '../domain/bounded.ts'
import { baseOptions, composePage, hasOwnPosition } from './list-page.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type {
  BulkStorage,
  ByteSource,
  HeldMemory,
  ListOptions,
  RecordStorage,
  Snapshot,
} from '../domain/record-storage.ts'
import type { BaseList } from './list-page.ts'
import type { Pace } from './pace.ts'
import type { CollectionView, NumberedOperation } from './simulate.ts'

/** Reads everything that the operations on a collection are judged by, as of the moment of one snapshot. */
export class CollectionReader {
  /** The records that a snapshot must hold: every one that an operation names. */
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
    this.ids = [...new Set(operations.flatMap(({ operation }) => ('id' in operation ? [operation.id] : [])))]
  }

  /** Adds to a snapshot what it does not contain; null when the collection has changed since. */
  async read(snapshot: Snapshot): Promise<CollectionView | null> {
    const view: CollectionView = { ...snapshot, lists: new Map(), count: null }
    this.#budget.giveBack(this.#heldBytes)
    this.#heldBytes = 0
    let isWhole = true
    const tasks = this.#operations.flatMap(({ index, operation }, place) => {
      if (operation.kind !== 'list') return []
      const { options, precondition } = operation
      const isOverlaid = place > this.#firstWrite
      // A list that no write precedes is judged now; if its precondition fails, nothing is read.
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
    const condition = { kind: 'unmodified-since', timestamp: view.timestamp } as const
    const overlaid = isOverlaid ? this.ids.length : null
    const list = { collection: this.#collection, options, precondition: condition }
    const { base, heldBytes } = await readList(this.#storage, list, this.#budget, overlaid)
    this.#heldBytes += heldBytes
    return base.outcome === 'precondition-failed' ? null : base
  }
}

export function isWrite({ kind }: Operation): boolean {
  return kind === 'put' || kind === 'delete'
}

async function countOrRefusal(storage: BulkStorage, collection: string): Promise<number | ServiceError> {
  try {
    return (await storage.count(collection, {})).count
  } catch (error) {
    if (isRefusal(error) && error.status !== 401) return error
    throw error
  }
}

/**
 * The reads of a collection that the transaction does not write to, as tasks that may run concurrently; each reports the
 * outcomes of its operations.
 */
export function readTasks(
  storage: BulkStorage,
  collection: string,
  operations: NumberedOperation[],
  budget: AnswerBudget,
): { indices: number[]; run(): Promise<OperationOutcome[]> }[] {
  const gets = operations.flatMap(({ index, operation }) =>
    operation.kind === 'get' ? [{ index, operation }] : [],
  )
  const areTogether = gets.length > 1
  const others = operations.filter(({ operation }) => !areTogether || operation.kind !== 'get')
  const tasks = others.map(({ index, operation }) => ({
    indices: [index],
    run: async () => [await readOne(storage, operation, budget)],
  }))
  if (!areTogether) return tasks
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
  budget: AnswerBudget,
): Promise<OperationOutcome> {
  switch (operation.kind) {
    case 'get':
      return await storage.get(operation.collection, operation.id, operation.precondition)
    case 'list':
      return await readWholeList(storage, operation, budget)
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
  list: List,
  budget: AnswerBudget,
): Promise<OperationOutcome> {
  const { base } = await readList(storage, list, budget, null)
  if (base.outcome !== 'records') return base
  const { options } = list
  return { outcome: 'page', page: composePage(options, base, new Map(), options.position!.firstTimestamp) }
}

/** How many bytes the answer of one transaction may hold, and how many of lists may be read for it. */
export class AnswerBudget {
  #leftBytes: number
  #unreadBytes: number

  constructor(
    bytes: number,
    private readonly pace: Pace,
    private readonly memory: HeldMemory,
  ) {
    this.#leftBytes = bytes
    // Lists are read again when another writer was first, and a list that turns out too large has been read in part.
    this.#unreadBytes = 4 * bytes
  }

  /** Whether nothing more may be read. */
  get isSpent(): boolean {
    return this.#unreadBytes <= 0
  }

  /** Throws when the request's time for the next piece of a list is over. */
  requireTime(): void {
    if (this.pace.hasTimeToRetry) return
    throw new UpstreamError('timeout', 'Cannot read a list: the time for the request is used up', {
      applied: 'no',
    })
  }

  /** Counts bytes that have been read, and holds them in memory; false when they are too many for this answer. */
  take(bytes: number): boolean {
    this.#unreadBytes -= bytes
    if (bytes > this.#leftBytes) return false
    this.memory.grow(bytes)
    this.#leftBytes -= bytes
    return true
  }

  /** No longer counts bytes that are not shown. The memory of what was read is held until the request ends. */
  giveBack(bytes: number): void {
    this.#leftBytes += bytes
  }
}

type List = Pick<Extract<Operation, { kind: 'list' }>, 'collection' | 'options' | 'precondition'>

/**
 * Reads a list into memory, with the bytes of the budget that it holds: as records, where the page is cut out of it here or up
 * to `overlaid` written records come in between. A definite refusal (below 500, not 401) concerns this list alone.
 */
async function readList(
  storage: RecordStorage,
  { collection, options, precondition }: List,
  budget: AnswerBudget,
  overlaid: number | null,
): Promise<{ base: BaseList; heldBytes: number }> {
  const holdingNothing = (base: BaseList) => ({ base, heldBytes: 0 })
  if (budget.isSpent) return holdingNothing({ outcome: 'too-large' })
  const isCutHere = overlaid !== null || hasOwnPosition(options)
  const asked = isCutHere ? baseOptions(options, overlaid ?? 0) : options
  try {
    const base = await storage.list(collection, asked, precondition)
    if (base.outcome !== 'page') return holdingNothing(base)
    const { page } = base
    const bytes = await readBytes(page.document, budget)
    if (bytes === null) return holdingNothing({ outcome: 'too-large' })
    const heldBytes = bytes.byteLength
    if (!isCutHere) return { base: { outcome: 'page', page: { ...page, document: bytes } }, heldBytes }
    return { base: { outcome: 'records', records: readListDocument(bytes), next: page.next }, heldBytes }
  } catch (error) {
    if (!isRefusal(error) || error.status === 401) throw error
    return holdingNothing({ outcome: 'failed', error })
  }
}

async function readBytes(
  document: Uint8Array | ByteSource,
  budget: AnswerBudget,
): Promise<Uint8Array | null> {
  if (document instanceof Uint8Array) return budget.take(document.byteLength) ? document : null
  const chunks: Uint8Array[] = []
  let length = 0
  try {
    for (;;) {
      budget.requireTime()
      const piece = await document.read()
      if (piece === null) return Buffer.concat(chunks, length)
      if (!budget.take(piece.byteLength)) {
        budget.giveBack(length)
        return null
      }
      chunks.push(piece)
      length += piece.byteLength
    }
  } finally {
    document.cancel()
  }
}
