import { rejectedRecord, type ServiceError } from '../domain/errors.ts'
import { fieldLimits, type SyncRecord } from '../domain/record.ts'
import { recordSelector, stalePosition } from '../domain/list.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'
import { allowsDelete, allowsPut, evaluateCollection, evaluateGet } from '../domain/precondition.ts'
import { noRoom } from './context.ts'
import { composePage, type BaseList, type Overlay } from './list-page.ts'
import type { FailedOutcome, Operation, OperationOutcome, Step } from '../domain/operation.ts'
import type { KnownRecord, RecordWrite, Snapshot, StorageLimits } from '../domain/record-storage.ts'

type OperationOf<Kind> = Extract<Operation, { kind: Kind }>

/** An operation on one collection, with its index in the transaction. */
export interface NumberedOperation {
  index: number
  operation: Exclude<Step['operation'], { kind: 'timestamps' }>
}

export function isWrite(operation: Operation): operation is OperationOf<'put' | 'delete'> {
  return operation.kind === 'put' || operation.kind === 'delete'
}

/** The ids that the operations may write. */
export function touchedIds(operations: NumberedOperation[]): ReadonlySet<string> {
  return new Set(operations.flatMap(({ operation }) => (isWrite(operation) ? [operation.id] : [])))
}

/** A consistent view of one collection. */
export interface CollectionView extends Snapshot {
  /** What the storage returned for each list, by the index of the operation. */
  lists: Map<number, BaseList>
}

/** What the operations on a collection are decided against. */
export interface Known {
  view: CollectionView
  /** Records that the storage rejected. */
  rejected: ReadonlyMap<string, ServiceError>
  /** Why no write is possible; null if writes are possible. */
  failure: ServiceError | null
  /** The storage's limits; null while unknown. */
  limits: StorageLimits | null
  /** The records whose payloads are needed, to be shown, written again or restored. */
  needed: ReadonlySet<string>
  /** The indices of writes whose results have no room in the response. */
  withoutRoom: ReadonlySet<number>
}

/** The timestamps of the committed changes. */
export interface CommitTimes {
  /** The timestamp of written records. */
  written: Timestamp
  /** The timestamp of deleted records. */
  deleted: Timestamp
  /** The collection's timestamp after the last change. */
  collection: Timestamp
}

/** Computes the outcome of an operation from the timestamps of the commit. */
type Answer = (times: CommitTimes) => OperationOutcome

/**
 * Placeholder for the timestamp of a pending write: newer than any version that a client can know, so conditions on older versions fail.
 */
const pending = Number.MAX_SAFE_INTEGER as Timestamp

/** The state of one record between operations. */
interface RecordState {
  /** The visible record now, and before the first operation. */
  record: KnownRecord | null
  base: KnownRecord | null
  /** The change so far; null: delete; undefined: none. */
  change: RecordWrite | null | undefined
}

/** Decides the operations on one collection in order, each seeing the effects of earlier ones, without other writers. Pure: no I/O. */
export class Simulation {
  readonly #known: Known
  readonly #states = new Map<string, RecordState>()
  readonly #answers = new Map<number, Answer>()
  /** Records that must be shown, whose payloads were left out. */
  readonly lacking = new Set<string>()
  /** The indices of the first operations that write and that delete. */
  #writesFrom = Number.POSITIVE_INFINITY
  #deletesFrom = Number.POSITIVE_INFINITY
  /** The index of the last operation with a change. */
  #changesTo = Number.NEGATIVE_INFINITY
  readonly #touched: ReadonlySet<string>

  constructor(operations: NumberedOperation[], known: Known) {
    this.#known = known
    this.#touched = touchedIds(operations)
    for (const { index, operation } of operations) this.#answers.set(index, this.#decide(operation, index))
  }

  /** The records to delete. */
  get deletes(): string[] {
    return [...this.#states].flatMap(([id, { change }]) => (change === null ? [id] : []))
  }

  /** The records to write. */
  get writes(): RecordWrite[] {
    return [...this.#states.values()].flatMap(({ change }) => change ?? [])
  }

  /** The outcome of that operation. */
  outcome(index: number, times: CommitTimes): OperationOutcome {
    return this.#answers.get(index)!(times)
  }

  /** The collection's timestamp as that operation sees it. */
  collectionAt(index: number, times: CommitTimes): Timestamp {
    if (index > this.#deletesFrom) return times.collection
    // The deletions come after the upload, and after this operation.
    if (index > this.#writesFrom) return Math.min(times.written, times.collection) as Timestamp
    return this.#known.view.timestamp
  }

  #decide(operation: NumberedOperation['operation'], index: number): Answer {
    if ('id' in operation) {
      const { base } = this.#stateOf(operation.id)
      if (!isWhole(base) && this.#known.needed.has(operation.id)) return lacksRoom
    }
    switch (operation.kind) {
      case 'get': {
        const { record } = this.#stateOf(operation.id)
        return (times) => evaluateGet(operation.precondition, whole(shown(record, times)))
      }
      case 'list':
      case 'count': {
        const read = operation.kind === 'list' ? this.#list(operation, index) : this.#count(operation, index)
        return (times) => {
          const timestamp = this.collectionAt(index, times)
          return evaluateCollection(operation.precondition, timestamp) ?? read(timestamp, times)
        }
      }
      case 'put':
        return this.#put(operation, index)
      case 'delete':
        return this.#delete(operation, index)
      default:
        return operation satisfies never
    }
  }

  #list({ options }: OperationOf<'list'>, index: number) {
    const base = this.#known.view.lists.get(index)!
    const isChanged = index > Math.min(this.#writesFrom, this.#deletesFrom)
    const changed = [...this.#states].flatMap(([id, state]) =>
      state.record === state.base ? [] : [{ id, record: state.record }],
    )
    return (timestamp: Timestamp, times: CommitTimes): OperationOutcome => {
      // The position is one in the list before the write.
      if (options.position && isChanged) return { outcome: 'failed', error: stalePosition() }
      if (base.outcome !== 'records') return base
      const overlay: Overlay = new Map(changed.map(({ id, record }) => [id, whole(shown(record, times))]))
      // After a later change in this transaction, the position of the next page is never valid.
      const version = index > this.#changesTo ? times.collection : zeroTimestamp
      return { outcome: 'page', page: composePage(options, base, overlay, timestamp, version) }
    }
  }

  /** The count of records that the transaction does not touch, and of the others as they are now. */
  #count({ filter }: OperationOf<'count'>, index: number) {
    const base = this.#known.view.lists.get(index)!
    const isListed = recordSelector(filter)
    const touched = [...this.#touched].flatMap((id) => this.#stateOf(id).record ?? [])
    return (timestamp: Timestamp, times: CommitTimes): OperationOutcome => {
      if (base.outcome !== 'counted') return base as FailedOutcome
      const listed = touched.filter((record) => isListed(shown(record, times)))
      return { outcome: 'counted', timestamp, count: base.count + listed.length }
    }
  }

  #put({ id, input, precondition }: OperationOf<'put'>, index: number): Answer {
    const state = this.#stateOf(id)
    const { record: before, base, change } = state
    const { rejected, failure, limits } = this.#known
    if (limits !== null && !fitsUpload({ id, ...input }, limits)) {
      return () => ({ outcome: 'failed', error: rejectedRecord(413) })
    }
    if (!allowsPut(precondition, before?.lastModified ?? null)) {
      if (!isWhole(before)) return this.#lack(id)
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const error = this.#known.withoutRoom.has(index) ? noRoom() : (rejected.get(id) ?? failure)
    if (error) return () => ({ outcome: 'failed', error })
    // Writes omitted fields with their stored values, because whether a write of the ttl alone makes a new version depends on the request.
    // The row of a record deleted before also keeps its sortindex.
    const { payload = whole(before)?.payload ?? '', sortindex = (before ?? base)?.sortindex } = input
    // Sets a ttl on new records, because an expired row under the same id would keep its expiry.
    const { ttlSeconds = before === null ? fieldLimits.ttlSeconds : change?.ttlSeconds } = input
    const fields = { id, payload, sortindex }
    const stored = { ...fields, lastModified: pending }
    state.change = { ...fields, ttlSeconds }
    state.record = ttlSeconds === 0 ? null : stored
    this.#writesFrom = Math.min(this.#writesFrom, index)
    this.#changesTo = index
    return (times) => ({ outcome: 'stored', record: shown(stored, times) })
  }

  #delete({ id, precondition }: OperationOf<'delete'>, index: number): Answer {
    const state = this.#stateOf(id)
    const { rejected, failure } = this.#known
    const { record: before } = state
    if (before === null) return () => ({ outcome: 'missing' })
    if (!allowsDelete(precondition, before.lastModified)) {
      if (!isWhole(before)) return this.#lack(id)
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const error = failure ?? rejected.get(id)
    if (error) return () => ({ outcome: 'failed', error })
    state.record = null
    state.change = state.base ? null : undefined
    this.#deletesFrom = Math.min(this.#deletesFrom, index)
    this.#changesTo = index
    return (times) => ({ outcome: 'deleted', id, timestamp: times.deleted })
  }

  #lack(id: string): Answer {
    this.lacking.add(id)
    return lacksRoom
  }

  #stateOf(id: string): RecordState {
    return this.#states.getOrInsertComputed(id, () => {
      const base = this.#known.view.records.get(id) ?? null
      return { record: base, base, change: undefined }
    })
  }
}

/** Whether the storage can accept the record, in an upload of its own. */
function fitsUpload(record: RecordWrite, { maxRecordPayloadBytes, maxRequestBytes }: StorageLimits): boolean {
  const { payload = '' } = record
  if (Buffer.byteLength(payload) > maxRecordPayloadBytes) return false
  return maxUploadBytes(record) <= maxRequestBytes || uploadBytes(record) + 2 <= maxRequestBytes
}

/** Upper bound of a record's JSON in an upload: at most 100 bytes of names and numbers, and 6 for an escaped character. */
export function maxUploadBytes({ id, payload = '' }: RecordWrite): number {
  return 100 + 6 * (id.length + payload.length)
}

/** The same, more exactly; the upload has a shorter name for the ttl. */
export function uploadBytes(record: RecordWrite): number {
  return Buffer.byteLength(JSON.stringify(record)) + 2
}

const lacksRoom: Answer = () => ({ outcome: 'failed', error: noRoom() })

/** Whether the record is absent, or has its payload. */
export function isWhole(record: KnownRecord | null): record is SyncRecord | null {
  return record === null || record.payload !== null
}

/** The record with its payload. Throws if that was left out: what is needed and has no room must have been rejected before. */
export function whole(record: KnownRecord | null): SyncRecord | null {
  if (isWhole(record)) return record
  throw new TypeError('The payload of a record is needed, and was left out')
}

/** The record as it is after the commit. */
function shown<Shown extends KnownRecord | null>(record: Shown, times: CommitTimes): Shown {
  return record?.lastModified === pending ? { ...record, lastModified: times.written } : record
}
