import type { ServiceError } from './errors.ts'
import type { GetOutcome, Precondition, RecordInput, SyncRecord, Timestamp, UnmetRead } from './record.ts'
import type {
  BulkStorage,
  CollectionTimestamps,
  ListFilter,
  ListOptions,
  ListOutcome,
  RecordCount,
} from './record-storage.ts'

/** One question or write of a client, alone or as a part of a transaction. */
export type Operation =
  | { kind: 'list'; collection: string; options: ListOptions; precondition: Precondition }
  /** Counts the records that a list with this filter would hold. */
  | { kind: 'count'; collection: string; filter: ListFilter; precondition: Precondition }
  | { kind: 'get'; collection: string; id: string; precondition: Precondition }
  | { kind: 'put'; collection: string; id: string; input: RecordInput; precondition: Precondition }
  | { kind: 'delete'; collection: string; id: string; precondition: Precondition }
  /** When each collection changed last. A precondition is judged when the outcome is answered. */
  | { kind: 'timestamps' }

/** One operation of a transaction, and whose storage it is for. */
export interface Step {
  storage: BulkStorage
  operation: Operation
}

/** Why the storage refused a record. */
export type Rejection = 'invalid' | 'too-large'

/** This operation got an error answer of its own; the others of its transaction stand. */
export interface FailedOutcome {
  outcome: 'failed'
  error: ServiceError
}

export interface OutcomeOf {
  /** `too-large`: the list does not fit into the answer of a transaction. */
  list: ListOutcome | { outcome: 'too-large' }
  count: ({ outcome: 'counted' } & RecordCount) | UnmetRead
  get: GetOutcome
  /** `stored`: as it is stored now; fields that the client left out kept their value. */
  put:
    | { outcome: 'stored'; record: SyncRecord }
    | { outcome: 'precondition-failed'; existing: SyncRecord | null }
    | { outcome: 'rejected'; reason: Rejection }
  delete:
    | { outcome: 'deleted'; id: string; timestamp: Timestamp }
    | { outcome: 'precondition-failed'; existing: SyncRecord }
    | { outcome: 'missing' }
  timestamps: { outcome: 'found' } & CollectionTimestamps
}

export type OperationOutcome = OutcomeOf[Operation['kind']] | FailedOutcome
