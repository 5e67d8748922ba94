/** The query of a list: which records, in which order, from where on. */
import type { Problem } from '../domain/errors.ts'
import { isRecordId } from '../domain/record.ts'
import type { ListOptions, PagePosition, SortOrder } from '../domain/record-storage.ts'
import { floored, fromEntityTag, raised, timestamp, zeroTimestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
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
  const read = (text: string | undefined) =>
    given(text) === undefined ? undefined : toStorageStep(fromEntityTag(text!) ?? zeroTimestamp)
  const value = read(query[name])
  const other = read(query[alias])
  if (value !== undefined && other !== undefined && value !== other) {
    problems.push({ location: 'querystring', name, description: `must not differ from ${alias}` })
  }
  return value ?? other
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
