import type { ServiceError } from './errors.ts'
import type { RecordInput, SyncRecord } from './record.ts'
import type { Timestamp } from './timestamp.ts'
import type { GetOutcome, Precondition, UnmetPrecondition } from './precondition.ts'

/** The order of a list: by timestamp, or by sortindex. */
export type SortOrder = 'newest' | 'oldest' | 'index'

/** Which records of a collection to list or count; all without a filter. */
export interface ListFilter {
  /** Only records changed after this timestamp. */
  newer?: Timestamp
  /** Only records changed before this timestamp. */
  older?: Timestamp
  /** Only these records: no duplicates, no commas, no spaces at either end. */
  ids?: string[]
  /** Only records with such an id, a filter that no storage has. */
  keepsId?: (id: string) => boolean
  /** Only such records, for a filter by another field than the id; no parameter has one yet. Counting reads all records, but no payloads. */
  keepsRecord?: (record: Omit<SyncRecord, 'payload'>) => boolean
}

export interface ListOptions extends ListFilter {
  sort: SortOrder
  /** Maximum records in a page; without it, the page is the whole list. */
  limit?: number
  /** Where the previous page ended. */
  position?: PagePosition
}

/**
 * Where a page ends: an opaque offset, and the collection's timestamp as of the first page. An offset of the storage stays valid when the
 * collection changes; a count of ours, where this service cuts the pages, does not.
 */
export interface PagePosition {
  offset: string
  firstTimestamp: Timestamp
}

/** Bytes that arrive in chunks. */
export interface ByteSource {
  /** The next chunk, or null at the end. Rejects when the source fails. */
  read(): Promise<Uint8Array | null>
  /** Cancels the rest; no effect at the end. */
  cancel(): void
  /** Whether others wait for the permit that it holds. */
  hasWaiters?(): boolean
}

/** The memory that one request holds, until it has been answered. */
export interface HeldMemory {
  /** Reserves more bytes. Throws `UpstreamError` (overload) when there is no room. */
  grow(bytes: number): void
  /** Releases a part of what was reserved. */
  shrink(bytes: number): void
}

/** A page of a list, or the whole list. */
export interface RecordPage {
  /** The collection's timestamp; every page of one pagination has that of the first page. */
  timestamp: Timestamp
  /**
   * The records as the JSON document `{"data":[…]}`. A source fails when the storage does, so that a truncated list never looks complete.
   */
  document: Uint8Array | ByteSource
  /** The number of records; null if unknown before the last one has been read. */
  count: number | null
  next: PagePosition | null
}

export type ListOutcome = { outcome: 'page'; page: RecordPage } | UnmetPrecondition

/** The timestamps of a user's collections; `timestamp` is the latest of them. */
export interface CollectionTimestamps {
  timestamp: Timestamp
  collections: Map<string, Timestamp>
}

/** The number of records; `timestamp` is the collection's at that moment or shortly before. */
export interface RecordCount {
  count: number
  timestamp: Timestamp
}

/** Notices in upstream response headers, collected over all calls of one client request and repeated in its response. */
export interface Notices {
  /** The longest pause that upstream asked for, in seconds; 0: none. */
  backoffSeconds: number
  /** The storage's end-of-life alert, unchanged. */
  alert: string | null
  /** Whether the storage has been shut down for good. */
  isShutDown: boolean
  /** The user's remaining quota in KB, as text, with the decimals that were sent. */
  quotaRemaining: string | null
}

/** A stored record, whose payload may have been left out: null. */
export type KnownRecord = Omit<SyncRecord, 'payload'> & { payload: string | null }

/** A consistent view of some records of a collection, with the collection's timestamp. */
export interface Snapshot {
  timestamp: Timestamp
  records: Map<string, KnownRecord>
}

/** Whether a payload of that length is kept. */
export type KeepsPayload = (id: string, length: number) => boolean

/** One record to write; absent fields keep their stored value. */
export type RecordWrite = RecordInput & { id: string }

/**
 * The outcome of a write that was conditional on the collection's timestamp.
 * - `moved`: another writer changed the collection first; nothing was written.
 * - `committed`: `rejected` has the ids that the storage rejected, with the error for the client; the others were written.
 */
export type CommitOutcome =
  { outcome: 'committed'; timestamp: Timestamp; rejected: Map<string, ServiceError> } | { outcome: 'moved' }

/** `staged`: invisible until its commit. `committed`: this storage can't stage and wrote at once. */
export type StageOutcome =
  { outcome: 'staged'; batch: string; rejected: Map<string, ServiceError> } | CommitOutcome

/**
 * The outcome of a deletion. `isAlone`: whether no other writer has changed the collection after `unmodifiedSince`; unknown if the storage
 * compares the timestamp of the record alone.
 */
export type DeletionOutcome =
  { outcome: 'committed'; timestamp: Timestamp; isAlone: boolean } | { outcome: 'moved' }

/** The limits of a storage; see Sync 1.5 API, `info/configuration`. Absent keys have the protocol's defaults. */
export interface StorageLimits {
  maxRequestBytes: number
  maxPostBytes: number
  maxPostRecords: number
  maxRecordPayloadBytes: number
  /** Limits of one staged batch; null if the storage can't stage. */
  batch: { maxTotalBytes: number; maxTotalRecords: number } | null
  /** The limits of collections that have their own. */
  collections?: ReadonlyMap<string, StorageLimits>
}

/**
 * One user's record storage. Collection names are canonical and ids are valid (see `record.ts`). Every method rejects with `UpstreamError`
 * when the storage can't be used, and with `ServiceError` 401 when it rejects the credentials.
 *
 * Writes are conditional: they apply only if the collection has not changed after `unmodifiedSince`. Each is sent at most once.
 * `UpstreamError.applied` is `no` (nothing was written) or `unknown` (read a snapshot to find out); a `conflict` is worth a retry. A
 * `ServiceError` (400, 401, 403 quota, 413 too large) means that nothing was written. A write within the same step of the storage's clock
 * as the previous one waits for the next step.
 */
export interface BulkStorage {
  /** A collection that was never written to is an empty list with timestamp 0. */
  list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome>
  get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome>
  collectionTimestamps(): Promise<CollectionTimestamps>
  /** Counts the records that match the filter without reading payloads; 0 for a collection that was never written to. */
  count(collection: string, filter: ListFilter): Promise<RecordCount>
  /** Identifies the user's storage; locks use it. Not for logs. */
  readonly owner: string
  /** Identifies the storage node, which many users share. */
  readonly node: string
  /** From now on, calls finish or undo a started write: no permit, missing memory or client disconnect stops them. */
  beginCommit(): void
  /** Something may be visible: from now on only the upstream timeout bounds calls, not the deadline of the client's request. */
  ignoreDeadline(): void
  readLimits(): Promise<StorageLimits>
  /**
   * The named records and the collection's timestamp, read consistently. Any number of ids. Holds one record at a time, besides the payloads
   * that are kept; asked again if the collection changes meanwhile.
   */
  snapshot(collection: string, ids: string[], keeps: KeepsPayload): Promise<Snapshot>
  /** Writes all records atomically, except those in `rejected`. At most `maxPostRecords` and `maxPostBytes`. */
  write(collection: string, records: RecordWrite[], unmodifiedSince: Timestamp): Promise<CommitOutcome>
  /** Opens a staged batch with these records, or adds them to `batch`. Invisible until `commitStaged`. */
  stage(
    collection: string,
    records: RecordWrite[],
    unmodifiedSince: Timestamp,
    batch: string | null,
  ): Promise<StageOutcome>
  /** Makes a staged batch visible; all its records get one timestamp. */
  commitStaged(collection: string, batch: string, unmodifiedSince: Timestamp): Promise<CommitOutcome>
  /** Deletes these records in one step. Unknown ids are no error. At most one group of `splitDeletion`, and at least one id. */
  remove(collection: string, ids: string[], unmodifiedSince: Timestamp): Promise<DeletionOutcome>
  /** Groups ids by the requests that delete them. */
  splitDeletion(ids: string[]): string[][]
}

/** The upstream calls of one client request. */
export interface CallTally {
  upstreamCalls: number
  /** Total time until the responses began. */
  upstreamMs: number
  /** The status of the last response; null if there was none. */
  upstreamStatus: number | null
}
