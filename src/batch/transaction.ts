import { errno, isRefusal, ServiceError } from '../domain/errors.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { Pace, runBounded } from './pace.ts'
import { fitsAnyStorage } from './plan.ts'
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
  readonly #limits = new Map<BulkStorage, Promise<StorageLimits>>()
  /** Whether the client writes so much that the storage's limits must be known before it is judged. */
  readonly #needsLimits: boolean
  #isCommitting = false

  constructor(steps: Step[], users: User[], options: TransactionOptions) {
    this.#steps = steps
    this.#users = users
    this.#options = options
    this.#pace = new Pace(options)
    this.#needsLimits = !fitsAnyStorage(
      steps.flatMap(({ operation }) => (operation.kind === 'put' ? [operation.input] : [])),
    )
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
    await runBounded(this.#users.flatMap((user) => this.#reads(user)))
    const admitted = this.#users.filter(({ refusal }) => refusal === null)
    const changed = admitted.flatMap(({ written }) => written.filter(({ state }) => state.hasChanges))
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
    const records = changed.reduce((total, { state }) => total + state.applied.size, 0)
    this.#options.observe({ kind: 'committed', collections: changed.length, records })
    return this.#answer()
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
    const readLimits = async () => {
      const reading = this.#limits.get(storage) ?? storage.limits()
      this.#limits.set(storage, reading)
      part.state.applyLimits(await reading)
    }
    const hasPuts = operations.some(({ operation }) => operation.kind === 'put')
    await runBounded([() => part.read(), ...(hasPuts && this.#needsLimits ? [readLimits] : [])])
    await part.create()
    user.written.push(part)
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

  /** Stages the puts where one write is not enough and the storage can stage. */
  async #prepare(changed: WrittenCollection[]): Promise<void> {
    const withPuts = changed.filter(({ state }) => state.plan.puts.length > 0)
    const fitOneUpload = withPuts.filter(({ state }) => state.plan.uploads.length === 1)
    if (withPuts.length < 2 && fitOneUpload.length === withPuts.length) return
    this.#pace.requireTime()
    // All but one collection are staged. The unstaged one commits first; if that fails the staged ones are abandoned.
    const plain = fitOneUpload.at(-1)
    await runBounded(withPuts.filter((part) => part !== plain).map((part) => () => part.stage()))
  }

  async #commit(changed: WrittenCollection[]): Promise<void> {
    if (!changed.some(({ state }) => state.hasChanges)) return
    this.#pace.requireTime()
    this.#beginCommit()
    if (changed.length > 1) {
      // The unstaged collection can still be refused, so it commits first, while the staged ones can be abandoned.
      for (const part of changed) {
        if (part.state.plan.puts.length > 0 && !part.isStaged) await part.commit('puts')
      }
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

  #answer(): OperationOutcome[] {
    for (const user of this.#users) {
      for (const { state } of user.written) {
        for (const [index, outcome] of state.outcomes()) {
          if (!this.#outcomes.has(index)) this.#outcomes.set(index, outcome)
        }
      }
      for (const index of user.timestampReads) {
        if (!this.#outcomes.has(index) && !user.refusal) this.#outcomes.set(index, timestampsAt(index, user))
      }
    }
    const refusals = new Map(this.#users.map(({ storage, refusal }) => [storage.owner, refusal]))
    return this.#steps.map(({ storage }, index) => {
      const refusal = refusals.get(storage.owner)
      return refusal ? { outcome: 'failed', error: refusal } : this.#withinBudget(this.#outcomes.get(index)!)
    })
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

async function runAtOnce(tasks: (() => Promise<void>)[]): Promise<void> {
  await runBounded(tasks, tasks.length)
}
