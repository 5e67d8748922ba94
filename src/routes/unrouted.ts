/** Requests without a route: preflights, redirects and errors. */
import { errno, ServiceError } from '../domain/errors.ts'
import { invalidRequest } from '../protocol/problems.ts'
import {
  belowVersion,
  findResources,
  isBucketResource,
  readRequest,
  resourceFor,
  versionPrefix,
} from '../protocol/find.ts'
import { preflightReply, publicOrigin } from '../protocol/origin.ts'
import { disabledBy } from '../protocol/records.ts'
import { emptyReply, type Reply } from '../protocol/reply.ts'
import { withoutTrailingSlashes } from '../protocol/subrequest.ts'
import type { Settings } from '../settings/settings.ts'
import { checkCall, heartbeatPath, type Call, type Services } from './call.ts'

/** Answers a request without a route: preflights and redirects. Throws `ServiceError` 404 or 405. */
export function answerUnrouted(call: Call): Reply {
  checkCall(call)
  const { method, path, services } = call
  const { settings } = services
  if (method === 'OPTIONS') {
    const allow = methodsAt(belowVersion(path, settings) ?? path, services)
    return preflightReply(call.headers['access-control-request-headers'] ?? null, allow, settings)
  }
  if (unsafePath.test(path.replace(recordIdInPath, '$1'))) throw unknownPath()
  const prefix = versionPrefix(settings)
  if (path === '/' && (method === 'GET' || method === 'HEAD')) {
    return redirect(call, prefix + (frontDoor(call.headers.accept ?? '', settings) ?? '/'))
  }
  if (path === '/swagger' || path === `${prefix}/swagger`) return redirect(call, `${prefix}/docs`)
  if (!/^\/v\d+(?=\/|$)/.test(path)) {
    if (heartbeatPath.test(path)) throw refusedMethod(method, path, services)
    return redirect(call, prefix + path)
  }
  const below = belowVersion(path, settings)
  if (below === null) throw unknownVersion()
  if (below.length > 1 && below.endsWith('/')) return redirect(call, withoutTrailingSlashes(path))
  throw refusedMethod(method, below, services)
}

// The host of CONNECT, double slashes, backslashes, and escaped slashes, backslashes and control characters. A redirect must not repeat them,
// because clients could read them as another origin.
const unsafePath = /^[^/]|\/\/|\\|%(?:2f|5c|[01][0-9a-f]|7f)/i

// The id of a record may contain slashes and backslashes, escaped or not.
const recordIdInPath = /^(\/buckets\/[^/]+\/collections\/[^/]+\/records\/)(?:[^%\\]|%(?![01]|7f))+$/i

/** The error for a method that is not served at a path: 405 if others are, else 404. */
export function refusedMethod(method: string, path: string, services: Services): ServiceError {
  const allow = methodsAt(path, services)
  if (allow === null) return unknownPath()
  const { settings } = services
  const { resources, params } = findResources(path, settings)!
  const meant = resources.find((resource) => resource.method === method)
  const closed = meant && disabledBy(meant, params, settings)
  const message = closed ? `Method not allowed: ${closed}` : `Method not allowed: ${method} on this resource`
  return new ServiceError(405, errno.methodNotAllowed, message, { headers: { Allow: allow } })
}

/** The value of `Allow` for a path; null if nothing is served there. */
function methodsAt(path: string, { settings, metrics }: Services): string | null {
  const { resources, params } = findResources(path, settings) ?? { resources: [], params: {} }
  if (!resources.some(({ name }) => isServed(name, settings, metrics !== null))) return null
  const open = resources.filter((resource) => disabledBy(resource, params, settings) === null)
  const methods = new Set(open.flatMap((each) => (each.method === 'GET' ? ['GET', 'HEAD'] : each.method)))
  return [...methods, 'OPTIONS'].join(', ')
}

function isServed(name: string, { docsEnabled, explorerEnabled }: Settings, hasMetrics: boolean): boolean {
  if (name === 'metrics') return hasMetrics
  return name === 'docs' ? docsEnabled : name !== 'explore' || explorerEnabled
}

function redirect({ host, query, services }: Call, path: string): Reply {
  return emptyReply(307, { Location: publicOrigin(host, services.settings) + path + query })
}

/**
 * Rejects a request whose path, query or headers are invalid, with all problems at once, where the framework reports only one part. Throws
 * `ServiceError` 400, 401 if the path is valid and the credentials are missing, or 404 if only dots in its path are wrong.
 */
export function rejectInvalid(call: Call): Reply {
  const found = resourcesAt(call)
  const resource = found && resourceFor(call.method, found.resources)
  if (!resource) throw unknownPath()
  const { params } = found
  // An empty record id is the list's path with an extra slash.
  if (params['*'] === '') return redirect(call, withoutTrailingSlashes(call.path))
  const { headers } = call
  if (isBucketResource(resource))
    readRequest(resource, { params, headers, address: call }, call.services.settings)
  else {
    const problems = resource.check({ params, query: {}, headers })
    if (problems.length > 0) throw invalidRequest(problems)
  }
  // The runtime routes by the raw path, such as a bucket "..", while the resolved path is that of the root view.
  throw unknownPath()
}

/** The resource of a request that was answered before its handler ran. */
export function routeOf(call: Call): string | null {
  return resourcesAt(call)?.resources[0]?.name ?? null
}

function resourcesAt({ path, services: { settings } }: Call) {
  return findResources(belowVersion(path, settings) ?? path, settings)
}

export function unknownVersion(): ServiceError {
  return new ServiceError(404, errno.unknownVersion, 'Unknown protocol version in the path')
}

export function unknownPath(): ServiceError {
  return new ServiceError(404, errno.unknownPath, 'Path not found')
}

/** Where to redirect a browser that opens the root URL; null for other clients. */
function frontDoor(
  accept: string,
  { docsEnabled, explorerEnabled }: { docsEnabled: boolean; explorerEnabled: boolean },
): string | null {
  if (!prefersHtml(accept)) return null
  if (docsEnabled) return '/docs/guides'
  return explorerEnabled ? '/explore' : null
}

/** Whether the client prefers HTML to JSON: programs accept anything, or JSON. See RFC 9110, 12.5.1. */
function prefersHtml(accept: string): boolean {
  const weights = new Map<string, number>()
  for (const range of accept.slice(0, 1000).split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const weight = parameters.find((parameter) => parameter.startsWith('q='))
    weights.set(type, weight === undefined ? 1 : Number(weight.slice(2)))
  }
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return (weights.get('text/html') ?? 0) > json
}
