import type { Elysia } from 'elysia'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { decodeSegment } from '../protocol/record-resources.ts'
import {
  checkHost,
  checkOrigin,
  emptyReply,
  preflightReply,
  publicOrigin,
  versionPrefix,
} from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import {
  findResources,
  isBucketResource,
  methodNotAllowed,
  readQuery,
  resourceFor,
} from '../protocol/resources.ts'
import { errorReply, overload } from '../protocol/error-reply.ts'
import { readIdentity } from '../protocol/identity.ts'
import { withoutTrailingSlashes } from '../protocol/subrequest.ts'
import { discardBody } from './body.ts'
import type { IncomingBody } from './body.ts'
import type { Call, RequestHeaders, Services } from './context.ts'

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
  return (call.body = services.bodies.receive(call.request, senderOf(call), call.deadlineAtMs))
}

/** Tells users apart before their credentials are checked: by the assertion. */
export function senderOf({ headers }: Call): string {
  const { authorization = '' } = headers
  return authorization.slice(authorization.lastIndexOf(' ') + 1)
}

/**
 * Rejects a request that exceeds the limits, before the framework has seen it and without reading more of it than needed:
 * a rejection must cost a fraction of an answer. Null: the request proceeds. Only requests for users' data are rejected.
 */
export function shedLoad(request: Request, services: Services): Reply | Promise<Reply> | null {
  const { load, settings } = services
  if (!load.isFull || !isForData(request, services)) return null
  services.observeRejection(request.method)
  const turn = load.reject()
  if (turn === null) return errorReply(overload, settings)
  discardBody(request)
  return turn.then(() => errorReply(overload, settings))
}

function isForData({ method, url }: Request, { settings }: Services): boolean {
  if (method === 'OPTIONS') return false
  const { path } = splitUrl(url)
  const start = `${versionPrefix(settings)}/`
  return path.startsWith(`${start}buckets/`) || path === `${start}batch`
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
  const { path, query } = splitUrl(request.url)
  const startedAtMs = services.now()
  return {
    request,
    method: request.method,
    path,
    query,
    headers,
    host: headers.host ?? null,
    startedAtMs,
    monotonicStartMs: services.monotonicNow(),
    deadlineAtMs: startedAtMs + services.requestTimeoutMs,
    requestId: readRequestId(headers['x-request-id']) ?? services.createRequestId(),
    origin: headers.origin ?? null,
    route: null,
    work: { upstreamCalls: 0, upstreamMs: 0, upstreamStatus: null, cached: null },
    notices: null,
    isLegacyBucket: false,
    body: null,
  }
}

// Other characters could forge log lines, or headers of upstream calls.
function readRequestId(given: string | undefined): string | null {
  return given !== undefined && /^[\w.-]{1,64}$/.test(given) ? given : null
}

/** Checks what a router does not: host, origin, framing, and whether the service has ended. Throws `ServiceError`. */
function checkCall(call: Call, { settings }: Services): void {
  checkHost(call.host, settings)
  checkOrigin(call.origin, settings)
  if (settings.eos !== null && call.method !== 'OPTIONS') refuseAfterEnd(call, settings.eos.atMs)
  // Clients must not send a fragment: servers that cut it off and servers that keep it would see two different ids.
  if (call.path.includes('#') || call.query.includes('#')) {
    throw invalidRequest([{ location: 'path', name: 'path', description: 'must not have a fragment' }])
  }
  if (call.query.length > usualQueryLength || decodeSegment(call.query) === null) readStrictly(call.query)
  if (call.method === 'GET' || call.method === 'HEAD') checkFraming(call)
}

/** Path and query of a request's URL, which is relative when the client sent no usable Host. */
function splitUrl(url: string): { path: string; query: string } {
  const start = url.startsWith('/') ? 0 : url.indexOf('/', url.indexOf('://') + 3)
  const question = url.indexOf('?', start)
  if (question === -1) return { path: url.slice(start), query: '' }
  return { path: url.slice(start, question), query: url.slice(question) }
}

const heartbeatPath = /^(?:\/v\d+)?\/__(?:lb)?heartbeat__$/

function refuseAfterEnd(call: Call, endMs: number): void {
  if (endMs > call.startedAtMs || heartbeatPath.test(call.path)) return
  throw new ServiceError(410, errno.serviceEnded, 'This service has ended')
}

const usualQueryLength = 200

// The framework leaves broken escapes as they are, so that one id could pass for another, and it bounds no number of
// parameters.
function readStrictly(query: string): void {
  const problems: Problem[] = []
  readQuery(query, problems)
  if (problems.length > 0) throw invalidRequest(problems)
}

/** Clients in use send {} with GET, which counts as no body. */
const largestIgnoredBody = 1024

// Servers that disagree about where such a body ends take its rest for another request (request smuggling).
function checkFraming({ method, headers }: Call): void {
  const isChunked = headers['transfer-encoding'] !== undefined
  if (!isChunked && Number(headers['content-length'] ?? 0) <= largestIgnoredBody) return
  const name = isChunked ? 'Transfer-Encoding' : 'Content-Length'
  const description = `must be absent: ${method} has no body`
  throw invalidRequest([{ location: 'header', name, description }], { headers: { Connection: 'close' } })
}

/**
 * Answers a request that no route matched: preflights, redirects, and what is refused. Throws `ServiceError` 404 or 405.
 */
export function answerUnrouted(call: Call, services: Services): Reply {
  const { settings } = services
  checkCall(call, services)
  const { method, path } = call
  if (method === 'OPTIONS') {
    return preflightReply(call.headers['access-control-request-headers'] ?? null, settings)
  }
  if (unsafePath.test(path)) throw unknownPath()
  const prefix = versionPrefix(settings)
  if (path === '/swagger' || path === `${prefix}/swagger`) return redirect(call, `${prefix}/docs`, settings)
  const version = versionForm.exec(path)
  if (!version) {
    if (heartbeatPath.test(path)) throw refusedMethod(method, path, services)
    return redirect(call, prefix + path, settings)
  }
  if (version[0] !== prefix) {
    throw unknownVersion()
  }
  if (path.endsWith('/') && path !== `${prefix}/`)
    return redirect(call, withoutTrailingSlashes(path), settings)
  throw refusedMethod(method, path.slice(prefix.length) || '/', services)
}

const versionForm = /^\/v\d+(?=\/|$)/

// Double slashes, backslashes, and escaped slashes, backslashes and control characters. A redirect must not repeat them,
// because clients could read them as another origin.
const unsafePath = /\/\/|\\|%(?:2f|5c|[01][0-9a-f]|7f)/i

/** What a method that is not answered at a path is refused with: 405 where others are, otherwise 404. */
export function refusedMethod(method: string, path: string, { settings, metrics }: Services): ServiceError {
  const found = findResources(path)
  const isThere = found?.resources.some(({ name }) => isServed(name, settings, metrics !== null))
  return isThere ? methodNotAllowed(method, found!, settings) : unknownPath()
}

/** Whether these settings serve a resource. */
export function isServed(
  name: string,
  { docsEnabled, explorerEnabled }: Services['settings'],
  hasMetrics: boolean,
): boolean {
  if (name === 'metrics') return hasMetrics
  return name === 'docs' ? docsEnabled : name !== 'explore' || explorerEnabled
}

function redirect(call: Call, path: string, settings: Services['settings']): Reply {
  return emptyReply(307, { Location: publicOrigin(call.host, settings) + path + call.query })
}

/**
 * Refuses a request whose path, query or headers its schemas do not accept, with all problems at once, where the
 * framework reports those of one place. Throws `ServiceError` 400, or 401 where the path is right and the credentials are
 * missing.
 */
export function refuseInvalid(call: Call, { settings }: Services): Reply {
  const found = findResources(belowVersion(call, settings))
  const resource = found && resourceFor(call.method, found)
  if (!resource) throw unknownPath()
  const { params } = found
  // The rest of a record's path may be empty; then the list's path has a slash too many.
  if (params['*'] === '') return redirect(call, withoutTrailingSlashes(call.path), settings)
  const headers = { ...call.headers }
  const problems: Problem[] = []
  const query = readQuery(call.query, problems)
  problems.push(...resource.check({ params, query, headers }))
  if (isBucketResource(resource)) {
    if (!problems.some(({ location }) => location === 'path')) {
      readIdentity(headers, params.bucket_id ?? '')
    }
    // Values that the schemas accept can contradict one another; refused ones are left out, so that each problem is
    // reported once.
    for (const { location, name } of problems) {
      if (location === 'querystring') delete query[name]
      if (location === 'header') delete headers[name.toLowerCase()]
    }
    resource.operation({ params, query, headers, address: call }, problems)
  }
  if (problems.length === 0) throw unknownPath()
  throw invalidRequest(problems)
}

/** The resource of a request that was answered before its handler ran. */
export function routeOf(call: Call, settings: Services['settings']): string | null {
  return findResources(belowVersion(call, settings))?.resources[0]?.name ?? null
}

export function belowVersion({ path }: Call, settings: Services['settings']): string {
  const prefix = versionPrefix(settings)
  return path === prefix || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) || '/' : path
}

/** 404 for a version that is not served. */
export function unknownVersion(): ServiceError {
  return new ServiceError(404, errno.unknownVersion, 'This version of the protocol is not served here')
}

/** 404 for an unknown path. */
export function unknownPath(): ServiceError {
  return new ServiceError(404, errno.unknownPath, 'There is nothing at this path')
}
