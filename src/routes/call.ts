/** The request of a route as a validated call, and the services that routes use. */
import type { Elysia } from 'elysia'
import type { Clock } from '../domain/clock.ts'
import type { Identity } from '../domain/credentials.ts'
import { errno, ServiceError } from '../domain/errors.ts'
import { invalid, invalidRequest, type Problem } from '../protocol/problems.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type { BulkStorage, CallTally, Notices } from '../domain/record-storage.ts'
import { discardBody, type Bodies, type IncomingBody } from '../load/bodies.ts'
import type { MemoryBudget, RequestMemory } from '../load/memory.ts'
import type { RequestLimit } from '../load/permits.ts'
import type { ResponseStreams } from '../load/streams.ts'
import { isAllowedOrigin } from '../protocol/origin.ts'
import { errorReply, overload, type Reply } from '../protocol/reply.ts'
import { readQuery, versionPrefix } from '../protocol/find.ts'
import type { Address, RequestHeaders } from '../protocol/resource.ts'
import type { Settings } from '../settings/settings.ts'
import type { Log } from '../observability/log.ts'

/** One request: what is known before routing, and its cost so far. */
export class Call implements Address {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly host: string | null
  readonly origin: string | null
  /** The user, once authenticated. */
  user: string | null = null
  /** The client's `X-Request-Id`, or a new one; passed on to the storage and the token server. */
  readonly requestId: string
  /** Wall clock, ms since 1970. */
  readonly startedAtMs: number
  /** The same time on a monotonic clock. */
  readonly monotonicStartMs: number
  /** The deadline of the response, on the monotonic clock. */
  readonly deadlineAtMs: number
  /** The resource of the route; null if nothing is at its path. */
  route: string | null = null
  /** The upstream cost so far. */
  readonly work: CallTally & { cached: boolean | null } = {
    upstreamCalls: 0,
    upstreamMs: 0,
    upstreamStatus: null,
    /** Whether the credentials were cached; null: it needed none. */
    cached: null,
  }
  /** The notices of upstream; every response repeats them, errors too. */
  readonly notices: Notices = { backoffSeconds: 0, alert: null, isShutDown: false, quotaRemaining: null }
  /** Whether several users share the URL of the bucket. */
  isLegacyBucket = false
  /** The body that is being received; null if the request needs none. */
  body: IncomingBody | null = null
  #memory: RequestMemory | null = null

  /**
   * Never fails, so that every response has a request id. The signal of `request` fires when the client disconnects, which aborts reads but
   * not writes. Headers are read at once, because each access to the runtime's headers costs half a microsecond.
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
    // Other characters could forge log lines or headers of upstream calls.
    this.requestId = requestId && /^[\w.-]{1,64}$/.test(requestId) ? requestId : services.createRequestId()
    this.startedAtMs = services.now()
    this.monotonicStartMs = services.monotonicNow()
    this.deadlineAtMs = this.monotonicStartMs + services.settings.requestTimeoutSeconds * 1000
  }

  /** The owner of its memory. Unauthenticated requests have a prefix, because their credentials could be a user's name. */
  get owner(): string {
    return this.user ?? `unauthenticated ${this.headers.authorization ?? ''}`
  }

  /** The memory of the request: its body, and a long response until it is sent. Most requests need none. */
  get memory(): RequestMemory {
    return (this.#memory ??= this.services.memory.open(this.owner))
  }

  releaseMemory(): void {
    this.#memory?.release()
  }
}

/** Splits a request's URL into path and query. The URL is relative if the client sent no usable Host. */
function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const question = url.indexOf('?', start)
  if (question === -1) return { path: url.slice(start), query: '' }
  return { path: url.slice(start, question), query: url.slice(question) }
}

/** The services that routes use. */
export interface Services extends Clock {
  settings: Settings
  /**
   * Opens the storage of a user, which adds its notices to the call; at once if the credentials are known. Rejects with `ServiceError` 401
   * if the token server rejects the identity, with `UpstreamError` if the token server can't be used.
   */
  openStorage(identity: Identity, call: Call): BulkStorage | Promise<BulkStorage>
  /**
   * The token server's id of this identity's user; null if unknown, or not known by the call's deadline. Throws `ServiceError` 503 if too many
   * such calls are in flight.
   */
  identify(identity: Identity, call: Call): Promise<string | null>
  /**
   * Runs all steps as one transaction. Rejects if the storage failed; then none has a visible effect, nor if `accepts` rejects the outcomes.
   */
  transact(
    steps: Step[],
    call: Call,
    accepts?: (outcomes: OperationOutcome[]) => boolean,
  ): Promise<OperationOutcome[]>
  /** The health of upstream services. */
  heartbeat(): Promise<{ storage: boolean; cache: boolean; permission: boolean }>
  version: { name: string; version: string; commit: string; source: string }
  /** Creates an id for a request without one: 16 hexadecimal digits. */
  createRequestId(): string
  /** Whether this process is stopping, so that clients should close their connections. */
  isStopping: boolean
  load: Pick<RequestLimit, 'isFull' | 'reject' | 'acquire' | 'backoffSeconds'>
  memory: Pick<MemoryBudget, 'open'>
  bodies: Pick<Bodies, 'receive'>
  streams: Pick<ResponseStreams, 'send'>
  /** Replies with the metrics; null if disabled. */
  metrics: (() => Promise<Reply>) | null
  /** For events that no metric counts; `observers` has the others. Neither gets secrets or ids of records. */
  log: Log
  observers: {
    /** A request was answered. */
    request(call: Call, reply: Reply, durationMs: number): void
    /** A list broke off after `bytes` were sent. */
    listBroken(call: Call, bytes: number, cause: unknown): void
    /** A batch of so many sub-requests was executed. */
    batch(requests: number): void
    /** A request failed because something was thrown. */
    error(thrown: unknown): void
  }
}

/** The app, whose routes all have a `call`. Routes are added to this instance, because a plugin would add each three times. */
export type App = ReturnType<typeof withCalls>

/** Gives every route its `call`, checked before anything else. */
export function withCalls(app: Elysia, services: Services) {
  return app.derive(({ request, headers }) => {
    const call = new Call(request, services, headers)
    checkCall(call)
    return { call }
  })
}

/** Starts to receive the body of a request, within its deadline. Call it before the first await. Throws `ServiceError` 413 or 415. */
export function receiveBody(call: Call): IncomingBody {
  return (call.body = call.services.bodies.receive(call.request, call.memory, call.deadlineAtMs))
}

/**
 * Rejects a request if the limits are reached, before the framework sees it and without reading it, so that a rejection is cheap. Null: the
 * request proceeds. Only for requests for user data.
 */
export function rejectUnderLoad(request: Request, services: Services): Reply | null {
  const { load, settings } = services
  if (!load.isFull || request.method === 'OPTIONS') return null
  const { path } = splitUrl(request.url)
  const prefix = versionPrefix(settings)
  if (!path.startsWith(`${prefix}/buckets/`) && path !== `${prefix}/batch`) return null
  load.reject()
  discardBody(request)
  return errorReply(overload, settings)
}

/** Checks what a router does not: host, origin, framing, and end of service. Throws `ServiceError`. */
export function checkCall(call: Call): void {
  const { origin, method, path, services } = call
  const { settings } = services
  checkHost(call.host, settings)
  if (origin !== null && (origin.length > maxOriginLength || !isAllowedOrigin(origin, settings))) {
    throw invalid('header', 'Origin', 'is not allowed by service.cors_origins')
  }
  const hasEnded = settings.eos !== null && settings.eos.atMs <= call.startedAtMs
  if (hasEnded && method !== 'OPTIONS' && !heartbeatPath.test(path)) {
    throw new ServiceError(410, errno.serviceEnded, 'This service has been shut down')
  }
  // Rejects fragments: servers that remove them and servers that keep them would see different ids.
  if (path.includes('#') || call.query.includes('#')) {
    throw invalid('path', 'path', 'must not contain a fragment (#)')
  }
  if (call.query !== '') {
    // The framework ignores invalid escapes, so that one id could pass for another, and does not limit the parameters.
    const problems: Problem[] = []
    readQuery(call.query, problems)
    if (problems.length > 0) throw invalidRequest(problems)
  }
  // The runtime accepts equal lengths and joins them; as a number, that is no bound.
  const length = call.headers['content-length'] ?? '0'
  if (length.includes(',')) throw invalid('header', 'Content-Length', 'must be sent once', closing)
  if (method !== 'GET' && method !== 'HEAD') return
  // Prevents request smuggling: proxies may disagree about where such a body ends.
  const isChunked = call.headers['transfer-encoding'] !== undefined
  if (isChunked || Number(length) > maxIgnoredBodyBytes) {
    const name = isChunked ? 'Transfer-Encoding' : 'Content-Length'
    throw invalid('header', name, `must be absent: ${method} must not have a body`, closing)
  }
}

const maxOriginLength = 1024
// Allows the {} that some clients send with GET.
const maxIgnoredBodyBytes = 1024
export const heartbeatPath = /^(?:\/v\d+)?\/__(?:lb)?heartbeat__$/

const hostPattern = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/** Rejects a Host that is missing, repeated or malformed. HTTP/1.0 may omit it if `http_host` is set. */
export function checkHost(host: string | null, { httpHost }: Pick<Settings, 'httpHost'>): void {
  if ((host === null || host === '') && httpHost !== null) return
  const match = hostPattern.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return
  throw invalid('header', 'Host', 'must be one host name, with an optional port', closing)
}

const closing = { headers: { Connection: 'close' } }
