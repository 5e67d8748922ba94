import { toSyncSeconds, type Timestamp } from '../domain/timestamp.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { Endpoint, SyncCredentials } from '../domain/credentials.ts'
import type { ListOptions } from '../domain/record-storage.ts'

/** The names and values of a query, in order; a value with several items is a list. */
export type Query = [name: string, value: string | string[]][]

/** The address of a request. A `URL` also fits, but is slower to create. */
export interface UpstreamUrl {
  href: string
  origin: string
  host: string
}

/** The address of a storage resource. */
interface StorageUrl extends UpstreamUrl {
  /** Path and query as sent, which are signed. */
  target: string
}

/**
 * The address of a resource below a user's endpoint. Each segment is percent-encoded once and stays one segment. Throws for segments that
 * URL parsing would remove, because the address would become that of the collection or of the whole storage.
 */
export function storageUrl(
  { origin, host, path }: Endpoint,
  segments: readonly string[],
  query?: Query,
): StorageUrl {
  let target = path
  for (const segment of segments) target += `/${encodeSegment(segment)}`
  if (query?.length) target += `?${query.map(encodeParameter).join('&')}`
  return { href: origin + target, origin, host, target }
}

// Every URL parser leaves these characters as they are, except for the two dot segments.
const unreserved = /^[\w.~-]+$/

function encodeSegment(segment: string): string {
  if (segment === '' || segment === '.' || segment === '..') {
    throw new RangeError('Invalid path segment: it is empty or a dot segment')
  }
  return encode(segment)
}

function encodeParameter([name, value]: Query[number]): string {
  return `${name}=${typeof value === 'string' ? encode(value) : value.map(encode).join(',')}`
}

/** Percent-encodes every character that is not unreserved; see RFC 3986, 2.3. Throws for text that is not well-formed Unicode. */
function encode(text: string): string {
  if (unreserved.test(text)) return text
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/**
 * The Hawk `Authorization` header, without payload hash, `ext`, `app` or `dlg`; see Sync 1.5 API, "Authentication", and Hawk 1. The key is
 * the UTF-8 text, not decoded. The scheme is spelled `Hawk`, because the storage compares it case-sensitively.
 */
export function hawkHeader(
  { hawkId, hawkKey, endpoint: { hostname, port } }: Pick<SyncCredentials, 'hawkId' | 'hawkKey' | 'endpoint'>,
  method: string,
  target: string,
  timestampSeconds: number,
  nonce: string,
): string {
  const signed = `hawk.1.header\n${timestampSeconds}\n${nonce}\n${method}\n${target}\n${hostname}\n${port}\n\n\n`
  const mac = new Bun.CryptoHasher('sha256', hawkKey).update(signed).digest('base64')
  return `Hawk id="${hawkId}", ts="${timestampSeconds}", nonce="${nonce}", mac="${mac}"`
}

/** Maximum ids that the storage accepts in one query. */
const maxIdsPerQuery = 100

/** Keeps the request line below 4 KB, the limit of the strictest servers. */
const maxIdBytes = 3500

/** The query of a list of records, or of ids if not `isFull`. Always names the order, because some storages have no default. */
export function listQuery(
  { newer, older, ids, sort, limit }: ListOptions,
  offset: string | null = null,
  isFull = true,
): Query {
  if (ids?.length === 0) throw new RangeError('The list of ids is empty: the storage would list all records')
  const query: Query = [['sort', sort]]
  if (isFull) query.unshift(['full', '1'])
  if (newer !== undefined) query.push(['newer', toSyncSeconds(newer)])
  if (older !== undefined) query.push(['older', toSyncSeconds(older)])
  if (ids) query.push(['ids', ids])
  if (limit !== undefined) query.push(['limit', String(limit)])
  if (offset !== null) query.push(['offset', offset])
  return query
}

/** Whether a list of ids can contain this id: the storage splits lists at commas and trims the items. */
export function isListable(id: string): boolean {
  return !id.includes(',') && id === id.trim()
}

/** Splits ids into chunks that fit into one query each. */
export function chunkIds(ids: string[]): string[][] {
  const chunks: string[][] = []
  let bytes = Infinity
  for (const id of ids) {
    const size = encodeURIComponent(id).length + 1
    if (bytes + size > maxIdBytes || chunks.at(-1)!.length >= maxIdsPerQuery) {
      chunks.push([])
      bytes = 0
    }
    chunks.at(-1)!.push(id)
    bytes += size
  }
  return chunks
}

/** Groups ids into chunks for lists, and the single ids that no list can contain. */
export function groupIds(ids: string[]): { chunks: string[][]; single: string[] } {
  return { chunks: chunkIds(ids.filter(isListable)), single: ids.filter((id) => !isListable(id)) }
}

/** The headers of a conditional read of several records; preconditions of single records need none. */
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

const maxUserAgentLength = 256
const plainUserAgent = /^[!-~](?:[ -~]{0,254}[!-~])?$/

/** Makes a User-Agent that is valid in headers and harmless in logs. */
export function toUserAgent(text: string): string {
  if (plainUserAgent.test(text)) return text
  return (
    text
      .slice(0, maxUserAgentLength)
      .replace(/[^ -~]/g, '?')
      .trim() || '?'
  )
}
