import { UpstreamError } from '../domain/errors.ts'
import { fromSyncSeconds, toSyncSeconds } from '../domain/timestamp.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { Query } from './storage-url.ts'

/** Most ids that the storage takes in one query. */
const maxIds = 100

/** Keeps the request line below the 4 KB that the strictest servers take. */
const maxIdBytes = 3500

/** The query of a list of whole records, or of their ids. The order is always named: without it some storages have none. */
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

/** Whether a list of ids can name it: the storage splits the list at commas and trims what it finds between them. */
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

/** The headers that make a read of several records conditional; what only matters to one record says nothing. */
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

/** The timestamp of what was asked for; an answer without a readable one is `bad-response`. */
export function lastModifiedOf(headers: Headers): Timestamp {
  const value = fromSyncSeconds(headers.get('x-last-modified'))
  if (value === null)
    throw new UpstreamError('bad-response', 'Cannot use an answer: no readable X-Last-Modified')
  return value
}

/** How many records an answer holds, where it says so. */
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

/** The offsets that a list is followed along, each to a page of its own: else a broken storage is followed for ever. */
export class OffsetTrail {
  readonly #seen = new Set<string>()

  /** Where the page after this one begins, which has brought so many records; null at the end. */
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

/** A User-Agent that can be sent and does no harm where it is logged. */
export function toUserAgent(text: string): string {
  if (usualUserAgent.test(text)) return text
  return (
    text
      .slice(0, longestUserAgent)
      .replace(/[^ -~]/g, '?')
      .trim() || '?'
  )
}
