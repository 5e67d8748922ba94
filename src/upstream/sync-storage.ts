import { StorageCalls } from './call.ts'
import { countRecords, readConsistently } from './consistent-read.ts'
import { listRecords } from './list.ts'
import { getRecord, readCollectionTimestamps, readRewritten } from './record-reads.ts'
import { readLimits } from './storage-limits.ts'
import { commitStaged, removeRecords, removesAtOnce, stage, upload } from './writes.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { StorageCaller, StorageClient } from './call.ts'

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
