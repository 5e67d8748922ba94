/** Turns replies into HTTP responses: common headers and alerts. */
import type { ByteSource, Notices } from '../domain/record-storage.ts'
import type { Settings } from '../settings/settings.ts'
import { corsHeaders } from './origin.ts'
import type { Reply } from './reply.ts'

/** What response headers need to know about the request. */
interface ReplyContext {
  origin: string | null
  requestId: string
  /** Wall clock, ms since 1970. */
  startedAtMs: number
  notices: Readonly<Notices>
  /** Whether several users share the URL, so that caches must not store the response. */
  isLegacyBucket: boolean
}

// Copying headers is twice as fast as creating them.
const commonHeaders = new Headers({
  'Cache-Control': 'no-cache',
  Vary: 'Authorization, X-Client-State, X-KeyID, Origin',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
})
const commonJsonHeaders = new Headers(commonHeaders)
commonJsonHeaders.set('Content-Type', 'application/json; charset=utf-8')

/**
 * Turns a reply into an HTTP response. `ownBackoffSeconds` is the pause that this process asks for, besides the operator's and the
 * storage's; `body` is the reply's, as the runtime sends it.
 */
export function toResponse(
  { status, headers: own }: Omit<Reply, 'body'>,
  context: ReplyContext,
  settings: Settings,
  ownBackoffSeconds = 0,
  body: BodyInit | null = null,
): Response {
  const { origin, requestId, isLegacyBucket } = context
  const { backoffSeconds, quotaRemaining } = context.notices
  const response = new Response(body, { status, headers: body === null ? commonHeaders : commonJsonHeaders })
  const { headers } = response
  if (origin !== null) setAll(headers, corsHeaders(origin, settings))
  if (quotaRemaining !== null && status < 400) headers.set('Quota-Remaining', quotaRemaining)
  const backoff = Math.max(settings.backoff ?? 0, ownBackoffSeconds, backoffSeconds)
  const hasBackoff = backoff > 0 && status < 400
  if (hasBackoff) headers.set('Backoff', String(Math.ceil(backoff)))
  // Browsers would repeat a stored Backoff with every 304; and several users share the URL of a legacy bucket.
  if (hasBackoff || isLegacyBucket) headers.set('Cache-Control', 'no-cache, no-store')
  const alert = alertText(context, settings)
  if (alert !== null) headers.set('Alert', alert)
  setAll(headers, own)
  headers.set('X-Request-Id', requestId)
  return response
}

function setAll(headers: Headers, more: Record<string, string>): void {
  for (const name in more) headers.set(name, more[name]!)
}

const largeBytes = 256 * 1024

/**
 * Whether a body must be sent at the pace of its reader. Up to 256 KB fit into the buffers of the operating system; sending them at once
 * takes a quarter less CPU time than in chunks.
 */
export function isLarge(body: string | Uint8Array): boolean {
  return body.length > largeBytes
}

/** Whether a body arrives in chunks. */
export function isSource(body: Reply['body']): body is ByteSource {
  return body !== null && typeof body === 'object' && 'read' in body
}

// --- Alerts ---

interface Alert {
  code: 'soft-eol' | 'hard-eol'
  message?: string | null
  url?: string | null
}

/** The most serious alert: end of service or of the storage before advice. Null if there is none. */
function alertText(
  { startedAtMs, notices, isLegacyBucket }: ReplyContext,
  settings: Settings,
): string | null {
  const { eos, eosMessage: message, eosUrl: url, projectDocs } = settings
  if (!eos && notices.alert === null && !notices.isShutDown && !isLegacyBucket) return null
  const alerts: Alert[] = []
  if (eos) alerts.push({ code: eos.atMs <= startedAtMs ? 'hard-eol' : 'soft-eol', message, url })
  if (notices.alert !== null) alerts.push(readAlert(notices.alert))
  // A storage that was shut down does not always send an alert.
  if (notices.isShutDown) alerts.push({ code: 'hard-eol' })
  if (isLegacyBucket) alerts.push({ code: 'soft-eol', message: legacyAdvice, url: projectDocs })
  const chosen = alerts.find(({ code }) => code === 'hard-eol') ?? alerts[0]
  if (!chosen) return null
  const truncate = (text: string | null | undefined) => text?.slice(0, 400) || undefined
  // Headers are ASCII, so other characters become JSON escapes.
  return JSON.stringify({
    code: chosen.code,
    message: truncate(chosen.message),
    url: truncate(chosen.url),
  }).replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const legacyAdvice = 'Use the client state as the bucket id'

/** Parses the storage's alert; plain text becomes the message of a soft alert. */
function readAlert(text: string): Alert {
  try {
    const { code, message, url } = JSON.parse(text) as Record<string, unknown>
    const asText = (value: unknown) => (typeof value === 'string' ? value : null)
    if (code === 'soft-eol' || code === 'hard-eol')
      return { code, message: asText(message), url: asText(url) }
  } catch {
    // Older storages send plain text instead of JSON.
  }
  return { code: 'soft-eol', message: text }
}
