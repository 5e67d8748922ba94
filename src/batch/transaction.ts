import { isRefusal, type ServiceError } from '../domain/errors.ts'
import type { SyncRecord } from '../domain/record.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'
import { runBounded } from '../domain/bounded.ts'
import { Budget, noRoom, type TransactionContext, type TransactionOptions } from './context.ts'
import { fitsAnyStorage } from './collection-changes.ts'
import { commitOrUndo } from './commit.ts'
import { readsOf, type Read } from './reads.ts'
import { isWrite, type NumberedOperation } from './simulate.ts'
import { payloadNeeds } from './known-collection.ts'
import { WrittenCollection } from './written-collection.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type { BulkStorage, CollectionTimestamps, StorageLimits } from '../domain/record-storage.ts'

/**
 * Runs operations as if they came one after the other, without other writers: each sees the effects of earlier ones. Returns their outcomes
 * in order; a write that the storage rejects fails alone.
 *
 * Rejects with `UpstreamError` when the storage fails. Then nothing is visible, except what the events `partial` and `unknown` report.
 * Everything is decided against one snapshot per collection, and committed by writes that are conditional on it.
 */
export async function runTransaction(
  steps: Step[],
  options: TransactionOptions,
): Promise<OperationOutcome[]> {
  const transaction = new Transaction(steps, options)
  const written = steps.flatMap(({ storage: { owner }, operation }) =>
    isWrite(operation) ? [JSON.stringify([owner, operation.collection])] : [],
  )
  return await options.locks.hold(written, transaction.budget.leftMs, () => transaction.run())
}

/** The part of the transaction for one user's storage. */
interface User {
  storage: BulkStorage
  /** By index in the transaction. */
  operations: Map<number, Step['operation']>
  timestamps: CollectionTimestamps | null
  /** The storage's limits, once requested. */
  limits: Promise<StorageLimits> | null
  /** The collections to write to, once read. */
  written: Map<string, WrittenCollection>
  /** The error if the storage rejects the user's credentials. */
  refusal: ServiceError | null
}

function groupByUser(steps: Step[]): Map<string, User> {
  const users = new Map<string, User>()
  for (const [index, { storage, operation }] of steps.entries()) {
    const nothingKnown = { timestamps: null, limits: null, refusal: null }
    const create = () => ({ storage, operations: new Map(), written: new Map(), ...nothingKnown })
    users.getOrInsertComputed(storage.owner, create).operations.set(index, operation)
  }
  return users
}

/** The collections of a user that change; none if the storage rejects the credentials. */
function changesOf({ refusal, written }: User): WrittenCollection[] {
  return refusal ? [] : [...written.values()].filter(({ changes }) => changes.hasChanges)
}

class Transaction implements TransactionContext {
  readonly budget: Budget
  mayBeVisible = false
  readonly #steps: Step[]
  readonly #users: Map<string, User>
  /** The outcomes of reads; those of written collections come from their state. */
  readonly #read = new Map<number, OperationOutcome>()
  /** Whether the writes are large enough to need the storage's limits. */
  readonly #needsLimits: boolean
  /** The records of a collection whose payloads are needed. */
  readonly #neededBy: (operations: NumberedOperation[]) => ReadonlySet<string>
  /** The collections that change. */
  #changed: WrittenCollection[] = []

  constructor(
    steps: Step[],
    readonly options: TransactionOptions,
  ) {
    this.budget = new Budget(options)
    this.#steps = steps
    this.#users = groupByUser(steps)
    const writes = steps.filter(({ operation }) => isWrite(operation))
    this.#needsLimits = !fitsAnyStorage(
      writes.map(({ operation }) => (operation.kind === 'put' ? operation.input : {})),
    )
    this.#neededBy = payloadNeeds(steps, options.accepts !== undefined)
  }

  async run(): Promise<OperationOutcome[]> {
    const users = [...this.#users.values()]
    await runBounded(users.flatMap((user) => this.#reads(user)))
    this.#holdResponse()
    if (this.accepts()) {
      await runBounded(users.flatMap((user) => this.#rows(user)))
      this.#changed = users.flatMap(changesOf)
      this.#holdResponse()
    }
    await this.#stage()
    if (await this.#commit()) {
      const collections = this.#changed.flatMap(({ changes, collection }) =>
        changes.visible ? [collection] : [],
      )
      this.options.observe({ kind: collections.length === 0 ? 'read-only' : 'committed', collections })
    }
    return this.#outcomes()
  }

  accepts(): boolean {
    const { accepts } = this.options
    return accepts === undefined || accepts(this.#outcomes())
  }

  #outcomes(): OperationOutcome[] {
    return this.#steps.map((_, index) => this.#withinBudget(index, this.#outcome(index)))
  }

  get hasSeveralSteps(): boolean {
    return this.#changed.reduce((steps, { changes }) => steps + changes.plan.steps, 0) > 1
  }

  get isVisible(): boolean {
    return this.#changed.some(({ changes }) => changes.visible !== null)
  }

  /** The reads for one user's operations, as tasks that may run concurrently. */
  #reads(user: User): (() => Promise<void>)[] {
    const { storage } = user
    const reads: Read[] = []
    const timestampReads: number[] = []
    const collections = new Map<string, NumberedOperation[]>()
    for (const [index, operation] of user.operations) {
      if (operation.kind === 'timestamps') timestampReads.push(index)
      else collections.getOrInsert(operation.collection, []).push({ index, operation })
    }
    for (const operations of collections.values()) {
      const indices = operations.map(({ index }) => index)
      if (!operations.some(({ operation }) => isWrite(operation)))
        reads.push(...readsOf(storage, operations, this.#read, this.budget))
      else reads.push({ indices, run: () => this.#readWritten(user, operations) })
    }
    const readTimestamps = async () => void (user.timestamps = await storage.collectionTimestamps())
    if (timestampReads.length > 0) reads.push({ indices: timestampReads, run: readTimestamps })
    return reads.map((read) => () => this.#attempt(user, read))
  }

  /** Runs a read. A refusal becomes the outcome of its operations; rejected credentials become the outcome of all the user's operations. */
  async #attempt(user: User, { indices, run }: Read): Promise<void> {
    if (user.refusal) return
    try {
      await run()
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (error.status === 401) user.refusal = error
      for (const index of indices) this.#read.set(index, { outcome: 'failed', error })
    }
  }

  async #readWritten(user: User, operations: NumberedOperation[]): Promise<void> {
    this.budget.requireTime()
    const part = new WrittenCollection(user.storage, operations, this, this.#neededBy(operations))
    const { known } = part
    const readLimits = () => known.readLimits(() => (user.limits ??= user.storage.readLimits()))
    await runBounded([() => known.read(), ...(this.#needsLimits ? [readLimits] : [])])
    await part.complete()
    user.written.set(part.collection, part)
  }

  /** Tasks that create the rows of new collections, once everything is read. */
  #rows(user: User): (() => Promise<void>)[] {
    return changesOf(user).map(({ known, changes }) => async () => {
      try {
        if (!user.refusal) await known.createRow(() => changes.needsUpload)
      } catch (error) {
        if (!isRefusal(error)) throw error
        if (error.status === 401) user.refusal = error
        else known.fail(error)
      }
    })
  }

  /** Stages records that need several uploads, or that are committed together with other collections. */
  async #stage(): Promise<void> {
    const uploading = this.#changed.filter(({ changes }) => changes.needsUpload)
    // One collection is not staged: its upload is sent with the commits of the others.
    const plain = uploading.findLast(({ changes }) => changes.plan.uploads.length === 1)
    const staged = uploading.filter(
      (part) => part.changes.plan.uploads.length > 1 || (part !== plain && part.canStage),
    )
    if (staged.length === 0) return
    this.budget.requireTime()
    try {
      await runBounded(staged.map((part) => () => part.stage()))
    } catch (error) {
      // A storage that can't stage may have written a part, so the rest is committed or that part undone.
      if (!this.mayBeVisible) throw error
    }
  }

  /** False if everything was undone because the outcomes are not accepted. */
  async #commit(): Promise<boolean> {
    if (!this.mayBeVisible) {
      if (!this.#changed.some(({ changes }) => changes.hasChanges) || !this.accepts()) return true
      this.budget.requireTime()
      this.beginCommit()
    }
    return await commitOrUndo(this.#changed, this)
  }

  beginCommit(): void {
    this.budget.releaseReserve()
    for (const { storage } of this.#users.values()) storage.beginCommit()
  }

  markVisible(): void {
    if (this.mayBeVisible) return
    this.mayBeVisible = true
    this.budget.extend()
    for (const { storage } of this.#users.values()) storage.ignoreDeadline()
  }

  /**
   * Reserves memory for the response before the commit, so that a committed batch never fails. A write whose result has no room is not
   * made.
   */
  #holdResponse(): void {
    const indices = this.#steps.flatMap(({ operation }, index) => ('id' in operation ? [index] : []))
    const isStored = (index: number) => this.#outcome(index).outcome === 'stored'
    for (const index of indices.filter(isStored)) {
      const { storage, operation } = this.#steps[index]!
      if (!isWrite(operation) || this.budget.holdRecord(index, this.#shown(index, this.#outcome(index))))
        continue
      const { known } = this.#users.get(storage.owner)!.written.get(operation.collection)!
      known.leaveOut(index)
    }
    for (const index of indices)
      if (!isStored(index)) this.budget.holdRecord(index, this.#shown(index, this.#outcome(index)))
  }

  #outcome(index: number): OperationOutcome {
    const { storage, operation } = this.#steps[index]!
    const user = this.#users.get(storage.owner)!
    if (user.refusal) return { outcome: 'failed', error: user.refusal }
    const known = this.#read.get(index)
    if (known) return known
    if (operation.kind === 'timestamps') return this.#timestamps(index, user)
    return user.written.get(operation.collection)!.changes.outcome(index)
  }

  /** The timestamps of a user's collections as that operation sees them; a failure if there is no memory for this copy. */
  #timestamps(index: number, { timestamps, written }: User): OperationOutcome {
    const { collections, timestamp } = timestamps!
    const bytes = bytesOfCollection * (collections.size + written.size)
    if (!this.#hasRoom(() => this.budget.hold(index, bytes))) return { outcome: 'failed', error: noRoom() }
    const seen = new Map(collections)
    for (const [collection, { changes }] of written) {
      const seenAt = changes.timestampAt(index)
      if (seenAt > zeroTimestamp) seen.set(collection, seenAt)
      else seen.delete(collection)
    }
    const latest = Math.max(timestamp, ...seen.values()) as Timestamp
    return { outcome: 'found', timestamp: latest, collections: seen }
  }

  /** The outcome, or a failure if there is no memory for its record: a batch may read one large record many times. */
  #withinBudget(index: number, outcome: OperationOutcome): OperationOutcome {
    // Never reports a completed write as failed.
    if (outcome.outcome === 'stored') return outcome
    const record = this.#shown(index, outcome)
    const isHeld = record === null || this.#hasRoom(() => this.budget.holdRecord(index, record))
    return isHeld ? outcome : { outcome: 'failed', error: noRoom() }
  }

  /** Reserves memory in the response; false if there is no room. */
  #hasRoom(hold: () => boolean): boolean {
    try {
      return hold()
    } catch {
      // Outcomes decided again after the commit may be larger, and must not fail the batch.
      return false
    }
  }

  /** The stored record that an outcome shows; null if there is none, or the client sent it. */
  #shown(index: number, outcome: OperationOutcome): SyncRecord | null {
    const { operation } = this.#steps[index]!
    if (outcome.outcome === 'stored') {
      const isSent = operation.kind === 'put' && operation.input.payload !== undefined
      return isSent ? null : outcome.record
    }
    if (outcome.outcome === 'found' && 'record' in outcome) return outcome.record
    return outcome.outcome === 'precondition-failed' && 'existing' in outcome ? outcome.existing : null
  }
}

/** Upper bound of the bytes of a collection in the response. */
const bytesOfCollection = 96
