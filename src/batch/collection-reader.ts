import { isRefusal, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp, type Timestamp } from '../domain/record.ts'
import { rowRemovalMs } from './other-writers.ts'
import { completeView } from './reads.ts'
import { backOff, type TransactionContext } from './transaction-context.ts'
import type { Operation } from '../domain/operation.ts'
import type { BulkStorage, Snapshot } from '../domain/record-storage.ts'
import type { CollectionState } from './collection-state.ts'
import type { CollectionView, NumberedOperation } from './simulate.ts'

// Few: while nothing is visible, giving up is harmless; afterwards, `commitOrUndo` must get its turn to undo.
const maxMovedRounds = 4
/** Retries while another bridge may be removing a row; about 2.5 s in total. */
const maxHiddenRetries = 7

/** Maximum absent ids to check, at one call each. Clients that create many records at once use new ids. */
const maxAbsentIds = 5

/** An id that no record has. */
export const absentId = 'none'
/** Maximum attempts to create a row, in case the storage reports it and does not keep it. */
const maxRowRounds = 4
/** Longer than the first upload of another client takes in a busy database. */
const firstReadDelayMs = 100

/** Reads one collection's state, against which its operations are decided; reads it again after another writer. */
export class CollectionReader {
  readonly #ids: string[]
  /** Identifies the collection among those of all users. */
  readonly #name: string
  /** How often this attempt has read the collection again because of other writers. */
  #rounds = 0

  constructor(
    private readonly storage: BulkStorage,
    private readonly operations: NumberedOperation[],
    private readonly state: CollectionState,
    private readonly context: TransactionContext,
  ) {
    this.#ids = [...new Set(operations.flatMap(({ operation }) => ('id' in operation ? [operation.id] : [])))]
    this.#name = JSON.stringify([storage.owner, this.#collection])
  }

  get #collection(): string {
    return this.operations[0]!.operation.collection
  }

  /** Reads the records that the operations name, and the collection's timestamp. */
  async snapshot(): Promise<Snapshot> {
    return await this.storage.snapshot(this.#collection, this.#ids)
  }

  async read(): Promise<void> {
    const { storage, operations, context, state } = this
    let hiddenRetries = 0
    for (;;) {
      const snapshot = await this.snapshot()
      const view: CollectionView = { ...snapshot, lists: new Map() }
      const isWhole = await completeView(storage, operations, view, context.budget)
      if (!isWhole) await this.#spendRound()
      else if (hiddenRetries < maxHiddenRetries && (await this.#hidesRecords(snapshot))) {
        hiddenRetries += 1
        await context.budget.backOff(hiddenRetries)
      } else return state.restart(view)
    }
  }

  /** Reads again after another writer was first. Throws `UpstreamError` if that happens too often. */
  async readAgain(): Promise<void> {
    await this.#spendRound()
    await this.read()
  }

  /** Notes that only this transaction has changed the collection since it was read. */
  recordOwnChange(timestamp: Timestamp): void {
    this.context.options.otherWriters.recordOwnChange(this.#name, timestamp)
  }

  /**
   * Creates the row of a new collection before its first record, because PostgreSQL has nothing to lock without it: of two concurrent first
   * writes, one would be lost. Deleting a record that does not exist creates the row; later writes are conditional on its timestamp. One at
   * a time per node, because MariaDB answers concurrent attempts with 500. Another client's first write may still be in progress, so
   * operations that depend on the contents are decided after a short wait.
   */
  async createRow(): Promise<void> {
    const { storage, operations, state, context } = this
    const { options, budget } = context
    const dependsOnContents = operations.some(({ operation }) => !isWholePut(operation))
    for (let round = 0, failures = 0; state.since === zeroTimestamp && state.hasChanges; round += 1) {
      if (round === maxRowRounds) {
        const message = 'Cannot create the collection: the storage does not keep it'
        throw new UpstreamError('refused', message, { applied: 'no' })
      }
      budget.requireTime()
      try {
        const makeRow = () => storage.remove(this.#collection, [absentId], zeroTimestamp)
        const outcome = await options.locks.hold([`row ${storage.node}`], budget.leftMs, makeRow)
        if (outcome.outcome === 'committed') {
          state.since = outcome.timestamp
          this.recordOwnChange(outcome.timestamp)
          if (!dependsOnContents) return
        }
      } catch (error) {
        if (isRefusal(error)) throw error
        failures += 1
        await backOff(context, error, failures, true)
      }
      await budget.wait(firstReadDelayMs)
      await this.read()
    }
  }

  /**
   * Whether records that must be absent may be hidden in rows that another bridge is removing. That bridge reveals or removes them within a
   * moment.
   */
  async #hidesRecords(snapshot: Snapshot): Promise<boolean> {
    const { storage, operations, context } = this
    const isSettled = !context.options.otherWriters.mayBeRemoving(this.#name, snapshot)
    const absent = new Set(
      operations.flatMap(({ operation }) =>
        needsAbsence(operation) && !snapshot.records.has(operation.id) ? [operation.id] : [],
      ),
    )
    const isCheap = absent.size > 0 && absent.size <= maxAbsentIds
    if (isSettled || !isCheap || !context.budget.hasTime) return false
    const since = Math.max(0, snapshot.timestamp - rowRemovalMs) as Timestamp
    const hidden = await storage.rewrittenSince(this.#collection, [...absent], since)
    return hidden.length > 0
  }

  async #spendRound(): Promise<void> {
    this.#rounds += 1
    const { budget, options } = this.context
    if (!budget.hasTime || this.#rounds > maxMovedRounds) {
      // The next attempt, if there is one, starts anew.
      this.#rounds = 0
      const message = `Cannot write to "${this.#collection}": other clients keep changing it`
      throw new UpstreamError('refused', message, { applied: 'no' })
    }
    options.observe({ kind: 'moved-round', collections: [this.#collection] })
    await budget.backOff(this.#rounds)
  }
}

/** Whether an operation depends on the absence of a record: it creates one, or writes only some fields. */
function needsAbsence(operation: Operation): operation is Extract<Operation, { kind: 'put' }> {
  if (operation.kind !== 'put') return false
  return operation.precondition.kind === 'absent' || operation.input.payload === undefined
}

/** Whether an operation writes a whole record unconditionally. */
function isWholePut(operation: Operation): boolean {
  if (operation.kind !== 'put') return false
  return operation.precondition.kind === 'none' && operation.input.payload !== undefined
}
