import { errno, invalidRequest, ServiceError } from '../domain/errors.ts'
import { checkOrigin, preflightReply } from '../protocol/cors.ts'
import { majorVersion } from '../protocol/exposed.ts'
import { checkMethod, checkMethodOfInvalid } from '../protocol/methods.ts'
import { checkHost, publicOrigin } from '../protocol/public-address.ts'
import { emptyReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { readTarget } from '../protocol/target.ts'
import type { Resource, RouterParameters, Target } from '../protocol/target.ts'
import { requestIdOf, setContext, splitUrl } from './context.ts'
import type { RequestContext } from './context.ts'
import type { Services } from './services.ts'

/**
 * Looks at every request before it is routed: what can be refused or redirected without credentials, body or I/O is
 * answered here. Null: go on, `contextOf(request)` tells what it is.
 *
 * Throws `ServiceError` for what is refused.
 */
export function guard(request: Request, services: Services): Reply | null {
  const { settings, now } = services
  const { headers, method } = request
  const { path, query } = splitUrl(request.url)
  const context: RequestContext = {
    startedAtMs: now(),
    monotonicStartMs: services.monotonicNow(),
    requestId: requestIdOf(headers, services),
    work: { upstreamCalls: 0, upstreamMs: 0, upstreamStatus: null, cached: null },
    origin: headers.get('origin'),
    resource: null,
    query,
    path,
  }
  setContext(request, context)
  checkHost(headers.get('host'), settings)
  checkOrigin(context.origin, settings)
  if (method === 'OPTIONS') return preflightReply(headers.get('access-control-request-headers'), settings)

  // The server's router has seen the path as it was sent; the URL has lost its dot segments.
  const parameters = (request as { params?: RouterParameters }).params
  const target = readTarget(path, query, majorVersion(settings), parameters)
  const resource = target.outcome === 'resource' ? target.resource : null
  context.resource = resource
  refuseAfterEnd(resource, settings.eos?.atMs ?? null, context.startedAtMs)
  checkFraming(request)
  if (resource) {
    checkMethod(method, resource, settings)
    return null
  }
  return answerElsewhere(target as Exclude<Target, { outcome: 'resource' }>, request, settings)
}

function answerElsewhere(
  target: Exclude<Target, { outcome: 'resource' }>,
  request: Request,
  settings: Services['settings'],
): Reply {
  switch (target.outcome) {
    case 'redirect':
      return emptyReply(307, {
        Location: publicOrigin(request.headers.get('host'), settings) + target.location,
      })
    case 'unknown-version':
      throw unknownVersion()
    case 'unknown-path':
      throw unknownPath()
    case 'invalid':
      checkMethodOfInvalid(request.method, target, settings)
      throw invalidRequest(target.problems)
    default:
      return target satisfies never
  }
}

/** 404 for a version that is not ours. */
export function unknownVersion(): ServiceError {
  return new ServiceError(404, errno.unknownVersion, 'This version of the protocol is not served here')
}

/** 404 for a path that names nothing. */
export function unknownPath(): ServiceError {
  return new ServiceError(404, errno.unknownPath, 'There is nothing at this path')
}

function refuseAfterEnd(resource: Resource | null, eosMs: number | null, nowMs: number): void {
  if (eosMs === null || eosMs > nowMs) return
  if (resource?.kind === 'heartbeat' || resource?.kind === 'lbheartbeat') return
  throw new ServiceError(410, errno.serviceEnded, 'This service has ended')
}

// A body where none belongs is how two servers come to disagree about where a request ends. DELETE is spared: a client
// in use sends {} with it.
function checkFraming({ method, headers }: Request): void {
  if (method !== 'GET' && method !== 'HEAD') return
  const name = headers.has('transfer-encoding') ? 'Transfer-Encoding' : 'Content-Length'
  if (name === 'Content-Length' && Number(headers.get('content-length') ?? 0) === 0) return
  const description = `must be absent: ${method} has no body`
  throw invalidRequest([{ location: 'header', name, description }], { headers: { Connection: 'close' } })
}
