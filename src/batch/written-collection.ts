import {
  errno,
  isRefusal,
  isWithoutEffect,
  rejectedRecord,
  ServiceError,
  UpstreamError,
} from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import { CollectionChanges, fitsOneBatch } from './collection-changes.ts'
import { waitToRetry, type TransactionContext } from './context.ts'
import { isUnanswered, judge, type Doubt, type Verdict } from './doubt.ts'
import { KnownCollection } from './known-collection.ts'
import { Undo } from './undo.ts'
import type { BulkStorage, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { NumberedOperation } from './simulate.ts'

/** The phases of a commit, in order. The uploads of all collections are visible before anything is deleted. */
export type Phase = 'upload' | 'deletion'

/** The result of an undo in one collection; `isFinal`: a further attempt can't change it. */
export interface UndoResult {
  left: 'nothing' | 'undone' | 'partial' | 'unknown'
  isFinal: boolean
}

/**
 * One collection that a transaction writes to. Order of calls: `known.read`, `known.createRow`, `stage` if needed, `commit` of each phase;
 * `undo` reverts what is visible.
 *
 * Methods reject with `UpstreamError` if the transaction can't continue; those of `known` also with `ServiceError`. Refusals of a write
 * become the outcomes of its operations.
 */
export class WrittenCollection {
  readonly known: KnownCollection
  readonly changes: CollectionChanges
  readonly collection: string
  #stagedBatch: string | null = null
  #doubt: Doubt | null = null
  #fences = 0
  #undo: Undo | null = null
  #isUndone = false

  constructor(
    private readonly storage: BulkStorage,
    operations: NumberedOperation[],
    private readonly context: TransactionContext,
    needed: ReadonlySet<string>,
  ) {
    this.known = new KnownCollection(storage, operations, context, needed)
    this.collection = this.known.collection
    this.changes = new CollectionChanges(operations, this.known, (ids) => storage.splitDeletion(ids))
  }

  /** Whether the storage can stage, as far as known. */
  get canStage(): boolean {
    return this.known.facts.limits?.batch !== null
  }

  /** Whether the undo has begun; from then on, the collection is not committed. */
  get isUndoing(): boolean {
    return this.#undo?.hasBegun === true
  }

  /** Whether a part is visible, and not undone. */
  get isVisible(): boolean {
    return this.changes.visible !== null && !this.#isUndone
  }

  /** Whether a part may be visible, so that the others are completed. A timed-out write that was then not visible does not count. */
  get mayBeVisible(): boolean {
    if (this.changes.visible !== null) return true
    return this.#doubt !== null && !isUnanswered(this.#doubt)
  }

  /** Whether changes of that phase remain. */
  isOpen(phase: Phase): boolean {
    return phase === 'upload' ? this.changes.needsUpload : this.changes.remainingDeletes.length > 0
  }

  /** Reads the payloads that must be shown and were left out, which a failed condition reveals. */
  async complete(): Promise<void> {
    const { known, changes } = this
    for (let { lacking } = changes; lacking.size > 0; { lacking } = changes) {
      known.need(lacking)
      const newer = await known.snapshot([...lacking])
      const found = [...lacking].filter((id) => newer.records.has(id))
      if (newer.timestamp === known.since || changes.visible !== null) known.replace(newer, found)
      else await this.#nextRound()
    }
  }

  /** Stages all records to write. */
  async stage(): Promise<void> {
    const { known, changes } = this
    for (let failures = 0; changes.needsUpload && this.#stagedBatch === null;) {
      const { writes, uploads } = changes.plan
      if (!fitsOneBatch(writes, known.facts.limits)) return known.fail(tooMuch())
      try {
        if (!(await this.#stageAll(uploads))) await this.#nextRound()
      } catch (error) {
        failures += 1
        // After an upload with unknown result, staging starts again, because some storages would mix up the records.
        if (isRefusal(error)) this.#acceptRefusal(error, 'upload')
        else await this.#retryLater(error, failures, true)
      }
    }
  }

  /** Makes a phase visible. First checks whether an earlier attempt has done so, if that is unknown. */
  async commit(phase: Phase): Promise<void> {
    let mustLook = this.#doubt !== null
    let failure: unknown = null
    for (let failures = 0; ;) {
      if (mustLook) {
        const verdict = await this.#lookUntilKnown(failure)
        // The write that timed out may still arrive; while nothing is visible, giving up is better than waiting for it.
        if (verdict === 'unapplied' && isUnanswered(this.#doubt) && !this.context.isVisible)
          throw this.#doubt.failure
        if (verdict === 'moved') await this.#nextRound()
        if (verdict === 'unapplied' && isRefusal(failure)) this.#acceptRefusal(failure, phase)
        if (verdict !== 'unapplied' || isRefusal(failure)) failure = null
      }
      if (failure !== null) {
        failures += 1
        await this.#retryLater(failure, failures, this.#doubt !== null || this.#forgetsBatch(failure))
      }
      if (phase === 'upload' && this.changes.plan.uploads.length > 1) await this.stage()
      const mustUploadFirst = phase === 'deletion' && this.isOpen('upload')
      if (!this.isOpen(phase) || mustUploadFirst || !this.context.accepts()) return
      failure = null
      mustLook = false
      const deletes =
        phase === 'upload' ? null : this.storage.splitDeletion(this.changes.remainingDeletes)[0]!
      try {
        const isWritten = await (deletes === null ? this.#upload() : this.#delete(deletes))
        // If an earlier attempt was applied, our own write makes the condition fail.
        mustLook = !isWritten && this.#doubt !== null
        if (mustLook) failure = new UpstreamError('refused', 'The condition failed', untrue)
        else if (!isWritten) await this.#nextRound()
      } catch (error) {
        if (!isWithoutEffect(error)) {
          // After a 500 the database has rolled back; a write that a gateway gave up may still arrive.
          const mayArriveLate = this.#doubt?.mayArriveLate === true || !isOneOf(error, [500])
          this.#doubt = { deletes, failure: error, isUnapplied: false, mayArriveLate }
          if (this.context.hasSeveralSteps) this.context.markVisible()
        }
        mustLook = this.#doubt !== null
        // With an earlier write in doubt, a refusal only counts if a look shows that nothing was written.
        if (isRefusal(error) && !mustLook) this.#acceptRefusal(error, phase)
        else failure = error
      }
    }
  }

  /** Whether everything is visible. */
  get isComplete(): boolean {
    return !this.#needsResolution && !this.changes.hasChanges
  }

  /**
   * Before an undo, checks whether a write in doubt was applied. If not, changes the collection, so that its condition fails should it
   * arrive late. Skips a single write, which needs no undo. Never rejects. `isTorn`: a step is visible, so this is tried until time is up.
   */
  async resolveDoubt(isTorn: boolean): Promise<void> {
    if (!this.#needsResolution) return
    const { storage, collection, known, context } = this
    const verdict = context.hasSeveralSteps ? await this.#look() : 'unclear'
    if (verdict === 'unknown') return
    if (!isTorn) this.#fences += 1
    if (verdict === 'unclear') this.#fences = retries.fence.times
    else if (verdict === 'unapplied') {
      const fence = await storage
        .remove(collection, [context.options.absentId], known.since)
        .catch(() => null)
      if (fence?.outcome === 'committed') this.#doubt = null
    } else this.#doubt = null
  }

  /** Whether a deletion is in doubt. Until that is resolved, nothing is undone, or it could be applied without its uploads. */
  get isDeletionInDoubt(): boolean {
    return this.#needsResolution && this.#doubt!.deletes !== null
  }

  /**
   * Makes one attempt to undo what is visible, except where another writer has written since. Only after `resolveDoubt`. If not `mayUndo`,
   * only says what is left. Never rejects.
   */
  async undo(mayUndo: boolean): Promise<UndoResult> {
    const { storage, known, changes } = this
    if (this.#needsResolution) return { left: 'unknown', isFinal: this.#fences >= retries.fence.times }
    if (!changes.visible) return { left: 'nothing', isFinal: true }
    if (!mayUndo) return { left: 'partial', isFinal: false }
    this.#undo ??= new Undo(storage, known, changes.visible)
    this.#isUndone = await this.#undo.attempt()
    if (this.#isUndone) return { left: 'undone', isFinal: true }
    return { left: 'partial', isFinal: false }
  }

  /** Whether a write in doubt may have been applied, or, if that needs an undo, may still be. */
  get #needsResolution(): boolean {
    if (this.#doubt === null) return false
    const { isUnapplied, mayArriveLate } = this.#doubt
    return !isUnapplied || (mayArriveLate && this.context.hasSeveralSteps)
  }

  /** True if everything is staged or written; false if another writer was first. */
  async #stageAll(uploads: RecordWrite[][]): Promise<boolean> {
    const { storage, collection, known } = this
    let batch: string | null = null
    for (const [place, records] of uploads.entries()) {
      const outcome = await storage.stage(collection, records, known.since, batch)
      if (outcome.outcome === 'moved') return false
      if (outcome.outcome === 'committed') {
        this.context.beginCommit()
        const left = uploads.slice(place + 1).flat()
        const refused = new Map(left.map(({ id }) => [id, rejectedRecord(413)] as const))
        this.changes.recordUpload(outcome.timestamp, new Map([...outcome.rejected, ...refused]))
        this.#settle()
        return true
      }
      batch = outcome.batch
      if (outcome.rejected.size > 0) this.#rejectInDoubt()
      known.reject(outcome.rejected)
    }
    this.#stagedBatch = batch
    return true
  }

  /** Makes the records visible in one step; false if another writer was first. */
  async #upload(): Promise<boolean> {
    const { storage, collection, known, changes } = this
    const outcome =
      this.#stagedBatch === null
        ? await storage.write(collection, changes.plan.writes, known.since)
        : await storage.commitStaged(collection, this.#stagedBatch, known.since)
    if (outcome.outcome === 'moved') return false
    changes.recordUpload(outcome.timestamp, outcome.rejected)
    this.#settle()
    return true
  }

  /** Deletes these records in one step; false if another writer was first. */
  async #delete(ids: string[]): Promise<boolean> {
    const { storage, collection, known, changes } = this
    const outcome = await storage.remove(collection, ids, known.since)
    if (outcome.outcome === 'moved') return false
    changes.recordDeletion(ids, outcome.timestamp, outcome.isAlone)
    this.#settle()
    return true
  }

  /** Whether the storage has forgotten the staged batch; then it is staged again. */
  #forgetsBatch(failure: unknown): boolean {
    const isForgotten = this.#stagedBatch !== null && isOneOf(failure, [400, 404])
    if (isForgotten) this.#stagedBatch = null
    return isForgotten
  }

  /** The refusal of an upload is that of all writes to the collection; the refusal of a deletion leaves what is visible. */
  #acceptRefusal(refusal: ServiceError, phase: Phase): void {
    const { known, changes, context } = this
    this.#rejectInDoubt()
    if (refusal.status === 401 && context.hasSeveralSteps) {
      // A rejected identity affects all operations of the user.
      const options = { applied: 'no', status: 401, cause: refusal } as const
      throw new UpstreamError(
        'refused',
        'Cannot continue the batch: the storage no longer accepts the credentials',
        options,
      )
    }
    if (phase === 'upload') known.fail(refusal)
    else known.reject(new Map(changes.remainingDeletes.map((id) => [id, refusal])))
  }

  /** Waits before the next attempt. A lasting conflict becomes the outcome of the writes. */
  async #retryLater(failure: unknown, failures: number, shouldRetry: boolean): Promise<void> {
    try {
      await waitToRetry(this.context, failure, failures, shouldRetry)
    } catch (error) {
      if (!isRefusal(error)) throw error
      this.#rejectInDoubt()
      this.known.fail(error)
    }
  }

  /** Throws if an earlier write may still be applied: then no record of it can be said to be refused. */
  #rejectInDoubt(): void {
    if (this.#doubt?.mayArriveLate) throw this.#doubt.failure
  }

  /** A step is visible. */
  #settle(): void {
    this.context.markVisible()
    this.#stagedBatch = null
    this.#doubt = null
  }

  /** Looks whether the write in doubt was applied. Throws if that can't be determined. */
  async #lookUntilKnown(failure: unknown): Promise<'applied' | 'moved' | 'unapplied'> {
    const { collection, context } = this
    context.options.observe({ kind: 'probed', collections: [collection] })
    let verdict = await this.#look()
    // With several steps, `commitOrUndo` decides what is tried next.
    for (let failures = 1; verdict === 'unknown' && !context.hasSeveralSteps; failures += 1) {
      if (!context.budget.hasTime) break
      await context.budget.pause(failures)
      verdict = await this.#look()
    }
    if (verdict === 'unclear' || verdict === 'unknown') {
      const message = `Unknown whether the write to "${collection}" was applied: read before retrying`
      throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
    }
    return verdict
  }

  /** Looks once. `unknown`: the storage could not be read. */
  async #look(): Promise<Verdict | 'unknown'> {
    const { known, changes } = this
    const written = new Map(changes.plan.writes.map(({ id, payload = '' }) => [id, payload.length]))
    const keeps = (id: string, length: number) =>
      written.has(id) ? written.get(id) === length : known.keeps(id, length)
    let snapshot: Snapshot
    try {
      snapshot = await known.snapshot(undefined, keeps)
    } catch (error) {
      return isRefusal(error) ? 'unclear' : 'unknown'
    }
    const verdict = judge(this.#doubt!, snapshot, known, changes)
    if (verdict === 'applied') this.#settle()
    return verdict
  }

  /** Another writer was first: reads again. What is visible stays, and only the remaining deletions are decided again. */
  async #nextRound(): Promise<void> {
    const { known, changes } = this
    this.#stagedBatch = null
    this.#doubt = null
    await known.startRound()
    if (changes.visible === null) {
      await known.read()
      return await this.complete()
    }
    changes.review(await known.snapshot(changes.remainingDeletes))
    // What is visible is completed, whether a record that is only shown can be read or not.
    await this.complete().catch((error: unknown) => {
      if (!(error instanceof UpstreamError)) throw error
    })
  }
}

/** The condition of a write failed, and a look shows that it holds. */
const untrue = { status: 412, applied: 'no' } as const

function tooMuch(): ServiceError {
  const message = 'Larger than the storage accepts in one batch: write fewer or smaller records'
  return new ServiceError(413, errno.requestTooLarge, message)
}

function isOneOf(failure: unknown, statuses: number[]): boolean {
  return failure instanceof UpstreamError && failure.status !== null && statuses.includes(failure.status)
}
