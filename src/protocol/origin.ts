/** The address under which clients know this service, and which web pages may ask it (CORS). */
import type { Settings } from '../settings/settings.ts'

/**
 * The origin under which clients know this service, "https://sync.example.org": as configured, or else from the request's
 * own Host, which has been checked. Headers such as X-Forwarded-Host are not believed: clients send their
 * credentials wherever we point them.
 */
export function publicOrigin(
  host: string | null,
  { httpHost, httpScheme }: Pick<Settings, 'httpHost' | 'httpScheme'>,
): string {
  return `${httpScheme ?? 'http'}://${httpHost ?? host}`
}

const exposedHeaders =
  'ETag, Last-Modified, Next-Page, Total-Records, Total-Objects, Quota-Remaining, Backoff, Retry-After, Alert, ' +
  'Content-Length, WWW-Authenticate'

/** The headers that let a page of that origin read the answer; none when the operator does not allow it. */
export function corsHeaders(origin: string, { corsOrigins }: Settings): Record<string, string> {
  const allowOrigin = corsOrigins === null ? '*' : corsOrigins.has(origin) ? origin : null
  if (allowOrigin === null) return {}
  return { 'Access-Control-Allow-Origin': allowOrigin, 'Access-Control-Expose-Headers': exposedHeaders }
}

// The names are listed one by one because a wildcard does not cover Authorization.
const allowedHeaders = 'Authorization, Content-Type, If-Match, If-None-Match, X-Client-State, X-KeyID, Prefer'

const allowedMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Answers OPTIONS: what a browser may send, to any path, without credentials. */
export function preflightReply(requestedHeaders: string | null, { corsMaxAgeSeconds }: Settings) {
  const known = new Set(allowedHeaders.toLowerCase().split(', '))
  const others = (requestedHeaders ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name) && !known.has(name.toLowerCase()))
  const headers = {
    'Access-Control-Allow-Methods': allowedMethods,
    'Access-Control-Allow-Headers': [allowedHeaders, ...new Set(others.slice(0, 50))].join(', '),
    'Access-Control-Max-Age': String(corsMaxAgeSeconds),
    Allow: allowedMethods,
  }
  return { status: 204, headers, body: null }
}
