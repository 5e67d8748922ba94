import { invalidRequest } from '../domain/errors.ts'
import { allowsDelete, allowsPut, judgeCollection, judgeGet } from '../domain/precondition.ts'
import { fieldLimits } from '../domain/record.ts'
import { composePage } from './list-page.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { Operation, OperationOutcome, Rejection } from '../domain/operation.ts'
import type { RecordWrite } from '../domain/record-storage.ts'
import type { SyncRecord, Timestamp } from '../domain/record.ts'
import type { BaseList, Overlay } from './list-page.ts'

/** An operation on one collection, with its place in the transaction. */
export interface NumberedOperation {
  index: number
  operation: Exclude<Operation, { kind: 'timestamps' }>
}

/** One collection as it was read, as of one moment. */
export interface CollectionView {
  timestamp: Timestamp
  /** The existing ones among the records that operations name. */
  records: Map<string, SyncRecord>
  /** What the storage showed for each list, by the index of the operation. */
  lists: Map<number, BaseList>
  /** The number of records; null when no operation asks for it. */
  count: number | ServiceError | null
}

/** What is known beside the view. */
interface Refusals {
  /** Records that the storage refused. */
  rejected: ReadonlyMap<string, Rejection>
  /** Why no write is possible; null while writes are. */
  failure: ServiceError | null
  maxPayloadBytes: number
}

/** The timestamps that the changes got when they became visible. */
export interface CommitTimes {
  /** Of records that were written. */
  written: Timestamp
  /** Of records that were deleted. */
  deleted: Timestamp
  /** Of the collection after the last change. */
  collection: Timestamp
  /** Whether every record that was written got a new version, as a staged batch gives it, also one of which only the ttl was written. */
  wasStaged: boolean
}

/** Makes the outcome of an operation once the times of the commit are known. */
type Answer = (times: CommitTimes) => OperationOutcome

export interface Simulation {
  /** What each record needs, by its id, in the order of the first operation on each; null: to be deleted. */
  changes: Map<string, RecordWrite | null>
  /** By the operation's index. */
  answers: Map<number, Answer>
  /** The index of the first operation that changed something; infinity when none did. */
  effectiveFrom: number
}

/**
 * Decides the operations on one collection one after the other, each seeing the effects of the earlier ones, as if there
 * were no other writer. Pure: nothing is read or written.
 */
export function simulate(
  operations: NumberedOperation[],
  view: CollectionView,
  refusals: Refusals,
): Simulation {
  const simulator = new Simulator(view, refusals)
  const answers = new Map<number, Answer>()
  for (const { index, operation } of operations) answers.set(index, simulator.apply(operation, index))
  return { changes: simulator.changes(), answers, effectiveFrom: simulator.effectiveFrom }
}

/**
 * Stands for the timestamp that a write will get: newer than every version that a client can know, so that a condition on
 * an older one fails.
 */
const pending = Number.MAX_SAFE_INTEGER as Timestamp

/** A record as operations see it. `isTouched`: only its ttl was written since the version that it shows. */
interface SeenRecord extends SyncRecord {
  isTouched?: boolean
}

/** The state of one record between two operations. */
interface RecordState {
  /** What is visible of it now, and before the first operation. */
  record: SeenRecord | null
  base: SyncRecord | null
  /** What it needs so far; null: to be deleted, undefined: nothing. */
  change: RecordWrite | null | undefined
  isWritten: boolean
}

type Put = Extract<Operation, { kind: 'put' }>

class Simulator {
  effectiveFrom = Number.POSITIVE_INFINITY
  readonly #view: CollectionView
  readonly #refusals: Refusals
  readonly #states = new Map<string, RecordState>()

  constructor(view: CollectionView, refusals: Refusals) {
    this.#view = view
    this.#refusals = refusals
  }

  apply(operation: NumberedOperation['operation'], index: number): Answer {
    switch (operation.kind) {
      case 'get': {
        const { record } = this.#stateOf(operation.id)
        return (times) => judgeGet(operation.precondition, shown(record, times))
      }
      case 'list':
        return this.#applyList(operation, index)
      case 'count':
        return this.#applyCount(operation, index)
      case 'put':
        return this.#applyPut(operation, index)
      case 'delete':
        return this.#applyDelete(operation, index)
      default:
        return operation satisfies never
    }
  }

  changes(): Map<string, RecordWrite | null> {
    const changes = new Map<string, RecordWrite | null>()
    for (const [id, { change }] of this.#states) if (change !== undefined) changes.set(id, change)
    return changes
  }

  #applyList({ options, precondition }: Extract<Operation, { kind: 'list' }>, index: number): Answer {
    const base = this.#view.lists.get(index) ?? ({ outcome: 'too-large' } as const)
    const overlay: Overlay = new Map()
    for (const [id, { isWritten, record }] of this.#states) if (isWritten) overlay.set(id, record)
    return (times) => {
      const timestamp = this.#collectionAt(index, times)
      const verdict = judgeCollection(precondition, timestamp)
      if (verdict) return verdict
      if (base.outcome !== 'records') return base
      const written: Overlay = new Map()
      for (const [id, record] of overlay) written.set(id, shown(record, times))
      return { outcome: 'page', page: composePage(options, base, written, timestamp) }
    }
  }

  #applyCount({ precondition }: Extract<Operation, { kind: 'count' }>, index: number): Answer {
    const { count } = this.#view
    let difference = 0
    for (const { record, base } of this.#states.values()) difference += (record ? 1 : 0) - (base ? 1 : 0)
    return (times) => {
      const timestamp = this.#collectionAt(index, times)
      const verdict = judgeCollection(precondition, timestamp)
      if (verdict) return verdict
      if (count instanceof Error) return { outcome: 'failed', error: count }
      return { outcome: 'counted', count: Math.max(0, (count ?? 0) + difference), timestamp }
    }
  }

  #applyPut({ id, input, precondition }: Put, index: number): Answer {
    const state = this.#stateOf(id)
    const { rejected, failure, maxPayloadBytes } = this.#refusals
    state.isWritten = true
    const { record: before } = state
    if (input.payload !== undefined && Buffer.byteLength(input.payload) > maxPayloadBytes) {
      return () => ({ outcome: 'rejected', reason: 'too-large' })
    }
    if (!allowsPut(precondition, before?.lastModified ?? null)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const reason = rejected.get(id)
    if (reason) return () => ({ outcome: 'rejected', reason })
    if (failure) return () => ({ outcome: 'failed', error: failure })
    const stored = put(state, id, input)
    this.effectiveFrom = Math.min(this.effectiveFrom, index)
    return (times) => ({ outcome: 'stored', record: shown(stored, times) })
  }

  #applyDelete({ id, precondition }: Extract<Operation, { kind: 'delete' }>, index: number): Answer {
    const state = this.#stateOf(id)
    const { rejected, failure } = this.#refusals
    state.isWritten = true
    const { record: before } = state
    if (before === null) return () => ({ outcome: 'missing' })
    if (!allowsDelete(precondition, before.lastModified)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const error = failure ?? (rejected.has(id) ? refusedDeletion() : null)
    if (error) return () => ({ outcome: 'failed', error })
    state.record = null
    state.change = state.base ? null : undefined
    this.effectiveFrom = Math.min(this.effectiveFrom, index)
    return (times) => ({ outcome: 'deleted', id, timestamp: times.deleted })
  }

  /** The collection's timestamp as the operation of that index sees it. */
  #collectionAt(index: number, times: CommitTimes): Timestamp {
    return index > this.effectiveFrom ? times.collection : this.#view.timestamp
  }

  #stateOf(id: string): RecordState {
    const known = this.#states.get(id)
    if (known) return known
    const base = this.#view.records.get(id) ?? null
    const state: RecordState = { record: base, base, change: undefined, isWritten: false }
    this.#states.set(id, state)
    return state
  }
}

/** Merges the input into the visible record as the storage does: a field that is left out keeps its value. */
function put(state: RecordState, id: string, input: Put['input']): SeenRecord {
  const { record: before } = state
  const { payload, sortindex, ttlSeconds } = input
  // The storage may hold an invisible expired row under that id, whose expiry would stay without a ttl.
  const fresh = { payload: '', ttlSeconds: fieldLimits.ttlSeconds }
  state.change = { id, ...(before === null ? fresh : state.change), ...input }
  // A write of only the ttl makes no new version of the record.
  const isNewVersion = before === null || payload !== undefined || sortindex !== undefined
  const stored: SeenRecord = {
    id,
    lastModified: isNewVersion ? pending : before.lastModified,
    payload: payload ?? before?.payload ?? '',
  }
  // The row of a record that was deleted before keeps its sortindex, too.
  const weight = sortindex ?? (before ?? state.base)?.sortindex
  if (weight !== undefined) stored.sortindex = weight
  if (!isNewVersion) stored.isTouched = true
  state.record = ttlSeconds !== undefined && ttlSeconds <= 0 ? null : stored
  return stored
}

function refusedDeletion(): ServiceError {
  return invalidRequest([{ location: 'path', name: 'record_id', description: 'is refused by the storage' }])
}

/** The record as it is shown once the changes are visible. */
function shown(record: SeenRecord, times: CommitTimes): SyncRecord
function shown(record: SeenRecord | null, times: CommitTimes): SyncRecord | null
function shown(record: SeenRecord | null, times: CommitTimes): SyncRecord | null {
  if (record === null || (record.lastModified !== pending && !record.isTouched)) return record
  const { id, lastModified, payload, sortindex } = record
  const isNewVersion = lastModified === pending || times.wasStaged
  return {
    id,
    lastModified: isNewVersion ? times.written : lastModified,
    payload,
    ...(sortindex !== undefined && { sortindex }),
  }
}
