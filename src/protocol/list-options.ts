import { invalidRequest } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import type { ListOptions, SortOrder } from '../domain/record-storage.ts'
import { isRecordId } from '../domain/record.ts'
import { timestamp } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { readPageToken } from './page-token.ts'

const sortOrders: Record<string, SortOrder> = {
  newest: 'newest',
  oldest: 'oldest',
  index: 'index',
  '-last_modified': 'newest',
  last_modified: 'oldest',
  '-sortindex': 'index',
}

const mostParameters = 100
const mostIds = 5000
// The storage counts limits in 32 bits; nobody has that many records.
const largestLimit = 1_000_000_000

/**
 * Reads the query of a list. Unknown parameters are ignored; of repeated ones the last counts. `ids` is empty when ids
 * were asked for and none named: that is an empty list, never the whole one.
 *
 * Throws `ServiceError` 400 with all problems.
 */
export function readListOptions(query: string): ListOptions {
  const problems: Problem[] = []
  const given = readParameters(query, problems)
  const options: ListOptions = {
    sort: read(given, '_sort', readSort, problems) ?? 'newest',
  }
  const newer = readEither(given, '_since', 'gt_last_modified', readMoment, problems)
  const older = readEither(given, '_before', 'lt_last_modified', readMoment, problems)
  const limit = read(given, '_limit', readLimit, problems)
  const position = read(given, '_token', readPageToken, problems)
  const ids = intersection(read(given, 'in_ids', readIds, problems), read(given, 'in_id', readIds, problems))
  const excluded = read(given, 'exclude_id', readIds, problems)
  if (problems.length > 0) throw invalidRequest(problems)

  if (newer !== undefined) options.newer = newer
  if (older !== undefined) options.older = older
  if (limit !== undefined) options.limit = limit
  if (position !== undefined) options.position = position
  if (ids !== undefined) options.ids = ids
  if (excluded !== undefined && excluded.length > 0) options.excludedIds = new Set(excluded)
  return options
}

/** What every list parameter accepts, for the people who got it wrong. */
const accepted: Record<string, string> = {
  _since: 'must be a timestamp in milliseconds, plain or in quotes',
  gt_last_modified: 'must be a timestamp in milliseconds, plain or in quotes',
  _before: 'must be a timestamp in milliseconds, plain or in quotes',
  lt_last_modified: 'must be a timestamp in milliseconds, plain or in quotes',
  _sort: `must be one of ${Object.keys(sortOrders).join(', ')}`,
  _limit: 'must be an integer of at least 1',
  _token: 'must be the token of a Next-Page URL',
  in_ids: 'must be at most 5000 record ids separated by commas',
  in_id: 'must be at most 5000 record ids separated by commas',
  exclude_id: 'must be at most 5000 record ids separated by commas',
}

/** The last value of each known parameter. Values are decoded strictly, as forms are: `+` is a blank. */
function readParameters(query: string, problems: Problem[]): Map<string, string> {
  const given = new Map<string, string>()
  const parts = query.replace(/^\?/, '').split('&', mostParameters + 1)
  if (parts.length > mostParameters) {
    const description = `has more than ${mostParameters} parameters`
    problems.push({ location: 'querystring', name: 'querystring', description })
  }
  for (const part of parts) {
    const equals = part.indexOf('=')
    const name = decode(equals === -1 ? part : part.slice(0, equals))
    if (name === null || !Object.hasOwn(accepted, name)) continue
    const value = decode(equals === -1 ? '' : part.slice(equals + 1))
    if (value === null) problems.push(queryProblem(name))
    else given.set(name, value)
  }
  return given
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return null
  }
}

function read<T>(
  given: Map<string, string>,
  name: string,
  reader: (value: string) => T | null,
  problems: Problem[],
): T | undefined {
  const value = given.get(name)
  // Kinto clients write null for a parameter that they don't mean to give. Among ids it is one like any other.
  if (value === undefined || (value === 'null' && !isIdList(name))) return undefined
  const result = reader(value)
  if (result !== null) return result
  problems.push(queryProblem(name))
  return undefined
}

function isIdList(name: string): boolean {
  return name === 'in_ids' || name === 'in_id' || name === 'exclude_id'
}

/** Two names for one parameter; giving both is fine as long as they agree. */
function readEither<T>(
  given: Map<string, string>,
  name: string,
  alias: string,
  reader: (value: string) => T | null,
  problems: Problem[],
): T | undefined {
  const value = read(given, name, reader, problems)
  const other = read(given, alias, reader, problems)
  if (value !== undefined && other !== undefined && value !== other) {
    problems.push({ location: 'querystring', name, description: `must not differ from ${alias}` })
  }
  return value ?? other
}

function queryProblem(name: string): Problem {
  return { location: 'querystring', name, description: accepted[name]! }
}

function readSort(value: string): SortOrder | null {
  return Object.hasOwn(sortOrders, value) ? sortOrders[value]! : null
}

const momentForm = /^(?:W\/)?(?:"(\d{1,15})"|(\d{1,15}))$/

function readMoment(value: string): Timestamp | null {
  const match = momentForm.exec(value)
  if (!match) return null
  const moment = Number(match[1] ?? match[2])
  return timestamp(moment - (moment % 10))
}

function readLimit(value: string): number | null {
  if (!/^\d{1,18}$/.test(value)) return null
  const limit = Math.min(Number(value), largestLimit)
  return limit >= 1 ? limit : null
}

function readIds(value: string): string[] | null {
  const ids = value
    .split(',')
    .map((id) => id.trim())
    .filter((id) => id !== '')
  if (ids.length > mostIds) return null
  return ids.every(isRecordId) ? [...new Set(ids)] : null
}

function intersection(a: string[] | undefined, b: string[] | undefined): string[] | undefined {
  if (a === undefined || b === undefined) return a ?? b
  const both = new Set(b)
  return a.filter((id) => both.has(id))
}
