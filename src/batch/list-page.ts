import { cutPage, isListed, orders, readSkip, toListDocument, type BufferedPage } from '../domain/list.ts'
import type { FailedOutcome, OutcomeOf } from '../domain/operation.ts'
import type { ListOptions, PagePosition } from '../domain/record-storage.ts'
import type { SyncRecord, Timestamp } from '../domain/record.ts'

/** Records in the storage's order, to be merged with what the transaction wrote; `next` when there are more. */
interface BaseRecords {
  outcome: 'records'
  records: SyncRecord[]
  next: PagePosition | null
}

/** What the storage showed for a list: its outcome where no write of the transaction comes before it, else records. */
export type BaseList = BaseRecords | OutcomeOf['list'] | FailedOutcome

/** The records that a transaction has written so far by their id; null for those that are gone. */
export type Overlay = Map<string, SyncRecord | null>

/**
 * The list to request so that `composePage` can make the page: with enough records to know, after up to `overlaid`
 * written ones were taken out, whether the page is the last.
 */
export function baseOptions(options: ListOptions, overlaid: number): ListOptions {
  const { limit, position, ...base } = options
  const skip = readSkip(position)
  if (skip === null) return options
  // Storages differ in whether a limit counts excluded records, so the whole list is read then.
  if (limit === undefined || options.excludedIds?.size) return base
  return { ...base, limit: skip + limit + overlaid + 1 }
}

/** The page that the storage would show had the overlay been written; `timestamp` is the collection's then. */
export function composePage(
  options: ListOptions,
  base: Omit<BaseRecords, 'outcome'>,
  overlay: Overlay,
  timestamp: Timestamp,
): BufferedPage {
  const ids = options.ids && new Set(options.ids)
  const untouched = base.records.filter((record) => !overlay.has(record.id) && isListed(record, options, ids))
  const written = [...overlay.values()].filter(
    (record): record is SyncRecord => record !== null && isListed(record, options, ids),
  )
  const firstTimestamp = options.position?.firstTimestamp ?? timestamp
  const skip = readSkip(options.position)
  if (skip === null) {
    // Written records are the newest now: before this page when the newest come first, else after the last one.
    const isLast = base.next === null && options.sort !== 'newest'
    const records = isLast ? [...untouched, ...written] : untouched
    const document = toListDocument(records)
    return { timestamp: firstTimestamp, document, count: records.length, next: base.next }
  }
  const merged = [...untouched, ...written].sort(orders[options.sort])
  const known = base.next === null ? merged : merged.slice(0, merged.lastIndexOf(untouched.at(-1)!) + 1)
  const { limit } = options
  return cutPage(known, { skip, limit, timestamp: firstTimestamp, hasMore: base.next !== null })
}
