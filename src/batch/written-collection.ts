import { isRefusal, ServiceError, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { CollectionState } from './collection-state.ts'
import { fitsOneBatch } from './plan.ts'
import { CollectionReader } from './reads.ts'
import { undoChanges } from './undo.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { Pace, TransactionEvent } from './pace.ts'
import type { VisibleStep as Step } from './probe.ts'
import type { AnswerBudget } from './reads.ts'
import type { CollectionView, NumberedOperation } from './simulate.ts'

// While nothing is visible, giving up costs nothing.
const maxMovedRounds = 4
const maxRetries = 2

// A collection that has never been written to has no record of any id.
const absentId = 'none'

/** What the collections of a transaction share. */
export interface TransactionContext {
  pace: Pace
  budget: AnswerBudget
  observe(event: TransactionEvent): void
  /** Whether the transaction has writes for one collection only. */
  writesOneCollection: boolean
  /** Whether other collections are changed too, so that giving up may mean undoing. */
  isMultiCollection: boolean
  /** Whether any part of the transaction is visible, so that giving up means undoing. */
  isVisible: boolean
  /** The storage ignored the request to stage and committed at once; from here on an undo may be needed. */
  onUnexpectedCommit(): void
}

/** The result of undoing a transaction. */
type UndoResult = 'untouched' | 'undone' | 'partial' | 'unknown'

/**
 * One collection that a transaction writes to. The steps, in this order: `read`, then `stage` if wanted, then
 * `commit`; `undo` takes back what `commit` has made visible.
 *
 * Its methods reject with `UpstreamError` when the transaction can't go on, or with `ServiceError` 401 while
 * reading. Definite refusals of a write become the outcomes of the operations concerned.
 */
export class WrittenCollection {
  readonly #operations: NumberedOperation[]
  readonly #reader: CollectionReader
  readonly #context: TransactionContext
  readonly state: CollectionState
  #rounds = 0
  /** Failed attempts since the last successful one. */
  #failures = 0
  #isCommitting = false
  #wasNew = false
  #hasRemoved = false
  #stagedBatch: string | null = null
  /** A step of which it is unknown whether it was applied. */
  #doubt: Step | null = null

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

  /** Whether the puts wait at the storage, staged and invisible. */
  get isStaged(): boolean {
    return this.#stagedBatch !== null
  }

  /** Reads what the operations are judged by. */
  async read(): Promise<void> {
    this.state.restart(await this.#readView())
  }

  /**
   * Creates the row of a collection that was never written to, before its first record comes. Without a row PostgreSQL
   * has nothing to lock: two first writes at once would both succeed, and one be lost. On MariaDB one of them fails (500)
   * and can be repeated. Deleting a record that does not exist makes the row; from then on writes are conditional on its
   * timestamp.
   */
  async create(): Promise<void> {
    const { pace, writesOneCollection } = this.#context
    while (this.state.since === zeroTimestamp && this.state.hasChanges) {
      pace.requireTime()
      const outcome = await this.#createRow()
      const isOurs = outcome?.outcome === 'committed'
      this.#wasNew = isOurs
      // Another writer, past this bridge, may have been first. Conditional operations need a second look then; a batch
      // over several collections has no calls left for it.
      if (isOurs && !(writesOneCollection && this.#isConditional))
        return this.state.goOnFrom(outcome.timestamp)
      this.state.restart(await this.#readView())
    }
  }

  /** Null when it is not known whether the row was made. */
  async #createRow(): Promise<CommitOutcome | null> {
    try {
      return await this.storage.remove(this.collection, [absentId], zeroTimestamp)
    } catch (error) {
      if (isRefusal(error)) throw error
      await this.#backOff(error)
      return null
    }
  }

  get #isConditional(): boolean {
    return this.#operations.some(({ operation }) => operation.precondition.kind !== 'none')
  }

  /** Stages all puts where the storage can stage them. */
  async stage(): Promise<void> {
    for (;;) {
      const { puts, uploads } = this.state.plan
      const canStage = this.state.limits !== null && fitsOneBatch(puts, this.state.limits)
      if (puts.length === 0 || this.#stagedBatch !== null || !canStage) return
      try {
        if (await this.#stageAll(uploads)) return
        await this.#nextRound()
      } catch (error) {
        if (isRefusal(error)) {
          this.state.fail(error)
          return
        }
        // A batch whose last upload has an unknown end is not continued: some storages would mix up its records.
        const mayHaveWorked = error instanceof UpstreamError && error.applied === 'unknown'
        if (!mayHaveWorked && !this.#context.isVisible) throw error
        await this.#backOff(error)
      }
    }
  }

  /** Makes the changes visible: the puts, or, in the end, everything. */
  async commit(through: 'puts' | 'deletes'): Promise<void> {
    this.#isCommitting = true
    for (;;) {
      if (this.#stagedBatch === null && this.state.plan.uploads.length > 1) await this.stage()
      const step = this.#nextStep(through)
      if (!step) return
      try {
        if (!(await this.#execute(step))) await this.#nextRound()
      } catch (error) {
        if (!isRefusal(error)) throw error
        if (error.status === 401 && (this.#context.isMultiCollection || this.state.isVisible)) {
          // A refused identity concerns all operations of the user, not only those that remained.
          const options = { applied: 'no', status: 401, cause: error } as const
          throw new UpstreamError('refused', 'Cannot go on: the storage no longer lets the user in', options)
        }
        this.state.fail(error)
      }
    }
  }

  /**
   * Reads the records that were created without a sortindex: the storage still has the invisible row of an expired
   * record, and keeps its sortindex. Not done after deletes, which have used the calls that there are for a collection.
   */
  async readCreated(): Promise<void> {
    const ids = this.#wasNew || this.#hasRemoved ? [] : this.state.createdWithoutSortindex
    if (ids.length === 0) return
    // The write stands even if this read fails; then the answer shows what the client sent.
    const snapshot = await this.storage.snapshot(this.collection, ids).catch(() => null)
    if (snapshot) this.state.noteCreated(snapshot)
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

  async #readView(): Promise<CollectionView> {
    for (;;) {
      const view = await this.#reader.read(await this.#snapshotPatiently())
      if (view) return view
      await this.#spendRound()
    }
  }

  /** True when all is staged, or written at once; false when another writer was first. */
  async #stageAll(uploads: RecordWrite[][]): Promise<boolean> {
    const { storage, collection } = this
    let batch: string | undefined
    for (const records of uploads) {
      const outcome = await storage.stage(collection, records, this.state.since, batch)
      if (outcome.outcome === 'moved') return false
      if (outcome.outcome === 'committed') {
        this.#context.onUnexpectedCommit()
        this.state.applyLimits({ ...this.state.limits!, batch: null })
        this.#settle({ kind: 'write', records }, outcome.timestamp, outcome.rejected)
        return true
      }
      batch = outcome.batch
      if (outcome.rejected.size > 0) this.state.reject(outcome.rejected)
    }
    this.#stagedBatch = batch ?? null
    return true
  }

  #nextStep(through: 'puts' | 'deletes'): Step | null {
    const { resets, puts, uploads, deletes } = this.state.plan
    if (resets.size > 0) return { kind: 'remove', ids: [...resets.keys()] }
    if (puts.length > 0 && this.#stagedBatch !== null) {
      return { kind: 'write', records: puts, batch: this.#stagedBatch }
    }
    if (puts.length > 0) return { kind: 'write', records: uploads[0]! }
    if (through === 'deletes' && deletes.length > 0) return { kind: 'remove', ids: deletes }
    return null
  }

  /**
   * Applies a step once, whatever happens to the answers; false when another writer was first. A repetition can't write
   * twice: it has the same condition as the attempt before it.
   */
  async #execute(step: Step): Promise<boolean> {
    let isDoubtful = false
    for (;;) {
      const result = await this.#send(step).catch((failure: unknown) => ({
        outcome: 'broken' as const,
        failure,
      }))
      if (result.outcome === 'committed') {
        this.#settle(step, result.timestamp, result.rejected)
        return true
      }
      const failure = result.outcome === 'broken' ? result.failure : null
      isDoubtful ||= failure !== null && !isCertainlyWithoutEffect(failure)
      if (isDoubtful) {
        // The attempt before may have been applied, and then the condition fails because of our own write.
        const verdict = await this.#probe(step, failure)
        if (verdict === 'applied') return true
        if (verdict === 'moved' || failure === null) return false
      } else if (failure === null) return false
      const isStaged = step.kind === 'write' && step.batch !== undefined
      if (isStaged && isUnknownBatch(failure)) {
        // The client is not at fault: a batch that the storage has forgotten is staged again.
        const message = 'Cannot commit: the storage no longer knows the staged batch'
        await this.#backOff(new UpstreamError('refused', message, { applied: 'no', cause: failure }))
        this.#stagedBatch = null
        return true
      }
      const known = isDoubtful ? withoutEffect(failure, this.collection) : failure
      const isWorthWaiting = isDoubtful || this.#context.isVisible || this.#context.isMultiCollection
      if (isRefusal(failure) || !isWorthWaiting) throw known
      await this.#backOff(known)
    }
  }

  /** Waits before the next attempt; throws the failure when no attempt is left. */
  async #backOff(failure: unknown): Promise<void> {
    this.#failures += 1
    const mayTryAgain = this.#context.isVisible || this.#failures <= maxRetries
    if (!mayTryAgain || !this.#hasTime()) throw failure
    await this.#context.pace.backOff(this.#failures)
  }

  async #send(step: Step): Promise<CommitOutcome> {
    const { storage, collection } = this
    const { since } = this.state
    if (step.kind === 'remove') return await storage.remove(collection, step.ids, since)
    if (step.batch === undefined) return await storage.write(collection, step.records, since)
    return await storage.commitStaged(collection, step.batch, since)
  }

  #settle(step: Step, at: Timestamp, refused: Map<string, 'invalid' | 'too-large'>): void {
    this.state.settle(step, at, refused)
    this.#context.isVisible = true
    this.#failures = 0
    if (step.kind === 'write') this.#stagedBatch = null
    else this.#hasRemoved = true
  }

  /** Reads whether a step was applied. Throws when that can't be told. */
  async #probe(step: Step, failure: unknown): Promise<'applied' | 'moved' | 'unapplied'> {
    this.#context.observe({ kind: 'probed', collection: this.collection })
    const verdict = await this.#probeOnce(step)
    if (verdict !== 'unknown') return verdict
    this.#doubt = step
    const message = `Cannot tell whether the write to "${this.collection}" was carried out: outcome unknown, read before repeating`
    throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
  }

  async #probeOnce(step: Step): Promise<'applied' | 'moved' | 'unapplied' | 'unknown'> {
    const snapshot = await this.#snapshotPatiently().catch(() => null)
    if (!snapshot) return 'unknown'
    const judged = this.state.judge(step, snapshot)
    if (judged.verdict === 'unclear') return 'unknown'
    if (judged.verdict !== 'applied') return judged.verdict
    const refused = new Map(judged.refused.map((id) => [id, 'invalid'] as const))
    this.#settle(step, judged.timestamp, refused)
    this.state.refresh(snapshot)
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

  /** Another writer was first: reads the unsettled part of the collection again. */
  async #nextRound(): Promise<void> {
    await this.#spendRound()
    this.#stagedBatch = null
    if (!this.state.isVisible) {
      this.state.restart(await this.#readView())
      return
    }
    this.state.refresh(await this.#snapshotPatiently())
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

function isCertainlyWithoutEffect(failure: unknown): boolean {
  return failure instanceof ServiceError || (failure instanceof UpstreamError && failure.applied === 'no')
}

/** The failure of a write that a snapshot has shown to be without effect. */
function withoutEffect(failure: unknown, collection: string): unknown {
  if (!(failure instanceof UpstreamError)) return failure
  const message = `Cannot write to "${collection}": the storage broke and wrote nothing`
  return new UpstreamError(failure.failure, message, { ...failure, applied: 'no', cause: failure })
}

function isUnknownBatch(failure: unknown): failure is ServiceError {
  return failure instanceof ServiceError && (failure.status === 400 || failure.status === 404)
}
