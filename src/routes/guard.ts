/** Every request: begins its call, and checks what no router looks at. */
import type { Elysia } from 'elysia'
import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import { errorReply, overload } from '../protocol/error-reply.ts'
import { readQuery, versionPrefix } from '../protocol/find.ts'
import { discardBody } from '../load/bodies.ts'
import type { IncomingBody } from '../load/bodies.ts'
import type { Reply } from '../protocol/reply.ts'
import type { Settings } from '../settings/settings.ts'
import { Call, splitUrl } from './context.ts'
import type { Services } from './context.ts'

/** The app, whose routes all have a `call`. They are added to this one instance: plugins would add each three times. */
export type App = ReturnType<typeof withCalls>

/** Gives every route its `call`: what is known of the request. Checks it before anything else. */
export function withCalls(app: Elysia, services: Services) {
  return app.derive(({ request, headers }) => {
    const call = new Call(request, services, headers)
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
  if (method !== 'GET' && method !== 'HEAD') return
  // Servers that disagree about where such a body ends take its rest for another request (request smuggling).
  const isChunked = call.headers['transfer-encoding'] !== undefined
  if (isChunked || Number(call.headers['content-length'] ?? 0) > largestIgnoredBody) {
    const name = isChunked ? 'Transfer-Encoding' : 'Content-Length'
    throw invalidHeader(name, `must be absent: ${method} has no body`, close)
  }
}

const longestOrigin = 1024
// Clients in use send {} with GET, which counts as no body.
const largestIgnoredBody = 1024
export const heartbeatPath = /^(?:\/v\d+)?\/__(?:lb)?heartbeat__$/

const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/** Refuses a Host that is missing, doubled or malformed. HTTP/1.0 may omit it where the settings name our host. */
export function checkHost(host: string | null, { httpHost }: Pick<Settings, 'httpHost'>): void {
  if ((host === null || host === '') && httpHost !== null) return
  const match = hostForm.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return
  throw invalidHeader('Host', 'must be one host name with an optional port', close)
}

const close = { Connection: 'close' }

function invalidHeader(name: string, description: string, headers?: Record<string, string>): ServiceError {
  return invalidRequest([{ location: 'header', name, description }], { headers })
}
