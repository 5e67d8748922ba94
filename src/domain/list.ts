import { invalid } from './errors.ts'
import { toExposedJson, type SyncRecord, type Timestamp } from './record.ts'
import type { ListFilter, PagePosition, RecordPage, SortOrder } from './record-storage.ts'

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

/** Cuts a page out of a list in memory; `hasMore`: the storage has records after these. */
export function cutPage(
  records: SyncRecord[],
  cut: { skip: number; limit: number | undefined; timestamp: Timestamp; hasMore: boolean },
): RecordPage {
  const { skip, limit, timestamp, hasMore } = cut
  const shown = records.slice(skip, limit === undefined ? undefined : skip + limit)
  const end = skip + shown.length
  const next = hasMore || end < records.length ? { offset: `skip:${end}`, firstTimestamp: timestamp } : null
  return { timestamp, document: toListDocument(shown), count: shown.length, next }
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

const minFreedBytes = 4096

/** Frees the memory of unused bytes at once, by transferring their buffer to length 0. Garbage collection would free it much later. */
export function freeMemory({ buffer, byteLength }: Uint8Array): void {
  const isAll = buffer instanceof ArrayBuffer && buffer.byteLength === byteLength
  if (isAll && byteLength >= minFreedBytes) buffer.transfer(0)
}

const minReusedBytes = 16 * 1024
const maxReusedBytes = 320 * 1024
let unusedBuffer = Buffer.alloc(0)
const lentBuffers = new WeakSet<ArrayBufferLike>()

/**
 * A buffer for a list that is sent at once; its content is undefined. Reuses the one of an earlier list if it is long enough: new buffers
 * cause so many garbage collections that 100 records take half as much processor time again.
 */
export function takeListBuffer(minBytes: number): Buffer<ArrayBuffer> {
  if (minBytes < minReusedBytes) return Buffer.allocUnsafeSlow(minBytes)
  const isEnough = unusedBuffer.length >= minBytes
  const taken = isEnough ? unusedBuffer : Buffer.allocUnsafeSlow(minBytes)
  if (isEnough) unusedBuffer = Buffer.alloc(0)
  lentBuffers.add(taken.buffer)
  return taken
}

/** Returns the buffer of a list whose bytes have been copied to the connection. Ignores bytes from elsewhere. */
export function returnListBuffer({ buffer }: Uint8Array): void {
  if (!lentBuffers.delete(buffer)) return
  if (buffer.byteLength > unusedBuffer.length && buffer.byteLength <= maxReusedBytes)
    unusedBuffer = Buffer.from(buffer as ArrayBuffer)
}

/** Joins bytes, and texts as UTF-8, into one array. Frees the pieces, so they can't be used any more. */
export function joinBytes(pieces: readonly (string | Uint8Array)[]): Uint8Array {
  const whole = Buffer.allocUnsafe(pieces.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0))
  let end = 0
  for (const piece of pieces) {
    if (typeof piece === 'string') end += whole.write(piece, end)
    else {
      whole.set(piece, end)
      end += piece.length
    }
  }
  for (const piece of pieces) if (typeof piece !== 'string') freeMemory(piece)
  return whole
}
