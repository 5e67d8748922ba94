import { errno, isRefusal, isWithoutEffect, ServiceError, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp, type Timestamp } from '../domain/record.ts'
import { CollectionState, fitsOneBatch } from './collection-state.ts'
import { judgeProbe } from './probe.ts'
import { completeView } from './reads.ts'
import { removeRows } from './removal.ts'
import { isWrite, type CollectionView, type NumberedOperation } from './simulate.ts'
import { undoChanges } from './undo.ts'
import type { Rejection } from '../domain/operation.ts'
import type { BulkStorage, CommitOutcome, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { Budget } from './budget.ts'
import type { Locks } from '../domain/bounded.ts'

// While nothing is visible, giving up costs nothing.
const maxMovedRounds = 4
const maxRetries = 5
/** After so many failures the storage may be unable to hold one of the records. */
const failuresToSuspect = 2

// A collection that has never been written to has no record of any id.
const absentId = 'none'
/** A storage that says it has made a row, and has not, is asked no more often. */
const maxRowRounds = 4
/** Longer than a first upload of another client, of 100 records, takes inside a database that is busy. */
const firstLookMs = 100

/** What a transaction reports to logs and metrics: no contents, no owners; ids only of records that wait to be removed. */
export type TransactionEvent =
  /** Nothing had to be written. */
  | { kind: 'read-only' }
  /** All is written, and visible. */
  | { kind: 'committed'; collections: number; records: number }
  /** Another writer changed the collection first; it is read and decided again. */
  | { kind: 'moved-round'; collection: string }
  /** The answer to a write was lost; a snapshot is read to see whether it was applied. */
  | { kind: 'probed'; collection: string }
  /** A part was visible, and has been taken back. */
  | { kind: 'undone'; collections: string[] }
  /** A part is visible and could not be taken back. */
  | { kind: 'partial'; collections: string[] }
  /** It is unknown whether the writes to these collections were applied. */
  | { kind: 'unknown'; collections: string[] }
  /** The rows of these deleted records could not be removed: what another client writes there is not seen. */
  | { kind: 'unremoved'; collections: string[]; ids: string[] }

/** What the collections of a transaction share. */
export interface TransactionContext {
  readonly budget: Budget
  readonly locks: Locks
  observe(event: TransactionEvent): void
  /** Whether other collections are changed too, so that giving up may mean undoing. */
  isMultiCollection: boolean
  /** Whether any part of the transaction is visible, so that giving up means undoing. */
  isVisible: boolean
  /** Whether the commit has begun, which goes on for as long as there is time. */
  isCommitting: boolean
  /** From here on an undo may be needed. Also called when a storage ignores the request to stage, and commits at once. */
  beginCommit(): void
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
  readonly #ids: string[]
  #rounds = 0
  /** Failed attempts since the last successful one. */
  #failures = 0
  #stagedBatch: string | null = null
  /** Whether it is unknown that the plan was applied. */
  #isInDoubt = false

  constructor(
    private readonly storage: BulkStorage,
    private readonly operations: NumberedOperation[],
    private readonly context: TransactionContext,
  ) {
    this.collection = operations[0]!.operation.collection
    this.#ids = [...new Set(operations.flatMap(({ operation }) => ('id' in operation ? [operation.id] : [])))]
    this.state = new CollectionState(operations)
  }

  /** Whether the storage stages, as far as is known. */
  get canStage(): boolean {
    return this.state.known.limits?.batch !== null
  }

  /** Reads what the operations are judged by. */
  async read(): Promise<void> {
    const needsMore = this.operations.some(({ operation: { kind } }) => kind === 'list' || kind === 'count')
    for (;;) {
      const view: CollectionView = { ...(await this.#snapshot()), lists: new Map(), count: null }
      const { storage, operations, context } = this
      const isWhole = !needsMore || (await completeView(storage, operations, view, context.budget))
      if (isWhole) return this.state.restart(view)
      await this.#spendRound()
    }
  }

  /**
   * Creates the row of a collection that was never written to, and is about to be, before its first record comes. Without a row
   * PostgreSQL has nothing to lock: two first writes at once would both succeed, and one be lost. Deleting a record that does not
   * exist makes the row; from then on writes are conditional on its timestamp. MariaDB answers 500 when users do this at the same
   * time, so it is done for one at a time of each node. Another client's first write may still be in a transaction of the database
   * then, so what is conditional is judged by a look a moment later.
   */
  async createRow(): Promise<void> {
    const { storage, collection, operations, state } = this
    const { locks, budget } = this.context
    const isConditional = operations.some(({ operation }) => operation.precondition.kind !== 'none')
    for (let round = 0; state.since === zeroTimestamp && state.hasChanges; round += 1) {
      if (round === maxRowRounds) {
        const message = 'Cannot write to a new collection: the storage does not keep it'
        throw new UpstreamError('refused', message, { applied: 'no' })
      }
      budget.requireTime()
      try {
        const makeRow = () => storage.remove(collection, [absentId], zeroTimestamp)
        const outcome = await locks.hold([`row ${storage.node}`], budget.leftMs, makeRow)
        if (outcome.outcome === 'committed') {
          this.#failures = 0
          state.since = outcome.timestamp
          if (!isConditional) return
        }
      } catch (error) {
        if (isRefusal(error)) throw error
        await this.#backOff(error, true)
      }
      await budget.wait(firstLookMs)
      await this.read()
    }
  }

  /** Stages all writes. */
  async stage(): Promise<void> {
    while (this.state.hasChanges && this.#stagedBatch === null) {
      const { plan, known } = this.state
      if (!fitsOneBatch(plan.writes, known.limits)) return this.state.learn({ failure: tooMuch() })
      try {
        if (!(await this.#stageAll(plan.uploads))) await this.#nextRound()
      } catch (error) {
        // A batch whose last upload has an unknown end is not continued: some storages would mix up its records.
        await (isRefusal(error) ? this.#acceptRefusal(error) : this.#backOff(error, true, plan.uploads))
      }
    }
  }

  /** Makes the changes visible, in one step. */
  async commit(): Promise<void> {
    let isDoubtful = this.#isInDoubt
    for (;;) {
      if (this.state.plan.uploads.length > 1) await this.stage()
      if (!this.state.hasChanges) return
      const result = await this.#send().catch((failure: unknown) => ({ outcome: 'broken' as const, failure }))
      if (result.outcome === 'committed') return this.#settle(result.timestamp, result.rejected)
      const failure = result.outcome === 'broken' ? result.failure : null
      const mayDecideAnew = !isDoubtful && this.#mayDecideAnew(failure)
      isDoubtful ||= failure !== null && !isWithoutEffect(failure)
      // An attempt before may have been applied, and then the condition fails because of our own write.
      const verdict = isDoubtful
        ? await this.#probe(failure, mayDecideAnew)
        : failure === null
          ? 'moved'
          : 'unapplied'
      if (verdict === 'applied') return
      if (verdict === 'moved' || failure === null) {
        isDoubtful = this.#isInDoubt = false
        await this.#nextRound()
      } else if (isRefusal(failure)) await this.#acceptRefusal(failure)
      else {
        // The client is not at fault: a batch that the storage has forgotten is uploaded again.
        const isForgotten = this.#stagedBatch !== null && isOneOf(failure, [400, 404])
        const uploads = this.#isRemoval ? [] : this.state.plan.uploads
        // What has not been carried out so far may still be, and would come after an undo of the others.
        this.#isInDoubt = isDoubtful && this.context.isMultiCollection
        await this.#backOff(failure, isDoubtful || isForgotten, uploads)
        if (isForgotten) this.#stagedBatch = null
      }
    }
  }

  /** Removes the rows of the records that were deleted by a write. Never rejects: the deletions stand. */
  async removeDeleted(): Promise<void> {
    const { storage, collection, state, context } = this
    const { commit } = state
    if (!commit || commit.expiredRows.length === 0) return
    const { left, at } = await removeRows(storage, collection, state, context.budget)
    // A client that is told a moment after another writer's change would never fetch that change.
    if (at !== null) commit.changedAt = at
    if (left.length > 0) context.observe({ kind: 'unremoved', collections: [collection], ids: left })
  }

  /** Undoes what is visible, except where another writer has written over it. */
  async undo(): Promise<'untouched' | 'undone' | 'partial' | 'unknown'> {
    const isClear = !this.#isInDoubt || (await this.#fence())
    if (!this.state.commit) return isClear ? 'untouched' : 'unknown'
    const isUndone = await undoChanges(this.storage, this.collection, this.state, this.context.budget)
    if (!isUndone) return 'partial'
    return isClear ? 'undone' : 'unknown'
  }

  /**
   * One last look at a step of which it is unknown whether it was applied, or will be. Where it is not seen, the collection is changed,
   * so that its condition fails should it still be under way. False when that can't be done.
   */
  async #fence(): Promise<boolean> {
    const { storage, collection, state } = this
    for (let failures = 1; failures <= maxRetries; failures += 1) {
      const verdict = await this.#probeOnce()
      if (verdict !== 'unapplied') return verdict !== 'unknown'
      const fenced = storage.remove(collection, [absentId], state.since)
      if ((await fenced.catch(() => null))?.outcome === 'committed') return true
      await this.context.budget.backOff(failures)
    }
    return false
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
    return areDeletions && this.storage.removesAtOnce(deletes)
  }

  async #send(): Promise<CommitOutcome> {
    const { storage, collection, state } = this
    const { plan, since } = state
    if (this.#isRemoval) return await storage.remove(collection, plan.deletes, since)
    if (this.#stagedBatch === null) return await storage.write(collection, plan.writes, since)
    return await storage.commitStaged(collection, this.#stagedBatch, since)
  }

  async #acceptRefusal(refusal: ServiceError): Promise<void> {
    if (refusal.status === 401 && this.context.isMultiCollection) {
      // A refused identity concerns all operations of the user, not only those that remained.
      const options = { applied: 'no', status: 401, cause: refusal } as const
      throw new UpstreamError('refused', 'Cannot go on: the storage no longer lets the user in', options)
    }
    const { writes, uploads } = this.state.plan
    const mayBeOfOne = rejectionOf(refusal) !== null && writes.length > 1
    if (mayBeOfOne && (await this.#rejectRefused(uploads))) return
    this.state.learn({ failure: refusal })
  }

  /**
   * Waits before the next attempt, longer each time; throws the failure when no attempt is left. A single write that has
   * certainly had no effect is repeated by the client, unless it has only collided with another one.
   */
  async #backOff(failure: unknown, isDoubtful: boolean, uploads: RecordWrite[][] = []): Promise<void> {
    const { isVisible, isMultiCollection, budget } = this.context
    this.#failures += 1
    const isConflict = isWriteConflict(failure)
    // With Retry-After the storage has said when; don't retry before.
    const isPutOff = !isConflict && failure instanceof UpstreamError && failure.retryAfterSeconds !== null
    const isWorthIt = isConflict || (!isPutOff && (isMultiCollection || isDoubtful))
    const mayRetry = isVisible || (isWorthIt && this.#failures <= maxRetries)
    if (!mayRetry || !budget.hasTime) {
      if (!isConflict || failure.status !== 409) throw failure
      return this.state.learn({ failure: lastingConflict(failure) })
    }
    // Whatever fails in the search says nothing of the records.
    const isSuspect = uploads.length > 0 && rejectionOf(failure) !== null
    if (isSuspect && this.#failures >= failuresToSuspect) await this.#rejectRefused(uploads).catch(() => {})
    await budget.backOff(this.#failures)
  }

  /**
   * Finds the records that the storage refuses or fails at, though it takes others: a database may be unable to hold a payload. Staging
   * shows that without a trace. They are refused, because no later attempt would succeed. Resolves to whether there are any.
   */
  async #rejectRefused(uploads: RecordWrite[][]): Promise<boolean> {
    const { batch } = this.state.known.limits ?? (await this.storage.limits())
    if (!batch || (await this.#rejectionOf([])) !== null) return false
    const rejected = new Map<string, Rejection>()
    for (const records of uploads) await this.#findRefused(records, rejected)
    if (rejected.size === 0 || (await this.#rejectionOf([])) !== null) return false
    this.state.reject(rejected)
    this.#stagedBatch = null
    this.#failures = 0
    return true
  }

  async #findRefused(records: RecordWrite[], rejected: Map<string, Rejection>): Promise<void> {
    if ((await this.#rejectionOf(records)) === null) return
    if (records.length === 1) {
      const reason = await this.#rejectionOf(records)
      if (reason !== null) rejected.set(records[0]!.id, reason)
      return
    }
    const half = records.length >> 1
    await this.#findRefused(records.slice(0, half), rejected)
    await this.#findRefused(records.slice(half), rejected)
  }

  /** Why the storage does not take these records into a staged batch; null when it does. */
  async #rejectionOf(records: RecordWrite[]): Promise<Rejection | null> {
    const { budget } = this.context
    for (let failures = 1; ; failures += 1) {
      budget.requireTime()
      try {
        await this.storage.stage(this.collection, records, this.state.since, null)
        return null
      } catch (error) {
        const reason = rejectionOf(error)
        if (reason !== null) return reason
        // MariaDB has names for a few batches of a user within 10 ms, and answers another one like a write conflict.
        if (!isWriteConflict(error) || failures > maxRetries) throw error
        await budget.backOff(failures)
      }
    }
  }

  #settle(
    at: Timestamp,
    refused: ReadonlyMap<string, Rejection>,
    { isRemoval = this.#isRemoval, seenAt = at } = {},
  ): void {
    this.state.settle(at, refused, isRemoval, seenAt)
    this.context.isVisible = true
    this.#failures = 0
    this.#stagedBatch = null
    this.#isInDoubt = false
  }

  /** Reads whether the plan was applied. Throws when that can't be told. */
  async #probe(failure: unknown, mayDecideAnew: boolean): Promise<'applied' | 'moved' | 'unapplied'> {
    this.context.observe({ kind: 'probed', collection: this.collection })
    const verdict = await this.#probeOnce(mayDecideAnew)
    if (verdict !== 'unknown') return verdict
    this.#isInDoubt = true
    const message = `Cannot tell whether the write to "${this.collection}" was carried out: outcome unknown, read before repeating`
    throw new UpstreamError('connection-lost', message, { applied: 'unknown', cause: failure })
  }

  /**
   * Whether it may be decided anew what a look can't tell. After a 412 to a deletion whose records were all written since, either somebody
   * else was first, or our deletion was, and the runtime repeated it. The client gets a 412 then, and nothing newer is deleted, if each
   * write is for a version of the snapshot or an older one. A write without such a condition would delete what came after our deletion.
   */
  #mayDecideAnew(failure: unknown): boolean {
    if (!isOneOf(failure, [412])) return false
    const writes = this.operations.flatMap(({ operation }) => (isWrite(operation) ? [operation] : []))
    return writes.every(
      ({ precondition }) =>
        precondition.kind === 'unmodified-since' && precondition.timestamp <= this.state.since,
    )
  }

  /** `mayDecideAnew`: what can't be told counts as `moved`. */
  async #probeOnce(mayDecideAnew = false): Promise<'applied' | 'moved' | 'unapplied' | 'unknown'> {
    const snapshot = await this.#snapshot().catch(() => null)
    if (!snapshot) return 'unknown'
    const { plan, known, since } = this.state
    const judged = judgeProbe(plan.writes, known.view.records, since, snapshot)
    if (judged.verdict === 'unclear') return mayDecideAnew ? 'moved' : 'unknown'
    if (judged.verdict !== 'applied') return judged.verdict
    const refused = new Map(judged.refused.map((id) => [id, 'invalid'] as const))
    this.#settle(judged.timestamp, refused, { seenAt: snapshot.timestamp })
    return 'applied'
  }

  /** One attempt, or, when a commit depends on it, as many as there is time for. */
  async #snapshot(): Promise<Snapshot> {
    const { budget } = this.context
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.storage.snapshot(this.collection, this.#ids)
      } catch (error) {
        if (isRefusal(error) || !this.context.isCommitting || !budget.hasTime) throw error
        await budget.backOff(failures)
      }
    }
  }

  /** Another writer was first: reads the collection again. */
  async #nextRound(): Promise<void> {
    await this.#spendRound()
    this.#stagedBatch = null
    await this.read()
  }

  async #spendRound(): Promise<void> {
    this.#rounds += 1
    const { budget, isVisible, observe } = this.context
    if (!budget.hasTime || (!isVisible && this.#rounds > maxMovedRounds)) {
      const message = `Cannot write to "${this.collection}": others keep writing to it`
      throw new UpstreamError('refused', message, { applied: 'no' })
    }
    observe({ kind: 'moved-round', collection: this.collection })
    await budget.backOff(this.#rounds)
  }
}

function tooMuch(): ServiceError {
  const message = 'The storage does not take so much at once: write less in one batch'
  return new ServiceError(413, errno.requestTooLarge, message)
}

function lastingConflict({ retryAfterSeconds }: UpstreamError): ServiceError {
  const message = 'Write conflict: other clients keep changing this collection'
  const extras = retryAfterSeconds === null ? {} : { retryAfterSeconds }
  return new ServiceError(409, errno.conflict, message, extras)
}

function isWriteConflict(failure: unknown): failure is UpstreamError {
  return failure instanceof UpstreamError && failure.failure === 'conflict'
}

function isOneOf(failure: unknown, statuses: number[]): boolean {
  return failure instanceof UpstreamError && failure.status !== null && statuses.includes(failure.status)
}

/** What an error says of the records that were sent, if they are at fault. */
function rejectionOf(error: unknown): Rejection | null {
  if (!(error instanceof UpstreamError || error instanceof ServiceError)) return null
  return rejections.get(error.status) ?? null
}

const rejections = new Map<number | null, Rejection>([
  [400, 'invalid'],
  [413, 'too-large'],
  [500, 'unstorable'],
])
