import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Operation, OperationOutcome, OutcomeOf } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions, RecordPage } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import { never } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { HeaderLookup } from './authorization.ts'
import { compileCheck } from './check.ts'
import { readListOptions } from './list-options.ts'
import { readPrecondition } from './preconditions.ts'
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
import type { Reply } from './reply.ts'
import { RecordBody } from './schemas.ts'
import type { Resource } from './target.ts'

/** A resource of somebody's bucket: what needs credentials and becomes an operation on the storage. */
export type BucketResource = Extract<Resource, { bucket: string }>

/** A request or a sub-request for a resource in a bucket. */
export interface BucketRequest {
  method: string
  resource: BucketResource
  /** As sent, with its question mark, or empty. */
  query: string
  header: HeaderLookup
  /** The public address of the resource, without query. */
  here: string
  /** The parsed body of a PUT. */
  body?: unknown
  /** The setting of that name; false when left out. */
  flushSafeEtag?: boolean
}

/** An operation, and how its outcome is answered. */
export interface Exchange {
  operation: Operation
  /** Throws `ServiceError` where the outcome is an error answer. */
  reply(outcome: OperationOutcome): Reply
}

/**
 * Turns a request into an operation on the storage and the way to answer it. Direct requests and sub-requests of a
 * batch both come through here. The method has been checked.
 *
 * Throws `ServiceError` 400 for what is wrong with headers, query or body.
 */
export function toExchange(request: BucketRequest): Exchange {
  const precondition = readPrecondition(request.header)
  switch (request.resource.kind) {
    case 'record':
      return recordExchange(request, request.resource, precondition)
    case 'records':
      return request.method === 'HEAD'
        ? countExchange(request, request.resource.collection, precondition)
        : listExchange(request, request.resource.collection, precondition)
    case 'bucket':
    case 'collections':
    case 'collection':
      return metadataExchange(request.resource, precondition)
    default:
      return request.resource satisfies never
  }
}

function recordExchange(
  request: BucketRequest,
  { collection, id }: Extract<Resource, { kind: 'record' }>,
  precondition: Precondition,
): Exchange {
  switch (request.method) {
    case 'PUT': {
      const input = readRecordInput(request.body)
      return exchange({ kind: 'put', collection, id, input, precondition }, putReply)
    }
    case 'DELETE': {
      const wantsRepresentation = /(^|[,; ])return=representation($|[,; ])/.test(
        request.header('prefer') ?? '',
      )
      return exchange({ kind: 'delete', collection, id, precondition }, (outcome) =>
        deleteReply(outcome, wantsRepresentation),
      )
    }
    default:
      return exchange({ kind: 'get', collection, id, precondition }, getReply)
  }
}

const checkRecordBody = compileCheck(RecordBody)

function readRecordInput(body: unknown) {
  const checked = checkRecordBody(body)
  if ('problems' in checked) throw invalidRequest(checked.problems)
  const { payload, sortindex, ttl } = checked.value.data
  if (payload !== undefined && !payload.isWellFormed()) {
    const description = 'holds half a surrogate pair, which UTF-8 can not carry'
    throw invalidRequest([{ location: 'body', name: 'data.payload', description }])
  }
  return {
    ...(payload !== undefined && { payload }),
    ...(sortindex !== undefined && { sortindex }),
    ...(ttl !== undefined && { ttlSeconds: ttl }),
  }
}

function getReply(outcome: OutcomeOf['get']): Reply {
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
}

function putReply(outcome: OutcomeOf['put']): Reply {
  switch (outcome.outcome) {
    case 'stored':
      return recordReply(outcome.record)
    case 'precondition-failed':
      throw preconditionFailed(outcome.existing)
    case 'rejected':
      throw outcome.reason === 'too-large'
        ? new ServiceError(413, errno.requestTooLarge, 'The record is larger than the storage takes')
        : invalidRequest([{ location: 'path', name: 'record_id', description: 'is refused by the storage' }])
    case 'failed':
      throw outcome.error
    default:
      return outcome satisfies never
  }
}

function deleteReply(outcome: OutcomeOf['delete'], wantsRepresentation: boolean): Reply {
  switch (outcome.outcome) {
    case 'deleted': {
      if (!wantsRepresentation)
        return { ...emptyReply(204), tombstone: tombstone(outcome.id, outcome.timestamp) }
      const headers = { ...versionHeaders(outcome.timestamp), 'Preference-Applied': 'return=representation' }
      return jsonReply(tombstone(outcome.id, outcome.timestamp), headers)
    }
    case 'precondition-failed':
      throw preconditionFailed(outcome.existing)
    case 'missing':
      throw unknownRecord()
    case 'failed':
      throw outcome.error
    default:
      return outcome satisfies never
  }
}

/** The whole collection is counted, whatever the query narrows down; but what GET refuses, HEAD refuses too. */
function countExchange(request: BucketRequest, collection: string, precondition: Precondition): Exchange {
  readListOptions(request.query)
  return exchange({ kind: 'count', collection, precondition }, (outcome) => {
    switch (outcome.outcome) {
      case 'counted':
        return countReply(outcome.count, outcome.timestamp)
      case 'not-modified':
        return notModifiedReply(outcome.timestamp)
      case 'precondition-failed':
        throw preconditionFailed(null, outcome.timestamp)
      case 'failed':
        throw outcome.error
      default:
        return outcome satisfies never
    }
  })
}

function listExchange(request: BucketRequest, collection: string, precondition: Precondition): Exchange {
  const options = readListOptions(request.query)
  const isWhole = options.limit === undefined && options.position === undefined
  if (options.ids?.length === 0) return emptyListExchange(request, collection, precondition, isWhole)
  return exchange({ kind: 'list', collection, options, precondition }, (outcome) => {
    switch (outcome.outcome) {
      case 'page': {
        const page = request.flushSafeEtag ? withFlushSafeTimestamp(outcome.page, options) : outcome.page
        return pageReply(page, request.here, request.query, isWhole)
      }
      case 'not-modified':
        return notModifiedReply(outcome.timestamp)
      case 'precondition-failed':
        throw preconditionFailed(null, outcome.timestamp)
      case 'too-large':
        throw new ServiceError(
          413,
          errno.requestTooLarge,
          'The list is too large for a batch: ask for it alone',
        )
      case 'failed':
        throw outcome.error
      default:
        return outcome satisfies never
    }
  })
}

/**
 * A deletion moves the collection's timestamp and leaves nothing to list. kinto.js takes "nothing new, and yet a newer
 * ETag" for a server that lost its data, and refuses to sync from then on. So a page that shows that nothing was
 * written since a moment gets that moment as its timestamp. Not when the page was narrowed down, where emptiness says
 * nothing of the collection, and never a later moment than the collection's own.
 */
function withFlushSafeTimestamp(page: RecordPage, options: ListOptions): RecordPage {
  const { newer, older, ids, excludedIds, position } = options
  if (newer === undefined || older !== undefined || ids || excludedIds || position) return page
  const isEmpty = page.count === 0 && page.next === null
  return isEmpty && newer < page.timestamp ? { ...page, timestamp: newer } : page
}

/** Ids were asked for, and none named: the answer is known, all but the collection's timestamp. */
function emptyListExchange(
  request: BucketRequest,
  collection: string,
  precondition: Precondition,
  isWhole: boolean,
): Exchange {
  return timestampExchange(collection, precondition, (timestamp) =>
    pageReply(
      { timestamp, records: new Uint8Array(), count: 0, next: null },
      request.here,
      request.query,
      isWhole,
    ),
  )
}

function metadataExchange(resource: BucketResource, precondition: Precondition): Exchange {
  if (resource.kind === 'collection') {
    return timestampExchange(resource.collection, precondition, (timestamp) =>
      metadataReply(resource.collection, timestamp),
    )
  }
  return exchange({ kind: 'timestamps' }, (outcome) => {
    const found = foundTimestamps(outcome)
    return conditionally(precondition, found.timestamp, () =>
      resource.kind === 'bucket' ? metadataReply(resource.bucket, found.timestamp) : collectionsReply(found),
    )
  })
}

function timestampExchange(
  collection: string,
  precondition: Precondition,
  answer: (timestamp: Timestamp) => Reply,
): Exchange {
  return exchange({ kind: 'timestamps' }, (outcome) => {
    const timestamp = foundTimestamps(outcome).collections.get(collection) ?? never
    return conditionally(precondition, timestamp, () => answer(timestamp))
  })
}

function foundTimestamps(outcome: OutcomeOf['timestamps']) {
  if (outcome.outcome === 'failed') throw outcome.error
  return outcome
}

/** A collection always exists, so only the two conditions on its timestamp mean anything. */
function conditionally(precondition: Precondition, timestamp: Timestamp, answer: () => Reply): Reply {
  const verdict = judgeCollection(precondition, timestamp)
  if (verdict === null) return answer()
  if (verdict.outcome === 'not-modified') return notModifiedReply(timestamp)
  throw preconditionFailed(null, timestamp)
}

function exchange<K extends Operation['kind']>(
  operation: Extract<Operation, { kind: K }>,
  reply: (outcome: OutcomeOf[K]) => Reply,
): Exchange {
  return { operation, reply: reply as Exchange['reply'] }
}

function unknownRecord(): ServiceError {
  return new ServiceError(404, errno.unknownRecord, 'There is no record of this id')
}

/** 412 with the stored record, without which clients could not settle the conflict. */
function preconditionFailed(existing: SyncRecord | null, timestamp?: Timestamp): ServiceError {
  const current = existing?.lastModified ?? timestamp
  const headers = current === undefined ? {} : versionHeaders(current)
  const message = existing
    ? 'The record was changed meanwhile'
    : 'The stored version is not the one that was named'
  if (!existing) return new ServiceError(412, errno.preconditionFailed, message, { headers })
  const { id, lastModified: last_modified, payload, sortindex } = existing
  const details = { existing: { id, last_modified, payload, ...(sortindex !== undefined && { sortindex }) } }
  return new ServiceError(412, errno.preconditionFailed, message, { headers, details })
}
