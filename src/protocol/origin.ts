/** The public origin of this service, and CORS. */
import type { Settings } from '../settings/settings.ts'

/**
 * The public origin, such as "https://sync.example.org": as configured, or from the validated Host of the request. Ignores X-Forwarded-Host
 * and the like, because clients send their credentials to the URLs that we return.
 */
export function publicOrigin(
  host: string | null,
  { httpHost, httpScheme }: Pick<Settings, 'httpHost' | 'httpScheme'>,
): string {
  return `${httpScheme ?? 'http'}://${httpHost ?? host}`
}

const exposedHeaders =
  'ETag, Last-Modified, Next-Page, Total-Records, Total-Objects, Quota-Remaining, Backoff, Retry-After, Alert, ' +
  'Content-Length, WWW-Authenticate, Preference-Applied'

/** Whether web pages of an origin are allowed: those in `service.cors_origins`, and our own, whose origin browsers also send. */
export function isAllowedOrigin(origin: string, settings: Settings): boolean {
  const { corsOrigins, httpHost } = settings
  if (corsOrigins === null || corsOrigins.has(origin)) return true
  return httpHost !== null && new URL(publicOrigin(null, settings)).origin === origin
}

/** The CORS headers for an origin; empty if the operator does not allow it. */
export function corsHeaders(origin: string, settings: Settings): Record<string, string> {
  if (!isAllowedOrigin(origin, settings)) return {}
  const allowed = settings.corsOrigins === null ? '*' : origin
  return { 'Access-Control-Allow-Origin': allowed, 'Access-Control-Expose-Headers': exposedHeaders }
}

// Lists all names, because a wildcard does not cover Authorization.
const allowedHeaders = 'Authorization, Content-Type, If-Match, If-None-Match, X-Client-State, X-KeyID, Prefer'

// The same everywhere, so that a browser gets the 405 with its reason.
const allowedMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Answers OPTIONS for any path, without credentials. `allow` lists what its resource allows; null if there is none. */
export function preflightReply(
  requestedHeaders: string | null,
  allow: string | null,
  { corsMaxAgeSeconds }: Settings,
) {
  const known = new Set(allowedHeaders.toLowerCase().split(', '))
  const others = (requestedHeaders ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name) && !known.has(name.toLowerCase()))
  const headers = {
    'Access-Control-Allow-Methods': allowedMethods,
    'Access-Control-Allow-Headers': [allowedHeaders, ...new Set(others.slice(0, 50))].join(', '),
    'Access-Control-Max-Age': String(corsMaxAgeSeconds),
    ...(allow !== null && { Allow: allow }),
  }
  return { status: 204, headers, body: null }
}
