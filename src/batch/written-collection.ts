import {
  errno,
  isRefusal,
  isWithoutEffect,
  rejectedRecord,
  ServiceError,
  UpstreamError,
} from '../domain/errors.ts'
import { absentId, CollectionReader } from './collection-reader.ts'
import { CollectionState, fitsOneBatch } from './collection-state.ts'
import { removeRows } from './expired-rows.ts'
import { evaluateProbe } from './probe.ts'
import { blamesRecords, findRefused } from './refused-records.ts'
import type { NumberedOperation } from './simulate.ts'
import { backOff, type TransactionContext } from './transaction-context.ts'
import { Undo } from './undo.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'

/** Maximum attempts to prevent a lost write from being applied late. */
const maxFences = 2

/** The result of an undo in one collection; `isFinal`: a further attempt can't change it. */
export interface UndoResult {
  left: 'nothing' | 'undone' | 'partial' | 'unknown'
  isFinal: boolean
}

/**
 * One collection that a transaction writes to. Order of calls: `reader.read`, `reader.createRow`, `stage` if needed, `commit`, then
 * `removeDeleted`; `undo` reverts a visible commit.
 *
 * Methods reject with `UpstreamError` if the transaction can't continue; those of `reader` also with `ServiceError`. Refusals of a write
 * become the outcomes of its operations.
 */
export class WrittenCollection {
  readonly state: CollectionState
  readonly collection: string
  readonly reader: CollectionReader
  #stagedBatch: string | null = null
  /** Whether the plan may have been applied, or may still be. */
  #isInDoubt = false
  #fences = 0
  #undo: Undo | null = null

  constructor(
    private readonly storage: BulkStorage,
    operations: NumberedOperation[],
    private readonly context: TransactionContext,
  ) {
    this.collection = operations[0]!.operation.collection
    this.state = new CollectionState(operations)
    this.reader = new CollectionReader(storage, operations, this.state, context)
  }

  /** Whether the storage can stage, as far as known. */
  get canStage(): boolean {
    return this.state.known.limits?.batch !== null
  }

  /** Whether the undo has begun; from then on, the collection is not committed. */
  get isUndoing(): boolean {
    return this.#undo?.hasBegun === true
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
        // After an upload with unknown result, staging starts again, because some storages would mix up the records.
        await (isRefusal(error) ? this.#acceptRefusal(error) : this.#retryLater(error, failures, true))
      }
    }
  }

  /** Makes the changes visible in one step. First checks whether an earlier attempt has done so, if that is unknown. */
  async commit(): Promise<void> {
    let isDoubtful = this.#isInDoubt
    let mustProbe = isDoubtful
    let failure: unknown = null
    for (let failures = 0; ;) {
      if (mustProbe) {
        const verdict = await this.#probeUntilKnown(failure)
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
      mustProbe = false
      try {
        const result = await this.#send()
        if (result.outcome === 'committed') return this.#settle(result.timestamp, result.rejected)
        // If an earlier attempt was applied, our own write makes the condition fail.
        mustProbe = isDoubtful
        if (!mustProbe) await this.#nextRound()
      } catch (error) {
        if (!isWithoutEffect(error)) isDoubtful = this.#isInDoubt = true
        if (isDoubtful && this.context.isMultiCollection) this.context.markVisible()
        mustProbe = isDoubtful
        if (isRefusal(error)) await this.#acceptRefusal(error)
        else failure = error
      }
    }
  }

  /** Removes the rows of records that were deleted by a write. Never rejects: the deletions stand. */
  async removeDeleted(): Promise<void> {
    const { storage, collection, state, context } = this
    const { commit } = state
    if (!commit) return
    if (commit.expiredRows.length > 0) {
      const { left, at } = await removeRows(storage, collection, state, context.budget)
      // Keeps the earlier timestamp if another writer came in between; otherwise the client would never fetch that change.
      if (at !== null) commit.changedAt = at
      if (left.length > 0)
        context.options.observe({ kind: 'unremoved', collections: [collection], ids: left })
    }
    this.reader.recordOwnChange(commit.changedAt)
  }

  /** Makes one attempt to undo what is visible, except where another writer has written since. Never rejects. */
  async undo(): Promise<UndoResult> {
    const { storage, collection, state, context } = this
    if (this.#isInDoubt && !(await this.#resolveDoubt()))
      return { left: 'unknown', isFinal: this.#fences >= maxFences }
    if (!state.commit) return { left: 'nothing', isFinal: true }
    this.#undo ??= new Undo(storage, collection, state, context.budget)
    if (await this.#undo.attempt()) return { left: 'undone', isFinal: true }
    return { left: 'partial', isFinal: false }
  }

  /**
   * Checks whether a write in doubt was applied. If not, changes the collection, so that its condition fails should it arrive late. False
   * if that fails or can't be determined. Skips a single write, which needs no undo.
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

  /** True if everything is staged or written; false if another writer was first. */
  async #stageAll(uploads: RecordWrite[][]): Promise<boolean> {
    const { storage, collection, state } = this
    let batch: string | null = null
    for (const [place, records] of uploads.entries()) {
      const outcome = await storage.stage(collection, records, state.since, batch)
      if (outcome.outcome === 'moved') return false
      if (outcome.outcome === 'committed') {
        this.context.beginCommit()
        const left = uploads.slice(place + 1).flat()
        const refused = new Map(left.map(({ id }) => [id, rejectedRecord(413)] as const))
        this.#settle(outcome.timestamp, new Map([...outcome.rejected, ...refused]), { isRemoval: false })
        return true
      }
      batch = outcome.batch
      state.reject(outcome.rejected)
    }
    this.#stagedBatch = batch
    return true
  }

  /** Whether the change is a single deletion, which leaves no rows. */
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

  /** Whether the storage has forgotten the staged batch; then it is staged again. */
  #forgetsBatch(failure: unknown): boolean {
    const isForgotten = this.#stagedBatch !== null && isOneOf(failure, [400, 404])
    if (isForgotten) this.#stagedBatch = null
    return isForgotten
  }

  async #acceptRefusal(refusal: ServiceError): Promise<void> {
    const { storage, collection, state, context } = this
    if (refusal.status === 401 && context.isMultiCollection) {
      // A rejected identity affects all operations of the user.
      const options = { applied: 'no', status: 401, cause: refusal } as const
      throw new UpstreamError(
        'refused',
        'Cannot continue the batch: the storage no longer accepts the credentials',
        options,
      )
    }
    const { writes, uploads } = state.plan
    if (blamesRecords(refusal) && writes.length > 1) {
      const target = { storage, collection, since: state.since, budget: context.budget }
      const refused = await findRefused(target, uploads)
      this.#stagedBatch = null
      if (refused.size > 0) return state.reject(refused)
    }
    state.update({ failure: refusal })
  }

  /** Waits before the next attempt. A lasting conflict becomes the outcome of the writes. */
  async #retryLater(failure: unknown, failures: number, shouldRetry: boolean): Promise<void> {
    try {
      await backOff(this.context, failure, failures, shouldRetry)
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.state.update({ failure: error })
    }
  }

  #settle(
    at: Timestamp,
    refused: ReadonlyMap<string, ServiceError>,
    { isRemoval = this.#isRemoval, seenAt = at } = {},
  ): void {
    this.state.settle(at, refused, isRemoval, seenAt)
    this.context.markVisible()
    this.#stagedBatch = null
    this.#isInDoubt = false
  }

  /** Probes whether the plan was applied. Throws if that can't be determined. */
  async #probeUntilKnown(failure: unknown): Promise<'applied' | 'moved' | 'unapplied'> {
    const { collection, context } = this
    context.options.observe({ kind: 'probed', collections: [collection] })
    let verdict = await this.#probe()
    // With several collections, `commitOrUndo` decides what is tried next.
    for (let failures = 1; verdict === 'unknown' && !context.isMultiCollection; failures += 1) {
      if (!context.budget.hasTime) break
      await context.budget.backOff(failures)
      verdict = await this.#probe()
    }
    if (verdict === 'unclear' || verdict === 'unknown') {
      const message = `Unknown whether the write to "${collection}" was applied: read before retrying`
      throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
    }
    // After a 500 the database has rolled back; a write that a gateway gave up may still arrive.
    const mayArriveLate = failure === null ? this.#isInDoubt : !isOneOf(failure, [500])
    this.#isInDoubt &&= verdict === 'unapplied' && context.isMultiCollection && mayArriveLate
    return verdict
  }

  /** Probes once. `unclear`: can't be determined any more. `unknown`: the storage could not be read. */
  async #probe(): Promise<'applied' | 'moved' | 'unapplied' | 'unclear' | 'unknown'> {
    let snapshot: Snapshot
    try {
      snapshot = await this.reader.snapshot()
    } catch (error) {
      return isRefusal(error) ? 'unclear' : 'unknown'
    }
    const { plan, known, since } = this.state
    const result = evaluateProbe(plan.writes, known.view.records, since, snapshot)
    if (result.verdict !== 'applied') return result.verdict
    const refused = new Map(result.refused.map((id) => [id, rejectedRecord(400)] as const))
    this.#settle(result.timestamp, refused, { seenAt: snapshot.timestamp })
    return 'applied'
  }

  /** Another writer was first: reads the collection again. */
  async #nextRound(): Promise<void> {
    this.#stagedBatch = null
    this.#isInDoubt = false
    await this.reader.readAgain()
  }
}

function tooMuch(): ServiceError {
  const message = 'Larger than the storage accepts in one batch: write fewer or smaller records'
  return new ServiceError(413, errno.requestTooLarge, message)
}

function isOneOf(failure: unknown, statuses: number[]): boolean {
  return failure instanceof UpstreamError && failure.status !== null && statuses.includes(failure.status)
}
