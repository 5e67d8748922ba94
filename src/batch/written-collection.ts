import { errno, isRefusal, isWithoutEffect, ServiceError, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp } from '../domain/record.ts'
import { CollectionState } from './collection-state.ts'
import { fitsOneBatch } from './plan.ts'
import { CollectionReader } from './reads.ts'
import { removeRows } from './removal.ts'
import { undoChanges } from './undo.ts'
import type { Rejection } from '../domain/operation.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'
import type { Locks } from './locks.ts'
import type { Pace, TransactionEvent } from './pace.ts'
import type { VisibleStep } from './probe.ts'
import type { AnswerBudget } from './reads.ts'
import type { NumberedOperation } from './simulate.ts'

// While nothing is visible, giving up costs nothing.
const maxMovedRounds = 4
const maxRetries = 5
/** After so many answers of 500 the storage may be unable to hold one of the records. */
const errorsToSuspect = 2

// A collection that has never been written to has no record of any id.
const absentId = 'none'

/** What the collections of a transaction share. */
export interface TransactionContext {
  pace: Pace
  budget: AnswerBudget
  locks: Locks
  observe(event: TransactionEvent): void
  /** Whether other collections are changed too, so that giving up may mean undoing. */
  isMultiCollection: boolean
  /** Whether any part of the transaction is visible, so that giving up means undoing. */
  isVisible: boolean
  /** The storage ignored the request to stage and committed at once; from here on an undo may be needed. */
  onUnexpectedCommit(): void
  /** Other outcomes follow from what was read once more. Throws when there is no memory for them and nothing is visible. */
  onDecidedAnew(): void
}

/** The result of undoing a transaction. */
type UndoResult = 'untouched' | 'undone' | 'partial' | 'unknown'

/**
 * One collection that a transaction writes to. The steps, in this order: `read`, `createRow` where it is new, `stage` if
 * wanted, `commit`, then `removeDeleted`; `undo` takes back what `commit` has made visible.
 *
 * Its methods reject with `UpstreamError` when the transaction can't go on, or with `ServiceError` 401 while
 * reading. Definite refusals of a write become the outcomes of the operations concerned.
 */
export class WrittenCollection {
  readonly state: CollectionState
  readonly #operations: NumberedOperation[]
  readonly #reader: CollectionReader
  readonly #context: TransactionContext
  #rounds = 0
  /** Failed attempts since the last successful one, and how many of them the storage answered with 500. */
  #failures = 0
  #storageErrors = 0
  #isCommitting = false
  #stagedBatch: string | null = null
  /** A step of which it is unknown whether it was applied. */
  #doubt: VisibleStep | null = null

  constructor(
    readonly storage: BulkStorage,
    readonly collection: string,
    operations: NumberedOperation[],
    context: TransactionContext,
  ) {
    this.#operations = operations
    this.#reader = new CollectionReader(storage, collection, operations, context.budget)
    this.state = new CollectionState(operations)
    this.#context = context
  }

  /** The places of its operations in the transaction. */
  get indices(): number[] {
    return this.#operations.map(({ index }) => index)
  }

  /** Whether the writes wait at the storage, staged and invisible. */
  get isStaged(): boolean {
    return this.#stagedBatch !== null
  }

  /** Whether the collection was never written to, and is about to be. */
  get needsRow(): boolean {
    return this.state.since === zeroTimestamp && this.state.hasChanges
  }

  /** Whether an operation depends on what is stored, so that it must be judged by a look after the row was made. */
  get isConditional(): boolean {
    return this.#operations.some(({ operation }) => operation.precondition.kind !== 'none')
  }

  /** Reads what the operations are judged by. */
  async read(): Promise<void> {
    for (;;) {
      const view = await this.#reader.read(await this.#snapshotPatiently())
      if (view) return this.state.restart(view)
      await this.#spendRound()
    }
  }

  /**
   * Creates the row of a collection that was never written to, before its first record comes. Without a row PostgreSQL
   * has nothing to lock: two first writes at once would both succeed, and one be lost. Deleting a record that does not
   * exist makes the row; from then on writes are conditional on its timestamp. MariaDB answers 500 when users do this at the same time, so
   * it is done for one at a time of each node. False: another writer was first, or it is not known whether the row was made.
   */
  async createRow(): Promise<boolean> {
    const { locks, pace } = this.#context
    const unlock = await locks.acquire([`row ${this.storage.node}`], pace.leftMs)
    let failure: unknown
    try {
      const outcome = await this.storage.remove(this.collection, [absentId], zeroTimestamp)
      if (outcome.outcome === 'moved') return false
      this.#failures = 0
      this.state.continueFrom(outcome.timestamp)
      return true
    } catch (error) {
      if (isRefusal(error)) {
        this.state.fail(error)
        throw error
      }
      failure = error
    } finally {
      unlock()
    }
    await this.#backOff(failure, true)
    return false
  }

  /** Stages all writes. */
  async stage(): Promise<void> {
    while (this.state.hasChanges && this.#stagedBatch === null) {
      const { writes, uploads } = this.state.plan
      if (!this.state.limits || !fitsOneBatch(writes, this.state.limits)) return this.state.fail(tooMuch())
      try {
        if (!(await this.#stageAll(uploads))) await this.#nextRound()
      } catch (error) {
        if (isRefusal(error)) return this.state.fail(error)
        // A batch whose last upload has an unknown end is not continued: some storages would mix up its records.
        await this.#backOff(error, true, writes)
      }
    }
  }

  /** Makes the changes visible, in one step. */
  async commit(): Promise<void> {
    this.#isCommitting = true
    let isDoubtful = this.#doubt !== null
    for (;;) {
      if (this.state.plan.uploads.length > 1) await this.stage()
      const step = this.#nextStep()
      if (!step) return
      const result = await this.#send(step).catch((failure: unknown) => ({
        outcome: 'broken' as const,
        failure,
      }))
      if (result.outcome === 'committed') return this.#settle(step, result.timestamp, result.rejected)
      const failure = result.outcome === 'broken' ? result.failure : null
      isDoubtful ||= failure !== null && !isWithoutEffect(failure)
      // An attempt before may have been applied, and then the condition fails because of our own write.
      const verdict = isDoubtful ? await this.#probe(step, failure) : failure === null ? 'moved' : 'unapplied'
      if (verdict === 'applied') return
      if (verdict === 'moved' || failure === null) {
        isDoubtful = false
        await this.#nextRound()
      } else if (isRefusal(failure)) await this.#acceptRefusal(failure, step)
      else {
        const records = step.kind === 'write' ? step.records : []
        const known = isDoubtful ? withoutEffect(failure, this.collection) : failure
        await this.#backOff(known, isDoubtful, records)
      }
    }
  }

  /** Removes the rows of the records that were deleted by a write. Never rejects: the deletions stand. */
  async removeDeleted(): Promise<void> {
    const { storage, collection, state } = this
    const ids = state.expiredRows
    if (ids.length === 0) return
    const { isDone, at } = await removeRows(storage, collection, ids, state.since, this.#context.pace)
    if (at !== null) state.settleRemoval(at)
    if (!isDone) this.#context.observe({ kind: 'unremoved', collections: [collection], ids })
  }

  /** Undoes what is visible, except where another writer has written over it. */
  async undo(): Promise<UndoResult> {
    // One last look at a step of which it is unknown whether it was applied.
    const isClear = !this.#doubt || (await this.#probeOnce(this.#doubt)) !== 'unknown'
    if (!this.state.isVisible) return isClear ? 'untouched' : 'unknown'
    const isUndone = await undoChanges(this.storage, this.collection, this.state, this.#context.pace)
    if (!isUndone) return 'partial'
    return isClear ? 'undone' : 'unknown'
  }

  /** True when all is staged, or written at once; false when another writer was first. */
  async #stageAll(uploads: RecordWrite[][]): Promise<boolean> {
    const { storage, collection } = this
    let batch: string | null = null
    for (const records of uploads) {
      const outcome = await storage.stage(collection, records, this.state.since, batch)
      if (outcome.outcome === 'moved') return false
      if (outcome.outcome === 'committed') {
        this.#context.onUnexpectedCommit()
        this.#settle({ kind: 'write', records, batch: null }, outcome.timestamp, outcome.rejected)
        return true
      }
      batch = outcome.batch
      if (outcome.rejected.size > 0) this.state.reject(outcome.rejected)
    }
    this.#stagedBatch = batch
    return true
  }

  #nextStep(): VisibleStep | null {
    const { hasChanges, plan } = this.state
    if (!hasChanges) return null
    const { writes, deletes } = plan
    if (this.#stagedBatch !== null) return { kind: 'write', records: writes, batch: this.#stagedBatch }
    const isOneDeletion = deletes.length === writes.length && this.storage.removesAtOnce(deletes)
    return isOneDeletion ? { kind: 'remove', ids: deletes } : { kind: 'write', records: writes, batch: null }
  }

  async #send(step: VisibleStep): Promise<CommitOutcome> {
    const { storage, collection } = this
    const { since } = this.state
    if (step.kind === 'remove') return await storage.remove(collection, step.ids, since)
    if (step.batch === null) return await storage.write(collection, step.records, since)
    return await storage.commitStaged(collection, step.batch, since)
  }

  async #acceptRefusal(refusal: ServiceError, step: VisibleStep): Promise<void> {
    const isUnknownBatch = refusal.status === 400 || refusal.status === 404
    if (step.kind === 'write' && step.batch !== null && isUnknownBatch) {
      // The client is not at fault: a batch that the storage has forgotten is staged again.
      const message = 'Cannot commit: the storage no longer knows the staged batch'
      await this.#backOff(new UpstreamError('refused', message, { applied: 'no', cause: refusal }), true)
      this.#stagedBatch = null
      return
    }
    if (refusal.status === 401 && this.#context.isMultiCollection) {
      // A refused identity concerns all operations of the user, not only those that remained.
      const options = { applied: 'no', status: 401, cause: refusal } as const
      throw new UpstreamError('refused', 'Cannot go on: the storage no longer lets the user in', options)
    }
    this.state.fail(refusal)
  }

  /**
   * Waits before the next attempt, longer each time; throws the failure when no attempt is left. A single write that has
   * certainly had no effect is repeated by the client, unless it has only collided with another one.
   */
  async #backOff(failure: unknown, isDoubtful: boolean, records: RecordWrite[] = []): Promise<void> {
    const { isVisible, isMultiCollection, pace } = this.#context
    this.#failures += 1
    const isConflict = failure instanceof UpstreamError && failure.failure === 'conflict'
    // With Retry-After the storage has said when; don't retry before.
    const isPutOff = !isConflict && failure instanceof UpstreamError && failure.retryAfterSeconds !== null
    const isWorthIt = isConflict || (!isPutOff && (isMultiCollection || isDoubtful))
    const mayRetry = isVisible || (isWorthIt && this.#failures <= maxRetries)
    if (!mayRetry || !this.#hasTime()) {
      if (!isConflict || failure.status !== 409) throw failure
      return this.state.fail(lastingConflict(failure))
    }
    if (isStorageError(failure) && records.length > 0) {
      this.#storageErrors += 1
      if (this.#storageErrors === errorsToSuspect) await this.#rejectUnstorable(records)
    }
    await pace.backOff(this.#failures)
  }

  /**
   * Finds the records that the storage fails at, though it takes others: a database may be unable to hold a payload. Staging
   * shows that without a trace. They are refused, because no later attempt would succeed.
   */
  async #rejectUnstorable(records: RecordWrite[]): Promise<void> {
    try {
      const { batch } = this.state.limits ?? (await this.storage.limits())
      if (!batch || !(await this.#canStage([]))) return
      const unstorable = await this.#unstorableAmong(records)
      if (unstorable.length === 0 || !(await this.#canStage([]))) return
      this.state.reject(new Map(unstorable.map((id) => [id, 'unstorable'])))
      this.#failures = 0
    } catch {
      // Whatever else fails says nothing of the records.
    }
  }

  async #unstorableAmong(records: RecordWrite[]): Promise<string[]> {
    if (await this.#canStage(records)) return []
    const [first, ...others] = records
    if (others.length === 0) return (await this.#canStage(records)) ? [] : [first!.id]
    const half = records.length >> 1
    const found = await this.#unstorableAmong(records.slice(0, half))
    return [...found, ...(await this.#unstorableAmong(records.slice(half)))]
  }

  async #canStage(records: RecordWrite[]): Promise<boolean> {
    try {
      await this.storage.stage(this.collection, records, this.state.since, null)
      return true
    } catch (error) {
      if (isStorageError(error)) return false
      throw error
    }
  }

  #settle(step: VisibleStep, at: Timestamp, refused: Map<string, Rejection>, seenAt?: Timestamp): void {
    this.state.settle(step, at, refused, seenAt)
    this.#context.isVisible = true
    this.#failures = 0
    this.#stagedBatch = null
  }

  /** Reads whether a step was applied. Throws when that can't be told. */
  async #probe(step: VisibleStep, failure: unknown): Promise<'applied' | 'moved' | 'unapplied'> {
    this.#context.observe({ kind: 'probed', collection: this.collection })
    const verdict = await this.#probeOnce(step)
    if (verdict !== 'unknown') return verdict
    this.#doubt = step
    const message = `Cannot tell whether the write to "${this.collection}" was carried out: outcome unknown, read before repeating`
    throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
  }

  async #probeOnce(step: VisibleStep): Promise<'applied' | 'moved' | 'unapplied' | 'unknown'> {
    const snapshot = await this.#snapshotPatiently().catch(() => null)
    if (!snapshot) return 'unknown'
    const judged = this.state.judge(step, snapshot)
    if (judged.verdict === 'unclear') return 'unknown'
    if (judged.verdict !== 'applied') return judged.verdict
    const refused = new Map(judged.refused.map((id) => [id, 'invalid'] as const))
    this.#settle(step, judged.timestamp, refused, snapshot.timestamp)
    return 'applied'
  }

  /** One attempt, or, when a commit depends on it, as many as there is time for. */
  async #snapshotPatiently(): Promise<Snapshot> {
    const { pace } = this.#context
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.storage.snapshot(this.collection, this.#reader.ids)
      } catch (error) {
        if (isRefusal(error) || !this.#isCommitting || !pace.hasTimeToRetry) throw error
        await pace.backOff(failures)
      }
    }
  }

  /** Another writer was first: reads the collection again. */
  async #nextRound(): Promise<void> {
    await this.#spendRound()
    this.#stagedBatch = null
    await this.read()
    this.#context.onDecidedAnew()
  }

  async #spendRound(): Promise<void> {
    this.#rounds += 1
    const mayGoOn = this.#context.isVisible || this.#rounds <= maxMovedRounds
    if (!mayGoOn || !this.#hasTime()) {
      const message = `Cannot write to "${this.collection}": others keep writing to it`
      throw new UpstreamError('refused', message, { applied: 'no' })
    }
    this.#context.observe({ kind: 'moved-round', collection: this.collection })
    await this.#context.pace.pause()
  }

  #hasTime(): boolean {
    if (!this.#isCommitting) this.#context.pace.requireTime()
    return this.#context.pace.hasTimeToRetry
  }
}

function tooMuch(): ServiceError {
  const message = 'The storage does not take so much at once: write less in one batch'
  return new ServiceError(413, errno.requestTooLarge, message)
}

function lastingConflict({ retryAfterSeconds }: UpstreamError): ServiceError {
  const message = 'Write conflict: other clients keep changing this collection'
  return new ServiceError(
    409,
    errno.conflict,
    message,
    retryAfterSeconds === null ? {} : { retryAfterSeconds },
  )
}

function isStorageError(failure: unknown): boolean {
  return failure instanceof UpstreamError && failure.status === 500
}

/** The failure of a write that a snapshot has shown to be without effect. */
function withoutEffect(failure: unknown, collection: string): unknown {
  if (!(failure instanceof UpstreamError)) return failure
  const message = `Cannot write to "${collection}": the storage broke and wrote nothing`
  return new UpstreamError(failure.failure, message, { ...failure, applied: 'no', cause: failure })
}
