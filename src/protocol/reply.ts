/** An answer: what a handler makes, and the message that it becomes with the headers that every answer carries. */
import { invalidRequest } from '../domain/errors.ts'
import type { Errno } from '../domain/errors.ts'
import type { ByteSource, Notices } from '../domain/record-storage.ts'
import { toEntityTag, toHttpDate } from '../domain/timestamp.ts'
import type { Timestamp } from '../domain/timestamp.ts'

/** The settings that shape what the exposed protocol says. */
export interface ExposedSettings {
  projectName: string
  /** Null: the service's own pages. */
  projectDocs: string | null
  projectVersion: string
  errorInfoLink: string | null
  /** As configured, "1.5": the part before the dot is the version in every path. */
  httpApiVersion: string
  httpScheme: string | null
  httpHost: string | null
  batchMaxRequests: number
  readonly: boolean
  writable: { put: ReadonlySet<string>; delete: ReadonlySet<string> }
  retryAfterSeconds: number
  /** Seconds of the pause that clients are asked for. */
  backoff: number | null
  /** End of service: as configured, and in ms since 1970. */
  eos: { text: string; atMs: number } | null
  eosMessage: string | null
  eosUrl: string | null
  /** Origins that browsers may call from, or null for all. */
  corsOrigins: ReadonlySet<string> | null
  corsMaxAgeSeconds: number
  docsEnabled: boolean
  explorerEnabled: boolean
  /** Whether an empty list of changes has the moment of `_since` as its ETag, instead of the collection's. */
  flushSafeEtag: boolean
}

/** What every path begins with: "/v1" for the version "1.5". */
export function versionPrefix({ httpApiVersion }: Pick<ExposedSettings, 'httpApiVersion'>): string {
  return `/v${httpApiVersion.split('.')[0]!}`
}

/** An answer before it becomes a message: `toResponse` adds what every answer carries. */
export interface Reply {
  status: number
  headers: Record<string, string>
  /** JSON text or bytes; null for an answer without a body. */
  body: string | Uint8Array | ByteSource | null
  /** The body that a batch shows for an answer without a body. */
  tombstone?: object
  /** Called when the last byte was handed on, or when the client has left. */
  ended?: () => void
  /** What the body of an error answer says, for logs. */
  errno?: Errno
}

/** A plain JSON answer. */
export function jsonReply(value: unknown, headers: Record<string, string> = {}, status = 200): Reply {
  return { status, headers, body: JSON.stringify(value) }
}

/** An answer with a status and nothing else. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null }
}

/** ETag and Last-Modified of a version. */
export function versionHeaders(timestamp: Timestamp): Record<string, string> {
  return { ETag: toEntityTag(timestamp), 'Last-Modified': toHttpDate(timestamp) }
}

/** 304: the client's version is the current one. */
export function notModifiedReply(timestamp: Timestamp): Reply {
  return emptyReply(304, versionHeaders(timestamp))
}

/** What is known of a request, and told in the headers of its answer. */
interface ReplyContext {
  origin: string | null
  requestId: string
  /** Wall clock, ms since 1970. */
  startedAtMs: number
  notices: Notices | null
  /** Whether several users share the URL, so that caches must not store the answer. */
  isLegacyBucket: boolean
}

/**
 * Turns a reply into the message that goes out, with the headers that every answer carries. `ownBackoffSeconds` is the
 * pause that this process asks for, besides those of the operator and the storage; `stream` sends the body where it is large.
 */
export function toResponse(
  reply: Reply,
  context: ReplyContext,
  settings: ExposedSettings,
  ownBackoffSeconds = 0,
  stream: ReadableStream<Uint8Array> | null = null,
): Response {
  const { origin, requestId, isLegacyBucket } = context
  const body = stream ?? sendable(reply.body)
  const response = new Response(body, {
    status: reply.status,
    headers: body === null ? usualHeaders : usualJsonHeaders,
  })
  const { headers } = response
  if (origin !== null) setAll(headers, corsHeaders(origin, settings))
  if (isLegacyBucket) headers.set('Cache-Control', 'no-cache, no-store')
  setNotices(headers, reply.status, context, settings, ownBackoffSeconds)
  setAll(headers, reply.headers)
  headers.set('X-Request-Id', requestId)
  return response
}

const largeBytes = 64 * 1024

/**
 * Whether a body has to be sent at the pace of its reader. One up to 64 KB fits into the buffers of the operating system and is
 * handed over at once.
 */
export function isLarge(body: Reply['body']): body is NonNullable<Reply['body']> {
  return body !== null && (isSource(body) || body.length > largeBytes)
}

/** Whether a body arrives piece by piece. */
export function isSource(body: Reply['body']): body is ByteSource {
  return body !== null && typeof body === 'object' && 'read' in body
}

const oneWriteBytes = 12 * 1024

/**
 * A body that is larger than the runtime's buffer for a head and its body as a stream of one piece. Otherwise the runtime makes
 * a system call for each name, colon, value and line break of the head, and copies the bytes.
 */
function sendable(body: Reply['body']): BodyInit | null {
  if (body === null || isSource(body)) return null
  if (body.length <= oneWriteBytes) return body as BodyInit
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(typeof body === 'string' ? new TextEncoder().encode(body) : body)
      controller.close()
    },
  })
}

// Copying these headers into each answer costs half of making them anew.
const usualHeaders = new Headers({
  'Cache-Control': 'no-cache',
  Vary: 'Authorization, X-Client-State, X-KeyID, Origin',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
})
const usualJsonHeaders = new Headers(usualHeaders)
usualJsonHeaders.set('Content-Type', 'application/json; charset=utf-8')

function setAll(headers: Headers, more: Record<string, string>): void {
  for (const name in more) headers.set(name, more[name]!)
}

function setNotices(
  headers: Headers,
  status: number,
  context: ReplyContext,
  settings: ExposedSettings,
  ownBackoffSeconds: number,
): void {
  const { notices } = context
  const alert = chooseAlert(status, context, settings)
  if (alert !== null) headers.set('Alert', toAlertText(alert))
  if (status >= 400) return
  const backoff = Math.max(settings.backoff ?? 0, notices?.backoffSeconds ?? 0, ownBackoffSeconds)
  if (backoff > 0) headers.set('Backoff', String(Math.ceil(backoff)))
  if (notices && notices.quotaRemaining !== null) headers.set('Quota-Remaining', notices.quotaRemaining)
}

// --- Alerts ---

interface Alert {
  code: 'soft-eol' | 'hard-eol'
  message?: string | null
  url?: string | null
}

/** The most serious announcement: the end of this service or of the storage comes before mere advice. */
function chooseAlert(status: number, context: ReplyContext, settings: ExposedSettings): Alert | null {
  const upstream = context.notices?.alert
  const { eos, eosMessage: message, eosUrl: url, projectDocs } = settings
  const alerts: Alert[] = []
  if (eos) alerts.push({ code: eos.atMs <= context.startedAtMs ? 'hard-eol' : 'soft-eol', message, url })
  if (upstream) alerts.push(readAlert(upstream))
  if (context.isLegacyBucket) alerts.push({ code: 'soft-eol', message: legacyAdvice, url: projectDocs })
  // A storage that was closed down does not always send an alert.
  if (status === 410) alerts.push({ code: 'hard-eol' })
  return alerts.find(({ code }) => code === 'hard-eol') ?? alerts[0] ?? null
}

const legacyAdvice = 'Use the client state as the bucket id, not X-Client-State'

/** The storage's alert with the members that the protocol knows; plain text becomes the message of a soft one. */
function readAlert(text: string): Alert {
  try {
    const { code, message, url } = JSON.parse(text) as Record<string, unknown>
    if (code === 'soft-eol' || code === 'hard-eol') {
      return { code, message: asText(message), url: asText(url) }
    }
  } catch {
    // Older storages send plain text instead of JSON.
  }
  return { code: 'soft-eol', message: text }
}

function asText(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function toAlertText({ code, message, url }: Alert): string {
  const members = {
    code,
    ...(message && { message: message.slice(0, 400) }),
    ...(url && { url: url.slice(0, 400) }),
  }
  // Headers are ASCII, so other characters become escapes that JSON readers undo.
  return JSON.stringify(members).replace(
    /[^\x20-\x7e]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

// --- Who may ask, and by which address ---

const hostForm = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?$/

/**
 * The origin under which clients know this service, "https://sync.example.org": as configured, or else from the request's
 * own Host. Headers such as X-Forwarded-Host are not believed: clients send their credentials wherever we point them.
 *
 * Throws `ServiceError` 400 when the request has no usable Host.
 */
export function publicOrigin(
  host: string | null,
  settings: Pick<ExposedSettings, 'httpHost' | 'httpScheme'>,
): string {
  return `${settings.httpScheme ?? 'http'}://${settings.httpHost ?? requireHost(host)}`
}

/** Refuses a Host that is missing, doubled or malformed. HTTP/1.0 may omit it where the settings name our host. */
export function checkHost(host: string | null, settings: Pick<ExposedSettings, 'httpHost'>): void {
  if ((host === null || host === '') && settings.httpHost !== null) return
  requireHost(host)
}

// Nearly all requests name the same host.
let acceptedHost: string | null = null

function requireHost(host: string | null): string {
  if (host !== null && host === acceptedHost) return host
  const match = hostForm.exec(host ?? '')
  if (match && Number(match[1] ?? 0) <= 65_535) return (acceptedHost = host!)
  const description = 'must be one host name with an optional port'
  throw invalidRequest([{ location: 'header', name: 'Host', description }], {
    headers: { Connection: 'close' },
  })
}

const exposedHeaders =
  'ETag, Last-Modified, Next-Page, Total-Records, Total-Objects, Quota-Remaining, Backoff, Retry-After, Alert, ' +
  'Content-Length, WWW-Authenticate'

// The names are listed one by one because a wildcard does not cover Authorization.
const allowedHeaders =
  'Authorization, Content-Type, If-Match, If-None-Match, X-Client-State, X-KeyID, Prefer'.split(', ')

const allowedMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** The headers that let a page of that origin read the answer; none when the operator does not allow it. */
function corsHeaders(origin: string, settings: ExposedSettings): Record<string, string> {
  const allowOrigin = settings.corsOrigins === null ? '*' : settings.corsOrigins.has(origin) ? origin : null
  if (allowOrigin === null) return {}
  return { 'Access-Control-Allow-Origin': allowOrigin, 'Access-Control-Expose-Headers': exposedHeaders }
}

const longestOrigin = 1024

/** Refuses a request from a page whose origin the operator does not allow. Throws `ServiceError` 400. */
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

function mergeHeaderNames(requested: string | null): string {
  const known = new Set(allowedHeaders.map((name) => name.toLowerCase()))
  const others = (requested ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name) && !known.has(name.toLowerCase()))
  return [...allowedHeaders, ...new Set(others.slice(0, 50))].join(', ')
}
