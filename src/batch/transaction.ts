import { errno, isRefusal, ServiceError } from '../domain/errors.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { Pace, runBounded } from './pace.ts'
import { AnswerBudget, readTasks } from './reads.ts'
import type { AnswerMemory } from './reads.ts'
import { WrittenCollection } from './written-collection.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { BulkStorage, CollectionTimestamps, StorageLimits } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { Locks, PaceOptions, TransactionEvent } from './pace.ts'
import type { NumberedOperation } from './simulate.ts'
import type { TransactionContext } from './written-collection.ts'

/** One operation of a transaction, and whose storage it is for. */
export interface Step {
  storage: BulkStorage
  operation: Operation
}

export interface TransactionOptions extends PaceOptions {
  /** Shared by all transactions of the process. */
  locks: Locks
  observe(event: TransactionEvent): void
  /** Shared by all transactions of the process. */
  answerMemory: AnswerMemory
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
  const release = await options.locks.acquire(written)
  const transaction = new Transaction(steps, users, options)
  try {
    return await transaction.run()
  } finally {
    transaction.releaseMemory()
    release()
  }
}

function lockName(storage: BulkStorage, collection: string): string {
  return JSON.stringify([storage.owner, collection])
}

/** The operations of the transaction on one user's storage. */
interface User {
  storage: BulkStorage
  collections: Map<string, { operations: NumberedOperation[]; isWritten: boolean }>
  /** The indices of the operations that ask for the timestamps of all collections. */
  timestampReads: number[]
}

function groupByUser(steps: Step[]): User[] {
  const users = new Map<string, User>()
  for (const [index, { storage, operation }] of steps.entries()) {
    const user: User = users.get(storage.owner) ?? { storage, collections: new Map(), timestampReads: [] }
    users.set(storage.owner, user)
    if (operation.kind === 'timestamps') {
      user.timestampReads.push(index)
      continue
    }
    const { collection } = operation
    const part = user.collections.get(collection) ?? { operations: [], isWritten: false }
    user.collections.set(collection, part)
    part.operations.push({ index, operation })
    part.isWritten ||= operation.kind === 'put' || operation.kind === 'delete'
  }
  return [...users.values()]
}

class Transaction {
  readonly #steps: Step[]
  readonly #users: User[]
  readonly #options: TransactionOptions
  readonly #pace: Pace
  readonly #context: TransactionContext
  readonly #outcomes = new Map<number, OperationOutcome>()
  readonly #timestamps = new Map<User, Promise<CollectionTimestamps>>()
  readonly #limits = new Map<BulkStorage, Promise<StorageLimits>>()
  /** Users whose storage refuses their credentials. */
  readonly #refusals = new Map<User, ServiceError>()
  readonly #written: { user: User; part: WrittenCollection }[] = []
  #isCommitting = false

  constructor(steps: Step[], users: User[], options: TransactionOptions) {
    this.#steps = steps
    this.#users = users
    this.#options = options
    this.#pace = new Pace(options)
    this.#context = {
      pace: this.#pace,
      budget: new AnswerBudget(options.maxAnswerBytes ?? 16 * 1024 * 1024, this.#pace, options.answerMemory),
      observe: options.observe,
      writesOneCollection:
        users.flatMap(({ collections }) => [...collections.values()].filter((each) => each.isWritten))
          .length === 1,
      isMultiCollection: false,
      isVisible: false,
      onUnexpectedCommit: () => this.#beginCommit(),
    }
  }

  /** Frees what was read for the answer. */
  releaseMemory(): void {
    this.#context.budget.release()
  }

  async run(): Promise<OperationOutcome[]> {
    await this.#read()
    const changed = this.#written.map(({ part }) => part).filter((part) => part.hasChanges)
    if (changed.length === 0) {
      this.#options.observe({ kind: 'read-only' })
      return this.#answer()
    }
    this.#context.isMultiCollection = changed.length > 1
    try {
      await this.#prepare(changed)
      await this.#commit(changed)
    } catch (error) {
      await this.#undo(changed)
      throw error
    }
    await runAtOnce(changed.map((part) => () => part.readCreated()))
    const records = changed.reduce((total, { changedRecords }) => total + changedRecords, 0)
    this.#options.observe({ kind: 'committed', collections: changed.length, records })
    return this.#answer()
  }

  /** Reads everything that the outcomes depend on, concurrently as far as possible. */
  async #read(): Promise<void> {
    const tasks: (() => Promise<void>)[] = []
    for (const user of this.#users) {
      const { storage } = user
      for (const [collection, { operations, isWritten }] of user.collections) {
        if (isWritten) tasks.push(this.#writtenTask(user, collection, operations))
        else {
          for (const { indices, run } of readTasks(storage, collection, operations, this.#context.budget)) {
            const task = async () => {
              const outcomes = await run()
              for (const [place, index] of indices.entries()) this.#outcomes.set(index, outcomes[place]!)
            }
            tasks.push(() => this.#attempt(user, indices, task))
          }
        }
      }
      if (user.timestampReads.length > 0) {
        tasks.push(() =>
          this.#attempt(user, user.timestampReads, async () => void (await this.#readTimestamps(user))),
        )
      }
    }
    await runBounded(tasks)
    const admitted = this.#written.filter(({ user }) => !this.#refusals.has(user))
    this.#written.splice(0, this.#written.length, ...admitted)
  }

  #writtenTask(user: User, collection: string, operations: NumberedOperation[]): () => Promise<void> {
    this.#pace.requireTime()
    const part = new WrittenCollection(user.storage, collection, operations, this.#context)
    const indices = operations.map(({ index }) => index)
    const read = async () => {
      const readLimits = async () => part.applyLimits(await this.#readLimits(user.storage))
      await runBounded([() => part.read(), ...(part.needsLimits ? [readLimits] : [])])
      await part.create()
      this.#written.push({ user, part })
    }
    return () => this.#attempt(user, indices, read)
  }

  /** A refusal of what the task asks is the outcome of its operations; one of the credentials, of all of the user's. */
  async #attempt(user: User, indices: number[], task: () => Promise<void>): Promise<void> {
    if (this.#refusals.has(user)) return
    try {
      await task()
    } catch (error) {
      if (!isRefusal(error)) throw error
      if (error.status === 401) this.#refusals.set(user, error)
      for (const index of indices) this.#outcomes.set(index, { outcome: 'failed', error })
    }
  }

  #readTimestamps(user: User): Promise<CollectionTimestamps> {
    const known = this.#timestamps.get(user)
    if (known) return known
    const reading = user.storage.collectionTimestamps()
    this.#timestamps.set(user, reading)
    return reading
  }

  /** Stages the puts where one write is not enough and the storage can stage. */
  async #prepare(changed: WrittenCollection[]): Promise<void> {
    const withPuts = changed.filter((part) => part.hasPuts)
    if (withPuts.length < 2 && !withPuts.some((part) => part.needsSeveralUploads)) return
    this.#pace.requireTime()
    await runBounded(withPuts.map((part) => () => this.#learnLimits(part)))
    this.#pace.requireTime()
    // All but one collection are staged. The unstaged one commits first; if that fails the staged ones are abandoned.
    const plain = withPuts.findLast((part) => !part.needsSeveralUploads)
    await runBounded(withPuts.filter((part) => part !== plain).map((part) => () => part.stage()))
  }

  #readLimits(storage: BulkStorage): Promise<StorageLimits> {
    const reading = this.#limits.get(storage) ?? storage.limits()
    this.#limits.set(storage, reading)
    return reading
  }

  async #learnLimits(part: WrittenCollection): Promise<void> {
    if (part.limits) return
    try {
      part.applyLimits(await this.#readLimits(part.storage))
    } catch (error) {
      if (!isRefusal(error)) throw error
      part.fail(error)
    }
  }

  async #commit(changed: WrittenCollection[]): Promise<void> {
    if (!changed.some((part) => part.hasChanges)) return
    this.#pace.requireTime()
    this.#beginCommit()
    if (changed.length > 1) {
      // The unstaged collection can still be refused, so it commits first, while the staged ones can be abandoned.
      for (const part of changed) if (part.hasPuts && !part.isStaged) await part.commit('puts')
      await runAtOnce(changed.map((part) => () => part.commit('puts')))
    }
    await runAtOnce(changed.map((part) => () => part.commit('deletes')))
  }

  #beginCommit(): void {
    if (this.#isCommitting) return
    this.#isCommitting = true
    this.#pace.beginCommit()
    for (const { storage } of this.#users) storage.beginCommit()
  }

  async #undo(changed: WrittenCollection[]): Promise<void> {
    const results = { untouched: [], undone: [], partial: [], unknown: [] } as Record<string, string[]>
    // A single write has nothing beside it to undo, so its effect is only looked at once more.
    if (this.#context.isVisible || this.#context.isMultiCollection) this.#pace.beginUndo()
    // Concurrently, because the client waits, and a storage that hangs takes its time for each.
    await Promise.all(
      changed.toReversed().map(async (part) => results[await part.undo()]!.push(part.collection)),
    )
    for (const kind of ['undone', 'partial', 'unknown'] as const) {
      const collections = results[kind]!
      if (collections.length > 0) this.#options.observe({ kind, collections })
    }
  }

  async #answer(): Promise<OperationOutcome[]> {
    for (const user of this.#users) {
      const written = this.#written.filter((entry) => entry.user === user).map(({ part }) => part)
      for (const part of written) {
        for (const [index, outcome] of part.outcomes()) {
          if (!this.#outcomes.has(index)) this.#outcomes.set(index, outcome)
        }
      }
      await this.#answerTimestamps(user, written)
      const error = this.#refusals.get(user)
      if (error) this.#failAll(user, error)
    }
    return this.#steps.map((_, index) => this.#withinBudget(this.#outcomes.get(index)!))
  }

  async #answerTimestamps(user: User, written: WrittenCollection[]): Promise<void> {
    for (const index of user.timestampReads) {
      if (this.#outcomes.has(index) || this.#refusals.has(user)) continue
      const base = await this.#readTimestamps(user)
      const collections = new Map(base.collections)
      for (const part of written) {
        const timestamp = part.timestampAt(index)
        if (timestamp > zeroTimestamp) collections.set(part.collection, timestamp)
        else collections.delete(part.collection)
      }
      const timestamp = Math.max(base.timestamp, ...collections.values()) as Timestamp
      this.#outcomes.set(index, { outcome: 'found', timestamp, collections })
    }
  }

  /** One large record may be read many times in a batch, and each answer repeats it. */
  #withinBudget(outcome: OperationOutcome): OperationOutcome {
    const shown =
      outcome.outcome === 'found' && 'record' in outcome
        ? outcome.record
        : outcome.outcome === 'precondition-failed' && 'existing' in outcome
          ? outcome.existing
          : null
    if (!shown || this.#context.budget.take(shown.payload.length)) return outcome
    const message = 'The record is too large for a batch: ask for it alone'
    return { outcome: 'failed', error: new ServiceError(413, errno.requestTooLarge, message) }
  }

  #failAll(user: User, error: ServiceError): void {
    for (const [index, { storage }] of this.#steps.entries()) {
      if (storage.owner === user.storage.owner) this.#outcomes.set(index, { outcome: 'failed', error })
    }
  }
}

async function runAtOnce(tasks: (() => Promise<void>)[]): Promise<void> {
  await runBounded(tasks, tasks.length)
}
