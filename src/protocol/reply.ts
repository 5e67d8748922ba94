import type { Errno } from '../domain/errors.ts'
import { toExposedJson } from '../domain/record.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { CollectionTimestamps, ListFrame, Notices, RecordPage } from '../domain/record-storage.ts'
import { toEntityTag, toHttpDate } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { writePageToken } from './page-token.ts'

/** An answer before it becomes a message: the envelope adds what every answer carries. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null for an answer without a body. */
  body: string | Uint8Array | ReadableStream<Uint8Array> | null
  /** The body that a batch shows for an answer that has none by itself. */
  tombstone?: object
  /** What the storage had to say besides; the envelope turns it into Backoff, Alert and Quota-Remaining. */
  notices?: Notices
  /** Our own Alert for this answer, as JSON text. */
  alert?: string
  /** To be called once the body was handed on, or nobody wants it any more. */
  ended?: () => void
  /** What the body of an error answer says, for logs. */
  errno?: Errno
}

/** A plain JSON answer. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** An answer with a status and nothing else. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}

/** ETag and Last-Modified of a version. */
export function versionHeaders(timestamp: Timestamp): Record<string, string> {
  return { ETag: toEntityTag(timestamp), 'Last-Modified': toHttpDate(timestamp) }
}

/** 304: the client's version is the current one. */
export function notModifiedReply(timestamp: Timestamp): Reply {
  return emptyReply(304, versionHeaders(timestamp))
}

/** A page of records. `here` is the public address of this request without its query. */
export function pageReply(page: RecordPage, here: string, query: string, isWhole: boolean): Reply {
  const headers = versionHeaders(page.timestamp)
  if (page.next) headers['Next-Page'] = nextPageUrl(here, query, writePageToken(page.next))
  if (isWhole && page.count !== null) headers['Total-Records'] = String(page.count)
  return { status: 200, headers, body: framed(page) }
}

/** The size of a collection, as headers: what HEAD of a list answers. */
export function countReply(count: number, timestamp: Timestamp): Reply {
  const total = String(count)
  return emptyReply(200, { ...versionHeaders(timestamp), 'Total-Records': total, 'Total-Objects': total })
}

/** One record, also as stored by a PUT. */
export function recordReply(record: SyncRecord, json = toExposedJson(record)): Reply {
  return { status: 200, headers: versionHeaders(record.lastModified), body: `{"data":${json}}` }
}

/** The tombstone of a deleted record, for those who asked for a representation and inside batches. */
export function tombstone(id: string, timestamp: Timestamp): { data: object } {
  return { data: { id, last_modified: timestamp, deleted: true } }
}

/** A bucket or a collection: its name and when it last changed. */
export function metadataReply(id: string, timestamp: Timestamp): Reply {
  return jsonReply({ data: { id, last_modified: timestamp } }, versionHeaders(timestamp))
}

/** All collections of a bucket with their timestamps. */
export function collectionsReply(found: CollectionTimestamps): Reply {
  const data = [...found.collections].map(([id, last_modified]) => ({ id, last_modified }))
  const headers = { ...versionHeaders(found.timestamp), 'Total-Records': String(data.length) }
  return jsonReply({ data }, headers)
}

/** Where the next page is: this request's address with its query as it was, and the token. */
export function nextPageUrl(here: string, query: string, token: string): string {
  const kept = query
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part !== '' && !/^_token(=|$)/.test(part))
  return `${here}?${[...kept, `_token=${encodeURIComponent(token)}`].join('&')}`
}

/** What makes the elements of a list the body of its answer. */
export const listFrame: ListFrame = {
  opening: new TextEncoder().encode('{"data":['),
  closing: new TextEncoder().encode(']}'),
}

function framed({ records, isFramed }: RecordPage): RecordPage['records'] {
  if (isFramed || !(records instanceof Uint8Array)) return records
  const { opening, closing } = listFrame
  return Buffer.concat([opening, records, closing])
}
