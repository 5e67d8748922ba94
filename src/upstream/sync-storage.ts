import { evaluateGet, type GetOutcome, type Precondition } from '../domain/precondition.ts'
import { readCollectionTimestamps, readLimits } from './storage-info.ts'
import { readRecordResponse, recordRequest } from './bso.ts'
import { countListed, readConsistently } from './consistent-read.ts'
import { listCutPage, mustBeCut } from './cut-pages.ts'
import { listByQuery, listNothing, ListPages } from './list.ts'
import { commitStaged, remove, splitDeletion, stage, write } from './writes.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type {
  BulkStorage,
  KeepsPayload,
  ListFilter,
  ListOptions,
  ListOutcome,
  RecordWrite,
} from '../domain/record-storage.ts'
import type { StorageCalls } from './signed-call.ts'

/**
 * One user's Sync 1.5 storage, for one client request. If the storage rejects the credentials, new ones are fetched once and the call is
 * repeated. If they lead to another node, only independent reads go there; a write, or a read that continues another, is `refused`, because
 * timestamps are only valid on one node.
 */
export class SyncStorage implements BulkStorage {
  constructor(private readonly calls: StorageCalls) {}

  get owner(): string {
    return this.calls.owner
  }

  get node(): string {
    return this.calls.node
  }

  beginCommit(): void {
    this.calls.beginCommit()
  }

  ignoreDeadline(): void {
    this.calls.ignoreDeadline()
  }

  /**
   * Resolves once the first chunk has been read, so that an early failure is an error and not a broken stream. A list that streams holds a
   * permit until the last byte, because the runtime buffers up to 2 MB of a response. Others need none, so that neither slow readers nor
   * storages that hang keep them waiting. If no permit is free, the list waits for one without a call, and is then requested again.
   */
  async list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    if (options.ids?.length === 0) return await listNothing(this.calls, collection, options, precondition)
    const request = mustBeCut(options) ? listCutPage : listByQuery
    const begin = () => request(this.calls, collection, options, precondition)
    const outcome = await begin()
    const document = streamOf(outcome)
    if (!document) return outcome
    const { context, node, owner, signal, leftMs } = this.calls
    const { lists } = context.upstream
    const holdPermit = (stream: ListPages) => {
      stream.ended = () => lists.release(node, owner)
      stream.hasWaiters = () => lists.hasWaiters(node)
    }
    if (lists.tryAcquire(node, owner)) {
      holdPermit(document)
      return outcome
    }
    document.cancel()
    await lists.acquire(node, owner, signal, leftMs)
    let stream: ListPages | null = null
    try {
      const again = await begin()
      stream = streamOf(again)
      if (stream) holdPermit(stream)
      return again
    } finally {
      if (!stream) lists.release(node, owner)
    }
  }

  /**
   * Reads one record and evaluates the precondition here: the storage would also consider expired records, and a failed precondition needs
   * the record anyway.
   */
  get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome> {
    // An async function would take more time.
    return this.calls.read(recordRequest(collection, id)).then((response) => {
      const found = readRecordResponse(response, id)
      if (!found) return { outcome: 'missing' }
      const { record, json } = found
      const outcome = evaluateGet(precondition, record)
      if (json !== null && outcome.outcome === 'found') outcome.json = json
      return outcome
    })
  }

  collectionTimestamps() {
    return readCollectionTimestamps(this.calls)
  }

  count(collection: string, filter: ListFilter) {
    return countListed(this.calls, collection, filter)
  }

  readLimits() {
    return readLimits(this.calls)
  }

  snapshot(collection: string, ids: string[], keeps: KeepsPayload) {
    return readConsistently(this.calls, collection, ids, keeps)
  }

  write(collection: string, records: RecordWrite[], since: Timestamp) {
    return write(this.calls, collection, records, since)
  }

  stage(collection: string, records: RecordWrite[], since: Timestamp, batch: string | null) {
    return stage(this.calls, collection, records, since, batch)
  }

  commitStaged(collection: string, batch: string, since: Timestamp) {
    return commitStaged(this.calls, collection, batch, since)
  }

  remove(collection: string, ids: string[], since: Timestamp) {
    return remove(this.calls, collection, ids, since)
  }

  splitDeletion(ids: string[]) {
    return splitDeletion(ids)
  }
}

/** The document of a list that streams; null if everything has been read. */
function streamOf(outcome: ListOutcome): ListPages | null {
  if (outcome.outcome !== 'page') return null
  const { document } = outcome.page
  return document instanceof ListPages ? document : null
}
