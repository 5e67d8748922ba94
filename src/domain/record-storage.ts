import type { GetOutcome, Precondition, RecordInput, SyncRecord, Timestamp, UnmetRead } from './record.ts'

/** How a list is ordered: by change time, or by the weight that the writer gave each record. */
export type SortOrder = 'newest' | 'oldest' | 'index'

/** Which records of a collection are listed or counted; all of them without a filter. */
export interface ListFilter {
  /** Only records changed after this moment. */
  newer?: Timestamp
  /** Only records changed before this moment. */
  older?: Timestamp
  /** Only these records, at least one, without repetitions, and with ids that a list of ids can hold: no comma, no blank at an end. */
  ids?: string[]
  /** Not these records. */
  excludedIds?: Set<string>
}

export interface ListOptions extends ListFilter {
  sort: SortOrder
  /** At most so many records in a page; without it the page is the whole list. */
  limit?: number
  /** Where an earlier page ended. */
  position?: PagePosition
}

/** Where a page ends: the storage's opaque offset, and the collection's timestamp as of the first page. */
export interface PagePosition {
  offset: string
  firstTimestamp: Timestamp
}

/** Bytes that arrive piece by piece. */
export interface ByteSource {
  /** The next piece, or null at the end. Rejects when it breaks. */
  read(): Promise<Uint8Array | null>
  /** Cancels the rest; harmless at the end. */
  cancel(): void
  /** Whether others wait for what it holds until it ends. */
  isWaitedFor?(): boolean
}

/** The memory that one request holds; it is given back when the request has been answered. */
export interface HeldMemory {
  /** Holds so many bytes more. Throws `UpstreamError` (overload) when there is no room for them. */
  grow(bytes: number): void
}

/** A page of a list, or the whole of it. */
export interface RecordPage {
  /** The collection's timestamp, on every page of one pagination that of the first page. */
  timestamp: Timestamp
  /**
   * The records in the exposed form, as the JSON document `{"data":[…]}`. A source breaks when the storage does, so that a
   * short list can't be taken for a whole one.
   */
  document: Uint8Array | ByteSource
  /** The number of records, where it is known before the last one has been read. */
  count: number | null
  next: PagePosition | null
}

export type ListOutcome = { outcome: 'page'; page: RecordPage } | UnmetRead

/** The timestamps of a user's collections, and the latest of them. */
export interface CollectionTimestamps {
  timestamp: Timestamp
  collections: Map<string, Timestamp>
}

/** The number of records, and the collection's timestamp at that moment or shortly before. */
export interface RecordCount {
  count: number
  timestamp: Timestamp
}

/**
 * What the storage said besides its answer, collected over all the calls that one request of a client caused.
 * The answer to the client repeats it.
 */
export interface Notices {
  /** The longest pause that the storage or the token server asked for, in seconds. */
  backoffSeconds: number | null
  /** The storage's announcement of its end, as it was sent. */
  alert: string | null
  /** The rest of the user's quota in KB: a number, with the decimals that were sent. */
  quotaRemaining: string | null
}

/** A consistent view of some records of a collection and of the collection's timestamp at that moment. */
export interface Snapshot {
  timestamp: Timestamp
  /** For how long the collection had not changed then, in ms on the storage's clock; Infinity where it does not say. */
  unchangedForMs: number
  records: Map<string, SyncRecord>
}

/** One record to write: absent fields keep what is stored. */
export type RecordWrite = RecordInput & { id: string }

/**
 * What became of a write that was conditional on the collection's timestamp.
 * `moved`: another writer changed the collection first, and nothing was written.
 * `rejected` in `committed`: ids that the storage refused, with its class of reason; the others stand.
 */
export type CommitOutcome =
  | { outcome: 'committed'; timestamp: Timestamp; rejected: Map<string, 'invalid' | 'too-large'> }
  | { outcome: 'moved' }

/** `staged`: waits invisibly for its commit. `committed`: this storage does not stage, it has written at once. */
export type StageOutcome =
  { outcome: 'staged'; batch: string; rejected: Map<string, 'invalid' | 'too-large'> } | CommitOutcome

/** What one storage accepts; see Sync 1.5 API, `info/configuration`. Absent keys have the protocol's defaults. */
export interface StorageLimits {
  maxRequestBytes: number
  maxPostBytes: number
  maxPostRecords: number
  maxRecordPayloadBytes: number
  /** Limits of one staged batch; null when the storage can't stage. */
  batch: { maxTotalBytes: number; maxTotalRecords: number } | null
}

/**
 * One user's record storage. Collection names are canonical and ids possible (see `record.ts`). Every method rejects with
 * `UpstreamError` when the storage can't be used, and with `ServiceError` 401 when it refuses the credentials.
 *
 * Writes are conditional on the collection's timestamp (`unmodifiedSince`: the write counts only if no other writer has
 * changed the collection after that moment), and each is sent at most once. Its rejection tells what is known of its effect:
 * `UpstreamError.applied` is `no` (certainly nothing was written) or `unknown` (a snapshot tells). A write that follows another
 * within one step of the storage's clock waits for the next step; a write conflict is a `conflict`: nothing was written, and a
 * later attempt can succeed. A `ServiceError` (403 quota, 413 too large, 400, 401) means that nothing was written.
 */
export interface BulkStorage {
  readonly notices: Notices
  /** A collection never written to is an empty list with the timestamp 0. */
  list(collection: string, options: ListOptions, precondition: Precondition): Promise<ListOutcome>
  get(collection: string, id: string, precondition: Precondition): Promise<GetOutcome>
  collectionTimestamps(): Promise<CollectionTimestamps>
  /** Counts what a list with these filters would hold, without reading payloads; 0 for a collection never written to. */
  count(collection: string, filter: ListFilter): Promise<RecordCount>
  /** Names the user's storage, equal for equal storages; locks are held by it. Not for logs. */
  readonly owner: string
  /** Names the storage node, which many users share. */
  readonly node: string
  /**
   * From here on calls finish or undo a started write: neither an open circuit, nor missing memory, nor a client that hangs up
   * stops them.
   */
  beginCommit(): void
  /**
   * Something may be visible: from here on only the upstream timeout bounds calls, and no longer the deadline of the client's
   * request.
   */
  outlastDeadline(): void
  limits(): Promise<StorageLimits>
  /** The named records and the collection's timestamp, read as one consistent whole. Any number of ids. */
  snapshot(collection: string, ids: string[]): Promise<Snapshot>
  /** Writes all records at once, or none (but see `rejected`). At most `maxPostRecords` and `maxPostBytes`. */
  write(collection: string, records: RecordWrite[], unmodifiedSince: Timestamp): Promise<CommitOutcome>
  /** Opens a staged batch with these records, or adds them to `batch`. Invisible until `commitStaged`. */
  stage(
    collection: string,
    records: RecordWrite[],
    unmodifiedSince: Timestamp,
    batch: string | null,
  ): Promise<StageOutcome>
  /** Makes a staged batch visible, all records with one timestamp. */
  commitStaged(collection: string, batch: string, unmodifiedSince: Timestamp): Promise<CommitOutcome>
  /** Deletes the named records and their rows, at once if `removesAtOnce`; unknown ids are no error. At least one id; any number. */
  remove(collection: string, ids: string[], unmodifiedSince: Timestamp): Promise<CommitOutcome>
  /** Whether one request can delete so many records of these ids. */
  removesAtOnce(ids: string[]): boolean
  /** Whether `remove` finds the row of a record of this id that has expired. */
  removesExpired(id: string): boolean
  /**
   * Which of these records, all invisible, somebody has written after that moment. The row of a deleted record keeps its expiry, so
   * that a new record in it is not seen until its ttl is written.
   */
  rewrittenSince(collection: string, ids: string[], since: Timestamp): Promise<string[]>
}

/** The upstream calls of one client request. */
export interface CallTally {
  upstreamCalls: number
  /** The time until the answers began, added up. */
  upstreamMs: number
  /** The status that was answered last; null: there was no answer. */
  upstreamStatus: number | null
}
