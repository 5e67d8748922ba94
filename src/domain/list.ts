import { invalidPart, type ServiceError } from './errors.ts'
import { toExposedJson, type SyncRecord } from './record.ts'
import type { Timestamp } from './timestamp.ts'
import type { ListFilter, PagePosition, SortOrder } from './record-storage.ts'

/** What of a filter the storage does, and what is left to do here. A new filter needs no other place that knows which is which. */
export interface SplitFilter {
  /** The part that the storage applies. It may also return ids that it takes for equal. */
  storage: Pick<ListFilter, 'newer' | 'older' | 'ids'>
  /** The rest, for ids; null if there is none. */
  keepsId: ((id: string) => boolean) | null
  /** The rest, for whole records; null if ids suffice. */
  keepsRecord: ((record: Omit<SyncRecord, 'payload'>) => boolean) | null
  /** Whether there is a rest, so that the storage's count and limit are not those of the list. */
  isSelective: boolean
  /** Whether it selects the whole collection. */
  selectsAll: boolean
}

export function splitFilter({ newer, older, ids, keepsId, keepsRecord }: ListFilter): SplitFilter {
  const named = ids && new Set(ids)
  const isById = named !== undefined || keepsId !== undefined
  const keepsThisId = (id: string) => named?.has(id) !== false && keepsId?.(id) !== false
  const isSelective = isById || keepsRecord !== undefined
  return {
    storage: { newer, older, ids },
    keepsId: isById ? keepsThisId : null,
    keepsRecord: keepsRecord ? (record) => keepsThisId(record.id) && keepsRecord(record) : null,
    isSelective,
    selectsAll: !isSelective && newer === undefined && older === undefined,
  }
}

/** The test of whether a filter selects a record. */
export function recordSelector(filter: ListFilter): (record: Omit<SyncRecord, 'payload'>) => boolean {
  const { newer = -1, older = Infinity } = filter
  const { keepsId, keepsRecord } = splitFilter(filter)
  return (record) => {
    const { id, lastModified } = record
    if (lastModified <= newer || lastModified >= older) return false
    return keepsRecord ? keepsRecord(record) : (keepsId?.(id) ?? true)
  }
}

/** Comparators by sort order. Records that are equal in it are ordered by id, as Mozilla's storage does. */
export const orders: Record<SortOrder, (a: SyncRecord, b: SyncRecord) => number> = {
  newest: (a, b) => b.lastModified - a.lastModified || byId(b, a),
  oldest: (a, b) => a.lastModified - b.lastModified || byId(a, b),
  index: (a, b) => weight(b) - weight(a) || byId(b, a),
}

function byId(a: SyncRecord, b: SyncRecord): number {
  if (a.id === b.id) return 0
  return a.id < b.id ? -1 : 1
}

/** Records without a sortindex come last. */
const weight = ({ sortindex = Number.MIN_SAFE_INTEGER }: SyncRecord) => sortindex

/** Whether a storage's offset is printable ASCII without spaces, of a length that fits into the URL of the next page. */
export function isOffset(text: string): boolean {
  return /^[!-~]{1,1024}$/.test(text)
}

const skipPattern = /^skip:(\d{1,9})$/

/** The number of listed records before a page of `cutPage`; null for an offset of the storage. */
export function readSkip(position: PagePosition | undefined): number | null {
  if (position === undefined) return 0
  const match = skipPattern.exec(position.offset)
  return match ? Number(match[1]) : null
}

/**
 * The timestamp that all pages of a list share. Throws for a position that is no longer valid: in a collection that was emptied or moved to
 * another node, the pages would end early and look complete; and a number of records is only valid for the version that it was counted in.
 */
export function timestampOfPages(position: PagePosition | undefined, current: Timestamp): Timestamp {
  if (position === undefined) return current
  const { firstTimestamp } = position
  if (current < firstTimestamp || (readSkip(position) !== null && current !== firstTimestamp))
    throw stalePosition()
  return firstTimestamp
}

/** The error for a position in a list that has changed. */
export function stalePosition(): ServiceError {
  return invalidPart('page', 'the list has changed: start again from the first page')
}

/**
 * Cuts a page out of the records of a list, or their ids. `version`: the collection's timestamp for which the position of the next page is
 * valid; `hasMore`: the list has records after these.
 */
export function cutPage<Item>(
  items: Item[],
  cut: { skip: number; limit: number | undefined; version: Timestamp; hasMore: boolean },
): { shown: Item[]; next: PagePosition | null } {
  const { skip, limit, version, hasMore } = cut
  const shown = items.slice(skip, limit === undefined ? undefined : skip + limit)
  const end = skip + shown.length
  const next = hasMore || end < items.length ? { offset: `skip:${end}`, firstTimestamp: version } : null
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
