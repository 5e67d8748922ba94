import { timestampStepMs, type Timestamp } from '../domain/timestamp.ts'
import {
  maxUploadBytes,
  Simulation,
  uploadBytes,
  type CommitTimes,
  type Known,
  type NumberedOperation,
} from './simulate.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { OperationOutcome } from '../domain/operation.ts'
import type {
  BulkStorage,
  KnownRecord,
  RecordWrite,
  Snapshot,
  StorageLimits,
} from '../domain/record-storage.ts'
import type { KnownCollection } from './known-collection.ts'

/** The changes to one collection: first one upload, then deletions. */
interface Plan {
  /** The records to write. */
  writes: RecordWrite[]
  /** The writes, split to the limits of the storage. */
  uploads: RecordWrite[][]
  /** The records to delete. */
  deletes: string[]
  /** The number of writes that make the changes visible. */
  steps: number
}

/** What has become visible. */
export interface Visible {
  /** The timestamp of the upload; null before it. */
  uploadedAt: Timestamp | null
  /** The records that were written, without those that the storage rejected. */
  writes: RecordWrite[]
  /** The timestamp of the last deletion; null before the first. */
  deletedAt: Timestamp | null
  /** The records that are deleted, as they were; null if another client deleted them first. */
  deleted: Map<string, KnownRecord | null>
  /**
   * The timestamp of our last change that follows the snapshot without another writer in between. A later one would hide that writer's
   * change from a client that continues from it.
   */
  collectionAt: Timestamp
}

/** What was decided, and from which facts. */
interface Decided {
  facts: Readonly<Known>
  simulation: Simulation
  plan: Plan
}

/** What to write to one collection: the plan, which part of it is visible, and the resulting outcome of each operation. No I/O. */
export class CollectionChanges {
  /** Null: nothing is visible. */
  visible: Visible | null = null
  #decided: Decided | null = null

  constructor(
    private readonly operations: NumberedOperation[],
    private readonly known: KnownCollection,
    private readonly splitDeletion: BulkStorage['splitDeletion'],
  ) {}

  get plan(): Plan {
    return this.#decide().plan
  }

  /** Whether records remain to be written. */
  get needsUpload(): boolean {
    return (this.visible?.uploadedAt ?? null) === null && this.plan.writes.length > 0
  }

  /** The records that remain to be deleted. */
  get remainingDeletes(): string[] {
    const deleted = this.visible?.deleted
    return deleted ? this.plan.deletes.filter((id) => !deleted.has(id)) : this.plan.deletes
  }

  /** Records that must be shown, whose payloads were left out. */
  get lacking(): ReadonlySet<string> {
    return this.#decide().simulation.lacking
  }

  get hasChanges(): boolean {
    return this.needsUpload || this.remainingDeletes.length > 0
  }

  /** Notes that the upload is visible since `at`, except for the rejected records. */
  recordUpload(at: Timestamp, rejected: ReadonlyMap<string, ServiceError>): void {
    const writes = this.plan.writes.filter(({ id }) => !rejected.has(id))
    this.visible = { ...this.#visible(at), uploadedAt: at, writes }
    this.known.since = at
    this.known.reject(rejected)
  }

  /**
   * Notes that these records are deleted. `at`: by us, at that time; null: by another client. `isAlone`: whether no one else has changed the
   * collection since the last step, as far as is known.
   */
  recordDeletion(ids: string[], at: Timestamp | null, isAlone: boolean): void {
    const { since, facts } = this.known
    const visible = this.#visible((since + timestampStepMs) as Timestamp)
    const { records } = facts.view
    for (const id of ids) visible.deleted.set(id, at === null ? null : records.get(id)!)
    visible.deletedAt = at ?? visible.deletedAt
    if (at !== null && isAlone) {
      if (this.visible === null || since === visible.collectionAt) visible.collectionAt = at
      this.known.since = at
    }
    this.visible = visible
  }

  /** Whether a snapshot shows the version of a record that its operations were decided by. */
  isUnchanged(id: string, { records }: Snapshot): boolean {
    return records.get(id)?.lastModified === this.known.facts.view.records.get(id)!.lastModified
  }

  /** Decides the remaining deletions against a newer snapshot, after a part is visible. Those of unchanged records stay. */
  review(snapshot: Snapshot): void {
    const changed = this.remainingDeletes.filter((id) => !this.isUnchanged(id, snapshot))
    const missing = changed.filter((id) => !snapshot.records.has(id))
    this.recordDeletion(missing, null, false)
    this.known.replace(
      snapshot,
      changed.filter((id) => snapshot.records.has(id)),
    )
    this.known.since = snapshot.timestamp
  }

  /** The collection's timestamp as that operation sees it. */
  timestampAt(index: number): Timestamp {
    return this.#decide().simulation.collectionAt(index, this.#times)
  }

  /** The outcome of that operation; its timestamps are placeholders before the commit. */
  outcome(index: number): OperationOutcome {
    return this.#decide().simulation.outcome(index, this.#times)
  }

  #visible(at: Timestamp): Visible {
    return (
      this.visible ?? { uploadedAt: null, writes: [], deletedAt: null, deleted: new Map(), collectionAt: at }
    )
  }

  get #times(): CommitTimes {
    const { timestamp } = this.known.facts.view
    // A record that was created and deleted within the batch gets the first timestamp after the snapshot.
    const next = (timestamp + timestampStepMs) as Timestamp
    if (this.visible === null) {
      const collection = this.hasChanges ? next : timestamp
      return { written: next, deleted: next, collection }
    }
    const { uploadedAt, deletedAt, collectionAt } = this.visible
    const written = uploadedAt ?? collectionAt
    return { written, deleted: deletedAt ?? written, collection: collectionAt }
  }

  #decide(): Decided {
    const { facts } = this.known
    if (this.#decided?.facts === facts) return this.#decided
    const simulation = new Simulation(this.operations, facts)
    const { writes, deletes } = simulation
    const uploads = splitIntoUploads(writes, facts.limits)
    const steps = Math.min(1, writes.length) + this.splitDeletion(deletes).length
    return (this.#decided = { facts, simulation, plan: { writes, uploads, deletes, steps } })
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
  const maxBytes = sum(records.map(maxUploadBytes))
  const fitsOne = records.length <= maxPostRecords && maxBytes <= Math.min(maxRequestBytes, maxPostBytes)
  if (fitsOne) return records.length === 0 ? [] : [records]
  const uploads: RecordWrite[][] = []
  let postBytes = Infinity
  let requestBytes = Infinity
  for (const record of records) {
    const payloadBytes = Buffer.byteLength(record.payload ?? '')
    const textBytes = uploadBytes(record)
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

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
