import { UpstreamError } from '../domain/errors.ts'
import { isListed } from '../domain/list.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { jsonOf, lastModifiedOf, OffsetTrail, unusable } from './answer.ts'
import { chunkIds, isListable, listQuery, unmodifiedSinceHeader } from './request.ts'
import { readBso } from './bso.ts'
import { readCollectionTimestamps, readCount, recordOf, recordRequest } from './record-reads.ts'
import type { ListFilter, RecordCount, Snapshot } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls } from './call.ts'

const maxListBytes = 64 * 1024 * 1024
const maxRounds = 4

/**
 * Reads any number of records by their ids as one consistent whole, in as many requests as needed. Reads before a write
 * go to `endpoint` alone, because a record that is missing at another node is not deleted.
 */
export async function readConsistently(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  endpoint?: string,
): Promise<Snapshot> {
  return await whileUnchanged(calls, collection, endpoint, async (reads) => {
    const records = new Map<string, SyncRecord>()
    const requested = new Set(ids)
    const takeElement = (value: unknown) => {
      const record = readBso(value)
      if (!record) throw unusable('an element that is no record')
      // Some storages compare ids without case and answer with another spelling, which is another record to us.
      if (requested.has(record.id)) records.set(record.id, record)
    }
    await reads.byIds(ids, {}, true, takeElement, (record) => records.set(record.id, record))
    return { timestamp: reads.timestamp, records }
  })
}

/** Counts the records that a list with these filters would hold; only the ids are read. */
export async function countRecords(
  calls: StorageCalls,
  collection: string,
  filter: ListFilter,
): Promise<RecordCount> {
  const { newer, older, ids, excludedIds } = filter
  if (newer === undefined && older === undefined && !ids && !excludedIds?.size) {
    // The timestamp is read first: one that is older than the count makes a client ask again; a newer one would hide a
    // change.
    const { collections } = await readCollectionTimestamps(calls)
    return {
      timestamp: collections.get(collection) ?? zeroTimestamp,
      count: await readCount(calls, collection),
    }
  }
  return await whileUnchanged(calls, collection, undefined, async (reads) => {
    let count = 0
    const wanted = ids?.filter((id) => !excludedIds?.has(id))
    const requested = wanted && new Set(wanted)
    const countId = (id: unknown) => {
      if (typeof id !== 'string') throw unusable('an element that is no id')
      if (requested?.has(id) !== false && !excludedIds?.has(id)) count += 1
    }
    const countRecord = (record: SyncRecord) => {
      if (isListed(record, filter)) count += 1
    }
    if (!wanted) await reads.list({ newer, older }, false, countId)
    else await reads.byIds(wanted, { newer, older }, false, countId, countRecord)
    return { timestamp: reads.timestamp, count }
  })
}

/** Carries out reads that belong together; all of them again when the collection changes meanwhile, three times at most. */
async function whileUnchanged<Result>(
  calls: StorageCalls,
  collection: string,
  endpoint: string | undefined,
  read: (reads: ConsistentReads) => Promise<Result>,
): Promise<Result> {
  for (let round = 0; round < maxRounds; round += 1) {
    try {
      return await read(new ConsistentReads(calls, collection, endpoint))
    } catch (error) {
      if (!(error instanceof CollectionChanged)) throw error
    }
  }
  throw new UpstreamError('refused', 'Cannot read several records: the collection keeps changing', {
    applied: 'no',
  })
}

class CollectionChanged extends Error {}

/** Reads of one collection. All but the first are conditional on its timestamp, and throw when that has changed. */
class ConsistentReads {
  #timestamp: Timestamp | null = null
  #endpoint: string | undefined

  constructor(
    private readonly calls: StorageCalls,
    private readonly collection: string,
    endpoint?: string,
  ) {
    this.#endpoint = endpoint
  }

  /** The collection's, as of the first read. */
  get timestamp(): Timestamp {
    return this.#timestamp!
  }

  /** Takes the elements of a list: whole records, or their ids. */
  async list(filter: ListFilter, isFull: boolean, take: (value: unknown) => void): Promise<void> {
    const path = ['storage', this.collection]
    const trail = new OffsetTrail()
    let offset: string | null = null
    do {
      const query = listQuery({ ...filter, sort: 'newest' }, offset, isFull)
      const answer = await this.calls.read({
        path,
        query,
        subject: 'list',
        maxBytes: maxListBytes,
        ...this.#condition(),
      })
      this.#begin(answer)
      const values = jsonOf(answer)
      if (!Array.isArray(values)) throw unusable('no list')
      values.forEach(take)
      offset = trail.next(answer.headers, values.length)
    } while (offset !== null)
  }

  /** Takes the elements of lists of these ids, and, one by one, the records whose ids no list can name. */
  async byIds(
    ids: string[],
    filter: ListFilter,
    isFull: boolean,
    takeElement: (value: unknown) => void,
    takeRecord: (record: SyncRecord) => void,
  ): Promise<void> {
    const listed = ids.filter(isListable)
    for (const chunk of chunkIds(listed)) await this.list({ ...filter, ids: chunk }, isFull, takeElement)
    // The timestamp is read first: a change after it makes the write that relies on it fail.
    if (listed.length === 0) await this.#readTimestamp()
    for (const id of ids) {
      if (isListable(id)) continue
      const answer = await this.calls.read({ ...recordRequest(this.collection, id), ...this.#condition() })
      if (answer.status === 412) throw new CollectionChanged()
      const record = recordOf(answer, id)
      if (record) takeRecord(record)
    }
  }

  async #readTimestamp(): Promise<void> {
    const path = ['storage', this.collection]
    const query = listQuery({ sort: 'newest', limit: 1 }, null, false)
    this.#begin(
      await this.calls.read({ path, query, subject: 'list', maxBytes: maxListBytes, ...this.#condition() }),
    )
  }

  #begin(answer: UpstreamAnswer): void {
    if (answer.status === 412) throw new CollectionChanged()
    if (this.#timestamp !== null) return
    this.#timestamp = lastModifiedOf(answer.headers)
    this.calls.noteChange(this.collection, answer.headers)
    this.#endpoint = this.calls.endpoint
  }

  #condition(): { headers?: Record<string, string>; endpoint?: string } {
    if (this.#timestamp === null) return { endpoint: this.#endpoint }
    return { headers: unmodifiedSinceHeader(this.#timestamp), endpoint: this.#endpoint }
  }
}
