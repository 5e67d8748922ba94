import { judgeProbe, resolutionMs } from './probe.ts'
import { planChanges } from './plan.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { simulate } from './simulate.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { OperationOutcome } from '../domain/operation.ts'
import type { Snapshot, StorageLimits } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { CollectionPlan } from './plan.ts'
import type { ProbeVerdict, VisibleStep } from './probe.ts'
import type { CollectionView, CommittedPrefix, NumberedOperation, Rejection, Simulation } from './simulate.ts'

/** What a transaction has done to one record, and what an undo needs to know. */
export interface AppliedChange {
  /** The record as it was; null when there was none. */
  before: SyncRecord | null
  /** The version that the transaction left; null when it left no record. */
  leftAt: Timestamp | null
  /** A ttl was written, so the earlier expiry is lost. */
  wroteTtl: boolean
  wroteSortindex: boolean
  /** A payload or a sortindex was written. */
  wroteVersion: boolean
}

/**
 * The state of one collection within a transaction: what was read, what has been applied since, and what follows from
 * both for each operation. It does no I/O. An operation on a record is judged once: as soon as its effect is upstream it
 * is settled, and later writes of others do not change its outcome.
 */
export class CollectionState {
  /** The changes applied so far, by record id. */
  readonly applied = new Map<string, AppliedChange>()
  readonly #rejected = new Map<string, Rejection>()
  #failure: ServiceError | null = null
  #limits: StorageLimits | null = null
  /** The simulation and its plan; null as soon as anything changes that they follow from. */
  #decided: { simulation: Simulation; plan: CollectionPlan } | null = null
  /** Whether all changes are upstream, so that nothing is decided any more. */
  #isSettled = false
  readonly #operations: NumberedOperation[]
  readonly #prefixes = new Map<string, CommittedPrefix[]>()
  readonly #writtenAt = new Map<string, Timestamp>()
  /** Records that got a new version from the commit of a staged batch, even if only their ttl was written. */
  readonly #stagedAt = new Map<string, Timestamp>()
  readonly #inherited = new Map<string, number>()
  #view: CollectionView = { timestamp: zeroTimestamp, records: new Map(), lists: new Map(), count: null }
  #since = zeroTimestamp
  #committedAt: Timestamp | null = null
  #wasRefreshed = false

  constructor(operations: NumberedOperation[]) {
    this.#operations = operations
  }

  /** What the storage accepts; null while it is not known. */
  get limits(): StorageLimits | null {
    return this.#limits
  }

  /** The condition of the next write: it counts only while no other writer has changed the collection after this moment. */
  get since(): Timestamp {
    return this.#since
  }

  /** Whether another writer may have changed the collection after our first step, and overwritten what we wrote. */
  get mayHaveConcurrentWrites(): boolean {
    return this.#wasRefreshed || this.#since !== this.#committedAt
  }

  /** Whether a part of the changes is upstream. */
  get isVisible(): boolean {
    return this.#committedAt !== null
  }

  /** The changes that remain. */
  get plan(): CollectionPlan {
    return this.#decide().plan
  }

  get hasChanges(): boolean {
    const { resets, puts, deletes } = this.plan
    return resets.size + puts.length + deletes.length > 0
  }

  /** No further write is possible. The error becomes the outcome of the operations that are not settled. */
  fail(error: ServiceError): void {
    this.#failure = error
    this.#reconsider()
  }

  /** Judges and plans the writes by the storage's limits. */
  applyLimits(limits: StorageLimits): void {
    this.#limits = limits
    this.#reconsider()
  }

  /** The storage refused these records. */
  reject(rejected: Map<string, Rejection>): void {
    for (const [id, reason] of rejected) this.#rejected.set(id, reason)
    this.#decided = null
  }

  /** Starts, or starts over with a newer view. Called only while nothing is visible. */
  restart(view: CollectionView): void {
    this.#view = view
    this.#since = view.timestamp
    this.#rejected.clear()
    this.#decided = null
  }

  /** The collection was empty at that moment. Called only before anything is written. */
  goOnFrom(at: Timestamp): void {
    this.#since = at
  }

  /** Continues with newer versions of the records whose operations are not settled. */
  refresh(snapshot: Snapshot): void {
    this.#wasRefreshed = true
    this.#reconsider()
    this.#view = { ...this.#view, records: snapshot.records }
    this.#since = snapshot.timestamp
  }

  /** Records that were created without a sortindex. */
  get createdWithoutSortindex(): string[] {
    return [...this.applied].flatMap(([id, { before, leftAt, wroteSortindex }]) =>
      before === null && leftAt !== null && !wroteSortindex ? [id] : [],
    )
  }

  /** Records what the storage made of the records that were created. */
  noteCreated({ records }: Snapshot): void {
    for (const { id, lastModified, sortindex } of records.values()) {
      const isOurs = lastModified === this.#writtenAt.get(id)
      if (isOurs && sortindex !== undefined) this.#inherited.set(id, sortindex)
    }
  }

  /** What a snapshot shows about a step whose answer was lost. */
  judge(step: VisibleStep, probe: Snapshot): ProbeVerdict {
    return judgeProbe(step, this.#view.records, this.#since, probe)
  }

  /** Records that a step is upstream, except for the refused ids. */
  settle(step: VisibleStep, at: Timestamp, refused: Map<string, Rejection>): void {
    const { simulation, plan } = this.#decide()
    this.#isSettled = refused.size === 0 && isLast(step, plan)
    if (step.kind === 'remove') this.#settleRemoval(step.ids, plan)
    else this.#settleWrite(step, at, refused, plan)
    this.#since = at
    this.#committedAt = at
    this.#decided = this.#isSettled ? { simulation, plan: planChanges(new Map(), this.#limits) } : null
  }

  /** The collection's timestamp as the operation of that index sees it. Called once everything is settled. */
  timestampAt(index: number): Timestamp {
    const { effectiveFrom } = this.#decide().simulation
    return index > effectiveFrom ? (this.#committedAt ?? this.#view.timestamp) : this.#view.timestamp
  }

  /** The outcome of each operation, by its index. Called once everything is settled. */
  outcomes(): Map<number, OperationOutcome> {
    const collection = this.#committedAt ?? this.#view.timestamp
    // A record created and deleted inside the batch was never written; it gets the first timestamp after the snapshot.
    const moment = this.#committedAt ?? ((collection + resolutionMs) as Timestamp)
    const times = {
      collection,
      record: (id: string) => this.#writtenAt.get(id) ?? moment,
      touched: (id: string) => this.#stagedAt.get(id) ?? null,
      inherited: (id: string) => this.#inherited.get(id) ?? null,
    }
    const outcomes = new Map<number, OperationOutcome>()
    for (const [index, answer] of this.#decide().simulation.answers) outcomes.set(index, answer(times))
    return outcomes
  }

  #decide(): { simulation: Simulation; plan: CollectionPlan } {
    if (this.#decided) return this.#decided
    const simulation = simulate(this.#operations, this.#view, {
      prefixes: this.#prefixes,
      rejected: this.#rejected,
      failure: this.#failure,
      maxPayloadBytes: this.#limits?.maxRecordPayloadBytes ?? Number.POSITIVE_INFINITY,
    })
    return (this.#decided = { simulation, plan: planChanges(simulation.changes, this.#limits) })
  }

  #reconsider(): void {
    if (!this.#isSettled) this.#decided = null
  }

  #settleRemoval(ids: string[], { resets, deletes }: CollectionPlan): void {
    for (const id of ids) {
      this.applied.set(id, {
        before: this.#before(id),
        leftAt: null,
        wroteTtl: true,
        wroteSortindex: false,
        wroteVersion: true,
      })
      const resetAt = resets.get(id)
      this.#closePrefix(id, resetAt === undefined ? Number.POSITIVE_INFINITY : resetAt + 1)
    }
    const records = new Map(this.#view.records)
    for (const id of ids) records.delete(id)
    this.#view = { ...this.#view, records }
    // No other write was due, so everything that was decided without a write happened at this moment.
    if (resets.size === 0) this.#closeAllBut(new Set(deletes))
  }

  #settleWrite(
    step: Extract<VisibleStep, { kind: 'write' }>,
    at: Timestamp,
    refused: Map<string, Rejection>,
    { puts, deletes }: CollectionPlan,
  ): void {
    for (const { id, payload, sortindex, ttlSeconds } of step.records) {
      const reason = refused.get(id)
      if (reason) {
        this.#rejected.set(id, reason)
        continue
      }
      const before = this.#before(id)
      const wroteVersion = payload !== undefined || sortindex !== undefined
      const wasStaged = step.batch !== undefined
      const isGone = ttlSeconds !== undefined && ttlSeconds <= 0
      this.applied.set(id, {
        before,
        leftAt: isGone ? null : wroteVersion || wasStaged ? at : (before?.lastModified ?? at),
        wroteTtl: ttlSeconds !== undefined,
        wroteSortindex: sortindex !== undefined,
        wroteVersion,
      })
      this.#writtenAt.set(id, at)
      if (wasStaged) this.#stagedAt.set(id, at)
      this.#closePrefix(id, Number.POSITIVE_INFINITY)
    }
    this.#closeAllBut(new Set([...puts.map(({ id }) => id), ...deletes]))
  }

  // An undo restores what other writers made of the record after our first step.
  #before(id: string): SyncRecord | null {
    return this.#view.records.get(id) ?? this.applied.get(id)?.before ?? null
  }

  #closeAllBut(open: Set<string>): void {
    for (const { operation } of this.#operations) {
      if ('id' in operation && !open.has(operation.id)) {
        this.#closePrefix(operation.id, Number.POSITIVE_INFINITY)
      }
    }
  }

  #closePrefix(id: string, until: number): void {
    if (this.#isSettled) return
    const prefixes = this.#prefixes.get(id) ?? []
    if (prefixes.at(-1)?.until === Number.POSITIVE_INFINITY) return
    const base = this.#view.records.get(id) ?? null
    this.#prefixes.set(id, [...prefixes, { until, base, rejection: this.#rejected.get(id) ?? null }])
  }
}

/** Whether the plan has nothing beside this step. */
function isLast(step: VisibleStep, { resets, puts, deletes }: CollectionPlan): boolean {
  if (resets.size > 0) return false
  return step.kind === 'remove' || (deletes.length === 0 && step.records.length === puts.length)
}
