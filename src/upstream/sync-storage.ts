import { runBounded } from '../domain/bounded.ts'
import { judgeGet, type GetOutcome, type Precondition, type Timestamp } from '../domain/record.ts'
import { readCollectionTimestamps, readLimits } from './account.ts'
import { printedRecord, recordRequest } from './bso.ts'
import { StorageCalls, type StorageCaller, type StorageClient } from './call.ts'
import { countRecords, readConsistently } from './consistent-read.ts'
import { listByIds } from './list-by-ids.ts'
import { listPlainly, ListPages } from './list.ts'
import { chunkIds, isListable, unmodifiedSinceHeader } from './request.ts'
import { commitStaged, removeRecords, removesAtOnce, stage, upload } from './writes.ts'
import type { BulkStorage, ListOptions, ListOutcome } from '../domain/record-storage.ts'

/**
 * One user's storage, spoken to in Sync 1.5, for one client request. When the storage refuses the credentials, others are
 * fetched once, and the call is repeated. If these lead to another node, only independent reads go there: a write, or a
 * read that continues another, would carry over timestamps that mean nothing there, and is `refused`.
 */
export function createSyncStorage(client: StorageClient, caller: StorageCaller): BulkStorage {
  const calls = new StorageCalls(client, caller)
  return {
    notices: calls.notices,
    owner: calls.owner,
    node: calls.node,
    beginCommit: () => calls.beginCommit(),
    list: (collection, options, precondition) => listRecords(calls, collection, options, precondition),
    get: (collection, id, precondition) => getRecord(calls, collection, id, precondition),
    collectionTimestamps: () => readCollectionTimestamps(calls),
    count: (collection, filter) => countRecords(calls, collection, filter),
    limits: () => readLimits(calls),
    snapshot: (collection, ids) => readConsistently(calls, collection, ids, calls.owner),
    write: (collection, records, since) => upload(calls, collection, records, since),
    stage: (collection, records, since, batch) => stage(calls, collection, records, since, batch),
    commitStaged: (collection, batch, since) => commitStaged(calls, collection, batch, since),
    remove: (collection, ids, since) => removeRecords(calls, collection, ids, since),
    removesAtOnce,
    rewrittenSince: (collection, ids, since) => readRewritten(calls, collection, ids, since),
  }
}

/**
 * The first piece of a list has been read when this resolves, so that a storage that fails at once is an error and no broken stream. A
 * list waits for a permit of its user, which it holds until the last byte, before anything is asked.
 */
async function listRecords(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { lists } = calls.client.upstream
  const permit = await lists.acquire(calls.owner)
  let document: ListPages | null = null
  try {
    const { ids } = options
    const isOneRequest = !ids || (chunkIds(ids).length === 1 && ids.every(isListable))
    const list = isOneRequest ? listPlainly : listByIds
    const outcome = await list(calls, collection, options, precondition)
    if (outcome.outcome === 'page' && outcome.page.document instanceof ListPages)
      document = outcome.page.document
    return outcome
  } finally {
    if (document) document.ended = () => lists.release(permit)
    else lists.release(permit)
  }
}

/**
 * Reads one record and judges the precondition here. The storage would judge expired records as well, and after a failed
 * precondition the record would have to be read anyway.
 */
async function getRecord(
  calls: StorageCalls,
  collection: string,
  id: string,
  precondition: Precondition,
): Promise<GetOutcome> {
  const found = printedRecord(await calls.read(recordRequest(collection, id)), id)
  if (!found) return { outcome: 'missing' }
  const { record, json } = found
  const outcome = judgeGet(precondition, record)
  if (json !== null && outcome.outcome === 'found') outcome.json = json
  return outcome
}

/**
 * Those of the ids under which somebody has written after that moment. The storage judges the condition by the row, also where it has
 * expired and is shown to nobody.
 */
async function readRewritten(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  since: Timestamp,
): Promise<string[]> {
  const rewritten: string[] = []
  const headers = unmodifiedSinceHeader(since)
  const tasks = ids.map((id) => async () => {
    const { status } = await calls.read({ ...recordRequest(collection, id), headers })
    if (status === 412) rewritten.push(id)
  })
  await runBounded(tasks)
  return rewritten
}
