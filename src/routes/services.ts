import type { Identity } from '../domain/credentials.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { ExposedSettings } from '../protocol/exposed.ts'
import type { BodyBudget } from './body.ts'
import type { LoadShedder } from './load-shedding.ts'
import type { AnswerStreams } from './streams.ts'

/** What a request of a client hands on to the storage. */
export interface Caller {
  userAgent: string | null
  /** Its signal fires when the client hangs up; reads are given up then, writes are not. */
  client: { readonly signal: AbortSignal }
  /** Wall clock, ms since 1970, when the client is to be answered at the latest. */
  deadlineAtMs: number
  /** Goes along to the storage, and to the token server if it is asked. */
  requestId: string
  work: Work
}

/** What a request has cost besides our own time. */
export interface Work {
  upstreamCalls: number
  /** Until the answers began, added up. */
  upstreamMs: number
  /** What the storage answered last; null: nothing, or it was not asked. */
  upstreamStatus: number | null
  /** Whether its credentials were known without asking the token server for it; null: it needed none. */
  cached: boolean | null
}

/** One operation of a transaction, and whose storage it is for. */
export interface Step {
  storage: BulkStorage
  operation: Operation
}

/** What the parts that depend on this service say of themselves; see `__heartbeat__`. */
export interface Heartbeat {
  storage: boolean
  cache: boolean
  permission: boolean
}

/** What one answered request was, for logs and metrics: nothing secret, no ids. */
export interface RequestSummary {
  method: string
  /** The kind of resource, or null when the target named none. */
  route: string | null
  status: number
  /** Null unless it was answered with an error. */
  errno: number | null
  durationMs: number
  requestId: string
  work: Work
  /** Size of the body; null when it streams. */
  bytes(): number | null
  /** As it was sent, of any length. */
  userAgent(): string | null
}

/** What one request within a batch was. */
export interface SubRequestSummary {
  method: string
  status: number
  errno: number | null
}

/** Everything that the routes ask for; they know nothing of how it is done. */
export interface Services {
  settings: ExposedSettings
  /**
   * The storage of the user who asks. Rejects with `ServiceError` 401 when the token server refuses them, with
   * `UpstreamError` when it can't be used.
   */
  openStorage(identity: Identity, caller: Caller): BulkStorage | Promise<BulkStorage>
  /**
   * A name for the user that the token server knows by this identity; null when it knows none. Throws `ServiceError` 503
   * when too many ask at a time.
   */
  identify(identity: Identity, requestId: string): Promise<string | null>
  /** Carries out all steps, or none that could be seen: rejects when the storage broke. */
  transact(steps: Step[], deadlineAtMs: number): Promise<OperationOutcome[]>
  heartbeat(): Promise<Heartbeat>
  version: { name: string; version: string; commit: string; source: string }
  requestTimeoutMs: number
  /** Wall clock, ms since 1970. */
  now(): number
  /** On a clock in ms that never goes back. */
  monotonicNow(): number
  /** Names a request that came without a name; 16 hexadecimal digits. */
  createRequestId(): string
  /** Whether this process is about to end, so that clients should look for another connection. */
  isStopping(): boolean
  load: Pick<LoadShedder, 'isFull' | 'rejectsAll' | 'rejectionTurn' | 'acquire' | 'backoffSeconds'>
  bodies: Pick<BodyBudget, 'receive'>
  streams: Pick<AnswerStreams, 'acquire' | 'send'>
  observe(summary: RequestSummary): void
  /** A request was rejected because of the load, before it was looked at. */
  observeRejection(method: string): void
  /** A batch was carried out; its sub-requests are described if anybody wants to know. */
  observeBatch(size: number, describe: (index: number) => SubRequestSummary): void
  /** The metrics as text, and its type; null when they are switched off. */
  metrics: (() => Promise<{ text: string; type: string }>) | null
  /** A defect: something was thrown that nobody foresaw. */
  reportError(error: unknown): void
}
