import type { RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { SyncRecord, Timestamp } from '../domain/record.ts'

/** Two writes to one collection are at least so far apart; see Sync 1.5 API, "Timestamps". */
export const resolutionMs = 10

/** The one visible step of a commit to a collection, with what a snapshot needs to show whether it was applied. */
export type VisibleStep =
  /** Deletions are among the records, with a ttl of 0. `batch`: the staged batch that has the records, if they were staged. */
  { kind: 'write'; records: RecordWrite[]; batch: string | null } | { kind: 'remove'; ids: string[] }

/**
 * What a snapshot tells of a conditional write whose answer was lost:
 * - `unapplied`: the collection is unchanged, so it has not been applied so far
 * - `applied`: it got that timestamp; `refused` names records that the storage refused
 * - `moved`: another writer was first, so it was not applied and never will be
 * - `unclear`: another writer has overwritten every trace that it could have left
 */
export type ProbeVerdict =
  | { verdict: 'unapplied' }
  | { verdict: 'applied'; timestamp: Timestamp; refused: string[] }
  | { verdict: 'moved' }
  | { verdict: 'unclear' }

/**
 * Judges a write by its traces. It was conditional on `since`, and `before` has the records as they were then; the
 * condition and the storage's own transaction guarantee that it was applied as a whole or not at all.
 */
export function judgeProbe(
  step: VisibleStep,
  before: Map<string, SyncRecord>,
  since: Timestamp,
  probe: Snapshot,
): ProbeVerdict {
  if (probe.timestamp === since) return { verdict: 'unapplied' }
  const traces =
    step.kind === 'write'
      ? step.records.map((write) => traceOf(write, step.batch !== null, before, since, probe))
      : step.ids.map((id) => traceOfDeletion(id, before, probe))
  const untouched = traces.flatMap(({ trace, id }) => (trace === 'untouched' ? [id] : []))
  const certain = traces.flatMap((trace) => (trace.trace === 'certain' ? [trace.at] : []))
  const likely = traces.flatMap((trace) => (trace.trace === 'likely' ? [trace.at] : []))
  // Some of the written records are there, so the storage refused the untouched ones.
  if (certain.length > 0) return { verdict: 'applied', timestamp: earliest(certain), refused: untouched }
  if (untouched.length > 0) return { verdict: 'moved' }
  if (likely.length > 0) return { verdict: 'applied', timestamp: earliest(likely), refused: [] }
  if (traces.some(({ trace }) => trace !== 'gone')) return { verdict: 'unclear' }
  // A deletion leaves no record with its timestamp, and the newest timestamp may belong to another writer. A client
  // that got that one would never fetch the other writer's change, so the earliest possible moment is answered.
  return { verdict: 'applied', timestamp: (since + resolutionMs) as Timestamp, refused: [] }
}

type Trace = { id: string } & (
  { trace: 'certain' | 'likely'; at: Timestamp } | { trace: 'untouched' | 'covered' | 'gone' }
)

function traceOf(
  write: RecordWrite,
  wasStaged: boolean,
  allBefore: Map<string, SyncRecord>,
  since: Timestamp,
  probe: Snapshot,
): Trace {
  const { id, payload, sortindex, ttlSeconds } = write
  if (ttlSeconds !== undefined && ttlSeconds <= 0) return traceOfDeletion(id, allBefore, probe)
  // A ttl alone leaves the version of the record as it is, unless it was staged.
  if (payload === undefined && sortindex === undefined && !wasStaged) return { id, trace: 'covered' }
  const before = allBefore.get(id) ?? null
  const now = probe.records.get(id)
  if (!now) return { id, trace: 'covered' }
  if (before && now.lastModified === before.lastModified) return { id, trace: 'untouched' }
  const isOurs =
    now.lastModified > since &&
    now.payload === (payload ?? before?.payload ?? '') &&
    (now.sortindex === (sortindex ?? before?.sortindex) || (sortindex === undefined && before === null))
  if (!isOurs) return { id, trace: 'covered' }
  // A payload that was not there before proves that the write is ours; the other fields could be equal by chance.
  const isTelling = payload !== undefined && payload !== '' && payload !== before?.payload
  return { id, trace: isTelling ? 'certain' : 'likely', at: now.lastModified }
}

function traceOfDeletion(id: string, before: Map<string, SyncRecord>, probe: Snapshot): Trace {
  const was = before.get(id)
  const now = probe.records.get(id)
  if (!now) return { id, trace: was ? 'gone' : 'covered' }
  return { id, trace: now.lastModified === was?.lastModified ? 'untouched' : 'covered' }
}

function earliest(timestamps: Timestamp[]): Timestamp {
  return Math.min(...timestamps) as Timestamp
}
