import { invalidRequest } from '../domain/errors.ts'
import { isRecordId } from '../domain/record.ts'
import { floored, fromEntityTag, raised, timestamp } from '../domain/timestamp.ts'
import type { Problem } from '../domain/errors.ts'
import type { ListOptions, PagePosition, SortOrder } from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { decodeSegment } from './request-parts.ts'
import { ListQuery, mostIds } from './schemas.ts'

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

function queryProblem(name: keyof ListQuery & string): Problem {
  const { description } = ListQuery.properties[name as keyof typeof ListQuery.properties]
  return { location: 'querystring', name, description: description! }
}

const mostParameters = 100

/**
 * Reads a query string the way the framework does: of repeated parameters the last counts, and `+` is a blank. But escapes
 * that are broken or no UTF-8 are a problem, where the framework leaves them as they are. For sub-requests, which the
 * framework never sees, and for requests whose query it could not decode.
 */
export function readQuery(search: string, problems: Problem[]): Record<string, string> {
  const query: Record<string, string> = Object.create(null)
  if (search.length < 2) return query
  const parts = search.slice(1).split('&', mostParameters + 1)
  if (parts.length > mostParameters) {
    const description = `has more than ${mostParameters} parameters`
    problems.push({ location: 'querystring', name: 'querystring', description })
    return query
  }
  for (const part of parts) {
    const equals = part.indexOf('=')
    const name = decodeQuery(equals === -1 ? part : part.slice(0, equals))
    if (name === null || !Object.hasOwn(ListQuery.properties, name)) continue
    const value = decodeQuery(equals === -1 ? '' : part.slice(equals + 1))
    if (value === null) problems.push(queryProblem(name as keyof ListQuery & string))
    else query[name] = value
  }
  return query
}

function decodeQuery(text: string): string | null {
  return decodeSegment(text.includes('+') ? text.replaceAll('+', ' ') : text)
}

/** Throws `ServiceError` 400 with all problems, if there are any. */
export function requireNone(problems: Problem[]): void {
  if (problems.length > 0) throw invalidRequest(problems)
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
