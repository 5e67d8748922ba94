import { invalid, type ServiceError } from '../domain/errors.ts'
import {
  allowsDelete,
  allowsPut,
  fieldLimits,
  evaluateCollection,
  evaluateGet,
  type SyncRecord,
  type Timestamp,
} from '../domain/record.ts'
import { composePage, type BaseList, type Overlay } from './list-page.ts'
import type { FailedOutcome, Operation, OperationOutcome, Rejection } from '../domain/operation.ts'
import type { RecordWrite, Snapshot, StorageLimits } from '../domain/record-storage.ts'

type OperationOf<Kind> = Extract<Operation, { kind: Kind }>

/** An operation on one collection, with its place in the transaction. */
export interface NumberedOperation {
  index: number
  operation: Exclude<Operation, { kind: 'timestamps' }>
}

export function isWrite(operation: Operation): operation is OperationOf<'put' | 'delete'> {
  return operation.kind === 'put' || operation.kind === 'delete'
}

/** One collection as it was read, as of one moment. */
export interface CollectionView extends Snapshot {
  /** What the storage showed for each list, by the index of the operation. */
  lists: Map<number, BaseList>
  /** The number of records; null when no operation asks for it. */
  count: number | FailedOutcome | null
}

/** What the operations on a collection are decided by. */
export interface Known {
  view: CollectionView
  /** Records that the storage refused. */
  rejected: ReadonlyMap<string, Rejection>
  /** Why no write is possible; null while writes are. */
  failure: ServiceError | null
  /** What the storage accepts; null while that is not known. */
  limits: StorageLimits | null
}

/** The timestamps that the changes got when they became visible. */
export interface CommitTimes {
  /** Of records that were written or deleted. */
  written: Timestamp
  /** Of the collection after the last change. */
  collection: Timestamp
}

/** Makes the outcome of an operation once the times of the commit are known. */
type Answer = (times: CommitTimes) => OperationOutcome

/**
 * Stands for the timestamp that a write will get: newer than every version that a client can know, so that a condition on
 * an older one fails.
 */
const pending = Number.MAX_SAFE_INTEGER as Timestamp

/** The state of one record between two operations. */
interface RecordState {
  /** What is visible of it now, and before the first operation. */
  record: SyncRecord | null
  base: SyncRecord | null
  /** What it needs so far; null: to be deleted, undefined: nothing. */
  change: RecordWrite | null | undefined
}

/**
 * Decides the operations on one collection one after the other, each seeing the effects of the earlier ones, as if there
 * were no other writer. Pure: nothing is read or written.
 */
export class Simulation {
  readonly #known: Known
  readonly #states = new Map<string, RecordState>()
  readonly #answers = new Map<number, Answer>()
  /** The index of the first operation that changed something. */
  #effectiveFrom = Number.POSITIVE_INFINITY

  constructor(operations: NumberedOperation[], known: Known) {
    this.#known = known
    for (const { index, operation } of operations) this.#answers.set(index, this.#decide(operation, index))
  }

  /** The records to be deleted. */
  get deletes(): string[] {
    return [...this.#states].flatMap(([id, { change }]) => (change === null ? [id] : []))
  }

  /**
   * What is to be written. A deletion that commits together with other writes is written as an empty record with a ttl of 0; its row
   * stays, expired. Rows that are not empty are those of other clients.
   */
  get writes(): RecordWrite[] {
    const puts = [...this.#states.values()].flatMap(({ change }) => change ?? [])
    return [...puts, ...this.deletes.map((id) => ({ id, payload: '', ttlSeconds: 0 }))]
  }

  /** The outcome of the operation of that index. */
  outcome(index: number, times: CommitTimes): OperationOutcome {
    return this.#answers.get(index)!(times)
  }

  /** The collection's timestamp as the operation of that index sees it. */
  collectionAt(index: number, times: CommitTimes): Timestamp {
    return index > this.#effectiveFrom ? times.collection : this.#known.view.timestamp
  }

  #decide(operation: NumberedOperation['operation'], index: number): Answer {
    switch (operation.kind) {
      case 'get': {
        const { record } = this.#stateOf(operation.id)
        return (times) => evaluateGet(operation.precondition, shown(record, times))
      }
      case 'list':
      case 'count': {
        const read = operation.kind === 'list' ? this.#list(operation, index) : this.#count()
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
    const base = this.#known.view.lists.get(index) ?? ({ outcome: 'too-large' } as const)
    const changed = [...this.#states].flatMap(([id, state]) =>
      state.record === state.base ? [] : [{ id, record: state.record }],
    )
    return (timestamp: Timestamp, times: CommitTimes): OperationOutcome => {
      if (base.outcome !== 'records') return base
      const overlay: Overlay = new Map(changed.map(({ id, record }) => [id, shown(record, times)]))
      return { outcome: 'page', page: composePage(options, base, overlay, timestamp) }
    }
  }

  #count() {
    const { count } = this.#known.view
    let difference = 0
    for (const { record, base } of this.#states.values()) difference += (record ? 1 : 0) - (base ? 1 : 0)
    return (timestamp: Timestamp): OperationOutcome =>
      typeof count === 'number'
        ? { outcome: 'counted', count: Math.max(0, count + difference), timestamp }
        : count!
  }

  #put({ id, input, precondition }: OperationOf<'put'>, index: number): Answer {
    const state = this.#stateOf(id)
    const { record: before, base, change } = state
    const { rejected, failure, limits } = this.#known
    const maxBytes = limits?.maxRecordPayloadBytes ?? Number.POSITIVE_INFINITY
    if (Buffer.byteLength(input.payload ?? '') > maxBytes) {
      return () => ({ outcome: 'rejected', reason: 'too-large' })
    }
    if (!allowsPut(precondition, before?.lastModified ?? null)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const reason = rejected.get(id)
    if (reason) return () => ({ outcome: 'rejected', reason })
    if (failure) return () => ({ outcome: 'failed', error: failure })
    // Fields that were left out are written as they are: a write of the ttl alone would make no new version in some requests, and
    // one in others. The row of a record that was deleted before keeps its sortindex, too.
    const { payload = before?.payload ?? '', sortindex = (before ?? base)?.sortindex } = input
    // There may be an invisible, expired row under the id of a new record, whose expiry would stay without a ttl.
    const { ttlSeconds = before === null ? fieldLimits.ttlSeconds : change?.ttlSeconds } = input
    const fields = { id, payload, ...(sortindex !== undefined && { sortindex }) }
    const stored = { ...fields, lastModified: pending }
    state.change = { ...fields, ...(ttlSeconds !== undefined && { ttlSeconds }) }
    state.record = ttlSeconds !== undefined && ttlSeconds <= 0 ? null : stored
    this.#effectiveFrom = Math.min(this.#effectiveFrom, index)
    return (times) => ({ outcome: 'stored', record: shown(stored, times) })
  }

  #delete({ id, precondition }: OperationOf<'delete'>, index: number): Answer {
    const state = this.#stateOf(id)
    const { rejected, failure } = this.#known
    const { record: before } = state
    if (before === null) return () => ({ outcome: 'missing' })
    if (!allowsDelete(precondition, before.lastModified)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const refusal = rejected.has(id) ? invalid('path', 'record_id', 'is refused by the storage') : null
    const error = failure ?? refusal
    if (error) return () => ({ outcome: 'failed', error })
    state.record = null
    state.change = state.base ? null : undefined
    this.#effectiveFrom = Math.min(this.#effectiveFrom, index)
    return (times) => ({ outcome: 'deleted', id, timestamp: times.written })
  }

  #stateOf(id: string): RecordState {
    return this.#states.getOrInsertComputed(id, () => {
      const base = this.#known.view.records.get(id) ?? null
      return { record: base, base, change: undefined }
    })
  }
}

/** The record as it is shown once the changes are visible. */
function shown<Shown extends SyncRecord | null>(record: Shown, times: CommitTimes): Shown {
  return record?.lastModified === pending ? { ...record, lastModified: times.written } : record
}
