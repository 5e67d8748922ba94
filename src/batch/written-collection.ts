import { errno, isRefusal, isWithoutEffect, ServiceError, UpstreamError } from '../domain/errors.ts'
import { absentId, CollectionReader } from './collection-reader.ts'
import { CollectionState, fitsOneBatch } from './collection-state.ts'
import { removeRows } from './expired-rows.ts'
import { evaluateProbe } from './probe.ts'
import { findRefused, toRejection } from './refused-records.ts'
import { isWrite, type NumberedOperation } from './simulate.ts'
import { backOff, type TransactionContext } from './transaction-context.ts'
import { Undo } from './undo.ts'
import type { Rejection } from '../domain/operation.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'

/** How often a write that is not there is tried to be kept from coming late. */
const maxFences = 2

/** What an undo has left in one collection, and whether a further attempt could change that. */
export interface UndoResult {
  left: 'nothing' | 'undone' | 'partial' | 'unknown'
  isFinal: boolean
}

/**
 * One collection that a transaction writes to. The steps, in this order: `read`, `createRow`, `stage` if wanted, `commit`,
 * then `removeDeleted`; `undo` takes back what `commit` has made visible.
 *
 * Its methods reject with `UpstreamError` when the transaction can't go on; `read` and `createRow` with `ServiceError` when they are
 * refused. Definite refusals of a write become the outcomes of the operations concerned.
 */
export class WrittenCollection {
  readonly state: CollectionState
  readonly collection: string
  readonly #reader: CollectionReader
  #stagedBatch: string | null = null
  /** Whether the plan may have been applied, or may still be. */
  #isInDoubt = false
  #fences = 0
  #undo: Undo | null = null

  constructor(
    private readonly storage: BulkStorage,
    private readonly operations: NumberedOperation[],
    private readonly context: TransactionContext,
  ) {
    this.collection = operations[0]!.operation.collection
    this.state = new CollectionState(operations)
    this.#reader = new CollectionReader(storage, operations, this.state, context)
  }

  /** Whether the storage stages, as far as is known. */
  get canStage(): boolean {
    return this.state.known.limits?.batch !== null
  }

  /** Whether the undo has begun, after which the collection is not committed any more. */
  get isUndoing(): boolean {
    return this.#undo?.hasBegun === true
  }

  /** Reads what the operations are judged by. */
  async read(): Promise<void> {
    await this.#reader.read()
  }

  /** Makes a collection exist that was never written to; see `CollectionReader`. */
  async createRow(): Promise<void> {
    await this.#reader.createRow()
  }

  /** Stages all writes. */
  async stage(): Promise<void> {
    for (let failures = 0; this.state.hasChanges && this.#stagedBatch === null;) {
      const { plan, known } = this.state
      if (!fitsOneBatch(plan.writes, known.limits)) return this.state.update({ failure: tooMuch() })
      try {
        if (!(await this.#stageAll(plan.uploads))) await this.#nextRound()
      } catch (error) {
        failures += 1
        // A batch whose last upload has an unknown end is not continued: some storages would mix up its records.
        await (isRefusal(error) ? this.#acceptRefusal(error) : this.#retryLater(error, failures, true))
      }
    }
  }

  /** Makes the changes visible, in one step. Looks first whether an attempt before has done so, where that is not known. */
  async commit(): Promise<void> {
    let isDoubtful = this.#isInDoubt
    let mustLook = isDoubtful
    let failure: unknown = null
    for (let failures = 0; ;) {
      if (mustLook) {
        const verdict = await this.#look(failure)
        if (verdict === 'applied') return
        if (verdict === 'moved') {
          isDoubtful = false
          failure = null
          await this.#nextRound()
        }
      }
      if (failure !== null) {
        failures += 1
        await this.#retryLater(failure, failures, isDoubtful || this.#forgetsBatch(failure))
      }
      if (this.state.plan.uploads.length > 1) await this.stage()
      if (!this.state.hasChanges) return
      failure = null
      mustLook = false
      try {
        const result = await this.#send()
        if (result.outcome === 'committed') return this.#settle(result.timestamp, result.rejected)
        // An attempt before may have been applied, and then the condition fails because of our own write.
        mustLook = isDoubtful
        if (!mustLook) await this.#nextRound()
      } catch (error) {
        if (!isWithoutEffect(error)) isDoubtful = this.#isInDoubt = true
        if (isDoubtful && this.context.isMultiCollection) this.context.markVisible()
        mustLook = isDoubtful
        if (isRefusal(error)) await this.#acceptRefusal(error)
        else failure = error
      }
    }
  }

  /** Removes the rows of the records that were deleted by a write. Never rejects: the deletions stand. */
  async removeDeleted(): Promise<void> {
    const { storage, collection, state, context } = this
    const { commit } = state
    if (!commit) return
    if (commit.expiredRows.length > 0) {
      const { left, at } = await removeRows(storage, collection, state, context.budget)
      // A client that is told a moment after another writer's change would never fetch that change.
      if (at !== null) commit.changedAt = at
      if (left.length > 0) context.observe({ kind: 'unremoved', collections: [collection], ids: left })
    }
    this.#reader.recordOwnChange(commit.changedAt)
  }

  /** One attempt to take back what is visible, except where another writer has written over it. Never rejects. */
  async undo(): Promise<UndoResult> {
    const { storage, collection, state, context } = this
    if (this.#isInDoubt && !(await this.#resolveDoubt()))
      return { left: 'unknown', isFinal: !context.isMultiCollection || this.#fences >= maxFences }
    if (!state.commit) return { left: 'nothing', isFinal: true }
    this.#undo ??= new Undo(storage, collection, state, context.budget)
    if (await this.#undo.attempt()) return { left: 'undone', isFinal: true }
    return { left: 'partial', isFinal: this.#undo.isRefused }
  }

  /**
   * Looks at a step of which it is unknown whether it was applied, or will be. Where it is not seen, the collection is changed, so that its
   * condition fails should it still come. False when that can't be done, or nobody can tell. A single write has nothing beside it to
   * undo, so it is left as it is.
   */
  async #resolveDoubt(): Promise<boolean> {
    const { storage, collection, state } = this
    const verdict = this.context.isMultiCollection ? await this.#probe() : 'unclear'
    if (verdict === 'unknown') return false
    this.#fences += 1
    if (verdict === 'unclear') this.#fences = maxFences
    else if (verdict === 'unapplied') {
      const fence = await storage.remove(collection, [absentId], state.since).catch(() => null)
      this.#isInDoubt = fence?.outcome !== 'committed'
    } else this.#isInDoubt = false
    return !this.#isInDoubt
  }

  /** True when all is staged, or written at once; false when another writer was first. */
  async #stageAll(uploads: RecordWrite[][]): Promise<boolean> {
    const { storage, collection, state } = this
    let batch: string | null = null
    for (const [place, records] of uploads.entries()) {
      const outcome = await storage.stage(collection, records, state.since, batch)
      if (outcome.outcome === 'moved') return false
      if (outcome.outcome === 'committed') {
        this.context.beginCommit()
        const left = uploads.slice(place + 1).flat()
        const refused = new Map(left.map(({ id }) => [id, 'too-large'] as const))
        this.#settle(outcome.timestamp, new Map([...outcome.rejected, ...refused]), { isRemoval: false })
        return true
      }
      batch = outcome.batch
      state.reject(outcome.rejected)
    }
    this.#stagedBatch = batch
    return true
  }

  /** Whether the visible step is one deletion, which leaves no rows. */
  get #isRemoval(): boolean {
    const { writes, deletes } = this.state.plan
    const areDeletions = this.#stagedBatch === null && deletes.length === writes.length
    return areDeletions && this.storage.deletesInOneRequest(deletes)
  }

  async #send(): Promise<CommitOutcome> {
    const { storage, collection, state } = this
    const { plan, since } = state
    if (this.#isRemoval) return await storage.remove(collection, plan.deletes, since)
    if (this.#stagedBatch === null) return await storage.write(collection, plan.writes, since)
    return await storage.commitStaged(collection, this.#stagedBatch, since)
  }

  /** Whether the storage has forgotten the staged batch. The client is not at fault, so it is uploaded again. */
  #forgetsBatch(failure: unknown): boolean {
    const isForgotten = this.#stagedBatch !== null && isOneOf(failure, [400, 404])
    if (isForgotten) this.#stagedBatch = null
    return isForgotten
  }

  async #acceptRefusal(refusal: ServiceError): Promise<void> {
    const { storage, collection, state, context } = this
    if (refusal.status === 401 && context.isMultiCollection) {
      // A refused identity concerns all operations of the user, not only those that remained.
      const options = { applied: 'no', status: 401, cause: refusal } as const
      throw new UpstreamError('refused', 'Cannot go on: the storage no longer lets the user in', options)
    }
    const { writes, uploads } = state.plan
    if (toRejection(refusal) !== null && writes.length > 1) {
      const target = { storage, collection, since: state.since, budget: context.budget }
      const refused = await findRefused(target, uploads)
      this.#stagedBatch = null
      if (refused.size > 0) return state.reject(refused)
    }
    state.update({ failure: refusal })
  }

  /** Waits before the next attempt. A conflict that lasts is the outcome of the operations that write. */
  async #retryLater(failure: unknown, failures: number, isWorthIt: boolean): Promise<void> {
    try {
      await backOff(this.context, failure, failures, isWorthIt)
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.state.update({ failure: error })
    }
  }

  #settle(
    at: Timestamp,
    refused: ReadonlyMap<string, Rejection>,
    { isRemoval = this.#isRemoval, seenAt = at } = {},
  ): void {
    this.state.settle(at, refused, isRemoval, seenAt)
    this.context.markVisible()
    this.#stagedBatch = null
    this.#isInDoubt = false
  }

  /** Reads whether the plan was applied. Throws when that can't be told. */
  async #look(failure: unknown): Promise<'applied' | 'moved' | 'unapplied'> {
    const { collection, context } = this
    context.observe({ kind: 'probed', collection })
    let verdict = await this.#probe()
    // Of several collections, whoever commits them together decides what is tried next.
    for (let failures = 1; verdict === 'unknown' && !context.isMultiCollection; failures += 1) {
      if (!context.budget.hasTime) break
      await context.budget.backOff(failures)
      verdict = await this.#probe()
    }
    if (verdict === 'unclear' && this.#canDecideAgain(failure)) verdict = 'moved'
    if (verdict === 'unclear' || verdict === 'unknown') {
      const message = `Cannot tell whether the write to "${collection}" was carried out: outcome unknown, read before repeating`
      throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
    }
    // After a 500 of the storage its database has rolled back; a write that a gateway has given up may come late.
    const mayStillCome = failure === null ? this.#isInDoubt : !isOneOf(failure, [500])
    this.#isInDoubt &&= verdict === 'unapplied' && context.isMultiCollection && mayStillCome
    return verdict
  }

  /**
   * Whether it may be decided anew what a look can't tell. After a 412 to a deletion whose records were all written since, either somebody
   * else was first, or our deletion was, and the runtime repeated it. The client gets a 412 then, and nothing newer is deleted, if each
   * write is for a version of the snapshot or an older one. A write without such a condition would delete what came after our deletion.
   */
  #canDecideAgain(failure: unknown): boolean {
    if (!isOneOf(failure, [412])) return false
    const writes = this.operations.flatMap(({ operation }) => (isWrite(operation) ? [operation] : []))
    return writes.every(
      ({ precondition }) =>
        precondition.kind === 'unmodified-since' && precondition.timestamp <= this.state.since,
    )
  }

  /** One look. `unclear`: nobody can tell any more. `unknown`: the storage did not show it. */
  async #probe(): Promise<'applied' | 'moved' | 'unapplied' | 'unclear' | 'unknown'> {
    let snapshot: Snapshot
    try {
      snapshot = await this.#reader.snapshot()
    } catch (error) {
      return isRefusal(error) ? 'unclear' : 'unknown'
    }
    const { plan, known, since } = this.state
    const judged = evaluateProbe(plan.writes, known.view.records, since, snapshot)
    if (judged.verdict !== 'applied') return judged.verdict
    const refused = new Map(judged.refused.map((id) => [id, 'invalid'] as const))
    this.#settle(judged.timestamp, refused, { seenAt: snapshot.timestamp })
    return 'applied'
  }

  /** Another writer was first: reads the collection again. */
  async #nextRound(): Promise<void> {
    this.#stagedBatch = null
    this.#isInDoubt = false
    await this.#reader.readAgain()
  }
}

function tooMuch(): ServiceError {
  const message = 'The storage does not take so much at once: write less in one batch'
  return new ServiceError(413, errno.requestTooLarge, message)
}

function isOneOf(failure: unknown, statuses: number[]): boolean {
  return failure instanceof UpstreamError && failure.status !== null && statuses.includes(failure.status)
}
