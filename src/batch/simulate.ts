import { judgeGet } from '../domain/operation.ts'
import { judgeCollection, judgeDelete, judgePut } from '../domain/precondition.ts'
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

/** Why the storage would not take a record. */
export type Rejection = 'invalid' | 'too-large'

/** What was read of one collection, all of it as of one moment. */
export interface CollectionView {
  timestamp: Timestamp
  /** Every record that an operation names, if it exists. */
  records: Map<string, SyncRecord>
  /** What the storage showed for each list, by the index of the operation. */
  lists: Map<number, BaseList>
  /** How many records there are; null when no operation asks. */
  count: number | ServiceError | null
}

/**
 * A part of a record's operations whose effect is upstream already: those with an index below `until`, judged when
 * the record was `base`. The operations after it are judged against the view.
 */
export interface Epoch {
  until: number
  base: SyncRecord | null
  /** Whether the storage had refused the record by then. */
  rejection: Rejection | null
}

/** What is known besides the view. */
export interface Circumstances {
  /** By record id, in the order of time. */
  epochs: Map<string, Epoch[]>
  /** Records that the storage would not take. */
  rejected: Map<string, Rejection>
  /** Why nothing can be written any more. */
  failure: ServiceError | null
  maxPayloadBytes: number
}

/** What has still to be done to one record. */
export type Change =
  | {
      kind: 'put'
      write: RecordWrite
      /**
       * The index of the operation that made the stored record go before this one was put, when the stored one
       * has to be deleted first: the storage merges and would keep a sortindex that the new record doesn't have.
       */
      resetAt: number | null
    }
  | { kind: 'delete' }

/** When the changes became visible upstream. */
export interface Stamps {
  /** The collection's timestamp after the last change. */
  collection: Timestamp
  /** The timestamp of a record's last change, be it written or deleted. */
  record(id: string): Timestamp
  /** When a record of which only the ttl was written got a new version all the same; null when it did not. */
  touched(id: string): Timestamp | null
  /** The sortindex that a record written without one got from an expired one; null when there is none. */
  inherited(id: string): number | null
}

export interface Simulation {
  /** By record id, in the order of the first operation on each. */
  changes: Map<string, Change>
  /** By the operation's index, what comes of it, once it is known when the changes became visible. */
  answers: Map<number, (stamps: Stamps) => OperationOutcome>
  /** The index of the first operation that changed something; infinity when none did. */
  effectiveFrom: number
}

/**
 * Stands for the timestamp that a write is going to get: newer than every version that a client can know, so a
 * condition on an older one fails.
 */
const pending = Number.MAX_SAFE_INTEGER as Timestamp

/** A record as operations see it. `isTouched`: since the version that it has, only its ttl was written. */
interface SeenRecord extends SyncRecord {
  isTouched?: boolean
}

/** One record on its way through the operations. */
interface Track {
  /** What is visible of it now, and at the beginning of the epoch. */
  record: SeenRecord | null
  base: SyncRecord | null
  /** What was visible of it before the first operation. */
  first: SyncRecord | null
  epoch: number
  isLive: boolean
  rejection: Rejection | null
  change: { kind: 'put'; write: RecordWrite; isFresh: boolean } | { kind: 'delete' } | null
  vanishedAt: number | null
  isWritten: boolean
}

/**
 * Decides the operations on one collection, one after the other, each seeing the effects of the earlier ones, as if
 * nobody else wrote meanwhile. Pure: nothing is read or written.
 */
export function simulate(
  operations: NumberedOperation[],
  view: CollectionView,
  circumstances: Circumstances,
): Simulation {
  const tracks = new Map<string, Track>()
  const answers: Simulation['answers'] = new Map()
  let effectiveFrom = Number.POSITIVE_INFINITY

  for (const { index, operation } of operations) {
    const collectionAt = (stamps: Stamps) => (index > effectiveFrom ? stamps.collection : view.timestamp)
    switch (operation.kind) {
      case 'get': {
        const { record } = trackAt(operation.id, index)
        answers.set(index, (stamps) => judgeGet(operation.precondition, stamped(record, stamps)))
        break
      }
      case 'list': {
        const base = view.lists.get(index)
        const overlay = currentOverlay()
        answers.set(index, (stamps): OperationOutcome => {
          const timestamp = collectionAt(stamps)
          const verdict = judgeCollection(operation.precondition, timestamp)
          if (verdict) return verdict
          if (!base || base.kind === 'too-large') return { outcome: 'too-large' }
          if (base.kind === 'failed') return { outcome: 'failed', error: base.error }
          if (base.kind === 'page') return { outcome: 'page', page: base.page }
          const written: Overlay = new Map()
          for (const [id, record] of overlay) written.set(id, stamped(record, stamps))
          return { outcome: 'page', page: composePage(operation.options, base, written, timestamp) }
        })
        break
      }
      case 'count': {
        const { count: base } = view
        const difference = countDifference()
        answers.set(index, (stamps): OperationOutcome => {
          const timestamp = collectionAt(stamps)
          const verdict = judgeCollection(operation.precondition, timestamp)
          if (verdict) return verdict
          if (base instanceof Error) return { outcome: 'failed', error: base }
          return { outcome: 'counted', count: Math.max(0, (base ?? 0) + difference), timestamp }
        })
        break
      }
      case 'put': {
        const track = trackAt(operation.id, index)
        track.isWritten = true
        const { record: before } = track
        const { payload } = operation.input
        if (payload !== undefined && Buffer.byteLength(payload) > circumstances.maxPayloadBytes) {
          answers.set(index, () => ({ outcome: 'rejected', reason: 'too-large' }))
          break
        }
        if (judgePut(operation.precondition, before?.lastModified ?? null) === 'failed') {
          answers.set(index, (stamps) => ({
            outcome: 'precondition-failed',
            existing: stamped(before, stamps),
          }))
          break
        }
        const reason = track.rejection
        if (reason) {
          answers.set(index, () => ({ outcome: 'rejected', reason }))
          break
        }
        const { failure } = circumstances
        if (track.isLive && failure) {
          answers.set(index, () => ({ outcome: 'failed', error: failure }))
          break
        }
        const stored = put(track, operation.id, operation.input, index)
        answers.set(index, (stamps) => ({ outcome: 'stored', record: stamped(stored, stamps) }))
        effectiveFrom = Math.min(effectiveFrom, index)
        break
      }
      case 'delete': {
        const { id } = operation
        const track = trackAt(id, index)
        track.isWritten = true
        const { record: before } = track
        const verdict = judgeDelete(operation.precondition, before?.lastModified ?? null)
        if (before === null || verdict === 'missing') {
          answers.set(index, () => ({ outcome: 'missing' }))
          break
        }
        if (verdict === 'failed') {
          answers.set(index, (stamps) => ({
            outcome: 'precondition-failed',
            existing: stamped(before, stamps),
          }))
          break
        }
        const { failure } = circumstances
        if (track.isLive && failure) {
          answers.set(index, () => ({ outcome: 'failed', error: failure }))
          break
        }
        track.record = null
        track.vanishedAt = index
        track.change = track.base ? { kind: 'delete' } : null
        answers.set(index, (stamps) => ({ outcome: 'deleted', id, timestamp: stamps.record(id) }))
        effectiveFrom = Math.min(effectiveFrom, index)
        break
      }
      default:
        operation satisfies never
    }
  }
  return { changes: remainingChanges(tracks), answers, effectiveFrom }

  function trackAt(id: string, index: number): Track {
    const epochs = circumstances.epochs.get(id) ?? []
    const found = epochs.findIndex(({ until }) => index < until)
    const epoch = found === -1 ? epochs.length : found
    const known = tracks.get(id)
    if (known?.epoch === epoch) return known
    const isLive = epoch === epochs.length
    const base = (isLive ? view.records.get(id) : epochs[epoch]!.base) ?? null
    const track: Track = {
      record: base,
      base,
      first: known ? known.first : base,
      epoch,
      isLive,
      rejection: isLive ? (circumstances.rejected.get(id) ?? null) : epochs[epoch]!.rejection,
      change: null,
      vanishedAt: null,
      isWritten: known?.isWritten ?? false,
    }
    tracks.set(id, track)
    return track
  }

  function currentOverlay(): Overlay {
    const overlay: Overlay = new Map()
    for (const [id, track] of tracks) if (track.isWritten) overlay.set(id, track.record)
    return overlay
  }

  function countDifference(): number {
    let difference = 0
    for (const { record, first } of tracks.values()) {
      difference += (record ? 1 : 0) - (first ? 1 : 0)
    }
    return difference
  }
}

/** Puts the input over what is visible, the way the storage does: a field that is left out keeps its value. */
function put(
  track: Track,
  id: string,
  { payload, sortindex, ttlSeconds }: Omit<RecordWrite, 'id'>,
  index: number,
): SeenRecord {
  const { record: before } = track
  const given = {
    ...(payload === undefined ? {} : { payload }),
    ...(sortindex === undefined ? {} : { sortindex }),
    ...(ttlSeconds === undefined ? {} : { ttlSeconds }),
  }
  if (before === null) {
    // The storage may hold an expired row under that id, invisible, whose expiry an absent ttl would keep.
    const write = { id, payload: '', ttlSeconds: fieldLimits.ttlSeconds, ...given }
    track.change = { kind: 'put', write, isFresh: true }
  } else {
    const earlier = track.change?.kind === 'put' ? track.change : null
    track.change = {
      kind: 'put',
      write: { id, ...earlier?.write, ...given },
      isFresh: earlier?.isFresh ?? false,
    }
  }
  // A ttl alone does not make a new version of the record.
  const isNewVersion = before === null || payload !== undefined || sortindex !== undefined
  const weight = sortindex ?? before?.sortindex
  const stored: SeenRecord = {
    id,
    lastModified: isNewVersion ? pending : before.lastModified,
    payload: payload ?? before?.payload ?? '',
    ...(weight === undefined ? {} : { sortindex: weight }),
    ...(isNewVersion ? {} : { isTouched: true }),
  }
  const isGoneAtOnce = ttlSeconds !== undefined && ttlSeconds <= 0
  track.record = isGoneAtOnce ? null : stored
  if (isGoneAtOnce) track.vanishedAt = index
  return stored
}

function remainingChanges(tracks: Map<string, Track>): Map<string, Change> {
  const changes = new Map<string, Change>()
  for (const [id, { change, base, vanishedAt, isLive }] of tracks) {
    if (!isLive || change === null) continue
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

function stamped(record: SeenRecord, stamps: Stamps): SyncRecord
function stamped(record: SeenRecord | null, stamps: Stamps): SyncRecord | null
function stamped(record: SeenRecord | null, stamps: Stamps): SyncRecord | null {
  if (record === null) return null
  const { isTouched, ...shown } = record
  if (shown.lastModified === pending) {
    shown.lastModified = stamps.record(shown.id)
    const sortindex = shown.sortindex ?? stamps.inherited(shown.id)
    if (sortindex !== null) shown.sortindex = sortindex
  } else if (isTouched) shown.lastModified = stamps.touched(shown.id) ?? shown.lastModified
  return shown
}
