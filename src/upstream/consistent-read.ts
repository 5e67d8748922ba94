import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { runBounded } from '../domain/bounded.ts'
import { idSelector, selectsIds } from '../domain/list.ts'
import { retries } from '../domain/retries.ts'
import { zeroTimestamp, type Timestamp } from '../domain/timestamp.ts'
import { jsonOf, lastModifiedOf, OffsetTrail, TooLong, unusable, type UpstreamResponse } from './response.ts'
import { chunkIds, listQuery, groupIds, unmodifiedSinceHeader } from './request.ts'
import { readCollectionTimestamps, readCount } from './account.ts'
import { readRecordResponse, readBso, recordRequest } from './bso.ts'
import { checkCount } from './list.ts'
import type { ListFilter, ListOptions, RecordCount, Snapshot, SortOrder } from '../domain/record-storage.ts'
import type { StorageCalls, StorageRead } from './call.ts'

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
    const snapshot = await reads.records(ids, maxListBytes)
    if (snapshot) return snapshot
    const message = 'The requested records are too large together: request fewer at once'
    throw new ServiceError(413, errno.requestTooLarge, message)
  })
}

/** Counts the records that match a filter; reads only their ids. */
export async function countRecords(
  calls: StorageCalls,
  collection: string,
  filter: ListFilter,
): Promise<RecordCount> {
  const { newer, older, ids } = filter
  if (newer === undefined && older === undefined && !selectsIds(filter)) {
    // Reads the timestamp first: if it is older than the count, clients request the count again; a newer one would hide a change.
    const { collections } = await readCollectionTimestamps(calls)
    return {
      timestamp: collections.get(collection) ?? zeroTimestamp,
      count: await readCount(calls, collection),
    }
  }
  return await whileUnchanged(calls, collection, undefined, async (reads) => {
    let count = 0
    const isListed = idSelector(filter)
    const countId = (id: string) => {
      if (isListed(id)) count += 1
    }
    const parts = ids ? chunkIds(ids) : [undefined]
    for (const part of parts) await reads.ids({ newer, older, ids: part }, 'newest', countId)
    return { timestamp: reads.timestamp, count }
  })
}

/** Runs reads that must be consistent; repeats all of them, up to three times, if the collection changes meanwhile. */
export async function whileUnchanged<Result>(
  calls: StorageCalls,
  collection: string,
  endpoint: string | undefined,
  read: (reads: ConsistentReads) => Promise<Result>,
): Promise<Result> {
  for (let round = 0; round <= retries.consistentRead.times; round += 1) {
    try {
      return await read(new ConsistentReads(calls, collection, endpoint))
    } catch (error) {
      if (!(error instanceof CollectionChanged)) throw error
    }
  }
  throw new UpstreamError(
    'refused',
    'Cannot read several records consistently: the collection keeps changing',
    {
      applied: 'no',
    },
  )
}

class CollectionChanged extends Error {}

/** Reads of one collection. All but the first are conditional on its timestamp, and throw if it has changed. */
export class ConsistentReads {
  /** Bytes of records that may still be read. */
  #leftBytes = 0
  #timestamp: Timestamp | null = null
  #endpoint: string | undefined

  constructor(
    private readonly calls: StorageCalls,
    private readonly collection: string,
    endpoint?: string,
  ) {
    this.#endpoint = endpoint
  }

  /** The collection's timestamp as of the first read. */
  get timestamp(): Timestamp {
    return this.#timestamp!
  }

  /** Passes the ids of a list to `take`, in order. */
  async ids(filter: ListFilter, sort: SortOrder, take: (id: string) => void): Promise<void> {
    this.#leftBytes = maxListBytes
    await this.#each({ ...filter, sort, limit: idsPerPage }, false, (id) => {
      if (typeof id !== 'string') throw unusable('an element is not an id')
      take(id)
    })
  }

  /** Reads the records with these ids; null if they exceed `maxBytes`. */
  async records(ids: string[], maxBytes: number): Promise<Snapshot | null> {
    const { chunks, single } = groupIds(ids)
    const [first, ...others] = chunks
    const records: Snapshot['records'] = new Map()
    this.#leftBytes = maxBytes
    try {
      // Reads the timestamp first: if the collection changes later, the write that relies on it fails.
      if (first) await this.#part(first, records)
      else
        await this.#read({
          ...this.#list(listQuery({ sort: 'newest', limit: 1 }, null, false)),
          maxBytes: 65_536,
        })
      await runBounded(others.map((part) => () => this.#part(part, records)))
      for (const id of single) {
        const response = await this.#read(recordRequest(this.collection, id))
        this.#count(response)
        const found = readRecordResponse(response, id)
        if (found) records.set(id, found.record)
      }
      return { timestamp: this.timestamp, records }
    } catch (error) {
      if (error instanceof TooLong) return null
      throw error
    }
  }

  async #part(ids: string[], records: Snapshot['records']): Promise<void> {
    const requested = new Set(ids)
    await this.#each({ ids, sort: 'newest' }, true, (value) => {
      const record = readBso(value)
      if (!record) throw unusable('an element is not a record')
      // Some storages ignore the case of ids; a record in another spelling is not the one we asked for.
      if (requested.has(record.id)) records.set(record.id, record)
    })
  }

  /** Passes the elements of a list to `take`, in order, however the storage pages it. */
  async #each(options: ListOptions, isFull: boolean, take: (element: unknown) => void): Promise<void> {
    const trail = new OffsetTrail()
    let offset: string | null = null
    do {
      const query = listQuery(options, offset, isFull)
      const response = await this.#read({ ...this.#list(query), maxBytes: this.#leftBytes })
      this.#count(response)
      const elements = jsonOf(response)
      if (!Array.isArray(elements)) throw unusable('the body is not a list')
      elements.forEach(take)
      checkCount(response, elements.length)
      offset = trail.next(response.headers, elements.length)
    } while (offset !== null)
  }

  #count({ bytes }: UpstreamResponse): void {
    this.#leftBytes -= bytes.length
    if (this.#leftBytes < 0) throw new TooLong('a list of the storage')
  }

  // It names ids, so a 400 is about them.
  #list(query: StorageRead['query']): Pick<StorageRead, 'path' | 'query' | 'subject'> {
    return { path: ['storage', this.collection], query, subject: 'record' }
  }

  async #read(request: StorageRead): Promise<UpstreamResponse> {
    const condition = this.#timestamp === null ? {} : unmodifiedSinceHeader(this.#timestamp)
    const headers = { ...request.headers, ...condition }
    const response = await this.calls.read({ ...request, headers, endpoint: this.#endpoint })
    if (response.status === 412) throw new CollectionChanged()
    if (this.#timestamp !== null) return response
    this.#timestamp = lastModifiedOf(response.headers)
    this.calls.trackChange(response.headers)
    this.#endpoint = this.calls.endpoint
    return response
  }
}
