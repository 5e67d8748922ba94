import { runBounded } from '../domain/bounded.ts'
import { judgeGet, type GetOutcome, type Precondition, type Timestamp } from '../domain/record.ts'
import { readCollectionTimestamps, readLimits } from './account.ts'
import { printedRecord, recordRequest } from './bso.ts'
import { countRecords, readConsistently } from './consistent-read.ts'
import { listByIds } from './list-by-ids.ts'
import { listPlainly, ListPages } from './list.ts'
import { chunkIds, isListable, unmodifiedSinceHeader } from './request.ts'
import { StorageWrites } from './writes.ts'
import type { BulkStorage, ListFilter, ListOptions, ListOutcome } from '../domain/record-storage.ts'

/**
 * One user's storage, spoken to in Sync 1.5, for one client request. When the storage refuses the credentials, others are
 * fetched once, and the call is repeated. If these lead to another node, only independent reads go there: a write, or a
 * read that continues another, would carry over timestamps that mean nothing there, and is `refused`.
 */
export class SyncStorage extends StorageWrites implements BulkStorage {
  // Asked for one record by its address, the storage answers 404 where that has expired, and leaves the row.
  readonly removesExpired = isListable

  /**
   * The first piece of a list has been read when this resolves, so that a storage that fails at once is an error and no broken stream.
   * A list of more pieces holds a permit until the last byte. While there is none, lists wait before anything is asked. If the last one
   * was taken meanwhile, the answer is given up and asked for again, because an open one that waited would hold memory.
   */
  async list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    const { owner } = this
    const lists = this.client.upstream.listsOf(this.node)
    const release = () => lists.release(owner)
    if (lists.isFreeFor(owner)) {
      const outcome = await this.#list(collection, options, precondition)
      const pages = pagesOf(outcome)
      if (!pages) return outcome
      if (lists.tryAcquire(owner)) {
        pages.ended = release
        return outcome
      }
      pages.cancel()
    }
    await lists.acquire(owner, false, this.signal)
    let pages: ListPages | null = null
    try {
      const outcome = await this.#list(collection, options, precondition)
      pages = pagesOf(outcome)
      return outcome
    } finally {
      if (pages) pages.ended = release
      else release()
    }
  }

  #list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    const isOneRequest = !options.ids || chunkIds(options.ids).length === 1
    return (isOneRequest ? listPlainly : listByIds)(this, collection, options, precondition)
  }

  /**
   * Reads one record and judges the precondition here. The storage would judge expired records as well, and after a failed
   * precondition the record would have to be read anyway.
   */
  async get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome> {
    const found = printedRecord(await this.read(recordRequest(collection, id)), id)
    if (!found) return { outcome: 'missing' }
    const { record, json } = found
    const outcome = judgeGet(precondition, record)
    if (json !== null && outcome.outcome === 'found') outcome.json = json
    return outcome
  }

  collectionTimestamps() {
    return readCollectionTimestamps(this)
  }

  count(collection: string, filter: ListFilter) {
    return countRecords(this, collection, filter)
  }

  limits() {
    return readLimits(this)
  }

  snapshot(collection: string, ids: string[]) {
    return readConsistently(this, collection, ids)
  }

  /** The storage judges the condition by the row, also where it has expired and is shown to nobody. */
  async rewrittenSince(collection: string, ids: string[], since: Timestamp): Promise<string[]> {
    const rewritten: string[] = []
    const headers = unmodifiedSinceHeader(since)
    const tasks = ids.map((id) => async () => {
      const { status } = await this.read({ ...recordRequest(collection, id), headers })
      if (status === 412) rewritten.push(id)
    })
    await runBounded(tasks)
    return rewritten
  }
}

/** The document that is still being read; null: it is whole. */
function pagesOf(outcome: ListOutcome): ListPages | null {
  return outcome.outcome === 'page' && outcome.page.document instanceof ListPages
    ? outcome.page.document
    : null
}
