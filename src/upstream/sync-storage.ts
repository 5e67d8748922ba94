import { readConsistently } from './consistent-read.ts'
import { listRecords } from './list-records.ts'
import { countRecords, getRecord, readCollectionTimestamps } from './record-reads.ts'
import { removeRecords } from './removal.ts'
import { StorageCalls } from './storage-calls.ts'
import { readLimits } from './storage-limits.ts'
import { commitStaged, stage, upload } from './uploads.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { StorageCallsOptions } from './storage-calls.ts'
import type { LimitsCache } from './storage-limits.ts'

export interface SyncStorageOptions extends StorageCallsOptions {
  /** Shared by the storages of all users; see `createLimitsCache`. */
  limitsCache: LimitsCache
}

/**
 * One user's storage, spoken to in Sync 1.5, for the time of one client's request.
 *
 * When the storage refuses the credentials, others are asked for once, and the call is repeated. If they lead to
 * another storage only what stands alone goes there: a write, or the continuation of a read, would carry over
 * timestamps that mean nothing in that place, and is `refused`.
 */
export function createSyncStorage(options: SyncStorageOptions): BulkStorage {
  const calls = new StorageCalls(options)
  return {
    notices: calls.notices,
    owner: calls.owner,
    passPointOfNoReturn: () => calls.ignoreDeadline(),
    list: (collection, listOptions, precondition) =>
      listRecords(calls, collection, listOptions, precondition),
    get: (collection, id, precondition) => getRecord(calls, collection, id, precondition),
    collectionTimestamps: (precondition) => readCollectionTimestamps(calls, precondition),
    count: (collection) => countRecords(calls, collection),
    limits: () => readLimits(calls, options.limitsCache),
    snapshot: (collection, ids) => readConsistently(calls, collection, ids),
    write: (collection, records, since) => upload(calls, collection, records, since),
    stage: (collection, records, since, batch) => stage(calls, collection, records, since, batch),
    commitStaged: (collection, batch, since) => commitStaged(calls, collection, batch, since),
    remove: (collection, ids, since) => removeRecords(calls, collection, ids, since),
  }
}
