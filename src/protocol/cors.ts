import { invalidRequest } from '../domain/errors.ts'
import type { ExposedSettings } from './exposed.ts'
import { emptyReply } from './reply.ts'
import type { Reply } from './reply.ts'

const exposed = [
  'ETag',
  'Last-Modified',
  'Next-Page',
  'Total-Records',
  'Total-Objects',
  'Quota-Remaining',
  'Backoff',
  'Retry-After',
  'Alert',
  'Content-Length',
  'WWW-Authenticate',
].join(', ')

const allowedHeaders = [
  'Authorization',
  'Content-Type',
  'If-Match',
  'If-None-Match',
  'X-Client-State',
  'X-KeyID',
  'Prefer',
]

const allowedMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** The headers that let a page of that origin read the answer; none when it may not. */
export function corsHeaders(origin: string, settings: ExposedSettings): Record<string, string> {
  const allowOrigin = settings.corsOrigins === null ? '*' : settings.corsOrigins.has(origin) ? origin : null
  if (allowOrigin === null) return {}
  return { 'Access-Control-Allow-Origin': allowOrigin, 'Access-Control-Expose-Headers': exposed }
}

const longestOrigin = 1024

/** Refuses a request from a page that the operator does not let in. Throws `ServiceError` 400. */
export function checkOrigin(origin: string | null, settings: ExposedSettings): void {
  if (origin === null) return
  const isAllowed = settings.corsOrigins === null || settings.corsOrigins.has(origin)
  if (isAllowed && origin.length <= longestOrigin) return
  throw invalidRequest([
    { location: 'header', name: 'Origin', description: 'is not one that this service answers' },
  ])
}

/** Answers OPTIONS: what a browser may send, to any path, without credentials. */
export function preflightReply(requestedHeaders: string | null, settings: ExposedSettings): Reply {
  return emptyReply(204, {
    'Access-Control-Allow-Methods': allowedMethods,
    'Access-Control-Allow-Headers': mergeHeaderNames(requestedHeaders),
    'Access-Control-Max-Age': String(settings.corsMaxAgeSeconds),
    Allow: allowedMethods,
  })
}

// Names are listed one by one because a wildcard does not cover Authorization.
function mergeHeaderNames(requested: string | null): string {
  const known = new Set(allowedHeaders.map((name) => name.toLowerCase()))
  const others = (requested ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name) && !known.has(name.toLowerCase()))
  return [...allowedHeaders, ...new Set(others.slice(0, 50))].join(', ')
}
