import { formatSeconds } from './timestamps.ts'

/** The fields of a record that a client may set; absent fields keep their stored value. */
export interface BsoFields {
  payload?: string
  sortindex?: number
  /** Seconds. */
  ttl?: number
}

/** An uploaded record. */
export interface Bso extends BsoFields {
  id: string
}

/** A stored record. */
export interface StoredRecord {
  id: string
  /** Milliseconds, a multiple of 10. */
  modified: number
  payload: string
  sortindex: number | null
  /** Milliseconds; null if it never expires. */
  expiry: number | null
}

/** Printable ASCII, 1 to 64 characters. */
export const idPattern = /^[ -~]{1,64}$/

/** Formats a record as JSON, without its expiry, and without a sortindex that was never set. */
export function formatRecord(
  { id, modified, sortindex }: Pick<StoredRecord, 'id' | 'modified' | 'sortindex'>,
  quotedPayload: string,
): string {
  const index = sortindex === null ? '' : `,"sortindex":${sortindex}`
  return `{"id":${JSON.stringify(id)},"modified":${formatSeconds(modified)},"payload":${quotedPayload}${index}}`
}

/** The size that counts towards limits and quotas: UTF-8 bytes. */
export function payloadBytes({ payload }: BsoFields): number {
  return payload === undefined ? 0 : Buffer.byteLength(payload)
}
