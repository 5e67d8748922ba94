import { zeroTimestamp, type Timestamp } from '../domain/record.ts'
import { resolutionMs } from './probe.ts'
import {
  Simulation,
  type CollectionView,
  type CommitTimes,
  type Known,
  type NumberedOperation,
} from './simulate.ts'
import type { OperationOutcome, Rejection } from '../domain/operation.ts'
import type { RecordWrite, StorageLimits } from '../domain/record-storage.ts'

/** What one collection needs: one upload, or one deletion. */
interface Plan {
  /** What is written, records to be deleted included. */
  writes: RecordWrite[]
  /** The writes in portions that the storage accepts. */
  uploads: RecordWrite[][]
  /** The records to be deleted. */
  deletes: string[]
}

/** The one step that has become visible. */
interface Commit {
  /** When it became visible; of deletions alone whose answer was lost, the earliest possible moment. */
  at: Timestamp
  /** The last change of ours: the commit, or the removal of rows after it. */
  changedAt: Timestamp
  /** What was written, without what the storage refused. */
  writes: RecordWrite[]
  /** The deleted records whose rows are still there, because a write has deleted them. */
  expiredRows: string[]
}

/**
 * The state of one collection within a transaction: what is known, what has been committed, and what follows from both
 * for each operation. It does no I/O. All changes of a collection become visible in one step.
 */
export class CollectionState {
  /** The condition of the next write: it counts only while no other writer has changed the collection after this moment. */
  since = zeroTimestamp
  /** What is upstream; null while nothing is. Set by `settle`. */
  commit: Commit | null = null
  /** Changed by `update`. */
  known: Readonly<Known> = {
    view: {
      timestamp: zeroTimestamp,
      unchangedForMs: Infinity,
      records: new Map(),
      lists: new Map(),
      count: null,
    },
    rejected: new Map(),
    failure: null,
    limits: null,
  }
  /** The simulation and its plan; null as soon as anything changes that they follow from. */
  #decided: { simulation: Simulation; plan: Plan } | null = null

  constructor(private readonly operations: NumberedOperation[]) {}

  /** What is to be written. */
  get plan(): Plan {
    return this.#decide().plan
  }

  /** Whether anything remains to be written. */
  get hasChanges(): boolean {
    return this.commit === null && this.plan.writes.length > 0
  }

  /** Decides everything anew. A `failure` becomes the outcome of the operations that would write. */
  update(news: Partial<Known>): void {
    this.known = { ...this.known, ...news }
    this.#decided = null
  }

  /** The storage refused these records. */
  reject(rejected: ReadonlyMap<string, Rejection>): void {
    if (rejected.size > 0) this.update({ rejected: new Map([...this.known.rejected, ...rejected]) })
  }

  /** Starts, or starts over with a newer view. Called only while nothing is visible. */
  restart(view: CollectionView): void {
    this.since = view.timestamp
    this.update({ view })
  }

  /**
   * Records that the plan is upstream since that moment, except for the refused ids. `isRemoval`: the rows of deleted records are
   * gone as well. `seenAt`: the collection's timestamp when that was seen, which may be later than the step.
   */
  settle(
    at: Timestamp,
    refused: ReadonlyMap<string, Rejection>,
    isRemoval: boolean,
    seenAt: Timestamp,
  ): void {
    const { writes, deletes } = this.plan
    this.commit = {
      at,
      changedAt: at,
      writes: writes.filter(({ id }) => !refused.has(id)),
      expiredRows: isRemoval ? [] : deletes.filter((id) => !refused.has(id)),
    }
    this.since = seenAt
    this.reject(refused)
  }

  /** The collection's timestamp as the operation of that index sees it. */
  timestampAt(index: number): Timestamp {
    return this.#decide().simulation.collectionAt(index, this.#times)
  }

  /** The outcome of the operation of that index; before the commit with timestamps that are not the true ones. */
  outcome(index: number): OperationOutcome {
    return this.#decide().simulation.outcome(index, this.#times)
  }

  get #times(): CommitTimes {
    if (this.commit !== null) return { written: this.commit.at, collection: this.commit.changedAt }
    // What was created and deleted inside the batch was never written; it gets the first timestamp after the snapshot.
    const { timestamp } = this.known.view
    return { written: (timestamp + resolutionMs) as Timestamp, collection: timestamp }
  }

  #decide(): { simulation: Simulation; plan: Plan } {
    if (this.#decided) return this.#decided
    const simulation = new Simulation(this.operations, this.known)
    const { writes, deletes } = simulation
    const uploads = splitIntoUploads(writes, this.known.limits)
    return (this.#decided = { simulation, plan: { writes, uploads, deletes } })
  }
}

/** What every storage accepts in one upload, those included that announce no limits. */
const smallestLimits: StorageLimits = {
  maxRequestBytes: 1_048_576,
  maxPostBytes: 1_000_000,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 262_144,
  batch: null,
}

/**
 * Whether every storage accepts the records in one upload, so that its limits need not be fetched: true for one short
 * record.
 */
export function fitsAnyStorage(records: { payload?: string }[]): boolean {
  const [{ payload = '' } = {}] = records
  return records.length <= 1 && Buffer.byteLength(payload) <= smallestLimits.maxRecordPayloadBytes
}

/** Whether the storage stages, and one staged batch can hold the records. */
export function fitsOneBatch(records: RecordWrite[], limits: StorageLimits | null): boolean {
  if (!limits?.batch) return false
  const { maxTotalRecords, maxTotalBytes } = limits.batch
  const bytes = sum(records.map(({ payload = '' }) => Buffer.byteLength(payload)))
  return records.length <= maxTotalRecords && bytes <= maxTotalBytes
}

/**
 * Splits records into uploads that the storage accepts; its limits are null while they are not known. A record that is too long
 * gets an upload of its own.
 */
export function splitIntoUploads(records: RecordWrite[], limits: StorageLimits | null): RecordWrite[][] {
  const { maxRequestBytes, maxPostBytes, maxPostRecords } = limits ?? smallestLimits
  // Printing every record would cost as much as the upload, so those that fit in any case are not measured.
  const mostBytes = sum(records.map(maxTextBytes))
  const fitsOne = records.length <= maxPostRecords && mostBytes <= Math.min(maxRequestBytes, maxPostBytes)
  if (fitsOne) return records.length === 0 ? [] : [records]
  const uploads: RecordWrite[][] = []
  let postBytes = Infinity
  let requestBytes = Infinity
  for (const record of records) {
    const payloadBytes = Buffer.byteLength(record.payload ?? '')
    // The upload's name for the ttl is shorter than ours, so this is no less than what is sent.
    const textBytes = Buffer.byteLength(JSON.stringify(record)) + 2
    postBytes += payloadBytes
    requestBytes += textBytes
    const fits = postBytes <= maxPostBytes && requestBytes <= maxRequestBytes
    const current = uploads.at(-1)
    if (current && fits && current.length < maxPostRecords) {
      current.push(record)
      continue
    }
    uploads.push([record])
    postBytes = payloadBytes
    requestBytes = textBytes + 2
  }
  return uploads
}

/** No record takes more: names and numbers have 100 bytes at most, and a character that JSON escapes has 6. */
function maxTextBytes({ id, payload = '' }: RecordWrite): number {
  return 100 + 6 * (id.length + payload.length)
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
