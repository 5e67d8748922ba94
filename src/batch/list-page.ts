import { cutPage, orders, recordSelector, splitFilter, toListDocument } from '../domain/list.ts'
import type { FailedOutcome, OutcomeOf } from '../domain/operation.ts'
import type { ListOptions, PagePosition, RecordPage, SortOrder } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'

/** Records in the storage's order, to merge with those that the transaction wrote; `next` if there are more. */
interface BaseRecords {
  outcome: 'records'
  records: SyncRecord[]
  next: PagePosition | null
}

/** What the storage returned for a list or a count: its outcome if no write of the transaction precedes it, else records. */
export type BaseList = BaseRecords | OutcomeOf['list' | 'count'] | FailedOutcome

/** The records that a transaction has written so far, by id; null for deleted ones. */
export type Overlay = Map<string, SyncRecord | null>

/**
 * The list to request for `composePage`: with enough records to know whether the page is the last after up to `overlaid` written ones are
 * taken out.
 */
export function baseOptions(options: ListOptions, overlaid: number): ListOptions {
  const { limit, position: _, ...base } = options
  // The limit of the storage also counts records that the filter leaves out, so the whole list is read then.
  if (limit === undefined || splitFilter({ ...options, ids: undefined }).isSelective) return base
  return { ...base, limit: limit + overlaid + 1 }
}

/**
 * The first page that the storage would return if the overlay were written; `timestamp` is the collection's in that case, and `version` the
 * one for which the position of the next page is valid.
 */
export function composePage(
  options: ListOptions,
  base: Omit<BaseRecords, 'outcome'>,
  overlay: Overlay,
  timestamp: Timestamp,
  version: Timestamp,
): RecordPage {
  const isListed = recordSelector(options)
  const untouched = base.records.filter((record) => !overlay.has(record.id) && isListed(record))
  const written = [...overlay.values()].filter((record) => record !== null).filter(isListed)
  const merged = merge(untouched, written, options.sort)
  const known = base.next === null ? merged : merged.slice(0, merged.lastIndexOf(untouched.at(-1)!) + 1)
  const { shown, next } = cutPage(known, {
    skip: 0,
    limit: options.limit,
    version: isOrderSure(merged, options.sort) ? version : zeroTimestamp,
    hasMore: base.next !== null,
  })
  return { timestamp, document: toListDocument(shown), count: shown.length, next }
}

/** Inserts the written records; the others keep the storage's order. */
function merge(untouched: SyncRecord[], written: SyncRecord[], sort: SortOrder): SyncRecord[] {
  const compare = orders[sort]
  const merged = [...untouched]
  for (const record of written.toSorted(compare)) {
    const place = merged.findIndex((other) => compare(record, other) < 0)
    merged.splice(place === -1 ? merged.length : place, 0, record)
  }
  return merged
}

/** Whether every storage has this order: not among records with the same sortindex, or without one. Else the next page starts again. */
function isOrderSure(records: SyncRecord[], sort: SortOrder): boolean {
  if (sort !== 'index') return true
  const weights = new Set(records.map(({ sortindex }) => sortindex))
  return weights.size === records.length && !weights.has(undefined)
}
