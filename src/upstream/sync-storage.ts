import { runBounded } from '../domain/bounded.ts'
import { evaluateGet, type GetOutcome, type Precondition, type Timestamp } from '../domain/record.ts'
import { readCollectionTimestamps, readLimits } from './account.ts'
import { readRecordAnswer, recordRequest } from './bso.ts'
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
  readonly deletesExpired = isListable

  /**
   * The first piece of a list has been read when this resolves, so that a storage that fails at once is an error and no broken stream.
   * A list waits for a permit of its user and node, which it holds until the last byte, before anything is asked: the runtime takes in up
   * to 2 MB of an answer before it is looked at.
   */
  async list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    const { lists } = this.client.upstream
    const { node, owner } = this
    if (!lists.tryAcquire(node, owner)) await lists.acquire(node, owner, this.signal, this.leftMs)
    let document: ListPages | null = null
    try {
      const isOneRequest = !options.ids || chunkIds(options.ids).length === 1
      const list = isOneRequest ? listPlainly : listByIds
      const outcome = await list(this, collection, options, precondition)
      if (outcome.outcome === 'page' && outcome.page.document instanceof ListPages)
        document = outcome.page.document
      return outcome
    } finally {
      if (document) {
        document.ended = () => lists.release(node, owner)
        document.hasWaiters = () => lists.hasWaiters(node)
      } else lists.release(node, owner)
    }
  }

  /**
   * Reads one record and judges the precondition here. The storage would judge expired records as well, and after a failed
   * precondition the record would have to be read anyway.
   */
  async get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome> {
    const found = readRecordAnswer(await this.read(recordRequest(collection, id)), id)
    if (!found) return { outcome: 'missing' }
    const { record, json } = found
    const outcome = evaluateGet(precondition, record)
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
