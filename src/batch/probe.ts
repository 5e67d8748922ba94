import type { RecordWrite, Snapshot } from '../domain/record-storage.ts'
import type { SyncRecord, Timestamp } from '../domain/record.ts'

/** Two writes to one collection are at least so far apart; see Sync 1.5 API, "Timestamps". */
export const resolutionMs = 10

/**
 * What a snapshot tells of a conditional write whose answer was lost:
 * - `unapplied`: the collection is unchanged, so it has not been applied so far
 * - `applied`: it got that timestamp; `refused` names records that the storage refused
 * - `moved`: another writer was first, so it was not applied and never will be
 * - `unclear`: another writer has overwritten every trace that it could have left
 */
type ProbeVerdict =
  | { verdict: 'unapplied' }
  | { verdict: 'applied'; timestamp: Timestamp; refused: string[] }
  | { verdict: 'moved' }
  | { verdict: 'unclear' }

/**
 * Judges a write by its traces. It was conditional on `since`, and `before` has the records as they were then; the
 * condition and the storage's own transaction guarantee that it was applied as a whole or not at all. What was deleted has a ttl of 0.
 */
export function evaluateProbe(
  writes: RecordWrite[],
  before: Map<string, SyncRecord>,
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
  // Some of the written records are there, so the storage refused the untouched ones.
  if (certain.length > 0) return { verdict: 'applied', timestamp: earliest(certain), refused: untouched }
  if (untouched.length > 0) return { verdict: 'moved' }
  if (likely.length > 0) return { verdict: 'applied', timestamp: earliest(likely), refused: [] }
  if (traces.some(({ trace }) => trace !== 'gone')) return { verdict: 'unclear' }
  // A deletion leaves no record with its timestamp, and the newest timestamp may belong to another writer. A client
  // that got that one would never fetch the other writer's change, so the earliest possible moment is answered.
  return { verdict: 'applied', timestamp: (since + resolutionMs) as Timestamp, refused: [] }
}

type Trace = 'certain' | 'likely' | 'untouched' | 'covered' | 'gone'

/** What a write has left of itself, given the record before and now. */
function traceOf(
  { payload, sortindex, ttlSeconds }: RecordWrite,
  before: SyncRecord | null,
  now: SyncRecord | null,
  since: Timestamp,
): Trace {
  const isDeletion = ttlSeconds !== undefined && ttlSeconds <= 0
  if (!now) return isDeletion && before ? 'gone' : 'covered'
  if (now.lastModified === before?.lastModified) return 'untouched'
  // An expired row under the id of a new record may have left its sortindex.
  const hasSortindex = now.sortindex === sortindex || (sortindex === undefined && before === null)
  if (isDeletion || now.lastModified <= since || now.payload !== payload || !hasSortindex) return 'covered'
  // A payload that was not there before proves that the write is ours; the other fields could be equal by chance.
  return payload !== '' && payload !== before?.payload ? 'certain' : 'likely'
}

function earliest(timestamps: Timestamp[]): Timestamp {
  return Math.min(...timestamps) as Timestamp
}
