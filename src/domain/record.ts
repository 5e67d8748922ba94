import type { Timestamp } from './timestamp.ts'

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

const collectionForm = /^[a-zA-Z0-9._-]{1,32}$/

/**
 * The one canonical spelling of a collection name, lower case, used for write gates, upstream URLs, caches and
 * metrics; null when the storage could not hold a collection of that name.
 */
export function canonicalCollection(name: string): string | null {
  if (!collectionForm.test(name) || name === '.' || name === '..') return null
  return name.toLowerCase()
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
