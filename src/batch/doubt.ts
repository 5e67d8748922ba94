import { rejectedRecord } from '../domain/errors.ts'
import { timestampStepMs, type Timestamp } from '../domain/timestamp.ts'
import { isTimeout } from './context.ts'
import type { KnownRecord, RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { CollectionChanges } from './collection-changes.ts'
import type { KnownCollection } from './known-collection.ts'

/** A write whose effect is unknown: it may have been applied, or still be. */
export interface Doubt {
  /** The records that it deletes; null: it is the upload. */
  deletes: string[] | null
  failure: unknown
  /** Whether the collection was unchanged when it was last looked at. */
  isUnapplied: boolean
  /** Whether it may still be applied, so that an undo must prevent that. */
  mayArriveLate: boolean
}

/**
 * What a snapshot shows about a write in doubt:
 * - `applied`: it is visible, and recorded as such
 * - `unapplied`: the collection is unchanged, so it has not been applied so far
 * - `moved`: another writer was first, so it was not applied and never will be
 * - `unclear`: another writer has overwritten every trace
 */
export type Verdict = ProbeVerdict['verdict']

/** Whether a write timed out and was not visible when it was looked at. It is not sent again while nothing is visible. */
export function isUnanswered(doubt: Doubt | null): doubt is Doubt {
  return doubt !== null && doubt.isUnapplied && isTimeout(doubt.failure)
}

/** Judges a write in doubt by a snapshot of its collection. */
export function judge(
  doubt: Doubt,
  snapshot: Snapshot,
  known: KnownCollection,
  changes: CollectionChanges,
): Verdict {
  doubt.isUnapplied = snapshot.timestamp === known.since
  if (doubt.isUnapplied) return 'unapplied'
  if (doubt.deletes === null) {
    const result = evaluateProbe(changes.plan.writes, known.facts.view.records, known.since, snapshot)
    if (result.verdict !== 'applied') return result.verdict
    changes.recordUpload(
      result.timestamp,
      new Map(result.refused.map((id) => [id, rejectedRecord(400)] as const)),
    )
  } else {
    // A deletion is applied completely or not at all, so that one record in the version that we know disproves it. Otherwise, no record is
    // deleted again: it may have been written since.
    if (doubt.deletes.some((id) => changes.isUnchanged(id, snapshot))) return 'moved'
    // The newest timestamp may be that of another writer, whose change a client that got it would never fetch.
    const earliestAt = (known.since + timestampStepMs) as Timestamp
    changes.recordDeletion(doubt.deletes, earliestAt, false)
  }
  // Others may have written since.
  changes.review(snapshot)
  return 'applied'
}

/** `applied`: with that timestamp; `refused` lists records that the storage rejected. */
type ProbeVerdict =
  | { verdict: 'applied'; timestamp: Timestamp; refused: string[] }
  | { verdict: 'unapplied' | 'moved' | 'unclear' }

/**
 * Evaluates the traces of an upload that was conditional on `since`; `before` has the earlier records. The condition and the storage's
 * transaction guarantee that it was applied completely or not at all. A client's ttl of 0 leaves nothing of a record.
 */
export function evaluateProbe(
  writes: RecordWrite[],
  before: Map<string, KnownRecord>,
  since: Timestamp,
  probe: Snapshot,
): ProbeVerdict {
  if (probe.timestamp === since) return { verdict: 'unapplied' }
  const traces = writes.map((write) => {
    const now = probe.records.get(write.id) ?? null
    return { id: write.id, now, trace: traceOf(write, before.get(write.id) ?? null, now, since) }
  })
  const untouched = traces.flatMap(({ trace, id }) => (trace === 'untouched' ? [id] : []))
  const timesOf = (kind: Trace) =>
    traces.flatMap(({ trace, now }) => (trace === kind ? now!.lastModified : []))
  const [certain, likely] = [timesOf('certain'), timesOf('likely')]
  // Some of the records were written, so the storage rejected the untouched ones.
  if (certain.length > 0) return { verdict: 'applied', timestamp: earliest(certain), refused: untouched }
  if (untouched.length > 0) return { verdict: 'moved' }
  if (likely.length > 0) return { verdict: 'applied', timestamp: earliest(likely), refused: [] }
  if (traces.some(({ trace }) => trace !== 'gone')) return { verdict: 'unclear' }
  // Nothing is left that has a timestamp, and the newest one may be another writer's: a client that got it would never fetch that writer's
  // change. So return the earliest possible one.
  return { verdict: 'applied', timestamp: (since + timestampStepMs) as Timestamp, refused: [] }
}

type Trace = 'certain' | 'likely' | 'untouched' | 'covered' | 'gone'

/** The trace of a write on one record, given the record before and now. */
function traceOf(
  { payload, sortindex, ttlSeconds }: RecordWrite,
  before: KnownRecord | null,
  now: KnownRecord | null,
  since: Timestamp,
): Trace {
  const isGone = ttlSeconds === 0
  if (!now) return isGone && before ? 'gone' : 'covered'
  if (now.lastModified === before?.lastModified) return 'untouched'
  // The expired row under the id of a new record may have kept its sortindex.
  const hasSortindex = now.sortindex === sortindex || (sortindex === undefined && before === null)
  if (isGone || now.lastModified <= since || now.payload !== payload || !hasSortindex) return 'covered'
  // A new payload proves that the write is ours; other fields could match by chance.
  const isNew = payload !== '' && payload !== before?.payload && before?.payload !== null
  return isNew ? 'certain' : 'likely'
}

function earliest(timestamps: Timestamp[]): Timestamp {
  return Math.min(...timestamps) as Timestamp
}
