import { cutPage, orders, readSkip, recordSelector, toListDocument } from '../domain/list.ts'
import type { FailedOutcome, OutcomeOf } from '../domain/operation.ts'
import type { ListOptions, PagePosition, RecordPage } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'

/** Records in the storage's order, to merge with those that the transaction wrote; `next` if there are more. */
interface BaseRecords {
  outcome: 'records'
  records: SyncRecord[]
  next: PagePosition | null
}

/** What the storage returned for a list: its outcome if no write of the transaction precedes it, else records. */
export type BaseList = BaseRecords | OutcomeOf['list'] | FailedOutcome

/** The records that a transaction has written so far, by id; null for deleted ones. */
export type Overlay = Map<string, SyncRecord | null>

/**
 * The list to request for `composePage`: with enough records to know whether the page is the last after up to `overlaid` written ones are
 * taken out.
 */
export function baseOptions(options: ListOptions, overlaid: number): ListOptions {
  const { limit, position, ...base } = options
  const skip = readSkip(position)
  if (skip === null) return options
  // Reads the whole list, because storages differ in whether a limit counts excluded records.
  if (limit === undefined || options.excludedIds?.size) return base
  return { ...base, limit: skip + limit + overlaid + 1 }
}

/** The page that the storage would return if the overlay were written; `timestamp` is the collection's in that case. */
export function composePage(
  options: ListOptions,
  base: Omit<BaseRecords, 'outcome'>,
  overlay: Overlay,
  timestamp: Timestamp,
): RecordPage {
  const isListed = recordSelector(options)
  const untouched = base.records.filter((record) => !overlay.has(record.id) && isListed(record))
  const written = [...overlay.values()].filter((record) => record !== null).filter(isListed)
  const firstTimestamp = options.position?.firstTimestamp ?? timestamp
  const skip = readSkip(options.position)
  if (skip === null) {
    // Written records are the newest: they come before this page if the order is newest first, else after the last page.
    const isLast = base.next === null && options.sort !== 'newest'
    const records = isLast ? [...untouched, ...written] : untouched
    const document = toListDocument(records)
    return { timestamp: firstTimestamp, document, count: records.length, next: base.next }
  }
  const merged = [...untouched, ...written].sort(orders[options.sort])
  const known = base.next === null ? merged : merged.slice(0, merged.lastIndexOf(untouched.at(-1)!) + 1)
  const { limit } = options
  const { shown, next } = cutPage(known, { skip, limit, firstTimestamp, hasMore: base.next !== null })
  return { timestamp: firstTimestamp, document: toListDocument(shown), count: shown.length, next }
}
