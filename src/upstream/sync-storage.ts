import { countRecords, readConsistently } from './consistent-read.ts'
import { listRecords } from './list-records.ts'
import { getRecord, readCollectionTimestamps } from './record-reads.ts'
import { removeRecords } from './removal.ts'
import { StorageCalls } from './storage-calls.ts'
import { readLimits } from './storage-limits.ts'
import { commitStaged, stage, upload } from './uploads.ts'
import type { Precondition } from '../domain/precondition.ts'
import type {
  BulkStorage,
  CollectionTimestamps,
  CommitOutcome,
  GetOutcome,
  ListFilter,
  ListOptions,
  ListOutcome,
  Notices,
  RecordCount,
  RecordWrite,
  Snapshot,
  StageOutcome,
  StorageLimits,
} from '../domain/record-storage.ts'
import type { Timestamp } from '../domain/timestamp.ts'
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
  return new SyncStorage(options)
}

class SyncStorage implements BulkStorage {
  readonly #calls: StorageCalls
  readonly #limitsCache: LimitsCache

  constructor(options: SyncStorageOptions) {
    this.#calls = new StorageCalls(options)
    this.#limitsCache = options.limitsCache
  }

  get notices(): Notices {
    return this.#calls.notices
  }

  get owner(): string {
    return this.#calls.owner
  }

  passPointOfNoReturn(): void {
    this.#calls.settle()
  }

  list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome> {
    return listRecords(this.#calls, collection, options, precondition)
  }

  get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome> {
    return getRecord(this.#calls, collection, id, precondition)
  }

  collectionTimestamps(): Promise<CollectionTimestamps> {
    return readCollectionTimestamps(this.#calls)
  }

  count(collection: string, filter: ListFilter): Promise<RecordCount> {
    return countRecords(this.#calls, collection, filter)
  }

  limits(): Promise<StorageLimits> {
    return readLimits(this.#calls, this.#limitsCache)
  }

  snapshot(collection: string, ids: string[]): Promise<Snapshot> {
    return readConsistently(this.#calls, collection, ids)
  }

  write(collection: string, records: RecordWrite[], since: Timestamp): Promise<CommitOutcome> {
    return upload(this.#calls, collection, records, since)
  }

  stage(collection: string, records: RecordWrite[], since: Timestamp, batch?: string): Promise<StageOutcome> {
    return stage(this.#calls, collection, records, since, batch)
  }

  commitStaged(collection: string, batch: string, since: Timestamp): Promise<CommitOutcome> {
    return commitStaged(this.#calls, collection, batch, since)
  }

  remove(collection: string, ids: string[], since: Timestamp): Promise<CommitOutcome> {
    return removeRecords(this.#calls, collection, ids, since)
  }
}
