import { UpstreamError } from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import { runBounded } from '../domain/bounded.ts'
import { splitFilter } from '../domain/list.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { jsonOf, TooLong, unusable, type UpstreamResponse } from './response.ts'
import { chunkIds, groupIds } from './request.ts'
import { readCollectionTimestamps, readCount } from './storage-info.ts'
import { readRecordResponse, recordRequest } from './bso.ts'
import { BsoRewriter } from './bso-stream.ts'
import { ListPages } from './list.ts'
import { Pager, whileUnchanged, type ConsistentReads } from './pager.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { KeepsPayload, ListFilter, RecordCount, Snapshot, SortOrder } from '../domain/record-storage.ts'
import type { StorageCalls } from './signed-call.ts'

/** Maximum bytes of the ids of a list. */
const maxListBytes = 64 * 1024 * 1024
/** Ids that are read at once: more would take too much memory, and block for too long. */
const idsPerPage = 100_000

/**
 * Reads any number of records by id as one consistent snapshot, in as many requests as needed. Uses only the first endpoint, because a
 * record missing on another node was not deleted.
 */
export async function readConsistently(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  keeps: KeepsPayload,
): Promise<Snapshot> {
  return await whileUnchanged(calls, collection, calls.owner, async (reads) => {
    const records: Snapshot['records'] = new Map()
    await eachRecord(reads, ids, (record) => {
      // A stream that goes on and on has no timeout of its own.
      calls.requireTime()
      const { id, payload } = record
      records.set(id, keeps(id, payload.length) ? record : { ...record, payload: null })
    })
    return { timestamp: reads.timestamp, records }
  })
}

/** Counts the records that a filter selects; reads only their ids if these suffice. */
export async function countListed(
  calls: StorageCalls,
  collection: string,
  filter: ListFilter,
): Promise<RecordCount> {
  const isEmpty = filter.ids?.length === 0
  if (isEmpty || splitFilter(filter).selectsAll) {
    // Reads the timestamp first: if it is older than the count, clients request the count again; a newer one would hide a change.
    const { collections } = await readCollectionTimestamps(calls)
    const timestamp = collections.get(collection) ?? zeroTimestamp
    return { timestamp, count: isEmpty ? 0 : await readCount(calls, collection) }
  }
  return await whileUnchanged(calls, collection, undefined, async (reads) => {
    let count = 0
    await collectIds(reads, filter, 'newest', () => (count += 1))
    return { timestamp: reads.timestamp, count }
  })
}

/** Passes the ids of a list to `take`, in the storage's order. If ids alone don't say what is listed, the records pass by as a stream. */
export async function collectIds(
  reads: ConsistentReads,
  filter: ListFilter,
  sort: SortOrder,
  take: (id: string) => void,
): Promise<void> {
  const { storage, keepsId, keepsRecord } = splitFilter(filter)
  const parts = storage.ids
    ? chunkIds(storage.ids).map((ids) => ({ ...storage, ids, sort }))
    : [{ ...storage, sort }]
  if (keepsRecord) {
    const keep = (record: Parameters<typeof keepsRecord>[0]) => {
      if (keepsRecord(record)) take(record.id)
      return false
    }
    const pager = new Pager(reads, parts, 'lines')
    const pages = new ListPages(await pager.first(), pager, new BsoRewriter({ keep }))
    while ((await pages.read()) !== null) continue
    return
  }
  const pager = new Pager(
    reads,
    parts.map((part) => ({ ...part, limit: idsPerPage })),
    'ids',
  )
  await collect(pager, { leftBytes: maxListBytes }, (id) => {
    if (typeof id !== 'string') throw unusable('an element is not an id')
    if (keepsId?.(id) !== false) take(id)
  })
}

/** Reads the records with these ids; null if their payloads exceed `maxLength` together. */
export async function collectRecords(
  reads: ConsistentReads,
  ids: string[],
  maxLength: number,
): Promise<Map<string, SyncRecord> | null> {
  const records = new Map<string, SyncRecord>()
  let left = maxLength
  try {
    await eachRecord(reads, ids, (record) => {
      left -= record.payload.length
      if (left < 0) throw new TooLong('a list of the storage')
      records.set(record.id, record)
    })
    return records
  } catch (error) {
    if (error instanceof TooLong) return null
    throw error
  }
}

/** Passes the records with these ids to `take`, as they arrive: one at a time, and once more if their stream breaks. */
async function eachRecord(
  reads: ConsistentReads,
  ids: string[],
  take: (record: SyncRecord) => void,
): Promise<void> {
  const { chunks, single } = groupIds(ids)
  const [first, ...others] = chunks
  const readPart = async (part: string[], repeats = 0): Promise<void> => {
    const requested = new Set(part)
    const keep = (record: SyncRecord) => {
      // Some storages ignore the case of ids; a record in another spelling is not the one we asked for.
      if (requested.has(record.id)) take(record)
      return false
    }
    const pager = new Pager(reads, [{ ids: part, sort: 'newest' }], 'lines')
    const page = await pager.first()
    try {
      const pages = new ListPages(page, pager, new BsoRewriter({ keep }))
      while ((await pages.read()) !== null) continue
      return
    } catch (error) {
      const isLost = error instanceof UpstreamError && error.failure === 'connection-lost'
      if (page.stream === null || repeats >= retries.list.times || !isLost) throw error
    }
    await readPart(part, repeats + 1)
  }
  // Reads the timestamp first: if the collection changes later, the write that relies on it fails.
  if (first) await readPart(first)
  else await new Pager(reads, [{ sort: 'newest', limit: 1 }], 'ids', true).first({ maxBytes: 65_536 })
  await runBounded(others.map((part) => () => readPart(part)))
  for (const id of single) {
    const found = readRecordResponse(await reads.read(recordRequest(reads.collection, id)), id)
    if (found) take(found.record)
  }
}

/** The bytes that may still be read. */
interface ByteBudget {
  leftBytes: number
}

/** Passes the elements of a list to `take`, in order. */
async function collect(pager: Pager, budget: ByteBudget, take: (element: unknown) => void): Promise<void> {
  let page: UpstreamResponse | null = await pager.first({ maxBytes: budget.leftBytes })
  while (page !== null) {
    spend(budget, page)
    const elements = jsonOf(page)
    if (!Array.isArray(elements)) throw unusable('the body is not a list')
    elements.forEach(take)
    page = await pager.next(elements.length, budget.leftBytes)
  }
}

function spend(budget: ByteBudget, { bytes }: UpstreamResponse): void {
  budget.leftBytes -= bytes.length
  if (budget.leftBytes < 0) throw new TooLong('a list of the storage')
}
