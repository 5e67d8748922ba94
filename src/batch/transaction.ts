import { errno, isRefusal, ServiceError, UpstreamError } from '../domain/errors.ts'
import { zeroTimestamp } from '../domain/record.ts'
import { runBounded } from '../domain/bounded.ts'
import { Pace } from './pace.ts'
import { fitsAnyStorage } from './plan.ts'
import { AnswerBudget, isWrite, readTasks } from './reads.ts'
import { WrittenCollection } from './written-collection.ts'
import type { CollectionState } from './collection-state.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type {
  BulkStorage,
  CollectionTimestamps,
  HeldMemory,
  StorageLimits,
} from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/record.ts'
import type { Locks } from './locks.ts'
import type { PaceOptions, TransactionEvent } from './pace.ts'
import type { NumberedOperation } from './simulate.ts'
import type { TransactionContext } from './written-collection.ts'

export interface TransactionOptions extends PaceOptions {
  /** Shared by all transactions of the process. */
  locks: Locks
  observe(event: TransactionEvent): void
  /** Of the request that the transaction is for. */
  memory: HeldMemory
  /** How many bytes the lists and records in the answer may hold together; 16 MiB if absent. */
  maxAnswerBytes?: number
}

/**
 * Carries out operations as if they came one after the other at one moment, without other writers:
 * each sees the effects of the earlier ones. Their outcomes come back in order; a write that the storage refuses
 * fails alone.
 *
 * Rejects with `UpstreamError` when the storage broke. Then nothing of it is visible, except what the events `partial` and
 * `unknown` tell of. Everything is decided against one snapshot per collection, and committed by writes that count only
 * while that snapshot holds.
 */
export async function runTransaction(
  steps: Step[],
  options: TransactionOptions,
): Promise<OperationOutcome[]> {
  const users = groupByUser(steps)
  const written = users.flatMap(({ storage, collections }) =>
    [...collections].filter(([, { isWritten }]) => isWritten).map(([name]) => lockName(storage, name)),
  )
  const pace = new Pace(options)
  const release = await options.locks.acquire(written, pace.leftMs)
  try {
    return await new Transaction(steps, users, options, pace).run()
  } finally {
    release()
  }
}

const mostAnswerBytes = 16 * 1024 * 1024
/** A storage that says it has made a row, and has not, is asked no more often. */
const maxRowRounds = 4
/** Longer than a first upload of another client, of 100 records, takes inside a database that is busy. */
const firstLookMs = 100

function lockName(storage: BulkStorage, collection: string): string {
  return JSON.stringify([storage.owner, collection])
}

/** What the transaction does with one user's storage. */
interface User {
  storage: BulkStorage
  collections: Map<string, { operations: NumberedOperation[]; isWritten: boolean }>
  /** The indices of the operations that ask for the timestamps of all collections. */
  timestampReads: number[]
  timestamps: CollectionTimestamps | null
  /** The collections that are written to, once they have been read. */
  written: WrittenCollection[]
  /** Why the storage refuses the user's credentials. */
  refusal: ServiceError | null
}

function groupByUser(steps: Step[]): User[] {
  const users = new Map<string, User>()
  for (const [index, { storage, operation }] of steps.entries()) {
    const user: User = users.get(storage.owner) ?? {
      storage,
      collections: new Map(),
      timestampReads: [],
      timestamps: null,
      written: [],
      refusal: null,
    }
    users.set(storage.owner, user)
    if (operation.kind === 'timestamps') {
      user.timestampReads.push(index)
      continue
    }
    const { collection } = operation
    const part = user.collections.get(collection) ?? { operations: [], isWritten: false }
    user.collections.set(collection, part)
    part.operations.push({ index, operation })
    part.isWritten ||= isWrite(operation)
  }
  return [...users.values()]
}

class Transaction {
  readonly #steps: Step[]
  readonly #users: User[]
  readonly #options: TransactionOptions
  readonly #pace: Pace
  readonly #context: TransactionContext
  /** The outcomes of operations that are decided by themselves; the others are those of the collection written to. */
  readonly #outcomes = new Map<number, OperationOutcome>()
  readonly #states = new Map<number, CollectionState>()
  readonly #limits = new Map<BulkStorage, Promise<StorageLimits>>()
  /** Whether the client writes so much that the storage's limits must be known before it is judged. */
  readonly #needsLimits: boolean
  /** The bytes of stored records that the outcome of each operation may show. */
  readonly #shownBytes = new Map<number, number>()
  #isCommitting = false

  constructor(steps: Step[], users: User[], options: TransactionOptions, pace: Pace) {
    this.#steps = steps
    this.#users = users
    this.#options = options
    this.#pace = pace
    const writes = steps.filter(({ operation }) => isWrite(operation))
    this.#needsLimits = !fitsAnyStorage(
      writes.map(({ operation }) => (operation.kind === 'put' ? operation.input : {})),
    )
    this.#context = {
      pace,
      budget: new AnswerBudget(options.maxAnswerBytes ?? mostAnswerBytes, pace, options.memory),
      locks: options.locks,
      observe: options.observe,
      isMultiCollection: false,
      isVisible: false,
      onUnexpectedCommit: () => this.#beginCommit(),
      onDecidedAnew: () => this.#holdAnswers(),
    }
  }

  async run(): Promise<OperationOutcome[]> {
    await runBounded(this.#users.flatMap((user) => this.#reads(user)))
    await this.#createRows()
    const written = this.#users.flatMap((user) => (user.refusal ? [] : user.written))
    const changed = written.filter(({ state }) => state.hasChanges)
    this.#context.isMultiCollection = changed.length > 1
    this.#holdAnswers()
    if (changed.length > 0) {
      try {
        await this.#stage(changed)
        await this.#commit(changed)
      } catch (error) {
        await this.#undo(changed)
        throw error
      }
    }
    const visible = changed.filter(({ state }) => state.isVisible)
    const records = visible.reduce((total, { state }) => total + state.applied.size, 0)
    if (visible.length === 0) this.#options.observe({ kind: 'read-only' })
    else this.#options.observe({ kind: 'committed', collections: visible.length, records })
    return this.#steps.map((_, index) => this.#withinBudget(index, this.#outcome(index)))
  }

  /** The reads of everything that the user's outcomes depend on, as tasks that may run concurrently. */
  #reads(user: User): (() => Promise<void>)[] {
    const { storage, collections, timestampReads } = user
    const tasks: (() => Promise<void>)[] = []
    for (const [collection, { operations, isWritten }] of collections) {
      if (isWritten) {
        const indices = operations.map(({ index }) => index)
        tasks.push(() => this.#attempt(user, indices, () => this.#readWritten(user, collection, operations)))
        continue
      }
      for (const { indices, run } of readTasks(storage, collection, operations, this.#context.budget)) {
        const read = async () => {
          const outcomes = await run()
          for (const [place, index] of indices.entries()) this.#outcomes.set(index, outcomes[place]!)
        }
        tasks.push(() => this.#attempt(user, indices, read))
      }
    }
    if (timestampReads.length > 0) {
      const read = async () => void (user.timestamps = await storage.collectionTimestamps())
      tasks.push(() => this.#attempt(user, timestampReads, read))
    }
    return tasks
  }

  async #readWritten(user: User, collection: string, operations: NumberedOperation[]): Promise<void> {
    const { storage } = user
    this.#pace.requireTime()
    const part = new WrittenCollection(storage, collection, operations, this.#context)
    for (const { index } of operations) this.#states.set(index, part.state)
    const readLimits = async () => {
      const reading = this.#limits.get(storage) ?? storage.limits()
      this.#limits.set(storage, reading)
      part.state.applyLimits(await reading)
    }
    await runBounded([() => part.read(), ...(this.#needsLimits ? [readLimits] : [])])
    user.written.push(part)
  }

  /**
   * Creates the rows of collections that were never written to. Another client's first write may still be in a transaction of
   * the database then, so what is conditional is judged by a look a moment later. One wait serves all collections.
   */
  async #createRows(): Promise<void> {
    for (let round = 0; round < maxRowRounds; round += 1) {
      const missing = this.#users.flatMap((user) =>
        user.written.flatMap((part) => (part.needsRow && !user.refusal ? [{ user, part }] : [])),
      )
      if (missing.length === 0) return
      this.#pace.requireTime()
      const unseen: typeof missing = []
      const tasks = missing.map(({ user, part }) => async () => {
        const create = async () => {
          if (!(await part.createRow()) || part.isConditional) unseen.push({ user, part })
        }
        await this.#attempt(user, part.indices, create)
      })
      await runBounded(tasks)
      if (unseen.length === 0) return
      await this.#pace.wait(firstLookMs)
      await runBounded(
        unseen.map(
          ({ user, part }) =>
            () =>
              this.#attempt(user, part.indices, () => part.read()),
        ),
      )
    }
    const message = 'Cannot write to a new collection: the storage does not keep it'
    throw new UpstreamError('refused', message, { applied: 'no' })
  }

  /** A refusal of what the task asks is the outcome of its operations; one of the credentials, of all of the user's. */
  async #attempt(user: User, indices: number[], task: () => Promise<void>): Promise<void> {
    if (user.refusal) return
    try {
      await task()
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (error.status === 401) user.refusal = error
      for (const index of indices) this.#outcomes.set(index, { outcome: 'failed', error })
    }
  }

  /** Stages the writes where one upload is not enough, of one collection or because there are several. */
  async #stage(changed: WrittenCollection[]): Promise<void> {
    // One collection needs no staging: its only upload is sent together with the commits of the others.
    const plain = changed.findLast(({ state }) => state.plan.uploads.length === 1)
    const staged = changed.filter(
      (part) => part.state.plan.uploads.length > 1 || (part !== plain && canStage(part)),
    )
    if (staged.length === 0) return
    this.#pace.requireTime()
    await runBounded(staged.map((part) => () => part.stage()))
  }

  async #commit(changed: WrittenCollection[]): Promise<void> {
    if (!changed.some(({ state }) => state.hasChanges)) return
    this.#pace.requireTime()
    this.#beginCommit()
    // Where a storage can't stage, one after the other: if the first fails, nothing is visible.
    for (const part of changed) if (!canStage(part)) await part.commit()
    await this.#commitTogether(changed)
    await Promise.all(changed.map((part) => part.removeDeleted()))
  }

  /** Sends all commits at the same moment, so that hardly anything can come between them. */
  async #commitTogether(parts: WrittenCollection[]): Promise<void> {
    const failed = await failures(parts)
    if (failed.length === 0) return
    // Another one may have become visible after these gave up. Then they must follow.
    const again = this.#context.isVisible ? await failures(failed.map(({ part }) => part)) : failed
    if (again.length > 0) throw again[0]!.error
  }

  #beginCommit(): void {
    if (this.#isCommitting) return
    this.#isCommitting = true
    this.#pace.beginCommit()
    for (const { storage } of this.#users) storage.beginCommit()
  }

  async #undo(changed: WrittenCollection[]): Promise<void> {
    // A single write has nothing beside it to undo, so its effect is only looked at once more.
    if (this.#context.isVisible || this.#context.isMultiCollection) this.#pace.beginUndo()
    // Concurrently, because the client waits, and a storage that hangs takes its time for each.
    const results = await Promise.all(
      changed.toReversed().map(async (part) => ({ part, result: await part.undo() })),
    )
    for (const kind of ['undone', 'partial', 'unknown'] as const) {
      const collections = results.flatMap(({ part, result }) => (result === kind ? [part.collection] : []))
      if (collections.length > 0) this.#options.observe({ kind, collections })
    }
  }

  /**
   * Has the memory for the stored records in the answer before anything is visible. Whatever is decided anew later is counted
   * then, and not shown where there is no memory: nothing of ours may fail a batch that is visible.
   */
  #holdAnswers(): void {
    for (const [index, { operation }] of this.#steps.entries()) {
      const mayShow =
        'id' in operation && (operation.kind === 'get' || operation.precondition.kind !== 'none')
      if (!mayShow) continue
      const more = shownBytes(this.#outcome(index)) - (this.#shownBytes.get(index) ?? 0)
      if (more > 0 && this.#takes(more)) this.#shownBytes.set(index, shownBytes(this.#outcome(index)))
    }
  }

  #takes(bytes: number): boolean {
    try {
      return this.#context.budget.take(bytes)
    } catch (error) {
      if (!this.#context.isVisible) throw error
      return false
    }
  }

  #outcome(index: number): OperationOutcome {
    const { storage, operation } = this.#steps[index]!
    const user = this.#users.find((each) => each.storage.owner === storage.owner)!
    if (user.refusal) return { outcome: 'failed', error: user.refusal }
    const known = this.#outcomes.get(index)
    if (known) return known
    return operation.kind === 'timestamps'
      ? timestampsAt(index, user)
      : this.#states.get(index)!.outcome(index)
  }

  /** One large record may be read many times in a batch, and each answer repeats it. */
  #withinBudget(index: number, outcome: OperationOutcome): OperationOutcome {
    if (shownBytes(outcome) <= (this.#shownBytes.get(index) ?? 0)) return outcome
    const message = 'The record is too large for a batch: request it alone'
    return { outcome: 'failed', error: new ServiceError(413, errno.requestTooLarge, message) }
  }
}

/** The bytes of a stored record that an outcome repeats; 0 for one that shows none, or what the client has sent. */
function shownBytes(outcome: OperationOutcome): number {
  if (outcome.outcome === 'found' && 'record' in outcome) return outcome.record.payload.length
  if (outcome.outcome !== 'precondition-failed' || !('existing' in outcome)) return 0
  return outcome.existing?.payload.length ?? 0
}

/** The timestamps of a user's collections as the operation of that index sees them. */
function timestampsAt(index: number, { timestamps, written }: User): OperationOutcome {
  const { collections, timestamp } = timestamps!
  const seen = new Map(collections)
  for (const { collection, state } of written) {
    const changedAt = state.timestampAt(index)
    if (changedAt > zeroTimestamp) seen.set(collection, changedAt)
    else seen.delete(collection)
  }
  const latest = Math.max(timestamp, ...seen.values()) as Timestamp
  return { outcome: 'found', timestamp: latest, collections: seen }
}

function canStage({ state }: WrittenCollection): boolean {
  return state.limits?.batch !== null
}

/** The collections that could not be committed, and why. */
async function failures(parts: WrittenCollection[]): Promise<{ part: WrittenCollection; error: unknown }[]> {
  const results = await Promise.all(
    parts.map((part) =>
      part.commit().then(
        () => [],
        (error: unknown) => [{ part, error }],
      ),
    ),
  )
  return results.flat()
}
