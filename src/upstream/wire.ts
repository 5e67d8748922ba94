import { UpstreamError } from '../domain/errors.ts'
import { fromSyncSeconds, toSyncSeconds } from '../domain/timestamp.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions, Notices } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { Query } from './signed-address.ts'

/** The most ids that the storage takes in one query. */
const maxIds = 100

/** Keeps the request line below 4 KB, which the strictest servers take. */
const maxIdBytes = 3500

/** The query of a list of whole records, or of their ids. It always names the order: without it some storages have none. */
export function listQuery(
  { newer, older, ids, sort, limit }: ListOptions,
  offset: string | null = null,
  isFull = true,
): Query {
  if (ids?.length === 0) throw new RangeError('Cannot list no ids: the storage would take that for all')
  const query: Query = [['sort', sort]]
  if (isFull) query.unshift(['full', '1'])
  if (newer !== undefined) query.push(['newer', toSyncSeconds(newer)])
  if (older !== undefined) query.push(['older', toSyncSeconds(older)])
  if (ids) query.push(['ids', ids])
  if (limit !== undefined) query.push(['limit', String(limit)])
  if (offset !== null) query.push(['offset', offset])
  return query
}

/** Whether a list of ids can hold it: the storage splits the list at commas and trims the items. */
export function isListable(id: string): boolean {
  return !id.includes(',') && id === id.trim()
}

/** The ids in portions that fit into one query each. */
export function chunkIds(ids: string[]): string[][] {
  const chunks: string[][] = []
  let bytes = Infinity
  for (const id of ids) {
    const size = encodeURIComponent(id).length + 1
    if (bytes + size > maxIdBytes || chunks.at(-1)!.length >= maxIds) {
      chunks.push([])
      bytes = 0
    }
    chunks.at(-1)!.push(id)
    bytes += size
  }
  return chunks
}

/** The headers that make a read of several records conditional; preconditions that concern a single record have none. */
export function preconditionHeaders(precondition: Precondition): Record<string, string> {
  switch (precondition.kind) {
    case 'unmodified-since':
      return unmodifiedSinceHeader(precondition.timestamp)
    case 'differs':
      return { 'X-If-Modified-Since': toSyncSeconds(precondition.timestamp) }
    case 'none':
    case 'exists':
    case 'absent':
      return {}
    default:
      return precondition satisfies never
  }
}

export function unmodifiedSinceHeader(since: Timestamp): Record<string, string> {
  return { 'X-If-Unmodified-Since': toSyncSeconds(since) }
}

/** The timestamp of the resource that was read; an answer without a readable one is `bad-response`. */
export function lastModifiedOf(headers: Headers): Timestamp {
  const value = fromSyncSeconds(headers.get('x-last-modified'))
  if (value === null)
    throw new UpstreamError('bad-response', 'Cannot use an answer: no readable X-Last-Modified')
  return value
}

/** The number of records in an answer, where the answer announces it. */
export function recordCountOf(headers: Headers): number | null {
  const text = headers.get('x-weave-records')
  return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : null
}

const longestOffset = 1024

/** Where the next page begins, opaque; null at the end. */
export function nextOffsetOf(headers: Headers): string | null {
  const offset = headers.get('x-weave-next-offset')
  if (offset === null || offset === '') return null
  if (offset.length > longestOffset)
    throw new UpstreamError('bad-response', 'Cannot use an answer: endless offset')
  return offset
}

/** The offsets of a list's pages. Each may come once, or a broken storage would be followed for ever. */
export class OffsetTrail {
  readonly #seen = new Set<string>()

  /** The offset of the page after one with so many records; null at the end. */
  next(headers: Headers, recordCount: number): string | null {
    const offset = nextOffsetOf(headers)
    if (offset === null) return null
    if (recordCount === 0 || this.#seen.has(offset)) {
      throw roundInCircles()
    }
    this.#seen.add(offset)
    return offset
  }
}

export function roundInCircles(): UpstreamError {
  return new UpstreamError('bad-response', 'Cannot use a list of the storage: it goes round in circles')
}

const longestUserAgent = 256
const usualUserAgent = /^[!-~](?:[ -~]{0,254}[!-~])?$/

/** Makes a User-Agent that can be sent and is harmless in logs. */
export function toUserAgent(text: string): string {
  if (usualUserAgent.test(text)) return text
  return (
    text
      .slice(0, longestUserAgent)
      .replace(/[^ -~]/g, '?')
      .trim() || '?'
  )
}

const maxSeconds = 86_400

/**
 * The seconds that an answer asks to wait, rounded up and at most a day; null when it asks for none or can't be read.
 * Numbers, also with a fraction, and HTTP dates; see RFC 9110, 10.2.3.
 */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const text = headers.get('retry-after')
  if (text === null) return null
  const seconds = readSeconds(text)
  if (seconds !== null) return seconds
  const atMs = httpDateForm.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.min(maxSeconds, Math.max(0, Math.ceil((atMs - nowMs) / 1000)))
}

const httpDateForm = /^[A-Z][a-z]{2,8},? .{8,40}$/

/** Reads a number of seconds that upstream asks for, rounded up and at most a day; null for anything else. */
function readSeconds(text: string | null): number | null {
  if (text === null || !numberForm.test(text)) return null
  return Math.min(maxSeconds, Math.ceil(Number(text)))
}

const numberForm = /^\d{1,15}(?:\.\d{1,15})?$/

const longestAlert = 4096

/** Collects the notices in the headers of an answer; a value that is no number, or too long, is dropped. */
export function collectNotices(notices: Notices, headers: Headers): void {
  const backoffSeconds = readBackoff(headers)
  if (backoffSeconds !== null) notices.backoffSeconds = Math.max(notices.backoffSeconds ?? 0, backoffSeconds)
  const alert = headers.get('x-weave-alert')
  if (alert !== null && alert.length > 0 && alert.length <= longestAlert) notices.alert = alert
  const quota = headers.get('x-weave-quota-remaining')
  if (quota !== null && quotaForm.test(quota)) notices.quotaRemaining = quota
}

const quotaForm = /^\d{1,12}(?:\.\d{1,15})?$/

/** The pause between requests that an answer asks for, in seconds; null when it asks for none. */
export function readBackoff(headers: Headers): number | null {
  const weave = readSeconds(headers.get('x-weave-backoff'))
  const plain = readSeconds(headers.get('x-backoff'))
  return weave === null && plain === null ? null : Math.max(weave ?? 0, plain ?? 0)
}
