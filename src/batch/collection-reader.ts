import { isRefusal, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp, type Timestamp } from '../domain/record.ts'
import { rowRemovalMs } from './other-writers.ts'
import { completeView } from './reads.ts'
import { backOff, type TransactionContext } from './transaction-context.ts'
import type { Operation } from '../domain/operation.ts'
import type { BulkStorage, Snapshot } from '../domain/record-storage.ts'
import type { CollectionState } from './collection-state.ts'
import type { CollectionView, NumberedOperation } from './simulate.ts'

// While nothing is visible, giving up costs nothing.
const maxMovedRounds = 4
/** How often a row is waited for that another bridge is about to remove: some 2.5 s in all. */
const maxHiddenRetries = 7

/** Each id that has to be absent costs a call then. Clients that create many records at once make up new ids for them. */
const maxAbsentIds = 5

/** An id that no record has. */
export const absentId = 'none'
/** A storage that says it has made a row, and has not, is asked no more often. */
const maxRowRounds = 4
/** Longer than a first upload of another client, of 100 records, takes inside a database that is busy. */
const firstReadDelayMs = 100

/** Reads what the operations on one collection are judged by, so that they can be decided, and decided anew when others write. */
export class CollectionReader {
  readonly #ids: string[]
  /** Names the collection among those of all users. */
  readonly #name: string
  /** How often the collection was read again because of other writers. */
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

  /** The records that the operations name, and the collection's timestamp. */
  async snapshot(): Promise<Snapshot> {
    return await this.storage.snapshot(this.#collection, this.#ids)
  }

  async read(): Promise<void> {
    const { storage, operations, context, state } = this
    const needsMore = operations.some(({ operation: { kind } }) => kind === 'list' || kind === 'count')
    let hiddenRetries = 0
    for (;;) {
      const snapshot = await this.snapshot()
      const view: CollectionView = { ...snapshot, lists: new Map(), count: null }
      const isWhole = !needsMore || (await completeView(storage, operations, view, context.budget))
      if (!isWhole) await this.#spendRound()
      else if (hiddenRetries < maxHiddenRetries && (await this.#hidesRecords(snapshot))) {
        hiddenRetries += 1
        await context.budget.backOff(hiddenRetries)
      } else return state.restart(view)
    }
  }

  /** Another writer was first. Throws `UpstreamError` when that happens too often. */
  async readAgain(): Promise<void> {
    await this.#spendRound()
    await this.read()
  }

  /** The transaction has changed the collection, and nobody else has since it was read. */
  recordOwnChange(timestamp: Timestamp): void {
    this.context.otherWriters.recordOwnChange(this.#name, timestamp)
  }

  /**
   * Creates the row of a collection that was never written to, and is about to be, before its first record comes. Without a row
   * PostgreSQL has nothing to lock: two first writes at once would both succeed, and one be lost. Deleting a record that does not
   * exist makes the row; from then on writes are conditional on its timestamp. MariaDB answers 500 when users do this at the same
   * time, so it is done for one at a time of each node. Another client's first write may still be in a transaction of the database
   * then, so what depends on the collection's contents is judged by a look a moment later.
   */
  async createRow(): Promise<void> {
    const { storage, operations, state, context } = this
    const { locks, budget } = context
    const dependsOnContents = operations.some(({ operation }) => !isWholePut(operation))
    for (let round = 0, failures = 0; state.since === zeroTimestamp && state.hasChanges; round += 1) {
      if (round === maxRowRounds) {
        const message = 'Cannot write to a new collection: the storage does not keep it'
        throw new UpstreamError('refused', message, { applied: 'no' })
      }
      budget.requireTime()
      try {
        const makeRow = () => storage.remove(this.#collection, [absentId], zeroTimestamp)
        const outcome = await locks.hold([`row ${storage.node}`], budget.leftMs, makeRow)
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
   * Whether records that the snapshot does not show, and that an operation needs to be absent, may be in rows that another bridge is
   * removing. It reveals what clients have written there, or removes the rows, within a moment.
   */
  async #hidesRecords(snapshot: Snapshot): Promise<boolean> {
    const { storage, operations, context } = this
    const isSettled = !context.otherWriters.mayBeRemoving(this.#name, snapshot)
    const absent = new Set(
      operations.flatMap(({ operation }) =>
        needsAbsence(operation) && !snapshot.records.has(operation.id) ? [operation.id] : [],
      ),
    )
    const isWorthIt = absent.size > 0 && absent.size <= maxAbsentIds
    if (isSettled || !isWorthIt || !context.budget.hasTime) return false
    const since = Math.max(0, snapshot.timestamp - rowRemovalMs) as Timestamp
    const hidden = await storage.rewrittenSince(this.#collection, [...absent], since)
    return hidden.length > 0
  }

  async #spendRound(): Promise<void> {
    this.#rounds += 1
    const { budget, mayBeVisible, observe } = this.context
    if (!budget.hasTime || (!mayBeVisible && this.#rounds > maxMovedRounds)) {
      const message = `Cannot write to "${this.#collection}": others keep writing to it`
      throw new UpstreamError('refused', message, { applied: 'no' })
    }
    observe({ kind: 'moved-round', collection: this.#collection })
    await budget.backOff(this.#rounds)
  }
}

/** Whether an operation creates a record, or writes a part of one, and needs to know what is there. */
function needsAbsence(operation: Operation): operation is Extract<Operation, { kind: 'put' }> {
  if (operation.kind !== 'put') return false
  return operation.precondition.kind === 'absent' || operation.input.payload === undefined
}

/** Whether an operation writes a whole record, whatever is there. */
function isWholePut(operation: Operation): boolean {
  if (operation.kind !== 'put') return false
  return operation.precondition.kind === 'none' && operation.input.payload !== undefined
}
