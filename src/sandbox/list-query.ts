import { Refusal } from './reply.ts'
import { idPattern } from './routes.ts'
import { parseSeconds, quantumMs } from './timestamps.ts'

/** Orders a list may be asked for in. */
export type Sort = 'newest' | 'oldest' | 'index' | 'none'

/** Where a page begins: after `skip` records, counted from the beginning or from the records of one timestamp. */
export interface Offset {
  /** Milliseconds; null when counted from the beginning. */
  from: number | null
  skip: number
}

/** The query of a collection, timestamps in milliseconds; null where a parameter wasn't given. */
export interface ListQuery {
  ids: readonly string[] | null
  newer: number | null
  older: number | null
  full: boolean
  limit: number | null
  offset: Offset | null
  sort: Sort | null
}

const mostIds = 100
const largestLimit = 4_294_967_295
const known = new Set(['ids', 'newer', 'older', 'full', 'limit', 'offset', 'sort'])

/** Reads the query; throws 400 for what the storage doesn't accept. See Sync 1.5 API, "GET /storage/<collection>". */
export function readListQuery(text: string, isPython: boolean): ListQuery {
  const found = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(text)) {
    if (known.has(name) && found.has(name)) throw new Refusal(400)
    found.set(name, value)
  }
  const query: ListQuery = {
    ids: read(found, 'ids', (value) => readIds(value, isPython)),
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
  // An empty list of ids counts as none given, so that DELETE ?ids= deletes the whole collection.
  return query.ids?.length === 0 ? { ...query, ids: null } : query
}

function read<T>(found: Map<string, string>, name: string, reader: (value: string) => T | null): T | null {
  const value = found.get(name)
  if (value === undefined) return null
  const result = reader(value)
  if (result === null) throw new Refusal(400)
  return result
}

function readIds(value: string, isPython: boolean): string[] | null {
  const ids = value
    .split(',')
    .map((id) => id.trim())
    .filter((id) => id !== '' || isPython)
  return ids.length <= mostIds && ids.every((id) => idPattern.test(id)) ? ids : null
}

function readLimit(value: string): number | null {
  return /^\d{1,10}$/.test(value) && Number(value) <= largestLimit ? Number(value) : null
}

function readOffset(value: string): Offset | null {
  // What follows a second colon is not looked at.
  const [, from, skip] =
    /^(?:(\d{1,15}):)?(\d{1,15})$/.exec(value) ?? /^(\d{1,15}):(\d{1,15}):/.exec(value) ?? []
  if (skip === undefined) return null
  return { from: from === undefined ? null : Number(from) - (Number(from) % quantumMs), skip: Number(skip) }
}

function readSort(value: string): Sort | null {
  return value === 'newest' || value === 'oldest' || value === 'index' || value === 'none' ? value : null
}
