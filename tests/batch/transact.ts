import { Locks } from '../../src/domain/bounded.ts'
import { runTransaction } from '../../src/batch/transaction.ts'
import { limits } from '../../src/load/limits.ts'
import type { TransactionEvent, TransactionOptions } from '../../src/batch/context.ts'
import type { Operation, OperationOutcome, Step } from '../../src/domain/operation.ts'
import type { RecordInput } from '../../src/domain/record.ts'
import type { Timestamp } from '../../src/domain/timestamp.ts'
import { noPrecondition, type Precondition } from '../../src/domain/precondition.ts'
import type { BulkStorage, ListOptions } from '../../src/domain/record-storage.ts'
import type { ModelClock } from '../support/model-storage.ts'

/** Deleted to create rows and to keep late writes out. */
export const absentId = 'x'.repeat(64)

/** The result of a transaction. */
export interface Result {
  outcomes: OperationOutcome[]
  /** The error it rejected with, or null. */
  failure: unknown
  events: TransactionEvent[]
}

/** Accepts outcomes only if none is an error. */
export function strictly(outcomes: OperationOutcome[]): boolean {
  const errors = ['failed', 'precondition-failed', 'missing']
  return outcomes.every(({ outcome }) => !errors.includes(outcome))
}

/** Runs operations on one user's storage, with five seconds on the model's clock. */
export async function transact(
  storage: BulkStorage & { clock: ModelClock },
  operations: Step['operation'][],
  options: Partial<TransactionOptions> = {},
): Promise<Result> {
  return await transactSteps(
    operations.map((operation) => ({ storage, operation })),
    storage.clock,
    options,
  )
}

export async function transactSteps(
  steps: Step[],
  clock: ModelClock,
  options: Partial<TransactionOptions> = {},
): Promise<Result> {
  const events: TransactionEvent[] = []
  const all: TransactionOptions = {
    memory: { grow() {}, shrink() {} },
    maxResponseBytes: limits.batchResponseBytes,
    deadlineAtMs: clock.now() + 5000,
    commitReserveMs: 1000,
    now: clock.now,
    delay: clock.delay,
    random: () => 0.5,
    locks: new Locks(),
    absentId,
    observe: (event) => events.push(event),
    ...options,
  }
  try {
    return { outcomes: await runTransaction(steps, all), failure: null, events }
  } catch (failure) {
    return { outcomes: [], failure, events }
  }
}

export function put(
  collection: string,
  id: string,
  input: RecordInput,
  precondition: Precondition = noPrecondition,
): Extract<Operation, { kind: 'put' }> {
  return { kind: 'put', collection, id, input, precondition }
}

export function remove(
  collection: string,
  id: string,
  precondition: Precondition = noPrecondition,
): Extract<Operation, { kind: 'delete' }> {
  return { kind: 'delete', collection, id, precondition }
}

export function get(
  collection: string,
  id: string,
  precondition: Precondition = noPrecondition,
): Extract<Operation, { kind: 'get' }> {
  return { kind: 'get', collection, id, precondition }
}

/** Reads the timestamps of all collections. */
export const timestamps: Extract<Operation, { kind: 'timestamps' }> = {
  kind: 'timestamps',
  precondition: noPrecondition,
}

export function list(
  collection: string,
  options: Partial<ListOptions> = {},
  precondition: Precondition = noPrecondition,
): Extract<Operation, { kind: 'list' }> {
  return { kind: 'list', collection, options: { sort: 'newest', ...options }, precondition }
}

export const ifMatch = (timestamp: Timestamp | number): Precondition => ({
  kind: 'unmodified-since',
  timestamp: timestamp as Timestamp,
})

export const onlyIfAbsent: Precondition = { kind: 'absent' }
export const onlyIfExists: Precondition = { kind: 'exists' }

/** The records of a list's outcome, parsed. */
export function recordsOf(
  outcome: OperationOutcome | undefined,
): { id: string; last_modified: number; payload: string; sortindex?: number }[] {
  if (outcome?.outcome !== 'page' || !(outcome.page.document instanceof Uint8Array)) {
    throw new TypeError(`No page in memory, but ${outcome?.outcome}`)
  }
  return JSON.parse(new TextDecoder().decode(outcome.page.document)).data
}
