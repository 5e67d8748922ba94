/** The declarations of lists and of what has a timestamp: records, their number, collections, buckets; and the query of a list. */
import type { Static } from '@sinclair/typebox'
import { errno, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { readListDocument, toListDocument } from '../domain/list.ts'
import type { Operation, OutcomeOf } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import { isRecordId } from '../domain/record.ts'
import type {
  CollectionTimestamps,
  ListOptions,
  PagePosition,
  RecordPage,
  SortOrder,
} from '../domain/record-storage.ts'
import { floored, fromEntityTag, raised, timestamp, zeroTimestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import {
  collectionOf,
  collectionPath,
  declare,
  preconditionFailed,
  readPrecondition,
} from './record-resources.ts'
import type { Address } from './record-resources.ts'
import { emptyReply, jsonReply, notModifiedReply, publicOrigin, versionHeaders } from './reply.ts'
import type { ExposedSettings, Reply } from './reply.ts'
import { BucketPath, CollectionPath, ListQuery, mostIds, ReadHeaders } from './schemas.ts'
import type { ConditionHeaders } from './schemas.ts'

const ofRecords = {
  name: 'records',
  path: `${collectionPath}/records`,
  params: CollectionPath,
  query: ListQuery,
  headers: ReadHeaders,
} as const

export const listRecords = declare({
  ...ofRecords,
  method: 'GET',
  id: 'listRecords',
  summary: 'List the records of a collection',
  description:
    'All of them in one answer, streamed as they come. With `_limit` in pages, where every page has the ETag of the first: ' +
    'follow `Next-Page` until it is absent, then ask again with that ETag as `_since` for what has changed meanwhile.',
  answers: {
    200: { description: 'The records', body: 'ListAnswer', headers: ['Next-Page?', 'Total-Records?'] },
  },
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
export const countRecords = declare({
  ...ofRecords,
  method: 'HEAD',
  id: 'countRecords',
  summary: 'Count the records of a collection',
  description:
    'What GET would list, filters included. With `_limit` or `_token` nothing is counted, and only the timestamp is told.',
  answers: {
    200: {
      description: 'The size and the timestamp, as headers',
      headers: ['Total-Records?', 'Total-Objects?'],
    },
  },
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

const ofTimestamps = { method: 'GET', headers: ReadHeaders, operation: readTimestamps } as const

export const getBucket = declare({
  ...ofTimestamps,
  name: 'bucket',
  path: '/buckets/:bucket_id',
  params: BucketPath,
  id: 'getBucket',
  summary: 'See when a bucket last changed',
  description: 'A bucket is all that one user has encrypted with one key.',
  answers: { 200: { description: 'The bucket', body: 'MetadataAnswer' } },
  answer: ({ timestamp }, input) =>
    conditionReply(input, timestamp) ?? metadataReply(input.params.bucket_id, timestamp),
})

export const listCollections = declare({
  ...ofTimestamps,
  name: 'collections',
  path: '/buckets/:bucket_id/collections',
  params: BucketPath,
  id: 'listCollections',
  summary: 'List the collections of a bucket',
  description: 'With when each of them last changed: the cheapest way to see whether anything has.',
  answers: {
    200: { description: 'The collections', body: 'CollectionsAnswer', headers: ['Total-Records?'] },
  },
  answer: (all, input) => conditionReply(input, all.timestamp) ?? collectionsReply(all),
})

export const getCollection = declare({
  ...ofTimestamps,
  name: 'collection',
  path: collectionPath,
  params: CollectionPath,
  id: 'getCollection',
  summary: 'See when a collection last changed',
  description: 'One that was never used is there too, with the timestamp 0.',
  answers: { 200: { description: 'The collection', body: 'MetadataAnswer' } },
  answer({ collections }, input) {
    const collection = collectionOf(input.params)
    const timestamp = collections.get(collection) ?? zeroTimestamp
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

// --- The query of a list ---

const sortOrders: Record<string, SortOrder> = {
  newest: 'newest',
  oldest: 'oldest',
  index: 'index',
  '-last_modified': 'newest',
  last_modified: 'oldest',
  '-sortindex': 'index',
}

// Storages count limits in 32 bits; no collection has that many records.
const largestLimit = 1_000_000_000

/**
 * Reads the query of a list that its schema accepts; what is wrong nevertheless is added to `problems`. `ids` is empty when
 * ids were asked for and none named: that is an empty list, never the whole one.
 */
export function readListOptions(query: ListQuery, problems: Problem[]): ListOptions {
  const options: ListOptions = { sort: sortOrders[query._sort ?? ''] ?? 'newest' }
  const newer = readEither(query, '_since', 'gt_last_modified', floored, problems)
  const older = readEither(query, '_before', 'lt_last_modified', raised, problems)
  const limit = given(query._limit)
  const token = given(query._token)
  const ids = intersection(readIds(query, 'in_ids', problems), readIds(query, 'in_id', problems))
  const excluded = readIds(query, 'exclude_id', problems)
  if (newer !== undefined) options.newer = newer
  if (older !== undefined) options.older = older
  if (limit !== undefined) options.limit = Math.min(Number(limit), largestLimit)
  if (token !== undefined) {
    const position = readPageToken(token)
    if (position === null) problems.push(queryProblem('_token'))
    else options.position = position
  }
  if (ids !== undefined) options.ids = ids
  if (excluded !== undefined && excluded.length > 0) options.excludedIds = new Set(excluded)
  return options
}

/** The value of a parameter. Kinto clients write null for a parameter that they do not set. */
export function given(value: string | undefined): string | undefined {
  return value === 'null' ? undefined : value
}

/** Two names of one parameter; both may be given if they agree. */
function readEither(
  query: ListQuery,
  name: '_since' | '_before',
  alias: 'gt_last_modified' | 'lt_last_modified',
  toStorageStep: (moment: Timestamp) => Timestamp,
  problems: Problem[],
): Timestamp | undefined {
  const value = readMoment(given(query[name]), toStorageStep)
  const other = readMoment(given(query[alias]), toStorageStep)
  if (value !== undefined && other !== undefined && value !== other) {
    problems.push({ location: 'querystring', name, description: `must not differ from ${alias}` })
  }
  return value ?? other
}

function readMoment(
  value: string | undefined,
  toStorageStep: (moment: Timestamp) => Timestamp,
): Timestamp | undefined {
  const moment = value === undefined ? null : fromEntityTag(value)
  return moment === null ? undefined : toStorageStep(moment)
}

function readIds(
  query: ListQuery,
  name: 'in_ids' | 'in_id' | 'exclude_id',
  problems: Problem[],
): string[] | undefined {
  const value = query[name]
  if (value === undefined) return undefined
  // One more than the limit, which is enough to see that there are too many.
  const parts = value.split(',', largestList + 1)
  const ids = parts.map((id) => id.trim()).filter((id) => id !== '')
  if (parts.length <= largestList && ids.length <= mostIds && ids.every(isRecordId)) return [...new Set(ids)]
  problems.push(queryProblem(name))
  return undefined
}

// Empty items are dropped, but reading them costs time, so they count.
const largestList = 2 * mostIds

function intersection(a: string[] | undefined, b: string[] | undefined): string[] | undefined {
  if (a === undefined || b === undefined) return a ?? b
  const both = new Set(b)
  return a.filter((id) => both.has(id))
}

export function queryProblem(name: keyof ListQuery & string): Problem {
  const { description } = ListQuery.properties[name as keyof typeof ListQuery.properties]
  return { location: 'querystring', name, description: description! }
}

/** Writes where a page ended as the opaque text that comes back in `_token`. */
export function writePageToken(position: PagePosition): string {
  return Buffer.from(`1.${position.firstTimestamp}.${position.offset}`, 'utf8').toString('base64url')
}

// As long as the longest offset that is accepted from a storage.
const tokenForm = /^1\.(\d{1,15})\.([!-~]{1,1024})$/

/** Reads a `_token` that `writePageToken` wrote; null for anything else. */
export function readPageToken(token: string): PagePosition | null {
  const match = tokenForm.exec(Buffer.from(token, 'base64url').toString('utf8'))
  return match ? { firstTimestamp: timestamp(Number(match[1])), offset: match[2]! } : null
}

// --- Answers ---

/** A page of records. `isWhole`: the client asked for the whole list. */
function pageReply(page: RecordPage, address: Address, isWhole: boolean, settings: ExposedSettings): Reply {
  const headers = versionHeaders(page.timestamp)
  if (page.next) {
    const here = publicOrigin(address.host, settings) + address.path
    headers['Next-Page'] = nextPageUrl(here, address.query, writePageToken(page.next))
  }
  if (isWhole && page.count !== null) headers['Total-Records'] = String(page.count)
  return { status: 200, headers, body: page.document }
}

/** The size of a collection, as headers: what HEAD of a list answers. */
function countReply(count: number, timestamp: Timestamp): Reply {
  const total = String(count)
  return emptyReply(200, { ...versionHeaders(timestamp), 'Total-Records': total, 'Total-Objects': total })
}

/** Where the next page is: this request's address with its query as it was, and the token. */
function nextPageUrl(here: string, query: string, token: string): string {
  const kept = query
    .replace(/^\?/, '')
    .split('&')
    .filter((part) => part !== '' && !/^_token(=|$)/.test(part))
  return `${here}?${[...kept, `_token=${encodeURIComponent(token)}`].join('&')}`
}

/** A bucket or a collection: its name and when it last changed. */
function metadataReply(id: string, timestamp: Timestamp): Reply {
  return jsonReply({ data: { id, last_modified: timestamp } }, versionHeaders(timestamp))
}

/** All collections of a bucket with their timestamps. */
function collectionsReply(found: CollectionTimestamps): Reply {
  const data = [...found.collections].map(([id, last_modified]) => ({ id, last_modified }))
  const headers = { ...versionHeaders(found.timestamp), 'Total-Records': String(data.length) }
  return jsonReply({ data }, headers)
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
    default:
      return outcome satisfies never
  }
}

/** 413 for an answer that is too large for a batch; a request of its own gets it. */
export function tooLargeForBatch(what = 'The list'): ServiceError {
  return new ServiceError(413, errno.requestTooLarge, `${what} is too large for a batch: ask for it alone`)
}
