import type { ServiceError } from './errors.ts'
import type { RecordInput, SyncRecord } from './record.ts'
import type { Timestamp } from './timestamp.ts'
import type { GetOutcome, Precondition, UnmetPrecondition } from './precondition.ts'
import type {
  BulkStorage,
  CollectionTimestamps,
  ListFilter,
  ListOptions,
  ListOutcome,
  PagePosition,
  RecordCount,
} from './record-storage.ts'

/** One read or write of a client, alone or as part of a transaction. */
export type Operation =
  | { kind: 'list'; collection: string; options: ListOptions; precondition: Precondition }
  /** Counts the records that match the filter. */
  | { kind: 'count'; collection: string; filter: ListFilter; precondition: Precondition }
  | { kind: 'get'; collection: string; id: string; precondition: Precondition }
  | { kind: 'put'; collection: string; id: string; input: RecordInput; precondition: Precondition }
  | { kind: 'delete'; collection: string; id: string; precondition: Precondition }
  /** The timestamp of each collection. The reply evaluates the precondition, on all of them or on `of`: one, or the next page of its list. */
  | { kind: 'timestamps'; of?: { collection: string; position?: PagePosition }; precondition: Precondition }

/** One operation of a transaction, with the storage that it is for. */
export interface Step {
  storage: BulkStorage
  operation: Operation
}

/** This operation failed on its own; the others of its transaction stand. */
export interface FailedOutcome {
  outcome: 'failed'
  error: ServiceError
}

export interface OutcomeOf {
  list: ListOutcome
  count: ({ outcome: 'counted' } & RecordCount) | UnmetPrecondition
  get: GetOutcome
  /** `stored`: the stored record; fields that the client left out keep their value. */
  put:
    | { outcome: 'stored'; record: SyncRecord }
    | { outcome: 'precondition-failed'; existing: SyncRecord | null }
  delete:
    | { outcome: 'deleted'; id: string; timestamp: Timestamp }
    | { outcome: 'precondition-failed'; existing: SyncRecord }
    | { outcome: 'missing' }
  timestamps: { outcome: 'found' } & CollectionTimestamps
}

export type OperationOutcome = OutcomeOf[Operation['kind']] | FailedOutcome
