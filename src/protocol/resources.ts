/**
 * Everything that this service answers, declared once: path, methods, schemas of path, query and headers, what is asked of
 * the storage, and how its outcome is answered. From here come the routes, the checks, the sub-requests of a batch, the
 * gates for writes, `Allow` and the API document.
 */
import { Type } from '@sinclair/typebox'
import type { Static, TObject } from '@sinclair/typebox'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { readListDocument, toListDocument } from '../domain/list.ts'
import type { Operation, OperationOutcome, OutcomeOf } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import type { ListOptions, RecordPage } from '../domain/record-storage.ts'
import { canonicalCollection } from '../domain/record.ts'
import type { SyncRecord } from '../domain/record.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { compileRequestCheck } from './check.ts'
import type { RequestParts } from './check.ts'
import { isWritable } from './exposed.ts'
import type { ExposedSettings } from './exposed.ts'
import { given, readListOptions } from './list-query.ts'
import { collectionOf, readPrecondition, readRecordInput, readRecordPath } from './request-parts.ts'
import {
  collectionsReply,
  countReply,
  emptyReply,
  jsonReply,
  metadataReply,
  notModifiedReply,
  pageReply,
  recordReply,
  tombstone,
  versionHeaders,
} from './reply.ts'
import type { Address, Reply } from './reply.ts'
import {
  BatchHeaders,
  BucketPath,
  CollectionPath,
  DeleteHeaders,
  ListQuery,
  PutHeaders,
  ReadHeaders,
  RecordPath,
  RootHeaders,
} from './schemas.ts'
import type { ConditionHeaders } from './schemas.ts'

export type Method = 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'

/** One method of one resource. HEAD is answered wherever GET is, also where it is not declared. */
export interface Resource {
  /** Its name in logs, metrics and the API document. */
  name: ResourceName
  method: Method
  /** Below the version prefix. `:name` is one segment, `*` the rest of the path, as it was sent. */
  path: string
  params: TObject
  query: TObject
  headers: TObject
  /** All problems of the parts of a request, or null. */
  check(parts: RequestParts): Problem[] | null
}

export type ResourceName =
  | 'root'
  | 'heartbeat'
  | 'lbheartbeat'
  | 'version'
  | 'openapi'
  | 'metrics'
  | 'docs'
  | 'explore'
  | 'batch'
  | 'bucket'
  | 'collections'
  | 'collection'
  | 'records'
  | 'record'

/** The parts of a request that have been validated. `body`: the parsed body of a PUT. */
export interface Input<Params, Query, Headers> {
  params: Params
  query: Query
  headers: Headers
  body?: unknown
  address: Address
}

/** A resource in a user's bucket. It needs credentials, and becomes an operation on the storage. */
export interface BucketResource extends Resource {
  /**
   * Makes the operation on the storage. Problems that the schemas can't see are added to `problems`; then the operation must
   * not be used. Throws `ServiceError` 400 for problems of the body.
   */
  operation(input: Input<object, object, object>, problems: Problem[]): Operation
  /** Answers the outcome of that operation. Throws `ServiceError` for outcomes that are errors. */
  answer(outcome: OperationOutcome, input: Input<object, object, object>, settings: ExposedSettings): Reply
}

const nothing = Type.Object({})
const anything = Type.Object({}, { additionalProperties: true })
const FilePath = Type.Object({ file: Type.String({ description: 'The name of the file' }) })

interface Declaration<P extends TObject, Q extends TObject, H extends TObject, K extends Operation['kind']> {
  name: ResourceName
  method: Method
  path: string
  params: P
  query?: Q
  headers: H
  operation(
    input: Input<Static<P>, Static<Q>, Static<H>>,
    problems: Problem[],
  ): Extract<Operation, { kind: K }>
  answer(
    outcome: OutcomeOf[K],
    input: Input<Static<P>, Static<Q>, Static<H>>,
    settings: ExposedSettings,
  ): Reply
}

function declare<P extends TObject, Q extends TObject, H extends TObject, K extends Operation['kind']>(
  declaration: Declaration<P, Q, H, K>,
): BucketResource {
  const { params, query = anything, headers } = declaration
  return { ...declaration, query, check: compileRequestCheck({ params, query, headers }) }
}

/** A resource of the service itself, with a handler of its own. */
function declareService<H extends TObject, P extends TObject>(
  name: ResourceName,
  method: Method,
  path: string,
  headers: H,
  params: P,
) {
  const schemas = { params, query: anything, headers }
  return { name, method, path, ...schemas, check: compileRequestCheck(schemas) } satisfies Resource
}

const collectionPath = '/buckets/:bucket_id/collections/:collection_id'
const recordPath = `${collectionPath}/records/*`

// --- One record ---

const getRecord = declare({
  name: 'record',
  method: 'GET',
  path: recordPath,
  params: RecordPath,
  headers: ReadHeaders,
  operation: ({ params, headers }, problems) => ({
    kind: 'get',
    ...readRecordPath(params, problems),
    precondition: readPrecondition(headers, problems),
  }),
  answer(outcome) {
    switch (outcome.outcome) {
      case 'found':
        return recordReply(outcome.record, outcome.json)
      case 'not-modified':
        return notModifiedReply(outcome.timestamp)
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing)
      case 'missing':
        throw unknownRecord()
      case 'failed':
        throw outcome.error
      default:
        return outcome satisfies never
    }
  },
})

const putRecord = declare({
  name: 'record',
  method: 'PUT',
  path: recordPath,
  params: RecordPath,
  headers: PutHeaders,
  operation: ({ params, headers, body }, problems) => ({
    kind: 'put',
    ...readRecordPath(params, problems),
    precondition: readPrecondition(headers, problems),
    // The body comes last: its problems are reported when there are no others.
    input: problems.length === 0 ? readRecordInput(body) : {},
  }),
  answer(outcome, { headers }) {
    switch (outcome.outcome) {
      case 'stored':
        return recordReply(outcome.record)
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing, null, headers['if-none-match'] !== undefined)
      case 'rejected':
        throw rejected(outcome.reason)
      case 'failed':
        throw outcome.error
      default:
        return outcome satisfies never
    }
  },
})

const deleteRecord = declare({
  name: 'record',
  method: 'DELETE',
  path: recordPath,
  params: RecordPath,
  headers: DeleteHeaders,
  operation: ({ params, headers }, problems) => ({
    kind: 'delete',
    ...readRecordPath(params, problems),
    precondition: readPrecondition(headers, problems),
  }),
  answer(outcome, { headers }) {
    switch (outcome.outcome) {
      case 'deleted':
        return deletedReply(outcome, headers.prefer ?? '')
      case 'precondition-failed':
        throw preconditionFailed(outcome.existing)
      case 'missing':
        throw unknownRecord()
      case 'failed':
        throw outcome.error
      default:
        return outcome satisfies never
    }
  },
})

// --- The records of a collection ---

const listRecords = declare({
  name: 'records',
  method: 'GET',
  path: `${collectionPath}/records`,
  params: CollectionPath,
  query: ListQuery,
  headers: ReadHeaders,
  operation({ params, query, headers }, problems): Extract<Operation, { kind: 'list' | 'timestamps' }> {
    const options = readListOptions(query, problems)
    const precondition = readPrecondition(headers, problems)
    // An empty list of ids was given: everything but the collection's timestamp is known.
    if (options.ids?.length === 0) return { kind: 'timestamps' }
    return { kind: 'list', collection: collectionOf(params), options, precondition }
  },
  answer(outcome, input, settings) {
    const { params, query, address } = input
    const isWhole = given(query._limit) === undefined && given(query._token) === undefined
    switch (outcome.outcome) {
      case 'page': {
        const page = settings.flushSafeEtag ? withFlushSafeTimestamp(outcome.page, query) : outcome.page
        return pageReply(page, address, isWhole, settings)
      }
      case 'found': {
        const timestamp = outcome.collections.get(collectionOf(params)) ?? zeroTimestamp
        return conditionReply(input, timestamp) ?? pageReply(emptyPage(timestamp), address, isWhole, settings)
      }
      default:
        return withoutListReply(outcome)
    }
  },
})

/**
 * HEAD of a list: the number of records that the list would hold, filters included. For a page only the other headers are
 * answered.
 */
const countRecords = declare({
  name: 'records',
  method: 'HEAD',
  path: `${collectionPath}/records`,
  params: CollectionPath,
  query: ListQuery,
  headers: ReadHeaders,
  operation(
    { params, query, headers },
    problems,
  ): Extract<Operation, { kind: 'count' | 'timestamps' | 'list' }> {
    const { limit, position, sort: _, ...filter } = readListOptions(query, problems)
    const precondition = readPrecondition(headers, problems)
    if (limit !== undefined || position || filter.ids?.length === 0) return { kind: 'timestamps' }
    return { kind: 'count', collection: collectionOf(params), filter, precondition }
  },
  answer(outcome, input) {
    switch (outcome.outcome) {
      case 'counted':
        return countReply(outcome.count, outcome.timestamp)
      case 'page':
        return countReply(outcome.page.count ?? countElements(outcome.page), outcome.page.timestamp)
      case 'found': {
        const { limit, position } = readListOptions(input.query, [])
        const isPage = limit !== undefined || position !== undefined
        const current = outcome.collections.get(collectionOf(input.params)) ?? zeroTimestamp
        const timestamp = position?.firstTimestamp ?? current
        const counted = isPage ? emptyReply(200, versionHeaders(timestamp)) : countReply(0, timestamp)
        return conditionReply(input, current) ?? counted
      }
      default:
        return withoutListReply(outcome)
    }
  },
})

// --- Names and timestamps ---

const getBucket = declare({
  name: 'bucket',
  method: 'GET',
  path: '/buckets/:bucket_id',
  params: BucketPath,
  headers: ReadHeaders,
  operation: readTimestamps,
  answer(outcome, input) {
    const { timestamp } = found(outcome)
    return conditionReply(input, timestamp) ?? metadataReply(input.params.bucket_id, timestamp)
  },
})

const listCollections = declare({
  name: 'collections',
  method: 'GET',
  path: '/buckets/:bucket_id/collections',
  params: BucketPath,
  headers: ReadHeaders,
  operation: readTimestamps,
  answer(outcome, input) {
    const all = found(outcome)
    return conditionReply(input, all.timestamp) ?? collectionsReply(all)
  },
})

const getCollection = declare({
  name: 'collection',
  method: 'GET',
  path: collectionPath,
  params: CollectionPath,
  headers: ReadHeaders,
  operation: readTimestamps,
  answer(outcome, input) {
    const collection = collectionOf(input.params)
    const timestamp = found(outcome).collections.get(collection) ?? zeroTimestamp
    return conditionReply(input, timestamp) ?? metadataReply(collection, timestamp)
  },
})

function readTimestamps(
  { headers }: { headers: ConditionHeaders },
  problems: Problem[],
): { kind: 'timestamps' } {
  readPrecondition(headers, problems)
  return { kind: 'timestamps' }
}

// --- The lists ---

export const bucketResources: BucketResource[] = [
  getBucket,
  listCollections,
  getCollection,
  listRecords,
  countRecords,
  getRecord,
  putRecord,
  deleteRecord,
]

export const batch = declareService('batch', 'POST', '/batch', BatchHeaders, nothing)
export const root = declareService('root', 'GET', '/', RootHeaders, nothing)
export const heartbeat = declareService('heartbeat', 'GET', '/__heartbeat__', anything, nothing)
export const lbheartbeat = declareService('lbheartbeat', 'GET', '/__lbheartbeat__', anything, nothing)
export const version = declareService('version', 'GET', '/__version__', anything, nothing)
export const openapi = declareService('openapi', 'GET', '/__api__', anything, nothing)
export const metrics = declareService('metrics', 'GET', '/__metrics__', anything, nothing)
export const docs = declareService('docs', 'GET', '/docs', anything, nothing)
export const docsFile = declareService('docs', 'GET', '/docs/:file', anything, FilePath)
export const explore = declareService('explore', 'GET', '/explore', anything, nothing)
export const exploreFile = declareService('explore', 'GET', '/explore/:file', anything, FilePath)

export const resources: Resource[] = [
  ...bucketResources,
  batch,
  root,
  heartbeat,
  lbheartbeat,
  version,
  openapi,
  metrics,
  docs,
  docsFile,
  explore,
  exploreFile,
]

export function isBucketResource(resource: Resource): resource is BucketResource {
  return 'operation' in resource
}

// --- Methods ---

/** Whether the operator lets clients use this method; for a write, on the collection in its path. */
export function isEnabled(resource: Resource, params: object, settings: ExposedSettings): boolean {
  if (resource.method !== 'PUT' && resource.method !== 'DELETE') return true
  const collection = canonicalCollection((params as { collection_id?: string }).collection_id ?? '')
  return collection !== null && isWritable(settings, resource.method, collection)
}

/**
 * 405 for a method that a path does not answer. `others`: all resources of that path; `params`: the parameters in the
 * path.
 */
export function methodNotAllowed(
  method: string,
  others: Resource[],
  params: object,
  settings: ExposedSettings,
): ServiceError {
  const methods = new Set<string>()
  for (const resource of others) {
    if (!isEnabled(resource, params, settings)) continue
    methods.add(resource.method)
    if (resource.method === 'GET') methods.add('HEAD')
  }
  const message = others.some((resource) => resource.method === method)
    ? 'Method not allowed: the operator has not enabled this write'
    : 'Method not allowed on this resource'
  const headers = { Allow: [...methods, 'OPTIONS'].join(', ') }
  return new ServiceError(405, errno.methodNotAllowed, message, { headers })
}

// --- Answering ---

function found(outcome: OutcomeOf['timestamps']) {
  if (outcome.outcome === 'failed') throw outcome.error
  return outcome
}

/** Judges a collection that changed at that moment: 304, or null where the request proceeds. Throws `ServiceError` 412. */
function conditionReply({ headers }: { headers: ConditionHeaders }, timestamp: Timestamp): Reply | null {
  const verdict = judgeCollection(readPrecondition(headers, []), timestamp)
  if (verdict?.outcome === 'precondition-failed') throw preconditionFailed(null, timestamp)
  return verdict && notModifiedReply(timestamp)
}

function emptyPage(timestamp: Timestamp): RecordPage {
  return { timestamp, document: toListDocument([]), count: 0, next: null }
}

/**
 * Dates a page that shows that nothing was written since a moment by that moment. A deletion moves the collection's timestamp
 * and leaves nothing to list, and kinto.js takes "nothing new, and yet a newer ETag" for a server that lost its data and refuses
 * to sync from then on. Not for a page with filters, whose emptiness says nothing about the collection, and never later than the
 * collection's own timestamp.
 */
function withFlushSafeTimestamp(page: RecordPage, query: Static<typeof ListQuery>): RecordPage {
  const { newer, older, ids, excludedIds, position }: ListOptions = readListOptions(query, [])
  if (newer === undefined || older !== undefined || ids || excludedIds || position) return page
  const isEmpty = page.count === 0 && page.next === null
  return isEmpty && newer < page.timestamp ? { ...page, timestamp: newer } : page
}

const wantsRepresentation = /(?:^|[,; ])return=representation(?:$|[,; ])/

function deletedReply({ id, timestamp }: { id: string; timestamp: Timestamp }, prefer: string): Reply {
  if (!wantsRepresentation.test(prefer)) return { ...emptyReply(204), tombstone: tombstone(id, timestamp) }
  const headers = { ...versionHeaders(timestamp), 'Preference-Applied': 'return=representation' }
  return jsonReply(tombstone(id, timestamp), headers)
}

/**
 * The operation for a transaction: there a count with filters must see the writes before it, so it becomes a list whose
 * records are counted.
 */
export function asTransactionStep(operation: Operation): Operation {
  if (operation.kind !== 'count' || Object.keys(operation.filter).length === 0) return operation
  const { collection, filter, precondition } = operation
  return { kind: 'list', collection, options: { ...filter, sort: 'newest' }, precondition }
}

function countElements({ document }: RecordPage): number {
  if (!(document instanceof Uint8Array)) throw new TypeError('A streamed list can not be counted')
  return readListDocument(document).length
}

/** 304 for a list that is unchanged. Throws for the outcomes that are errors. */
function withoutListReply(outcome: Exclude<OutcomeOf['list'], { outcome: 'page' }>): Reply {
  switch (outcome.outcome) {
    case 'not-modified':
      return notModifiedReply(outcome.timestamp)
    case 'precondition-failed':
      throw preconditionFailed(null, outcome.timestamp)
    case 'too-large':
      throw tooLargeForBatch()
    case 'failed':
      throw outcome.error
    default:
      return outcome satisfies never
  }
}

/** 413 for an answer that is too large for a batch; a request of its own gets it. */
export function tooLargeForBatch(what = 'The list'): ServiceError {
  return new ServiceError(413, errno.requestTooLarge, `${what} is too large for a batch: ask for it alone`)
}

function unknownRecord(): ServiceError {
  return new ServiceError(404, errno.unknownRecord, 'There is no record of this id')
}

function rejected(reason: 'invalid' | 'too-large'): ServiceError {
  return reason === 'too-large'
    ? new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage takes')
    : invalidRequest([{ location: 'path', name: 'record_id', description: 'is refused by the storage' }])
}

/** 412 with the stored record, without which clients can't settle the conflict. */
function preconditionFailed(
  existing: SyncRecord | null,
  timestamp: Timestamp | null = null,
  isUnwanted = false,
): ServiceError {
  const current = existing?.lastModified ?? timestamp
  const headers = current === null ? {} : versionHeaders(current)
  if (!existing) {
    const message = 'The stored version is not the one that was named'
    return new ServiceError(412, errno.preconditionFailed, message, { headers })
  }
  const message = isUnwanted ? 'The record exists already' : 'The record was changed meanwhile'
  const { id, lastModified: last_modified, payload, sortindex } = existing
  const details = { existing: { id, last_modified, payload, ...(sortindex !== undefined && { sortindex }) } }
  return new ServiceError(412, errno.preconditionFailed, message, { headers, details })
}
