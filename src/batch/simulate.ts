import { allowsDelete, allowsPut, judgeCollection, judgeGet } from '../domain/precondition.ts'
import { fieldLimits } from '../domain/record.ts'
import { composePage } from './list-page.ts'
import type { ServiceError } from '../domain/errors.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { RecordWrite } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { BaseList, Overlay } from './list-page.ts'

/** An operation on one collection, with its place in the transaction. */
export interface NumberedOperation {
  index: number
  operation: Exclude<Operation, { kind: 'timestamps' }>
}

/** Why the storage refused a record. */
export type Rejection = 'invalid' | 'too-large'

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

/**
 * The operations on a record whose effect is upstream already: those with an index below `until`, judged against `base`,
 * the record as it was then. Later operations are judged against the view.
 */
export interface CommittedPrefix {
  until: number
  base: SyncRecord | null
  /** Why the storage had refused the record by then; null when it had not. */
  rejection: Rejection | null
}

/** What is known beside the view. */
interface CommittedState {
  /** By record id, the oldest first. */
  prefixes: ReadonlyMap<string, CommittedPrefix[]>
  /** Records that the storage refused. */
  rejected: ReadonlyMap<string, Rejection>
  /** Why no further write is possible; null while writes are. */
  failure: ServiceError | null
  maxPayloadBytes: number
}

/** The change that one record still needs. */
export type Change =
  | {
      kind: 'put'
      write: RecordWrite
      /**
       * Set when the stored record must be deleted first, because the storage merges and would keep a sortindex that the
       * new record does not have: the index of the operation that deleted it.
       */
      resetAt: number | null
    }
  | { kind: 'delete' }

/** When the changes became visible upstream, and what the storage added to them. */
interface CommitTimes {
  /** The collection's timestamp after the last change. */
  collection: Timestamp
  /** The timestamp of a record's last change, written or deleted. */
  record(id: string): Timestamp
  /** The new version that a write of only the ttl got nevertheless; null when it got none. */
  touched(id: string): Timestamp | null
  /** The sortindex that a record written without one got from an expired one; null when there is none. */
  inherited(id: string): number | null
}

/** Makes the outcome of an operation once the times of the commit are known. */
type Answer = (times: CommitTimes) => OperationOutcome

export interface Simulation {
  /** By record id, in the order of the first operation on each. */
  changes: Map<string, Change>
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
  committed: CommittedState,
): Simulation {
  const simulator = new Simulator(view, committed)
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
  /** What is visible of it: now, at the beginning of the undecided part, and before the first operation. */
  record: SeenRecord | null
  base: SyncRecord | null
  first: SyncRecord | null
  /** The prefix that the operations belong to; the number of prefixes for those that are still open. */
  prefix: number
  isOpen: boolean
  rejection: Rejection | null
  change: { kind: 'put'; write: RecordWrite; isFresh: boolean } | { kind: 'delete' } | null
  vanishedAt: number | null
  isWritten: boolean
}

type Put = Extract<Operation, { kind: 'put' }>

class Simulator {
  effectiveFrom = Number.POSITIVE_INFINITY
  readonly #view: CollectionView
  readonly #committed: CommittedState
  readonly #states = new Map<string, RecordState>()

  constructor(view: CollectionView, committed: CommittedState) {
    this.#view = view
    this.#committed = committed
  }

  apply(operation: NumberedOperation['operation'], index: number): Answer {
    switch (operation.kind) {
      case 'get': {
        const { record } = this.#stateOf(operation.id, index)
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

  changes(): Map<string, Change> {
    const changes = new Map<string, Change>()
    for (const [id, { change, base, vanishedAt, isOpen }] of this.#states) {
      if (!isOpen || change === null) continue
      if (change.kind === 'delete') {
        changes.set(id, change)
        continue
      }
      const { write, isFresh } = change
      const mustReset = isFresh && base?.sortindex !== undefined && write.sortindex === undefined
      changes.set(id, { kind: 'put', write, resetAt: mustReset ? vanishedAt : null })
    }
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
    for (const { record, first } of this.#states.values()) difference += (record ? 1 : 0) - (first ? 1 : 0)
    return (times) => {
      const timestamp = this.#collectionAt(index, times)
      const verdict = judgeCollection(precondition, timestamp)
      if (verdict) return verdict
      if (count instanceof Error) return { outcome: 'failed', error: count }
      return { outcome: 'counted', count: Math.max(0, (count ?? 0) + difference), timestamp }
    }
  }

  #applyPut({ id, input, precondition }: Put, index: number): Answer {
    const state = this.#stateOf(id, index)
    state.isWritten = true
    const { record: before, rejection } = state
    if (input.payload !== undefined && Buffer.byteLength(input.payload) > this.#committed.maxPayloadBytes) {
      return () => ({ outcome: 'rejected', reason: 'too-large' })
    }
    if (!allowsPut(precondition, before?.lastModified ?? null)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    if (rejection) return () => ({ outcome: 'rejected', reason: rejection })
    const { failure } = this.#committed
    if (state.isOpen && failure) return () => ({ outcome: 'failed', error: failure })
    const stored = put(state, id, input, index)
    this.effectiveFrom = Math.min(this.effectiveFrom, index)
    return (times) => ({ outcome: 'stored', record: shown(stored, times) })
  }

  #applyDelete({ id, precondition }: Extract<Operation, { kind: 'delete' }>, index: number): Answer {
    const state = this.#stateOf(id, index)
    state.isWritten = true
    const { record: before } = state
    if (before === null) return () => ({ outcome: 'missing' })
    if (!allowsDelete(precondition, before.lastModified)) {
      return (times) => ({ outcome: 'precondition-failed', existing: shown(before, times) })
    }
    const { failure } = this.#committed
    if (state.isOpen && failure) return () => ({ outcome: 'failed', error: failure })
    state.record = null
    state.vanishedAt = index
    state.change = state.base ? { kind: 'delete' } : null
    this.effectiveFrom = Math.min(this.effectiveFrom, index)
    return (times) => ({ outcome: 'deleted', id, timestamp: times.record(id) })
  }

  /** The collection's timestamp as the operation of that index sees it. */
  #collectionAt(index: number, times: CommitTimes): Timestamp {
    return index > this.effectiveFrom ? times.collection : this.#view.timestamp
  }

  #stateOf(id: string, index: number): RecordState {
    const prefixes = this.#committed.prefixes.get(id) ?? []
    const found = prefixes.findIndex(({ until }) => index < until)
    const prefix = found === -1 ? prefixes.length : found
    const known = this.#states.get(id)
    if (known?.prefix === prefix) return known
    const isOpen = prefix === prefixes.length
    const base = (isOpen ? this.#view.records.get(id) : prefixes[prefix]!.base) ?? null
    const state: RecordState = {
      record: base,
      base,
      first: known ? known.first : base,
      prefix,
      isOpen,
      rejection: isOpen ? (this.#committed.rejected.get(id) ?? null) : prefixes[prefix]!.rejection,
      change: null,
      vanishedAt: null,
      isWritten: known?.isWritten ?? false,
    }
    this.#states.set(id, state)
    return state
  }
}

/** Merges the input into the visible record as the storage does: a field that is left out keeps its value. */
function put(state: RecordState, id: string, input: Put['input'], index: number): SeenRecord {
  const { record: before } = state
  const { payload, sortindex, ttlSeconds } = input
  if (before === null) {
    // The storage may hold an invisible expired row under that id, whose expiry would stay without a ttl.
    const write = { id, payload: '', ttlSeconds: fieldLimits.ttlSeconds, ...input }
    state.change = { kind: 'put', write, isFresh: true }
  } else {
    const earlier = state.change?.kind === 'put' ? state.change : null
    state.change = {
      kind: 'put',
      write: { id, ...earlier?.write, ...input },
      isFresh: earlier?.isFresh ?? false,
    }
  }
  // A write of only the ttl makes no new version of the record.
  const isNewVersion = before === null || payload !== undefined || sortindex !== undefined
  const stored: SeenRecord = {
    id,
    lastModified: isNewVersion ? pending : before.lastModified,
    payload: payload ?? before?.payload ?? '',
  }
  const weight = sortindex ?? before?.sortindex
  if (weight !== undefined) stored.sortindex = weight
  if (!isNewVersion) stored.isTouched = true
  const isGoneAtOnce = ttlSeconds !== undefined && ttlSeconds <= 0
  state.record = isGoneAtOnce ? null : stored
  if (isGoneAtOnce) state.vanishedAt = index
  return stored
}

/** The record as it is shown once the changes are visible. */
function shown(record: SeenRecord, times: CommitTimes): SyncRecord
function shown(record: SeenRecord | null, times: CommitTimes): SyncRecord | null
function shown(record: SeenRecord | null, times: CommitTimes): SyncRecord | null {
  if (record === null || (record.lastModified !== pending && !record.isTouched)) return record
  const { id, lastModified, payload } = record
  const isPending = lastModified === pending
  const at = isPending ? times.record(id) : (times.touched(id) ?? lastModified)
  const sortindex = record.sortindex ?? (isPending ? times.inherited(id) : null)
  return { id, lastModified: at, payload, ...(sortindex !== null && { sortindex }) }
}
