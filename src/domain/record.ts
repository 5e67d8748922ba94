/** What a storage keeps: records and their versions, which are timestamps; and on which version a request may act. */

/** One stored record as the storage shows it. The payload is the client's ciphertext, never looked into. */
export interface SyncRecord {
  id: string
  lastModified: Timestamp
  payload: string
  sortindex?: number
}

/** A record in the exposed form, `{"id","last_modified","payload","sortindex"}`, as JSON text. */
export function toExposedJson(record: SyncRecord): string {
  const { id, lastModified: last_modified, payload, sortindex } = record
  return JSON.stringify({ id, last_modified, payload, sortindex })
}

/**
 * What a client writes into a record. A field that is left out keeps its stored value; `ttlSeconds` counts from
 * the write and can't be read back.
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

/** How clients may spell a collection name. */
export const collectionForm = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,32}$/

/**
 * The one canonical spelling of a collection name, lower case, used for write gates, upstream URLs, caches and
 * metrics; null when the storage could not hold a collection of that name.
 */
export function canonicalCollection(name: string): string | null {
  return collectionForm.test(name) ? name.toLowerCase() : null
}

const idForm = /^[ -~]{1,64}$/

/**
 * Whether the storage could hold a record of that id: printable ASCII, 1 to 64 characters, slashes included, because
 * Firefox's form history has such ids. `.` and `..`, alone or between slashes, are refused: URL parsers collapse them,
 * encoded or not, into a path one level up.
 */
export function isRecordId(id: string): boolean {
  return idForm.test(id) && !(id.includes('.') && dotSegment.test(id))
}

const dotSegment = /(?:^|\/)\.\.?(?:\/|$)/

// --- Timestamps ---

/**
 * A moment of the storage, in integer milliseconds since 1970. The storage keeps 10 ms steps, so every timestamp that it gave
 * out is a multiple of 10. Its wire forms (entity tag, Sync seconds, HTTP date) are written and read here;
 * `upstream/bso.ts` and `bso-stream.ts` read the numbers in the storage's JSON.
 */
export type Timestamp = number & { readonly unit: 'ms of a storage timestamp' }

/** The timestamp of a collection or record that does not exist. */
export const zeroTimestamp = 0 as Timestamp

/** Brands a number of milliseconds; the caller has checked that it is a non-negative safe integer. */
export function timestamp(milliseconds: number): Timestamp {
  return milliseconds as Timestamp
}

/**
 * Formats a timestamp the way Sync writes it: decimal seconds with two digits, so 1234567890120 ms is
 * "1234567890.12". Rounds down to 10 ms, towards the past: rounding up could turn "changed since" into
 * "unchanged". See Sync 1.5 API, "Timestamps".
 */
export function toSyncSeconds(value: Timestamp): string {
  const hundredths = Math.floor(value / 10)
  const seconds = Math.floor(hundredths / 100)
  const fraction = hundredths % 100
  return `${seconds}.${fraction < 10 ? '0' : ''}${fraction}`
}

const syncSecondsForm = /^(\d{1,11})(?:\.(\d{1,2})0*)?$/

/** Reads decimal seconds ("1234567890.12") without going through floating point; null when it is anything else. */
export function fromSyncSeconds(text: string | null | undefined): Timestamp | null {
  const match = text ? syncSecondsForm.exec(text.trim()) : null
  if (!match) return null
  const hundredths = (match[2] ?? '').padEnd(2, '0')
  return timestamp(Number(match[1]) * 1000 + Number(hundredths) * 10)
}

/** The timestamp as a strong entity tag: `"1234567890120"`. */
export function toEntityTag(value: Timestamp): string {
  return `"${value}"`
}

const entityTagForm = /^(?:(?:W\/)?"(\d{1,15})"|(\d{1,15}))$/

/** How clients spell a version, in headers and in queries alike, as a part of a regular expression. */
export const versionPattern = entityTagForm.source.slice(1, -1)

/**
 * Reads a version as clients and the proxies between send it back: `"123"`, `123`, `W/"123"`; null when it is anything
 * else.
 */
export function fromEntityTag(text: string): Timestamp | null {
  const match = entityTagForm.exec(text)
  return match ? timestamp(Number(match[1] ?? match[2])) : null
}

/** The timestamp rounded down to the storage's 10 ms steps, so that no change is overlooked. */
export function floored(value: Timestamp): Timestamp {
  return timestamp(value - (value % 10))
}

/** The timestamp rounded up to the storage's next 10 ms step. */
export function raised(value: Timestamp): Timestamp {
  return timestamp(Math.ceil(value / 10) * 10)
}

/** The timestamp as an HTTP date, truncated to the second; see RFC 9110, 5.6.7. */
export function toHttpDate(value: Timestamp): string {
  return new Date(value).toUTCString()
}

// --- Preconditions ---

/**
 * What a client requires of the current version before its request counts:
 * - `none`: nothing
 * - `unmodified-since`: it exists and did not change after `timestamp` (If-Match with an entity tag)
 * - `differs`: it is another version than `timestamp`, older ones included; matters to reads only (If-None-Match with an
 *   entity tag, which is compared as it came)
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

/** A read that is not answered with what is stored: its precondition spares that, or rules it out. */
export interface UnmetRead {
  outcome: 'not-modified' | 'precondition-failed'
  /** Of the current version. */
  timestamp: Timestamp
}

/** Judges a read of one record, or of a collection, whose current version has that timestamp; null: it proceeds. */
function judgeRead(precondition: Precondition, current: Timestamp): UnmetRead['outcome'] | null {
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
  /** `json`: the record in the exposed form, where it was at hand without printing it anew. */
  | { outcome: 'found'; record: SyncRecord; json?: string }
  | { outcome: 'not-modified'; timestamp: Timestamp }
  | { outcome: 'precondition-failed'; existing: SyncRecord }
  | { outcome: 'missing' }

/** The outcome of a read of one record, given the record or null. */
export function judgeGet(precondition: Precondition, current: SyncRecord | null): GetOutcome {
  if (current === null) return { outcome: 'missing' }
  const outcome = judgeRead(precondition, current.lastModified)
  if (outcome === null) return { outcome: 'found', record: current }
  if (outcome === 'not-modified') return { outcome, timestamp: current.lastModified }
  return { outcome, existing: current }
}

/**
 * Judges a read of a collection, or of all of them; null: it proceeds. Collections always exist, if need be empty and with the
 * timestamp 0, so that "only if absent" has no effect on them.
 */
export function judgeCollection(precondition: Precondition, current: Timestamp): UnmetRead | null {
  if (precondition.kind === 'absent') return null
  const outcome = judgeRead(precondition, current)
  return outcome && { outcome, timestamp: current }
}

/**
 * Whether a write of one record may go on, given the timestamp of the current version, or null when there is none. A
 * missing record is created, unless the client said that it knows a version.
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

/** Whether the deletion of an existing record may go on. */
export function allowsDelete(precondition: Precondition, current: Timestamp): boolean {
  return precondition.kind !== 'unmodified-since' || current <= precondition.timestamp
}
