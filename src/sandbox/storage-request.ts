import { idPattern, type BsoFields } from './bso.ts'
import type { Dialect, Sort } from './dialect.ts'
import { checkHawk, type HawkParts } from './hawk.ts'
import type { RequestTarget } from './http.ts'
import { limitsFor, type Limits } from './limits.ts'
import type { Switches } from './options.ts'
import { Refusal, type Reply } from './reply.ts'
import { parseSeconds, quantumMs } from './timestamps.ts'
import { checkAnnounced, readBody, readBodyType, readItemBody, readUpload, type Upload } from './upload.ts'

/** A storage request, parsed and validated without reading stored data. */
export interface StorageRequest {
  method: string
  route: Route
  /** Empty if the request names no collection. */
  collection: string
  /** Empty if the request names no record. */
  id: string
  /** The limits in force for the collection. */
  limits: Limits
  query: ListQuery
  format: ListFormat
  batch: BatchRequest
  precondition: Precondition
  /** The record of a PUT. */
  fields: BsoFields
  /** The records of a POST. */
  upload: Upload
}

/** The format of a page of records. */
export type ListFormat = 'json' | 'newlines'

/**
 * Parses a request and makes every check that needs no stored data, in the real server's order: route, signature,
 * headers, query, body. Throws Refusal.
 */
export async function readRequest(
  { switches, dialect, ...rest }: HawkParts & { switches: Switches; dialect: Dialect },
  request: Request,
  target: RequestTarget,
): Promise<StorageRequest> {
  const { method, headers } = request
  const route = matchRoute(method, target.path)
  const isConfiguration = route.kind === 'info' && route.page === 'configuration'
  if (!isConfiguration && checkHawk(request, target, rest).uid !== route.uid) throw new Refusal(400)
  const collection = 'collection' in route ? route.collection : ''
  const id = 'id' in route ? route.id : ''
  const limits = limitsFor(switches.limits, collection)
  const isUpload = method === 'POST' || method === 'PUT'
  const format = route.kind === 'collection' && !isUpload ? readFormat(headers) : 'json'
  const type = isUpload ? readBodyType(request, dialect) : 'application/json'
  const text = isUpload ? await readBody(request, limits) : ''
  const query = readListQuery(target.query, dialect)
  const isPost = method === 'POST'
  const batch = isPost ? readBatchRequest(target.query, switches.batching) : ({ kind: 'none' } as const)
  if (isPost) checkAnnounced(headers, limits)
  const precondition = isConfiguration ? noPrecondition : readPrecondition(headers)
  const rules = { collection, limits, dialect }
  return {
    method,
    route,
    collection,
    id,
    limits,
    format,
    query,
    batch,
    precondition,
    fields: method === 'PUT' ? readItemBody(text, rules) : {},
    upload: isPost ? readUpload(text, type, rules) : { valid: [], failed: {} },
  }
}

// Uses the known media range with the highest quality. Ignores a header that can't be parsed.
function readFormat(headers: Headers): ListFormat {
  const ranges = (headers.get('Accept') ?? '*/*').split(',').map((text) => {
    const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1'
    return { type, quality: Number(quality) }
  })
  if (!ranges.every(({ type }) => /^[^/ ]+\/[^/ ]+$/.test(type))) return 'json'
  const known = new Set(['*/*', 'application/json', 'application/newlines', 'text/plain'])
  const best = ranges.toSorted((a, b) => b.quality - a.quality).find(({ type }) => known.has(type))
  if (best === undefined || best.type === 'text/plain') throw new Refusal(406)
  return best.type === 'application/newlines' ? 'newlines' : 'json'
}

/** The resource that a storage path names. */
export type Route =
  | { kind: 'info'; uid: number; page: InfoPage }
  | { kind: 'store'; uid: number }
  | { kind: 'collection'; uid: number; collection: string }
  | { kind: 'item'; uid: number; collection: string; id: string }

/** The pages under `/info/`. */
export type InfoPage = (typeof infoPages)[number]

const infoPages = ['collections', 'collection_counts', 'collection_usage', 'quota', 'configuration'] as const

const methods: Record<Route['kind'], readonly string[]> = {
  info: ['GET'],
  store: ['DELETE'],
  collection: ['GET', 'POST', 'DELETE'],
  item: ['GET', 'PUT', 'DELETE'],
}

/**
 * Finds the route of a method and path; see Sync 1.5 API, "API Instructions". Throws 404 for an unknown path, including
 * invalid ids and names, and 405 for a method that the path doesn't support. GET doesn't imply HEAD.
 */
function matchRoute(method: string, path: string): Route {
  const route = readRoute(path)
  if (route === null) throw new Refusal(404)
  const known = methods[route.kind]
  if (!known.includes(method)) throw new Refusal(405, null, { Allow: known.toSorted().join(', ') })
  return route
}

function readRoute(path: string): Route | null {
  const [empty, version, digits = '', ...rest] = path.split('/')
  if (empty !== '' || version !== '1.5' || !/^\d{1,10}$/.test(digits)) return null
  const uid = Number(digits)
  const [area, name, item] = rest
  if (area === undefined) return { kind: 'store', uid }
  if (area === 'info') {
    const page = infoPages.find((known) => known === name)
    return page === undefined || rest.length !== 2 ? null : { kind: 'info', uid, page }
  }
  if (area !== 'storage' || rest.length > 3) return null
  if (name === undefined) return { kind: 'store', uid }
  const collection = decode(name)
  if (collection === null || !/^[a-zA-Z0-9._-]{1,32}$/.test(collection)) return null
  if (item === undefined) return { kind: 'collection', uid, collection }
  const id = decode(item)
  return id === null || !idPattern.test(id) ? null : { kind: 'item', uid, collection, id }
}

function decode(segment: string): string | null {
  try {
    // A percent sign that starts no escape is literal.
    return decodeURIComponent(segment.replaceAll(/%(?![0-9a-fA-F]{2})/g, '%25'))
  } catch {
    return null
  }
}

/** The X-If headers of a request, in milliseconds. */
interface Precondition {
  modifiedSince: number | null
  unmodifiedSince: number | null
}

/** A precondition that always holds. */
const noPrecondition: Precondition = { modifiedSince: null, unmodifiedSince: null }

/** Parses the X-If headers; throws 400 if both are present or one isn't a timestamp. */
function readPrecondition(headers: Headers): Precondition {
  const modifiedSince = readHeader(headers, 'X-If-Modified-Since')
  const unmodifiedSince = readHeader(headers, 'X-If-Unmodified-Since')
  if (modifiedSince !== null && unmodifiedSince !== null) throw new Refusal(400)
  return { modifiedSince, unmodifiedSince }
}

/**
 * The response if the precondition fails, else null. A missing resource has the timestamp 0, so only X-If-Modified-Since,
 * which applies to writes too, can fail on it; see Sync 1.5 API, "X-If-Unmodified-Since".
 */
export function failedPrecondition(
  { modifiedSince, unmodifiedSince }: Precondition,
  resource: number,
): Reply | null {
  if (modifiedSince !== null && resource <= modifiedSince) {
    return { status: 304, body: null, lastModified: resource }
  }
  if (unmodifiedSince !== null && resource > unmodifiedSince) {
    return { status: 412, body: null, lastModified: resource }
  }
  return null
}

function readHeader(headers: Headers, name: string): number | null {
  const text = headers.get(name)
  if (text === null) return null
  const timestamp = parseSeconds(text.trim())
  if (timestamp === null) throw new Refusal(400)
  return timestamp
}

/** Where a page begins: after `skip` records, counted from the start of the list or from a timestamp. */
export interface Offset {
  /** Milliseconds; null if counted from the start. */
  from: number | null
  skip: number
}

/** The query of a list, with timestamps in milliseconds; null for absent parameters. */
export interface ListQuery {
  ids: readonly string[] | null
  newer: number | null
  older: number | null
  full: boolean
  limit: number | null
  offset: Offset | null
  sort: Sort | null
}

const maxIdsPerQuery = 100
const maxLimit = 4_294_967_295
const known = new Set(['ids', 'newer', 'older', 'full', 'limit', 'offset', 'sort'])

/** Parses the query; throws 400 for values that the storage rejects. See Sync 1.5 API, "GET /storage/<collection>". */
function readListQuery(text: string, dialect: Dialect): ListQuery {
  const found = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (known.has(name) && found.has(name)) throw new Refusal(400)
    found.set(name, value)
  }
  const query: ListQuery = {
    ids: read(found, 'ids', (value) => readIds(dialect.splitIds(value))),
    newer: read(found, 'newer', parseSeconds),
    older: read(found, 'older', parseSeconds),
    full: found.has('full'),
    limit: read(found, 'limit', readLimit),
    offset: read(found, 'offset', readOffset),
    sort: read(found, 'sort', readSort),
  }
  const from = query.offset?.from ?? null
  const isOutside =
    from !== null &&
    query.sort !== 'index' &&
    (query.newer !== null ? from < query.newer : query.older !== null && from > query.older)
  if (isOutside) throw new Refusal(400)
  // Treats an empty list of ids as absent, so DELETE ?ids= deletes the whole collection.
  return query.ids?.length === 0 ? { ...query, ids: null } : query
}

function read<T>(found: Map<string, string>, name: string, reader: (value: string) => T | null): T | null {
  const value = found.get(name)
  if (value === undefined) return null
  const result = reader(value)
  if (result === null) throw new Refusal(400)
  return result
}

function readIds(ids: string[]): string[] | null {
  return ids.length <= maxIdsPerQuery && ids.every((id) => idPattern.test(id)) ? ids : null
}

function readLimit(value: string): number | null {
  return /^\d{1,10}$/.test(value) && Number(value) <= maxLimit ? Number(value) : null
}

function readOffset(value: string): Offset | null {
  // Ignores everything after a second colon.
  const [, from, skip] =
    /^(?:(\d{1,15}):)?(\d{1,15})$/.exec(value) ?? /^(\d{1,15}):(\d{1,15}):/.exec(value) ?? []
  if (skip === undefined) return null
  return { from: from === undefined ? null : Number(from) - (Number(from) % quantumMs), skip: Number(skip) }
}

function readSort(value: string): Sort | null {
  return value === 'newest' || value === 'oldest' || value === 'index' || value === 'none' ? value : null
}

/** The batch parameters of a POST. */
type BatchRequest =
  { kind: 'none' } | { kind: 'start' } | { kind: 'append'; id: string } | { kind: 'commit'; id: string }

/**
 * Parses `batch` and `commit`; throws 400 for a commit without a batch. A batch that one request starts and commits is a
 * plain upload. See Sync 1.5 API, "Example: Uploading a large batch of items".
 */
function readBatchRequest(query: string, batching: boolean): BatchRequest {
  const parameters = new URLSearchParams(query)
  const [id, commit] = [parameters.get('batch'), parameters.get('commit')]
  if (parameters.getAll('batch').length > 1 || parameters.getAll('commit').length > 1) throw new Refusal(400)
  if (commit !== null && (id === null || !isTrue(commit))) throw new Refusal(400)
  if (id === null) return { kind: 'none' }
  const isNew = id === '' || isTrue(id)
  if (!batching && !isNew) throw new Refusal(400)
  if (isNew) return { kind: commit === null && batching ? 'start' : 'none' }
  return { kind: commit === null ? 'append' : 'commit', id }
}

function isTrue(text: string): boolean {
  return text.toLowerCase() === 'true'
}
