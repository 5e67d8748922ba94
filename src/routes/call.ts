/** What every route has at hand: its request as a call, checked, and the services that it is answered with. */
import type { Elysia } from 'elysia'
import type { Identity } from '../domain/credentials.ts'
import { errno, invalid, invalidRequest, ServiceError, type Problem } from '../domain/errors.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type { BulkStorage, CallTally, Notices } from '../domain/record-storage.ts'
import { discardBody, type Bodies, type IncomingBody } from '../load/bodies.ts'
import type { MemoryBudget, RequestMemory } from '../load/memory.ts'
import type { RequestLimit } from '../load/permits.ts'
import type { AnswerStreams } from '../load/streams.ts'
import { errorReply, overload, type Reply } from '../protocol/reply.ts'
import { readQuery, versionPrefix } from '../protocol/find.ts'
import type { Address, RequestHeaders } from '../protocol/resource.ts'
import type { Settings } from '../settings/settings.ts'

/** One request: what is known of it before it is routed, and what it has cost so far. */
export class Call implements Address {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly host: string | null
  readonly origin: string | null
  /** The user, once the credentials are checked. */
  user: string | null = null
  /** The client's own `X-Request-Id`, or else one of ours; the storage and the token server get it too. */
  readonly requestId: string
  /** Wall clock, ms since 1970. */
  readonly startedAtMs: number
  /** The same moment on a clock that never goes back. */
  readonly monotonicStartMs: number
  /** When the client must be answered, on the clock that never goes back. */
  readonly deadlineAtMs: number
  /** The resource that it was routed to; null where nothing is at its path. */
  route: string | null = null
  /** The upstream cost, added up while the request is carried out. */
  readonly work: CallTally & { cached: boolean | null } = {
    upstreamCalls: 0,
    upstreamMs: 0,
    upstreamStatus: null,
    /** Whether its credentials were known without a call to the token server; null: it needed none. */
    cached: null,
  }
  /** Those of each storage that was opened; every answer repeats them, errors too. */
  readonly notices: Notices[] = []
  /** Whether several users share the URL of the bucket. */
  isLegacyBucket = false
  /** The body that is being received; null for a request that needs none. */
  body: IncomingBody | null = null
  #memory: RequestMemory | null = null

  /**
   * Refuses nothing, so that every answer has a request id. The signal of `request` fires when the client hangs up; reads are then
   * given up, writes are not. Headers are read at once: each single look into those of the runtime costs as much as half a microsecond.
   */
  constructor(
    readonly request: Request,
    readonly services: Services,
    readonly headers: RequestHeaders = request.headers.toJSON(),
  ) {
    const { 'x-request-id': requestId } = headers
    const { path, query } = splitUrl(request.url)
    this.method = request.method
    this.path = path
    this.query = query
    this.host = headers.host ?? null
    this.origin = headers.origin ?? null
    // Other characters could forge log lines, or headers of upstream calls.
    this.requestId = requestId && /^[\w.-]{1,64}$/.test(requestId) ? requestId : services.createRequestId()
    this.startedAtMs = services.now()
    this.monotonicStartMs = services.monotonicNow()
    this.deadlineAtMs = this.monotonicStartMs + services.settings.requestTimeoutSeconds * 1000
  }

  /** For whom memory is held. An unauthenticated request is never that of a user, because its credentials may spell a user's name. */
  get owner(): string {
    return this.user ?? `unauthenticated ${this.headers.authorization ?? ''}`
  }

  /** What the request holds in memory: its body, and long answers until they are sent. Most requests hold nothing. */
  get memory(): RequestMemory {
    return (this.#memory ??= this.services.memory.open(this.owner))
  }

  releaseMemory(): void {
    this.#memory?.release()
  }
}

/** Path and query of a request's URL, which is relative when the client sent no usable Host. */
function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const question = url.indexOf('?', start)
  if (question === -1) return { path: url.slice(start), query: '' }
  return { path: url.slice(start, question), query: url.slice(question) }
}

/** Everything that the routes use; they do not know how it is done. */
export interface Services {
  settings: Settings
  /**
   * Opens the storage of a user, whose notices are the call's from then on. Rejects with `ServiceError` 401 when the token
   * server refuses the identity, with `UpstreamError` when the token server can't be used.
   */
  openStorage(identity: Identity, call: Call): Promise<BulkStorage>
  /**
   * The name by which the token server knows this identity's user; null when it knows none. Throws `ServiceError` 503
   * when too many such questions are in flight.
   */
  identify(identity: Identity, requestId: string): Promise<string | null>
  /** Carries out all steps, or none with a visible effect: rejects when the storage broke. */
  transact(steps: Step[], call: Call): Promise<OperationOutcome[]>
  /** The health of the services behind this one. */
  heartbeat(): Promise<{ storage: boolean; cache: boolean; permission: boolean }>
  version: { name: string; version: string; commit: string; source: string }
  /** Wall clock, ms since 1970. */
  now(): number
  /** On a clock in ms that never goes back. */
  monotonicNow(): number
  /** Makes the id of a request that came without one; 16 hexadecimal digits. */
  createRequestId(): string
  /** Whether this process is about to end, so that clients should open other connections. */
  isStopping: boolean
  load: Pick<RequestLimit, 'isFull' | 'refuse' | 'acquire' | 'backoffSeconds'>
  memory: Pick<MemoryBudget, 'open'>
  bodies: Pick<Bodies, 'receive'>
  streams: Pick<AnswerStreams, 'send'>
  /** Answers with the metrics; null when they are switched off. */
  metrics: (() => Promise<Reply>) | null
  /** Told what happens, for logs and metrics, which tell no secrets and no ids. */
  observers: {
    /** A request was answered. */
    request(call: Call, reply: Reply, durationMs: number): void
    /** A list has broken off after so many bytes were sent. */
    listBroken(call: Call, bytes: number, cause: unknown): void
    /** A batch was carried out, and this was answered to each of its sub-requests. */
    batch(requests: readonly { method: string }[], replies: readonly Reply[]): void
    /** A request failed because something was thrown. */
    error(thrown: unknown): void
  }
}

/** The app, whose routes all have a `call`. They are added to this one instance: plugins would add each three times. */
export type App = ReturnType<typeof withCalls>

/** Gives every route its `call`: what is known of the request. Checks it before anything else. */
export function withCalls(app: Elysia, services: Services) {
  return app.derive(({ request, headers }) => {
    const call = new Call(request, services, headers)
    checkCall(call)
    return { call }
  })
}

/**
 * Begins to receive the body of a request, within what is left of the request's time. Called before anything is waited for.
 * Throws `ServiceError` 413 or 415.
 */
export function receiveBody(call: Call): IncomingBody {
  return (call.body = call.services.bodies.receive(call.request, call.memory, call.deadlineAtMs))
}

/**
 * Rejects a request that exceeds the limits, before the framework has seen it and without reading more of it than needed:
 * a rejection must cost a fraction of an answer. Null: the request proceeds. Only requests for users' data are rejected.
 */
export function shedLoad(request: Request, services: Services): Reply | null {
  const { load, settings } = services
  if (!load.isFull || request.method === 'OPTIONS') return null
  const { path } = splitUrl(request.url)
  const prefix = versionPrefix(settings)
  if (!path.startsWith(`${prefix}/buckets/`) && path !== `${prefix}/batch`) return null
  load.refuse()
  discardBody(request)
  return errorReply(overload, settings)
}

/** Checks what a router does not: host, origin, framing, and whether the service has ended. Throws `ServiceError`. */
export function checkCall(call: Call): void {
  const { origin, method, path, services } = call
  const { settings } = services
  checkHost(call.host, settings)
  if (origin !== null && (origin.length > maxOriginLength || settings.corsOrigins?.has(origin) === false)) {
    throw invalid('header', 'Origin', 'is not an allowed origin')
  }
  const hasEnded = settings.eos !== null && settings.eos.atMs <= call.startedAtMs
  if (hasEnded && method !== 'OPTIONS' && !heartbeatPath.test(path)) {
    throw new ServiceError(410, errno.serviceEnded, 'This service has ended')
  }
  // Clients must not send a fragment: servers that cut it off and servers that keep it would see two different ids.
  if (path.includes('#') || call.query.includes('#')) {
    throw invalid('path', 'path', 'must not have a fragment')
  }
  if (call.query !== '') {
    // The framework leaves broken escapes as they are, so that one id could pass for another, and it bounds no number of
    // parameters.
    const problems: Problem[] = []
    readQuery(call.query, problems)
    if (problems.length > 0) throw invalidRequest(problems)
  }
  if (method !== 'GET' && method !== 'HEAD') return
  // Servers that disagree about where such a body ends take its rest for another request (request smuggling).
  const isChunked = call.headers['transfer-encoding'] !== undefined
  if (isChunked || Number(call.headers['content-length'] ?? 0) > maxIgnoredBodyBytes) {
    const name = isChunked ? 'Transfer-Encoding' : 'Content-Length'
    throw invalid('header', name, `must be absent: ${method} has no body`, closing)
  }
}

const maxOriginLength = 1024
// Clients in use send {} with GET, which counts as no body.
const maxIgnoredBodyBytes = 1024
export const heartbeatPath = /^(?:\/v\d+)?\/__(?:lb)?heartbeat__$/

const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/** Refuses a Host that is missing, doubled or malformed. HTTP/1.0 may omit it where the settings name our host. */
export function checkHost(host: string | null, { httpHost }: Pick<Settings, 'httpHost'>): void {
  if ((host === null || host === '') && httpHost !== null) return
  const match = hostForm.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return
  throw invalid('header', 'Host', 'must be one host name with an optional port', closing)
}

const closing = { headers: { Connection: 'close' } }
