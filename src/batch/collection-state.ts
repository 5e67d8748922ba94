import { judgeProbe, resolutionMs } from './probe.ts'
import { planChanges } from './plan.ts'
import { zeroTimestamp } from '../domain/record.ts'
import { simulate } from './simulate.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { OperationOutcome, Rejection } from '../domain/operation.ts'
import type { Snapshot, StorageLimits } from '../domain/record-storage.ts'
import type { SyncRecord, Timestamp } from '../domain/record.ts'
import type { CollectionPlan } from './plan.ts'
import type { ProbeVerdict, VisibleStep } from './probe.ts'
import type { CollectionView, CommitTimes, NumberedOperation, Simulation } from './simulate.ts'

/** What a transaction has done to one record, and what an undo needs to know. */
export interface AppliedChange {
  /** The record as it was; null when there was none. */
  before: SyncRecord | null
  /** The version that the transaction left; null when it left no record. */
  leftAt: Timestamp | null
  /** A ttl was written, so the earlier expiry is lost. */
  wroteTtl: boolean
  /** A payload or a sortindex was written. */
  wroteVersion: boolean
  wroteSortindex: boolean
}

/** The moment of the one visible step, and the plan that it carried out. */
interface Commit {
  at: Timestamp
  step: VisibleStep
  plan: CollectionPlan
}

/**
 * The state of one collection within a transaction: what was read, what has been committed, and what follows from both
 * for each operation. It does no I/O. All changes of a collection become visible in one step.
 */
export class CollectionState {
  readonly #operations: NumberedOperation[]
  readonly #rejected = new Map<string, Rejection>()
  #failure: ServiceError | null = null
  #limits: StorageLimits | null = null
  #view: CollectionView = { timestamp: zeroTimestamp, records: new Map(), lists: new Map(), count: null }
  #since = zeroTimestamp
  /** The simulation and its plan; null as soon as anything changes that they follow from. */
  #decided: { simulation: Simulation; plan: CollectionPlan } | null = null
  #commit: Commit | null = null
  /** When deletions took place, if that was after the commit. */
  #deletedAt: Timestamp | null = null

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

  /** Whether the changes are upstream. */
  get isVisible(): boolean {
    return this.#commit !== null
  }

  /** What is to be written, or was. */
  get plan(): CollectionPlan {
    return this.#commit?.plan ?? this.#decide().plan
  }

  /** Whether anything remains to be written. */
  get hasChanges(): boolean {
    return this.#commit === null && this.plan.writes.length > 0
  }

  /** No write is possible. The error becomes the outcome of the operations that would write. */
  fail(error: ServiceError): void {
    this.#failure = error
    this.#decided = null
  }

  /** Judges and plans the writes by the storage's limits. */
  applyLimits(limits: StorageLimits): void {
    this.#limits = limits
    this.#decided = null
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
    this.#decided = null
  }

  /** The collection was empty at that moment. Called only before anything is written. */
  continueFrom(at: Timestamp): void {
    this.#since = at
  }

  /** What a snapshot shows about a step whose answer was lost. */
  judge(step: VisibleStep, probe: Snapshot): ProbeVerdict {
    return judgeProbe(step, this.#view.records, this.#since, probe)
  }

  /**
   * Records that the step is upstream since that moment, except for the refused ids. `seenAt`: the collection's timestamp when
   * that was seen, which may be later than the step.
   */
  settle(step: VisibleStep, at: Timestamp, refused: Map<string, Rejection>, seenAt = at): void {
    this.#commit = { at, step, plan: this.plan }
    this.#since = seenAt
    if (refused.size > 0) this.reject(refused)
  }

  /**
   * Records that the rows of the deleted records were removed at that moment, with no other writer in between. A client that is told a
   * moment after another writer's change would never fetch that change.
   */
  settleRemoval(at: Timestamp): void {
    if (this.#since === this.#commit?.at) this.#deletedAt = at
  }

  /** The deleted records whose rows are still there, because a write has deleted them. */
  get expiredRows(): string[] {
    const { applied } = this
    return this.#commit?.step.kind === 'write' ? this.plan.deletes.filter((id) => applied.has(id)) : []
  }

  /** The changes that are upstream, by record id. */
  get applied(): Map<string, AppliedChange> {
    const applied = new Map<string, AppliedChange>()
    if (this.#commit === null) return applied
    const { at, step, plan } = this.#commit
    const wasStaged = step.kind === 'write' && step.batch !== null
    for (const { id, payload, sortindex, ttlSeconds } of plan.writes) {
      if (this.#rejected.has(id)) continue
      const before = this.#view.records.get(id) ?? null
      const wroteVersion = payload !== undefined || sortindex !== undefined
      const isGone = ttlSeconds !== undefined && ttlSeconds <= 0
      const version = wroteVersion || wasStaged ? at : (before?.lastModified ?? at)
      const wroteTtl = ttlSeconds !== undefined
      const leftAt = isGone ? null : version
      const wroteSortindex = sortindex !== undefined
      applied.set(id, { before, leftAt, wroteTtl, wroteVersion, wroteSortindex })
    }
    return applied
  }

  /** The collection's timestamp as the operation of that index sees it. */
  timestampAt(index: number): Timestamp {
    const { effectiveFrom } = this.#decide().simulation
    return index > effectiveFrom ? this.#times.collection : this.#view.timestamp
  }

  /** The outcome of the operation of that index; before the commit with timestamps that are not the true ones. */
  outcome(index: number): OperationOutcome {
    return this.#decide().simulation.answers.get(index)!(this.#times)
  }

  get #times(): CommitTimes {
    if (this.#commit === null) {
      // What was created and deleted inside the batch was never written; it gets the first timestamp after the snapshot.
      const { timestamp } = this.#view
      const next = (timestamp + resolutionMs) as Timestamp
      return { written: next, deleted: next, collection: timestamp, wasStaged: false }
    }
    const { at, step } = this.#commit
    const last = this.#deletedAt ?? at
    const wasStaged = step.kind === 'write' && step.batch !== null
    return { written: at, deleted: last, collection: last, wasStaged }
  }

  #decide(): { simulation: Simulation; plan: CollectionPlan } {
    if (this.#decided) return this.#decided
    const simulation = simulate(this.#operations, this.#view, {
      rejected: this.#rejected,
      failure: this.#failure,
      maxPayloadBytes: this.#limits?.maxRecordPayloadBytes ?? Number.POSITIVE_INFINITY,
    })
    return (this.#decided = { simulation, plan: planChanges(simulation.changes, this.#limits) })
  }
}
