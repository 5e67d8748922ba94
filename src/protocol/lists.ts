/** Lists and counts the records of a collection. */
import type { Problem } from './problems.ts'
import { isOffset, splitFilter, timestampOfPages, toListDocument } from '../domain/list.ts'
import type { Operation, OutcomeOf } from '../domain/operation.ts'
import { isRecordId } from '../domain/record.ts'
import {
  floored,
  readVersion,
  raised,
  timestamp,
  timestampStepMs,
  zeroTimestamp,
  type Timestamp,
} from '../domain/timestamp.ts'
import type { ListOptions, PagePosition, RecordPage } from '../domain/record-storage.ts'
import type { Settings } from '../settings/settings.ts'
import { ListResponse, versioned } from './responses.ts'
import { publicOrigin } from './origin.ts'
import { emptyReply, type Reply } from './reply.ts'
import { declare, type Input } from './resource.ts'
import { CollectionPath, ListQuery, ReadHeaders, sortOrders } from './schemas.ts'
import {
  collectionConditionReply,
  readPrecondition,
  unmetPreconditionReply,
  versionHeaders,
} from './versions.ts'

const ofRecords = {
  name: 'records',
  path: '/buckets/:bucket_id/collections/:collection_id/records',
  params: CollectionPath,
  query: ListQuery,
  headers: ReadHeaders,
  tag: 'Records',
  errorStatuses: [304, 404],
} as const

export const listRecords = declare({
  ...ofRecords,
  method: 'GET',
  id: 'listRecords',
  summary: 'List the records of a collection',
  description:
    'Streams all records in one response, or in pages with `_limit`. Every page has the ETag of the first: ' +
    'follow `Next-Page` until it is absent, then use that ETag as `_since` to get later changes.',
  responses: { 200: versioned('The records', ListResponse, 'Next-Page?', 'Total-Records?') },
  operation({ params, query, headers }, problems) {
    const options = readListOptions(query, problems)
    const precondition = readPrecondition(headers, problems)
    return { kind: 'list', collection: params.collection_id.toLowerCase(), options, precondition }
  },
  reply: (outcome, { options }, input, settings) =>
    outcome.outcome === 'page'
      ? pageReply(outcome.page, options, input, settings)
      : unmetPreconditionReply(outcome),
})

/** HEAD of a list: the number of records that GET would list, filters included. For a page, only the version. */
export const countRecords = declare({
  ...ofRecords,
  method: 'HEAD',
  id: 'countRecords',
  summary: 'Count the records of a collection',
  description:
    'Counts what GET would list, filters included. With `_limit` or `_token`, returns only the timestamp.',
  responses: { 200: versioned('The count, in headers', null, 'Total-Records?', 'Total-Objects?') },
  operation({ params, query, headers }, problems) {
    const { limit, position, sort: _, ...filter } = readListOptions(query, problems)
    const precondition = readPrecondition(headers, problems)
    const collection = params.collection_id.toLowerCase()
    if (limit === undefined && !position) return { kind: 'count', collection, filter, precondition }
    return { kind: 'timestamps', of: { collection, position }, precondition }
  },
  reply(outcome: OutcomeOf['count' | 'timestamps'], operation, input, settings) {
    switch (outcome.outcome) {
      case 'counted': {
        const { timestamp, count } = outcome
        const page = { timestamp, count, document: toListDocument([]), next: null }
        const { filter } = operation as Extract<Operation, { kind: 'count' }>
        const { status, headers } = pageReply(page, { ...filter, sort: 'newest' }, input, settings)
        return emptyReply(status, { ...headers, 'Total-Objects': String(count) })
      }
      case 'found': {
        const { collection, position } = (operation as Extract<Operation, { kind: 'timestamps' }>).of!
        const current = outcome.collections.get(collection) ?? zeroTimestamp
        const unmet = collectionConditionReply(operation.precondition, current)
        return unmet ?? emptyReply(200, versionHeaders(timestampOfPages(position, current)))
      }
      default:
        return unmetPreconditionReply(outcome)
    }
  },
})

function pageReply(
  page: RecordPage,
  options: ListOptions,
  { query, address }: ListInput,
  settings: Settings,
): Reply {
  const { count, document: body, next, timestamp } = page
  const headers = versionHeaders(
    settings.flushSafeEtag ? flushSafeTimestamp(page, options, query) : timestamp,
  )
  const isWhole = options.limit === undefined && !options.position
  if (isWhole && count !== null) headers['Total-Records'] = String(count)
  if (next) {
    // The URL of this request, with its query unchanged except for the token.
    const parameters = address.query.slice(1).split('&')
    const kept = parameters.filter((part) => part !== '' && !/^_token(=|$)/.test(part))
    const search = [...kept, `_token=${writePageToken(next)}`].join('&')
    headers['Next-Page'] = `${publicOrigin(address.host, settings)}${address.path}?${search}`
  }
  return { status: 200, headers, body }
}

type ListInput = Input<unknown, ListQuery>

/**
 * The timestamp of a page; for an empty list of changes, `_since` if that is earlier. kinto.js takes a newer ETag without changes, as after
 * a deletion, for a server that lost its data, and stops syncing. Not for filtered pages, which say nothing about the collection.
 */
function flushSafeTimestamp(
  { count, next, timestamp }: RecordPage,
  options: ListOptions,
  query: ListQuery,
): Timestamp {
  const { newer, older, position } = options
  const { isSelective } = splitFilter(options)
  const isFiltered = older !== undefined || isSelective || position || query.min_last_modified
  const isEmpty = count === 0 && next === null && newer !== undefined && !isFiltered
  return isEmpty && newer < timestamp ? newer : timestamp
}

// --- The query ---

export type Parameter = keyof ListQuery & string

// Storages parse limits as 32 bits; no collection has that many records.
const maxLimit = 1_000_000_000

/**
 * Reads a list query that matches its schema; adds further problems to `problems`. `ids` is empty if the client sent an empty list of ids:
 * it returns no records, never all of them.
 */
function readListOptions(query: ListQuery, problems: Problem[]): ListOptions {
  const limit = given(query._limit)
  const token = given(query._token)
  const position = token === undefined ? undefined : readPageToken(token)
  if (position === null) problems.push(queryProblem('_token'))
  const idLists = (['in_ids', 'in_id', 'id'] as const).flatMap((name) => {
    const list = readIds(query, name, problems)
    return list ? [new Set(list)] : []
  })
  const excluded = new Set(
    (['exclude_id', 'not_id'] as const).flatMap((name) => readIds(query, name, problems) ?? []),
  )
  const since = readEither(query, '_since', 'gt_last_modified', floored, problems)
  const before = readEither(query, '_before', 'lt_last_modified', raised, problems)
  // The storage only knows "after" and "before", in steps of 10 ms.
  const from = readMoment(query, 'min_last_modified', (moment) => raised(moment) - timestampStepMs)
  const until = readMoment(query, 'max_last_modified', (moment) => floored(moment) + timestampStepMs)
  const newer = Math.max(since ?? -1, from ?? -1)
  const older = Math.min(before ?? Infinity, until ?? Infinity)
  return {
    sort: sortOrders[query._sort ?? ''] ?? 'newest',
    newer: newer < 0 ? undefined : timestamp(newer),
    older: older === Infinity ? undefined : timestamp(older),
    limit: limit === undefined ? undefined : Math.min(Number(limit), maxLimit),
    position: position ?? undefined,
    ids: idLists.length === 0 ? undefined : [...idLists.reduce((a, b) => a.intersection(b))],
    keepsId: excluded.size > 0 ? (id) => !excluded.has(id) : undefined,
  }
}

/** The value of a parameter. Kinto clients send `null` for an unset parameter. */
function given(value: string | undefined): string | undefined {
  return value === 'null' ? undefined : value
}

/** Reads a parameter with two names; both may be given if they agree. */
function readEither(
  query: ListQuery,
  name: Parameter,
  alias: Parameter,
  toStorageStep: (moment: Timestamp) => Timestamp,
  problems: Problem[],
): Timestamp | undefined {
  const [value, other] = [name, alias].map((each) => readMoment(query, each, toStorageStep))
  if (value !== undefined && other !== undefined && value !== other) {
    problems.push({ location: 'querystring', name, description: `must not differ from ${alias}` })
  }
  return value ?? other
}

/** Reads a timestamp, converted to a step of the storage. */
function readMoment<Moment extends number>(
  query: ListQuery,
  name: Parameter,
  toStorageStep: (moment: Timestamp) => Moment,
): Moment | undefined {
  const text = given(query[name])
  return text === undefined ? undefined : toStorageStep(readVersion(text) ?? zeroTimestamp)
}

/** Maximum ids in one parameter. */
const maxListIds = 5000

function readIds(query: ListQuery, name: Parameter, problems: Problem[]): string[] | undefined {
  // Empty items are ignored, but counted because parsing them costs time; one more than that, to detect too many.
  const maxItems = 2 * maxListIds
  const parts = query[name]?.split(',', maxItems + 1)
  if (!parts) return undefined
  // Kinto parses each value as JSON, so its clients may quote ids.
  const ids = parts.map((id) => id.trim().replace(/^"(.+)"$/, '$1')).filter((id) => id !== '')
  if (parts.length > maxItems || ids.length > maxListIds) {
    problems.push({
      location: 'querystring',
      name,
      description: `must have at most ${maxListIds} ids`,
    })
    return undefined
  }
  if (ids.every(isRecordId)) return [...new Set(ids)]
  problems.push(queryProblem(name))
  return undefined
}

export function queryProblem(name: Parameter): Problem {
  return { location: 'querystring', name, description: ListQuery.properties[name].description! }
}

/** Encodes where a page ended as the opaque `_token`. */
export function writePageToken(position: PagePosition): string {
  return Buffer.from(`1.${position.firstTimestamp}.${position.offset}`, 'utf8').toString('base64url')
}

const tokenPattern = /^1\.(\d{1,15})\.(.+)$/

/** Decodes a `_token`; null if invalid. */
export function readPageToken(token: string): PagePosition | null {
  const match = tokenPattern.exec(Buffer.from(token, 'base64url').toString('utf8'))
  if (!match || !isOffset(match[2]!)) return null
  return { firstTimestamp: timestamp(Number(match[1])), offset: match[2]! }
}
