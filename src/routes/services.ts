import type { Identity } from '../domain/credentials.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { ExposedSettings } from '../protocol/reply.ts'
import type { BodyBudget } from './body.ts'
import type { LoadShedder } from './load-shedding.ts'
import type { AnswerStreams } from './streams.ts'

/** A client's request, as far as the storage needs to know it. */
export interface Caller {
  userAgent: string | null
  /** Its signal fires when the client hangs up; reads are then given up, writes are not. */
  client: { readonly signal: AbortSignal }
  /** Wall clock, ms since 1970, when the client must be answered. */
  deadlineAtMs: number
  /** The request id, which the storage and the token server get too. */
  requestId: string
  work: Work
}

/** The upstream cost of a request. */
export interface Work {
  upstreamCalls: number
  /** The time until the answers began, added up. */
  upstreamMs: number
  /** The status that the storage answered last; null: it was not asked or did not answer. */
  upstreamStatus: number | null
  /** Whether its credentials were known without a call to the token server; null: it needed none. */
  cached: boolean | null
}

/** One operation of a transaction, and whose storage it is for. */
export interface Step {
  storage: BulkStorage
  operation: Operation
}

/** The health of the services behind this one; see `__heartbeat__`. */
export interface Heartbeat {
  storage: boolean
  cache: boolean
  permission: boolean
}

/** One answered request for logs and metrics: no secrets, no ids. */
export interface RequestSummary {
  method: string
  /** The kind of resource; null for an unknown path. */
  route: string | null
  status: number
  /** Null unless it was answered with an error. */
  errno: number | null
  durationMs: number
  requestId: string
  work: Work
  /** Size of the body; null when it streams. */
  bytes(): number | null
  /** As it was sent, whatever its length. */
  userAgent: string | null
}

/** One request within a batch. */
export interface SubRequestSummary {
  method: string
  status: number
  errno: number | null
}

/** Everything that the routes use; they do not know how it is done. */
export interface Services {
  settings: ExposedSettings
  /**
   * Opens the storage of a user. Rejects with `ServiceError` 401 when the token server refuses the identity, with
   * `UpstreamError` when the token server can't be used.
   */
  openStorage(identity: Identity, caller: Caller): BulkStorage | Promise<BulkStorage>
  /**
   * The name by which the token server knows this identity's user; null when it knows none. Throws `ServiceError` 503
   * when too many such questions are in flight.
   */
  identify(identity: Identity, requestId: string): Promise<string | null>
  /** Carries out all steps, or none with a visible effect: rejects when the storage broke. */
  transact(steps: Step[], deadlineAtMs: number): Promise<OperationOutcome[]>
  heartbeat(): Promise<Heartbeat>
  version: { name: string; version: string; commit: string; source: string }
  requestTimeoutMs: number
  /** Wall clock, ms since 1970. */
  now(): number
  /** On a clock in ms that never goes back. */
  monotonicNow(): number
  /** Makes the id of a request that came without one; 16 hexadecimal digits. */
  createRequestId(): string
  /** Whether this process is about to end, so that clients should open other connections. */
  isStopping(): boolean
  load: Pick<LoadShedder, 'isFull' | 'rejectsAll' | 'rejectionTurn' | 'acquire' | 'backoffSeconds'>
  bodies: Pick<BodyBudget, 'receive'>
  streams: Pick<AnswerStreams, 'acquire' | 'send'>
  observe(summary: RequestSummary): void
  /** A request was rejected because of the load, before it was read. */
  observeRejection(method: string): void
  /** A batch was carried out; its sub-requests are described only if the log wants them. */
  observeBatch(size: number, describe: (index: number) => SubRequestSummary): void
  /** The metrics as text, and its type; null when they are switched off. */
  metrics: (() => Promise<{ text: string; type: string }>) | null
  /** An error that was not foreseen: a defect, or an upstream failure. */
  reportError(error: unknown): void
}
