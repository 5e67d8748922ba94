import { formatRecord } from './bso.ts'
import type { Dialect } from './dialect.ts'
import type { ListFormat, ListQuery, Offset } from './storage-request.ts'
import type { Storage } from './storage.ts'

/** One page of a list, selected but not yet read. */
interface Page {
  /** Row numbers, in order. */
  rows: Float64Array
  /** Total size of the payloads. */
  bytes: number
  /** Where the next page begins; null on the last page. */
  nextOffset: string | null
}

const chunkBytes = 256 * 1024

/** Selects the rows for a list query. */
export function selectPage(
  storage: Storage,
  scope: { uid: number; collection: string; nowMs: number; listCap: number | null; dialect: Dialect },
  query: ListQuery,
): Page {
  const { sql: order, position } = scope.dialect.orderOf(query)
  const limit = smallest(query.limit, scope.listCap)
  if (limit === 0) return { rows: new Float64Array(), bytes: 0, nextOffset: '0' }
  const conditions = ['uid = ? AND collection = ? AND gone = 0 AND expiry > ?']
  const values: (number | string)[] = [scope.uid, scope.collection, scope.nowMs]
  const restrict = (condition: string, ...more: (number | string)[]) => {
    conditions.push(condition)
    values.push(...more)
  }
  const { ids, newer, older, offset } = query
  if (newer !== null) restrict('modified > ?', newer)
  if (older !== null) restrict('modified < ?', older)
  if (ids !== null) restrict(`key IN (${ids.map(() => '?').join()})`, ...ids.map((id) => storage.keyOf(id)))
  if (typeof offset?.from === 'number' && query.sort !== 'index') {
    restrict(query.sort === 'oldest' ? 'modified >= ?' : 'modified <= ?', offset.from)
  }
  // SQLite would scan the whole collection in its order.
  const index = ids === null ? '' : ' INDEXED BY bso_key'
  const sql = `SELECT row, modified, bytes FROM bso${index} WHERE ${conditions.join(' AND ')}
    ORDER BY ${order} LIMIT ? OFFSET ?`
  const found = storage.database
    .query(sql)
    .values(...values, limit === null ? -1 : limit + 1, offset?.skip ?? 0) as [number, number, number][]
  const hasMore = limit !== null && found.length > limit
  if (hasMore) found.pop()
  return {
    rows: Float64Array.from(found, ([row]) => row),
    bytes: found.reduce((sum, [, , bytes]) => sum + bytes, 0),
    nextOffset: hasMore ? formatNext(found, offset, position === 'time') : null,
  }
}

/**
 * The records of a page as text or, if there are many, as a stream at the client's speed. The stream has the records as
 * of the selection, without later writes.
 */
export function renderPage(
  storage: Storage,
  page: Page,
  full: boolean,
  format: ListFormat,
): string | ReadableStream<Uint8Array> {
  const texts = recordTexts(storage, page.rows, full, format)
  const roughBytes = (full ? page.bytes : 0) + page.rows.length * 100
  if (roughBytes <= chunkBytes) return texts.next(Number.POSITIVE_INFINITY)
  const release = storage.openSnapshot()
  const encoder = new TextEncoder()
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        controller.enqueue(encoder.encode(texts.next(chunkBytes)))
        if (!texts.isAtEnd()) return
        release()
        controller.close()
      },
      cancel: release,
    },
    { highWaterMark: 1 },
  )
}

function recordTexts(storage: Storage, rows: Float64Array, full: boolean, format: ListFormat) {
  type Found = { id: string; modified: number; quoted: string; sortindex: number | null }
  const columns = full ? 'id, modified, quoted, sortindex' : 'id'
  const query = storage.database.query<Found, [number]>(`SELECT ${columns} FROM bso WHERE row = ?`)
  const frame =
    format === 'json'
      ? { open: '[', gap: ',', close: ']' }
      : { open: '', gap: '\n', close: rows.length ? '\n' : '' }
  let index = 0
  return {
    isAtEnd: () => index >= rows.length,
    /** The next records, until their text reaches the given number of characters. */
    next(enough: number): string {
      let text = index === 0 ? frame.open : ''
      while (index < rows.length && text.length < enough) {
        const record = query.get(rows[index] ?? 0)
        if (record === null) throw new Error(`Cannot read row ${rows[index]}: it was removed under a reader`)
        if (index > 0) text += frame.gap
        text += full ? formatRecord(record, record.quoted) : JSON.stringify(record.id)
        index += 1
      }
      return index >= rows.length ? text + frame.close : text
    },
  }
}

// A position by time: the last record's timestamp, and how many records with it were returned so far, even if the page
// itself was requested by count.
function formatNext(found: [number, number, number][], offset: Offset | null, byTime: boolean): string {
  const last = found.at(-1)?.[1]
  if (!byTime || last === undefined) return String((offset?.skip ?? 0) + found.length)
  const same = found.length - 1 - found.findLastIndex(([, modified]) => modified !== last)
  const before = same === found.length && offset?.from === last ? offset.skip : 0
  return `${last}:${same + before}`
}

function smallest(left: number | null, right: number | null): number | null {
  return left === null ? right : Math.min(left, right ?? left)
}
