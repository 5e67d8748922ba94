import { errno, ServiceError } from '../domain/errors.ts'
import { runBounded } from '../domain/bounded.ts'
import { splitFilter } from '../domain/list.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { jsonOf, TooLong, unusable, type UpstreamResponse } from './response.ts'
import { chunkIds, groupIds } from './request.ts'
import { readCollectionTimestamps, readCount } from './account.ts'
import { readRecordResponse, readBso, recordRequest } from './bso.ts'
import { BsoRewriter } from './bso-stream.ts'
import { ListPages } from './list.ts'
import { Pager, whileUnchanged, type ConsistentReads } from './pager.ts'
import type { ListFilter, RecordCount, Snapshot, SortOrder } from '../domain/record-storage.ts'
import type { StorageCalls } from './call.ts'

/** Maximum bytes of records in one snapshot, and of the ids of a list. */
const maxListBytes = 64 * 1024 * 1024
/** Ids that are read at once: more would take too much memory, and block for too long. */
const idsPerPage = 100_000

/**
 * Reads any number of records by id as one consistent snapshot, in as many requests as needed. Uses only the first endpoint, because a
 * record missing on another node was not deleted. Throws `ServiceError` 413 if the records are too large together.
 */
export async function readConsistently(
  calls: StorageCalls,
  collection: string,
  ids: string[],
): Promise<Snapshot> {
  return await whileUnchanged(calls, collection, calls.owner, async (reads) => {
    const snapshot = await collectRecords(reads, ids, maxListBytes)
    if (snapshot) return snapshot
    const message = 'The requested records are too large together: request fewer at once'
    throw new ServiceError(413, errno.requestTooLarge, message)
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

/** Reads the records with these ids; null if they exceed `maxBytes`. */
export async function collectRecords(
  reads: ConsistentReads,
  ids: string[],
  maxBytes: number,
): Promise<Snapshot | null> {
  const { chunks, single } = groupIds(ids)
  const [first, ...others] = chunks
  const records: Snapshot['records'] = new Map()
  const budget = { leftBytes: maxBytes }
  const readPart = (part: string[]) => {
    const requested = new Set(part)
    return collect(new Pager(reads, [{ ids: part, sort: 'newest' }], 'records'), budget, (value) => {
      const record = readBso(value)
      if (!record) throw unusable('an element is not a record')
      // Some storages ignore the case of ids; a record in another spelling is not the one we asked for.
      if (requested.has(record.id)) records.set(record.id, record)
    })
  }
  try {
    // Reads the timestamp first: if the collection changes later, the write that relies on it fails.
    if (first) await readPart(first)
    else await new Pager(reads, [{ sort: 'newest', limit: 1 }], 'ids', true).first({ maxBytes: 65_536 })
    await runBounded(others.map((part) => () => readPart(part)))
    for (const id of single) {
      const response = await reads.read(recordRequest(reads.collection, id))
      spend(budget, response)
      const found = readRecordResponse(response, id)
      if (found) records.set(id, found.record)
    }
    return { timestamp: reads.timestamp, records }
  } catch (error) {
    if (error instanceof TooLong) return null
    throw error
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
