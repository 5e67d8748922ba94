import type { Quirks } from './quirks.ts'
import { formatSeconds } from './timestamps.ts'

/** The fields of a record that a client may set; an absent one keeps its stored value. */
export interface BsoFields {
  payload?: string
  sortindex?: number
  /** Seconds. */
  ttl?: number
}

/** A record on its way in. */
export interface Bso extends BsoFields {
  id: string
}

/** A record as stored. */
export interface StoredRecord {
  id: string
  /** Milliseconds, a multiple of 10. */
  modified: number
  payload: string
  sortindex: number | null
  /** Milliseconds; null when it never expires. */
  expiry: number | null
}

const largestInteger = 999_999_999
const pythonLongestTtlSeconds = 31_536_000
const knownFields = new Set(['id', 'collection', 'modified', 'payload', 'sortindex', 'ttl'])

/** The settable fields of a JSON object, or null when one is unknown or wrong; see Sync 1.5 API, "Basic Storage Object". */
export function readBsoFields(value: unknown, quirks: Quirks): BsoFields | null {
  if (!isObject(value) || Object.keys(value).some((name) => !knownFields.has(name))) return null
  const fields: BsoFields = {}
  const { payload, sortindex, ttl } = value
  if (isGiven(payload)) {
    if (typeof payload !== 'string') return null
    fields.payload = payload
  }
  if (isGiven(sortindex)) {
    const index =
      quirks.isPython && typeof sortindex === 'string' ? Number(sortindex || Number.NaN) : sortindex
    if (!isInteger(index) || Math.abs(index) > largestInteger) return null
    fields.sortindex = index
  }
  if (isGiven(ttl)) {
    if (!isInteger(ttl) || ttl < 0 || (ttl > largestInteger && !quirks.isPython)) return null
    // The Python server has no use for lives of more than a year and keeps silent about it.
    if (!quirks.isPython || ttl <= pythonLongestTtlSeconds) fields.ttl = ttl
  }
  return fields
}

/** True for JSON objects, not for arrays and null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * True for a payload encrypted with an initialisation vector of zeros, which a broken client once uploaded into the
 * crypto collection, locking its user out.
 */
export function hasZeroIv(payload: string): boolean {
  return /IV":\s*"AAAAAAAAAAAAAAAAAAAAAA=="/.test(payload)
}

/** A record as JSON. The expiry isn't told, and neither is a sortindex that was never set. */
export function formatRecord(
  { id, modified, sortindex }: Pick<StoredRecord, 'id' | 'modified' | 'sortindex'>,
  quotedPayload: string,
): string {
  const index = sortindex === null ? '' : `,"sortindex":${sortindex}`
  return `{"id":${JSON.stringify(id)},"modified":${formatSeconds(modified)},"payload":${quotedPayload}${index}}`
}

/** The size that limits and quotas count: bytes in UTF-8. */
export function payloadBytes({ payload }: BsoFields): number {
  return payload === undefined ? 0 : Buffer.byteLength(payload)
}

function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value)
}
