/** Records, their versions (timestamps), and the preconditions of requests. */

/** One stored record. The payload is the client's ciphertext and is never inspected. */
export interface SyncRecord {
  id: string
  lastModified: Timestamp
  payload: string
  sortindex?: number
}

/** Formats a record as the exposed JSON, `{"id","last_modified","payload","sortindex"}`. */
export function toExposedJson(record: SyncRecord): string {
  const { id, lastModified: last_modified, payload, sortindex } = record
  return JSON.stringify({ id, last_modified, payload, sortindex })
}

/**
 * What a client writes into a record. An absent field keeps its stored value; `ttlSeconds` counts from the write and can't be read back;
 * with 0 the record is gone at once.
 */
export interface RecordInput {
  payload?: string
  sortindex?: number
  ttlSeconds?: number
}

/** Ranges of the storage's record fields; see Sync 1.5 API, "Basic Storage Object". */
export const fieldLimits = {
  sortindex: 999_999_999,
  ttlSeconds: 999_999_999,
} as const

/** Matches a valid collection name. */
export const collectionPattern = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,32}$/

/**
 * The canonical, lower-case form of a collection name, used for write gates, upstream URLs, caches and metrics; null if the name is
 * invalid.
 */
export function canonicalCollection(name: string): string | null {
  return collectionPattern.test(name) ? name.toLowerCase() : null
}

const idPattern = /^[ -~]{1,64}$/

/**
 * Whether a record id is valid: 1 to 64 printable ASCII characters, slashes included, because Firefox's form history uses them. `.` and
 * `..` between slashes are invalid: URL parsers resolve them, even when encoded.
 */
export function isRecordId(id: string): boolean {
  return idPattern.test(id) && !(id.includes('.') && dotSegment.test(id))
}

const dotSegment = /(?:^|\/)\.\.?(?:\/|$)/

// --- Timestamps ---

/**
 * A timestamp of the storage, in integer milliseconds since 1970. The storage counts in 10 ms steps, so its timestamps are multiples of 10.
 * The wire forms (entity tag, Sync seconds, HTTP date) are read and written here; `upstream/bso.ts` and `bso-stream.ts` read the numbers in
 * the storage's JSON.
 */
export type Timestamp = number & { readonly unit: 'ms of a storage timestamp' }

/** The steps of the storage's clock, in ms. A collection can be written once in each; see Sync 1.5 API, "Timestamps". */
export const timestampStepMs = 10

/** The timestamp of a collection or record that does not exist. */
export const zeroTimestamp = 0 as Timestamp

/** Brands a number of milliseconds; the caller ensures that it is a non-negative safe integer. */
export function timestamp(milliseconds: number): Timestamp {
  return milliseconds as Timestamp
}

/**
 * Formats a timestamp as Sync decimal seconds: 1234567890120 ms is "1234567890.12". Rounds down to 10 ms: rounding up could turn "changed
 * since" into "unchanged". See Sync 1.5 API, "Timestamps".
 */
export function toSyncSeconds(value: Timestamp): string {
  const hundredths = Math.floor(value / 10)
  const seconds = Math.floor(hundredths / 100)
  const fraction = hundredths % 100
  return `${seconds}.${fraction < 10 ? '0' : ''}${fraction}`
}

const syncSecondsPattern = /^(\d{1,11})(?:\.(\d{1,2})0*)?$/

/** Parses decimal seconds ("1234567890.12") without floating point; null if invalid. */
export function fromSyncSeconds(text: string | null | undefined): Timestamp | null {
  const match = text ? syncSecondsPattern.exec(text.trim()) : null
  if (!match) return null
  const hundredths = (match[2] ?? '').padEnd(2, '0')
  return timestamp(Number(match[1]) * 1000 + Number(hundredths) * 10)
}

/** The timestamp as a strong entity tag: `"1234567890120"`. */
export function toEntityTag(value: Timestamp): string {
  return `"${value}"`
}

const entityTagPattern = /^(?:(?:W\/)?"(\d{1,15})"|(\d{1,15}))$/

/** The pattern of a version in headers and queries. */
export const versionPattern = entityTagPattern.source.slice(1, -1)

/** Parses a version as clients and proxies send it: `"123"`, `123`, `W/"123"`; null if invalid. */
export function fromEntityTag(text: string): Timestamp | null {
  const match = entityTagPattern.exec(text)
  return match ? timestamp(Number(match[1] ?? match[2])) : null
}

/** Rounds down to the storage's 10 ms steps, so that no change is missed. */
export function floored(value: Timestamp): Timestamp {
  return timestamp(value - (value % timestampStepMs))
}

/** Rounds up to the storage's 10 ms steps. */
export function raised(value: Timestamp): Timestamp {
  return timestamp(Math.ceil(value / timestampStepMs) * timestampStepMs)
}

/** Formats a timestamp as an HTTP date, truncated to the second; see RFC 9110, 5.6.7. */
export function toHttpDate(value: Timestamp): string {
  return new Date(value).toUTCString()
}

// --- Preconditions ---

/**
 * What a request requires of the current version:
 * - `none`: nothing
 * - `unmodified-since`: it exists and did not change after `timestamp` (If-Match with an entity tag)
 * - `differs`: it is not exactly `timestamp`; only for reads (If-None-Match with an entity tag)
 * - `exists`: it exists (If-Match: *)
 * - `absent`: it does not exist (If-None-Match: *)
 */
export type Precondition =
  | { kind: 'none' }
  | { kind: 'unmodified-since'; timestamp: Timestamp }
  | { kind: 'differs'; timestamp: Timestamp }
  | { kind: 'exists' }
  | { kind: 'absent' }

export const noPrecondition: Precondition = { kind: 'none' }

/** A read whose precondition makes it 304 or 412. */
export interface UnmetPrecondition {
  outcome: 'not-modified' | 'precondition-failed'
  /** The current version. */
  timestamp: Timestamp
}

/** Evaluates the precondition of a read against the current version; null: the read proceeds. */
function evaluateRead(precondition: Precondition, current: Timestamp): UnmetPrecondition['outcome'] | null {
  switch (precondition.kind) {
    case 'none':
    case 'exists':
      return null
    case 'absent':
      return 'not-modified'
    case 'unmodified-since':
      return current > precondition.timestamp ? 'precondition-failed' : null
    case 'differs':
      return current === precondition.timestamp ? 'not-modified' : null
    default:
      return precondition satisfies never
  }
}

export type GetOutcome =
  /** `json`: the record's exposed JSON, if it is already at hand. */
  | { outcome: 'found'; record: SyncRecord; json?: string }
  | { outcome: 'not-modified'; timestamp: Timestamp }
  | { outcome: 'precondition-failed'; existing: SyncRecord }
  | { outcome: 'missing' }

/** Evaluates a read of one record; `current` is null if the record is missing. */
export function evaluateGet(precondition: Precondition, current: SyncRecord | null): GetOutcome {
  if (current === null) return { outcome: 'missing' }
  const outcome = evaluateRead(precondition, current.lastModified)
  if (outcome === null) return { outcome: 'found', record: current }
  if (outcome === 'not-modified') return { outcome, timestamp: current.lastModified }
  return { outcome, existing: current }
}

/** Evaluates a read of one or all collections; null: the read proceeds. Collections always exist, so `absent` has no effect. */
export function evaluateCollection(precondition: Precondition, current: Timestamp): UnmetPrecondition | null {
  if (precondition.kind === 'absent') return null
  const outcome = evaluateRead(precondition, current)
  return outcome && { outcome, timestamp: current }
}

/**
 * Whether a write of one record may proceed; `current` is null if the record is missing. `unmodified-since` requires an existing record.
 */
export function allowsPut(precondition: Precondition, current: Timestamp | null): boolean {
  switch (precondition.kind) {
    case 'none':
    case 'differs':
      return true
    case 'exists':
      return current !== null
    case 'absent':
      return current === null
    case 'unmodified-since':
      return current !== null && current <= precondition.timestamp
    default:
      return precondition satisfies never
  }
}

/** Whether the deletion of an existing record may proceed. */
export function allowsDelete(precondition: Precondition, current: Timestamp): boolean {
  return precondition.kind !== 'unmodified-since' || current <= precondition.timestamp
}
