import { corsHeaders } from './cors.ts'
import type { ExposedSettings } from './exposed.ts'
import type { Reply } from './reply.ts'

/**
 * Turns a reply into the message that goes out, with everything that every answer carries. `ownBackoffSeconds` is how
 * long we want to be left alone ourselves, besides the operator and the storage.
 */
export function toResponse(
  reply: Reply,
  origin: string | null,
  settings: ExposedSettings,
  nowMs: number,
  ownBackoffSeconds = 0,
): Response {
  const { status } = reply
  const body = sendable(reply.body)
  const headers = body === null ? usualHeaders : usualJsonHeaders
  const response = new Response(body, { status, headers })
  if (origin !== null) setAll(response.headers, corsHeaders(origin, settings))
  setAll(response.headers, noticeHeaders(reply, settings, nowMs, ownBackoffSeconds))
  setAll(response.headers, reply.headers)
  return response
}

const largeBodyBytes = 32_768

/** A large body as a stream of one piece: it is sent from where it is, whereas bytes would be copied first. */
function sendable(body: Reply['body']): BodyInit | null {
  if (!(body instanceof Uint8Array)) return body
  if (body.length <= largeBodyBytes) return body as BodyInit
  return new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(body)
      controller.close()
    },
  })
}

// Copied into each answer, which costs half of making them anew.
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

/** Backoff, Alert and Quota-Remaining of an answer. */
export function noticeHeaders(
  reply: Reply,
  settings: ExposedSettings,
  nowMs: number,
  ownBackoffSeconds = 0,
): Record<string, string> {
  const headers: Record<string, string> = {}
  const { notices } = reply
  const alert = chooseAlert(reply, settings, nowMs)
  if (alert !== null) headers.Alert = alert
  if (reply.status >= 400) return headers
  const backoff = Math.max(settings.backoff ?? 0, notices?.backoffSeconds ?? 0, ownBackoffSeconds)
  if (backoff > 0) headers.Backoff = String(Math.ceil(backoff))
  if (typeof notices?.quotaRemaining === 'number')
    headers['Quota-Remaining'] = String(Math.floor(notices.quotaRemaining))
  return headers
}

/** The gravest of what is to be announced: the end of this service or of the storage before mere advice. */
function chooseAlert(
  { status, notices, alert: own }: Reply,
  settings: ExposedSettings,
  nowMs: number,
): string | null {
  if (settings.eos === null && !notices?.alert && own === undefined && status !== 410) return null
  const alerts = [
    eosAlert(settings, nowMs),
    notices?.alert ? wrapAlert(notices.alert) : null,
    own ?? null,
    // A storage that was closed down does not always say so in an alert.
    status === 410 ? alertText({ code: 'hard-eol', message: null, url: null }) : null,
  ]
  const given = alerts.filter((alert) => alert !== null)
  return given.find((alert) => alert.includes('"hard-eol"')) ?? given[0] ?? null
}

/** The announcement of the configured end of service; null when none is configured. */
export function eosAlert(settings: ExposedSettings, nowMs: number): string | null {
  if (settings.eos === null) return null
  const code = settings.eos.atMs <= nowMs ? 'hard-eol' : 'soft-eol'
  return alertText({ code, message: settings.eosMessage, url: settings.eosUrl })
}

/** Our own advice to a client that calls in an outdated way. */
export function softAlert(message: string, url: string | null): string {
  return alertText({ code: 'soft-eol', message, url })
}

/** The storage's alert with the members that the protocol knows; plain text becomes the message of a soft one. */
function wrapAlert(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text)
    if (isObject(parsed) && (parsed.code === 'soft-eol' || parsed.code === 'hard-eol')) {
      return alertText({ code: parsed.code, message: asText(parsed.message), url: asText(parsed.url) })
    }
  } catch {
    // Not JSON: people's words, as older storages send them.
  }
  return alertText({ code: 'soft-eol', message: text, url: null })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function asText(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function alertText(alert: { code: string; message: string | null; url: string | null }): string {
  const members = {
    code: alert.code,
    ...(alert.message && { message: alert.message.slice(0, 400) }),
    ...(alert.url && { url: alert.url.slice(0, 400) }),
  }
  // Headers are ASCII: whatever is not becomes an escape that JSON readers undo.
  return JSON.stringify(members).replace(
    /[^\x20-\x7e]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
