import { invalid } from './errors.ts'
import { toExposedJson, type SyncRecord } from './record.ts'
import type { Timestamp } from './timestamp.ts'
import type { ListFilter, PagePosition, SortOrder } from './record-storage.ts'

/** Whether a filter selects records by id. A new filter of that kind belongs here and in `idSelector`. */
export function selectsIds({ ids, excludedIds }: ListFilter): boolean {
  return ids !== undefined || Boolean(excludedIds?.size)
}

/** The test of whether a filter selects an id. */
export function idSelector({ ids, excludedIds }: ListFilter): (id: string) => boolean {
  const included = ids && new Set(ids)
  return (id) => included?.has(id) !== false && !excludedIds?.has(id)
}

/** The test of whether a filter selects a record. */
export function recordSelector(filter: ListFilter): (record: SyncRecord) => boolean {
  const { newer = -1, older = Infinity } = filter
  const selects = idSelector(filter)
  return ({ id, lastModified }) => lastModified > newer && lastModified < older && selects(id)
}

/** Comparators by sort order. */
export const orders: Record<SortOrder, (a: SyncRecord, b: SyncRecord) => number> = {
  newest: (a, b) => b.lastModified - a.lastModified,
  oldest: (a, b) => a.lastModified - b.lastModified,
  index: (a, b) => weight(b) - weight(a),
}

/** Records without a sortindex come last. */
const weight = ({ sortindex = Number.MIN_SAFE_INTEGER }: SyncRecord) => sortindex

/** Whether a storage's offset is printable ASCII without spaces, of a length that fits into the URL of the next page. */
export function isOffset(text: string): boolean {
  return /^[!-~]{1,1024}$/.test(text)
}

const skipPattern = /^skip:(\d{1,9})$/

/** The number of records before a page of `cutPage`; null when the position has an offset of the storage. */
export function readSkip(position: PagePosition | undefined): number | null {
  if (position === undefined) return 0
  const match = skipPattern.exec(position.offset)
  return match ? Number(match[1]) : null
}

/**
 * The timestamp that all pages of a list share. Throws for a position in a collection that was emptied or moved to another node since: its
 * pages would end early and look complete.
 */
export function firstTimestampOf(position: PagePosition | undefined, current: Timestamp): Timestamp {
  if (position && current < position.firstTimestamp)
    throw invalid('querystring', '_token', 'the list no longer exists: start again from the first page')
  return position?.firstTimestamp ?? current
}

/** Cuts a page out of the records of a list, or their ids; `hasMore`: the storage has records after these. */
export function cutPage<Item>(
  items: Item[],
  cut: { skip: number; limit: number | undefined; firstTimestamp: Timestamp; hasMore: boolean },
): { shown: Item[]; next: PagePosition | null } {
  const { skip, limit, firstTimestamp, hasMore } = cut
  const shown = items.slice(skip, limit === undefined ? undefined : skip + limit)
  const end = skip + shown.length
  const next = hasMore || end < items.length ? { offset: `skip:${end}`, firstTimestamp } : null
  return { shown, next }
}

/** The text before and after the records in a list's JSON document. */
export const listOpening: Uint8Array = Buffer.from('{"data":[')
export const listClosing: Uint8Array = Buffer.from(']}')

/** Formats a list as its JSON document. */
export function toListDocument(records: SyncRecord[]): Uint8Array {
  return Buffer.concat([listOpening, Buffer.from(records.map(toExposedJson).join(',')), listClosing])
}

/** Parses the records from a list's JSON document. */
export function readListDocument(document: Uint8Array): SyncRecord[] {
  type Exposed = Omit<SyncRecord, 'lastModified'> & { last_modified: Timestamp }
  const { data } = JSON.parse(new TextDecoder().decode(document)) as { data: Exposed[] }
  return data.map(({ last_modified: lastModified, ...record }) => ({ ...record, lastModified }))
}
