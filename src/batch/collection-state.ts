import { timestampStepMs, zeroTimestamp, type Timestamp } from '../domain/record.ts'
import {
  Simulation,
  type CollectionView,
  type CommitTimes,
  type Known,
  type NumberedOperation,
} from './simulate.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { OperationOutcome } from '../domain/operation.ts'
import type { RecordWrite, StorageLimits } from '../domain/record-storage.ts'

/** The changes to one collection: one upload, or one deletion. */
interface Plan {
  /** The records to write; deletions are included as writes. */
  writes: RecordWrite[]
  /** The writes, split to the limits of the storage. */
  uploads: RecordWrite[][]
  /** The records to delete. */
  deletes: string[]
}

/** The change that has become visible. */
interface Commit {
  /** Its timestamp; for deletions whose response was lost, the earliest possible one. */
  at: Timestamp
  /** Our last change: the commit, or the removal of rows after it. */
  changedAt: Timestamp
  /** The records that were written, without those that the storage rejected. */
  writes: RecordWrite[]
  /** Records that were deleted by a write, so that their expired rows remain. */
  expiredRows: string[]
}

/**
 * The state of one collection in a transaction: what is known, what is committed, and the resulting outcome of each operation. No I/O. All
 * changes to a collection become visible in one step.
 */
export class CollectionState {
  /** The condition of the next write: no other writer has changed the collection after this timestamp. */
  since = zeroTimestamp
  /** What is visible upstream; null if nothing. Set by `settle`. */
  commit: Commit | null = null
  /** Changed by `update`. */
  known: Readonly<Known> = {
    view: {
      timestamp: zeroTimestamp,
      unchangedForMs: Infinity,
      records: new Map(),
      lists: new Map(),
    },
    rejected: new Map(),
    failure: null,
    limits: null,
  }
  /** The simulation and its plan; null after `known` has changed. */
  #decided: { simulation: Simulation; plan: Plan } | null = null

  constructor(private readonly operations: NumberedOperation[]) {}

  /** The changes to write. */
  get plan(): Plan {
    return this.#decide().plan
  }

  /** Whether changes remain to be written. */
  get hasChanges(): boolean {
    return this.commit === null && this.plan.writes.length > 0
  }

  /** Updates `known`, and decides everything again. A `failure` becomes the outcome of all writes. */
  update(changes: Partial<Known>): void {
    this.known = { ...this.known, ...changes }
    this.#decided = null
  }

  /** Notes that the storage rejected these records. */
  reject(rejected: ReadonlyMap<string, ServiceError>): void {
    if (rejected.size > 0) this.update({ rejected: new Map([...this.known.rejected, ...rejected]) })
  }

  /** Starts, or restarts, with a new view. Only while nothing is visible. */
  restart(view: CollectionView): void {
    this.since = view.timestamp
    this.update({ view })
  }

  /**
   * Notes that the plan is visible upstream since `at`, except for the rejected ids. `isRemoval`: the rows of deleted records are gone as
   * well. `seenAt`: the collection's timestamp when that was seen; may be later.
   */
  settle(
    at: Timestamp,
    refused: ReadonlyMap<string, ServiceError>,
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

  /** The collection's timestamp as that operation sees it. */
  timestampAt(index: number): Timestamp {
    return this.#decide().simulation.collectionAt(index, this.#times)
  }

  /** The outcome of that operation; its timestamps are placeholders before the commit. */
  outcome(index: number): OperationOutcome {
    return this.#decide().simulation.outcome(index, this.#times)
  }

  get #times(): CommitTimes {
    if (this.commit !== null) return { written: this.commit.at, collection: this.commit.changedAt }
    // A record that was created and deleted within the batch gets the first timestamp after the snapshot.
    const { timestamp } = this.known.view
    return { written: (timestamp + timestampStepMs) as Timestamp, collection: timestamp }
  }

  #decide(): { simulation: Simulation; plan: Plan } {
    if (this.#decided) return this.#decided
    const simulation = new Simulation(this.operations, this.known)
    const { writes, deletes } = simulation
    const uploads = splitIntoUploads(writes, this.known.limits)
    return (this.#decided = { simulation, plan: { writes, uploads, deletes } })
  }
}

/** Limits that every storage accepts, for storages that announce none. */
const smallestLimits: StorageLimits = {
  maxRequestBytes: 1_048_576,
  maxPostBytes: 1_000_000,
  maxPostRecords: 100,
  maxRecordPayloadBytes: 262_144,
  batch: null,
}

/** Whether the records fit into one upload to any storage, so that its limits need not be read: true for one short record. */
export function fitsAnyStorage(records: { payload?: string }[]): boolean {
  const [{ payload = '' } = {}] = records
  return records.length <= 1 && Buffer.byteLength(payload) <= smallestLimits.maxRecordPayloadBytes
}

/** Whether the storage can stage, and the records fit into one staged batch. */
export function fitsOneBatch(records: RecordWrite[], limits: StorageLimits | null): boolean {
  if (!limits?.batch) return false
  const { maxTotalRecords, maxTotalBytes } = limits.batch
  const bytes = sum(records.map(({ payload = '' }) => Buffer.byteLength(payload)))
  return records.length <= maxTotalRecords && bytes <= maxTotalBytes
}

/** Splits records into uploads within the limits; null: unknown limits. A record that is too long gets its own upload. */
export function splitIntoUploads(records: RecordWrite[], limits: StorageLimits | null): RecordWrite[][] {
  const { maxRequestBytes, maxPostBytes, maxPostRecords } = limits ?? smallestLimits
  // Measures by an upper bound first, because serializing every record costs as much as the upload.
  const maxBytes = sum(records.map(maxTextBytes))
  const fitsOne = records.length <= maxPostRecords && maxBytes <= Math.min(maxRequestBytes, maxPostBytes)
  if (fitsOne) return records.length === 0 ? [] : [records]
  const uploads: RecordWrite[][] = []
  let postBytes = Infinity
  let requestBytes = Infinity
  for (const record of records) {
    const payloadBytes = Buffer.byteLength(record.payload ?? '')
    // An upper bound: the upload has a shorter name for the ttl.
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

/** Upper bound of a record's JSON: at most 100 bytes of names and numbers, and 6 for an escaped character. */
function maxTextBytes({ id, payload = '' }: RecordWrite): number {
  return 100 + 6 * (id.length + payload.length)
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
