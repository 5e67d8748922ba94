import type { Timestamp } from './timestamp.ts'

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
