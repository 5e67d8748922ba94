import { UpstreamError } from '../domain/errors.ts'
import { countJsonKeys } from '../domain/json.ts'
import { isOffset } from '../domain/list.ts'
import { fromSyncSeconds, type Timestamp } from '../domain/timestamp.ts'
import type { ByteSource, Notices } from '../domain/record-storage.ts'

/** The body of a response that has begun. Read it to its end or cancel it, or its call never ends. */
export interface BodyStream extends ByteSource {
  /** Releases the permit of its call; from now on the body takes as long as its reader. */
  releasePermit(): void
  /** Reserves memory for the part that is kept. Throws `UpstreamError` (overload) when there is no room. */
  hold(bytes: number): void
}

/** A response of the token server or the storage. */
export interface UpstreamResponse {
  readonly status: number
  readonly headers: Headers
  /** The whole body; empty for an error response with a long one. */
  readonly bytes: Uint8Array
  /** Set instead of `bytes` if a stream was requested and the body is not short. */
  readonly stream: BodyStream | null
}

const longText = 65_536
const longTextLimits = { depth: 32, members: Infinity }

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** The body as text; undefined if it is not UTF-8. */
export function textOf({ bytes }: Pick<UpstreamResponse, 'bytes'>): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** The body as a JSON value; undefined if it is not JSON. */
export function jsonOf(response: Pick<UpstreamResponse, 'bytes'>): unknown {
  const text = textOf(response)
  return text === undefined ? undefined : parseJson(text)
}

/** Parses JSON; undefined if it is invalid, or so long and deep that its value would take many times its memory. */
export function parseJson(text: string): unknown {
  if (text.length > longText && typeof countJsonKeys(text, longTextLimits) === 'string') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The error for a response that does not follow the protocol; a write may have been applied. */
export function unusable(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Unusable response from the storage: ${what}`)
}

/** A list or response is longer than the caller can use. */
export class TooLong extends UpstreamError {
  constructor(what: string, status = 200) {
    super('bad-response', `Cannot read ${what}: too long`, { status })
  }
}

/**
 * Translates a rejection of `fetch` or of its body. Only a failure before the first byte can be sent is `unreachable`; broken TLS (EPROTO)
 * may come later. An error that is not a network failure is returned as it is.
 */
export function toUpstreamError(error: unknown, host: string): unknown {
  if (error instanceof UpstreamError) return error
  const code = codeOf(error)
  if (code === null) return error
  if (neverSent.test(code)) return new UpstreamError('unreachable', `Cannot reach "${host}": ${code}`)
  return new UpstreamError('connection-lost', `Lost the connection to "${host}": ${code}`)
}

const neverSent =
  /^(ECONNREFUSED|ConnectionRefused|FailedToOpenSocket|E(HOST|NET)(UNREACH|DOWN)|ENOTFOUND|EAI_|EDNS|DNS_|.*CERT|.*_ISSUER|ERR_TLS_|.*_LEAF_SIGNATURE|HOSTNAME_MISMATCH|CRL_|INVALID_CA|INVALID_PURPOSE)/

/** The error code of a network failure; null for any other error. */
export function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if ('code' in error && typeof error.code === 'string') return error.code
  // An abort from elsewhere, or the runtime's own timeout, which is longer than ours.
  return error.name === 'AbortError' || error.name === 'TimeoutError' ? error.name : null
}

/** The timestamp of the resource that was read. Throws `bad-response` if it is missing or invalid. */
export function lastModifiedOf(headers: Headers): Timestamp {
  const value = fromSyncSeconds(headers.get('x-last-modified'))
  if (value === null) throw unusable('X-Last-Modified is missing or invalid')
  return value
}

/** The record count that a response announces; null if absent. */
export function recordCountOf(headers: Headers): number | null {
  const text = headers.get('x-weave-records')
  return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : null
}

/** The opaque offset of the next page; null at the end. */
export function nextOffsetOf(headers: Headers): string | null {
  const offset = headers.get('x-weave-next-offset')
  if (offset === null || offset === '') return null
  if (!isOffset(offset)) throw unusable('the offset of the next page is invalid')
  return offset
}

/** The offsets of a list's pages. Each may come once, or a faulty storage would cause an endless loop. */
export class OffsetTrail {
  readonly #seen = new Set<string>()

  /** The offset of the next page, after a page with `recordCount` records; null at the end. */
  next(headers: Headers, recordCount: number): string | null {
    const offset = nextOffsetOf(headers)
    if (offset === null) return null
    if (recordCount === 0 || this.#seen.has(offset)) throw paginationLoop()
    this.#seen.add(offset)
    return offset
  }
}

export function paginationLoop(): UpstreamError {
  return unusable('the pages of a list repeat')
}

const maxSeconds = 86_400

/**
 * The Retry-After of a response in seconds, rounded up and at most a day; null if absent or invalid. Accepts numbers, with decimals too,
 * and HTTP dates; see RFC 9110, 10.2.3.
 */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const text = headers.get('retry-after')
  if (text === null) return null
  const seconds = readSeconds(text)
  if (seconds !== null) return seconds
  const atMs = httpDatePattern.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.min(maxSeconds, Math.max(0, Math.ceil((atMs - nowMs) / 1000)))
}

const httpDatePattern = /^[A-Z][a-z]{2,8},? .{8,40}$/

/** Parses a number of seconds, rounded up and at most a day; null if invalid. */
function readSeconds(text: string | null): number | null {
  if (text === null || !numberPattern.test(text)) return null
  return Math.min(maxSeconds, Math.ceil(Number(text)))
}

const numberPattern = /^\d{1,15}(?:\.\d{1,15})?$/

const maxAlertLength = 4096

/** Collects the notices in response headers; ignores values that are invalid or too long. */
export function collectNotices(notices: Notices, headers: Headers): void {
  notices.backoffSeconds = Math.max(notices.backoffSeconds, readBackoff(headers) ?? 0)
  const alert = headers.get('x-weave-alert')
  if (alert !== null && alert.length > 0 && alert.length <= maxAlertLength) notices.alert = alert
  const quota = headers.get('x-weave-quota-remaining')
  if (quota !== null && quotaPattern.test(quota)) notices.quotaRemaining = quota
}

const quotaPattern = /^-?\d{1,12}(?:\.\d{1,15})?$/

/** The backoff that a response asks for, in seconds; null if none. */
export function readBackoff(headers: Headers): number | null {
  const weave = readSeconds(headers.get('x-weave-backoff'))
  const plain = readSeconds(headers.get('x-backoff'))
  return weave === null && plain === null ? null : Math.max(weave ?? 0, plain ?? 0)
}

/** Throws `UpstreamError` (bad-response) for a response that does not follow the protocol. */
export function checkUsable({ status, headers }: Response, host: string): void {
  const encoding = headers.get('content-encoding')
  let problem: string
  if (status < 200 || status > 599) problem = `status ${status}`
  else if (status >= 300 && status < 400 && status !== 304) problem = 'a redirect'
  else if (encoding === null || encoding.toLowerCase() === 'identity') return
  // Does not quote it, because upstream may echo a secret.
  else problem = 'a Content-Encoding other than "identity"'
  throw new UpstreamError('bad-response', `Unusable response from "${host}": ${problem}`, { status })
}

/** Whether one retry is worthwhile. With Retry-After the server has said when, so there is no earlier retry. */
export function isTransient({ status, headers }: UpstreamResponse): boolean {
  // A 408 may be about the idle connection that the request was sent on.
  if (![408, 500, 502, 503, 504].includes(status)) return false
  return readRetryAfter(headers, 0) === null
}
