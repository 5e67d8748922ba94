/** The query of a list: which records, in which order, from where on. */
import type { Problem } from '../domain/errors.ts'
import { isRecordId } from '../domain/record.ts'
import type { ListOptions, PagePosition } from '../domain/record-storage.ts'
import { floored, fromEntityTag, raised, timestamp, zeroTimestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { ListQuery, mostIds, sortOrders } from './schemas.ts'

// Storages count limits in 32 bits; no collection has that many records.
const largestLimit = 1_000_000_000

/**
 * Reads the query of a list that its schema accepts; what is wrong nevertheless is added to `problems`. `ids` is empty when
 * ids were asked for and none named: that is an empty list, never the whole one.
 */
export function readListOptions(query: ListQuery, problems: Problem[] = []): ListOptions {
  const limit = given(query._limit)
  const token = given(query._token)
  const position = token === undefined ? undefined : readPageToken(token)
  if (position === null) problems.push(queryProblem('_token'))
  const ids = readIds(query, 'in_ids', problems)
  const alias = readIds(query, 'in_id', problems)
  const excluded = readIds(query, 'exclude_id', problems)
  return {
    sort: sortOrders[query._sort ?? ''] ?? 'newest',
    newer: readEither(query, '_since', 'gt_last_modified', floored, problems),
    older: readEither(query, '_before', 'lt_last_modified', raised, problems),
    limit: limit === undefined ? undefined : Math.min(Number(limit), largestLimit),
    position: position ?? undefined,
    ids: ids && alias ? [...new Set(ids).intersection(new Set(alias))] : (ids ?? alias),
    excludedIds: excluded?.length ? new Set(excluded) : undefined,
  }
}

/** The value of a parameter. Kinto clients write null for a parameter that they do not set. */
export function given(value: string | undefined): string | undefined {
  return value === 'null' ? undefined : value
}

/** Two names of one parameter; both may be given if they agree. */
function readEither(
  query: ListQuery,
  name: keyof ListQuery & string,
  alias: keyof ListQuery & string,
  toStorageStep: (moment: Timestamp) => Timestamp,
  problems: Problem[],
): Timestamp | undefined {
  const [value, other] = [name, alias].map((each) => {
    const text = given(query[each])
    return text === undefined ? undefined : toStorageStep(fromEntityTag(text) ?? zeroTimestamp)
  })
  if (value !== undefined && other !== undefined && value !== other) {
    problems.push({ location: 'querystring', name, description: `must not differ from ${alias}` })
  }
  return value ?? other
}

function readIds(
  query: ListQuery,
  name: keyof ListQuery & string,
  problems: Problem[],
): string[] | undefined {
  // One more than the limit, which is enough to see that there are too many.
  const parts = query[name]?.split(',', largestList + 1)
  if (!parts) return undefined
  const ids = parts.map((id) => id.trim()).filter((id) => id !== '')
  if (parts.length <= largestList && ids.length <= mostIds && ids.every(isRecordId)) return [...new Set(ids)]
  problems.push(queryProblem(name))
  return undefined
}

// Empty items are dropped, but reading them costs time, so they count.
const largestList = 2 * mostIds

export function queryProblem(name: keyof ListQuery & string): Problem {
  return { location: 'querystring', name, description: ListQuery.properties[name].description! }
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
