/** Every request: begins its call, and checks what no router looks at. */
import type { Elysia } from 'elysia'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { errorReply, overload } from '../protocol/error-reply.ts'
import { readQuery, versionPrefix } from '../protocol/find.ts'
import { discardBody } from '../load/bodies.ts'
import type { IncomingBody } from '../load/bodies.ts'
import type { Reply } from '../protocol/reply.ts'
import type { RequestHeaders } from '../protocol/resource.ts'
import type { Settings } from '../settings/settings.ts'
import type { Call, Services } from './context.ts'

/** The app, whose routes all have a `call`. They are added to this one instance: plugins would add each three times. */
export type App = ReturnType<typeof withCalls>

/** Gives every route its `call`: what is known of the request. Checks it before anything else. */
export function withCalls(app: Elysia, services: Services) {
  return app.derive(({ request, headers }) => {
    const call = beginCall(request, services, headers)
    checkCall(call, services)
    return { call }
  })
}

/**
 * Begins to receive the body of a request, within what is left of the request's time. Called before anything is waited for.
 * Throws `ServiceError` 413 or 415.
 */
export function receiveBody(call: Call, services: Services): IncomingBody {
  return (call.body = services.bodies.receive(call.request, call.memory, call.deadlineAtMs))
}

/** Tells users apart before their credentials are checked: by the assertion. */
export function senderOf({ headers }: Pick<Call, 'headers'>): string {
  const { authorization = '' } = headers
  return authorization.slice(authorization.lastIndexOf(' ') + 1)
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

/**
 * Begins a request. It refuses nothing, so that every answer has a request id. `headers`: all of them, where the framework has
 * read them.
 */
export function beginCall(
  request: Request,
  services: Services,
  headers: RequestHeaders = request.headers.toJSON(),
): Call {
  const startedAtMs = services.now()
  const requestId = headers['x-request-id']
  return {
    request,
    method: request.method,
    ...splitUrl(request.url),
    headers,
    host: headers.host ?? null,
    startedAtMs,
    monotonicStartMs: services.monotonicNow(),
    deadlineAtMs: startedAtMs + services.settings.requestTimeoutSeconds * 1000,
    // Other characters could forge log lines, or headers of upstream calls.
    requestId: requestId && /^[\w.-]{1,64}$/.test(requestId) ? requestId : services.createRequestId(),
    origin: headers.origin ?? null,
    route: null,
    work: { upstreamCalls: 0, upstreamMs: 0, upstreamStatus: null, cached: null },
    notices: [],
    isLegacyBucket: false,
    body: null,
    memory: services.memory.open(senderOf({ headers })),
  }
}

/** Checks what a router does not: host, origin, framing, and whether the service has ended. Throws `ServiceError`. */
export function checkCall(call: Call, { settings }: Services): void {
  const { origin, method, path } = call
  checkHost(call.host, settings)
  if (origin !== null && (origin.length > longestOrigin || settings.corsOrigins?.has(origin) === false)) {
    throw invalidHeader('Origin', 'is not an allowed origin')
  }
  const hasEnded = settings.eos !== null && settings.eos.atMs <= call.startedAtMs
  if (hasEnded && method !== 'OPTIONS' && !heartbeatPath.test(path)) {
    throw new ServiceError(410, errno.serviceEnded, 'This service has ended')
  }
  // Clients must not send a fragment: servers that cut it off and servers that keep it would see two different ids.
  if (path.includes('#') || call.query.includes('#')) {
    throw invalidRequest([{ location: 'path', name: 'path', description: 'must not have a fragment' }])
  }
  if (call.query !== '') {
    // The framework leaves broken escapes as they are, so that one id could pass for another, and it bounds no number of
    // parameters.
    const problems: Problem[] = []
    readQuery(call.query, problems)
    if (problems.length > 0) throw invalidRequest(problems)
  }
  if (method === 'GET' || method === 'HEAD') checkFraming(call)
}

const longestOrigin = 1024
export const heartbeatPath = /^(?:\/v\d+)?\/__(?:lb)?heartbeat__$/

const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/** Refuses a Host that is missing, doubled or malformed. HTTP/1.0 may omit it where the settings name our host. */
export function checkHost(host: string | null, { httpHost }: Pick<Settings, 'httpHost'>): void {
  if ((host === null || host === '') && httpHost !== null) return
  const match = hostForm.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return
  throw invalidHeader('Host', 'must be one host name with an optional port', close)
}

/** Path and query of a request's URL, which is relative when the client sent no usable Host. */
function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const question = url.indexOf('?', start)
  if (question === -1) return { path: url.slice(start), query: '' }
  return { path: url.slice(start, question), query: url.slice(question) }
}

/** Clients in use send {} with GET, which counts as no body. */
const largestIgnoredBody = 1024

// Servers that disagree about where such a body ends take its rest for another request (request smuggling).
function checkFraming({ method, headers }: Call): void {
  const isChunked = headers['transfer-encoding'] !== undefined
  if (!isChunked && Number(headers['content-length'] ?? 0) <= largestIgnoredBody) return
  const name = isChunked ? 'Transfer-Encoding' : 'Content-Length'
  throw invalidHeader(name, `must be absent: ${method} has no body`, close)
}

const close = { Connection: 'close' }

function invalidHeader(name: string, description: string, headers?: Record<string, string>): ServiceError {
  return invalidRequest([{ location: 'header', name, description }], { headers })
}
