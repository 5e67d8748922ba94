import { UpstreamError } from '../domain/errors.ts'
import { countJsonKeys } from '../domain/json.ts'
import { joinBytes } from '../domain/list.ts'
import { fromSyncSeconds, type Timestamp } from '../domain/record.ts'
import type { ByteSource, Notices } from '../domain/record-storage.ts'

/**
 * The body of an answer whose beginning has come. It must be read to its end or cancelled, otherwise its call never ends.
 */
export interface BodyStream extends ByteSource {
  /** Releases the permit of its call: from now on the body takes as long as its reader. */
  releasePermit(): void
  /** Holds so many bytes more for what is kept of it. Throws `UpstreamError` (overload) when there is no room for them. */
  hold(bytes: number): void
}

/** An answer of the token server or the storage. */
export interface UpstreamAnswer {
  readonly status: number
  readonly headers: Headers
  /** The whole body; empty for one that is too long. */
  readonly bytes: Uint8Array
  /** Whether there was more than is read: of an error answer, or where that was foreseen. */
  readonly isTooLong: boolean
  /** Set in place of `bytes` where a stream was asked for and the body is not short. */
  readonly stream: BodyStream | null
  /** Whether the runtime may have sent the request more than once, so that this may be the answer to a repetition. */
  readonly mayBeRepeated?: boolean
}

const longText = 65_536
const longTextLimits = { depth: 32, members: Infinity }

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

/** The body as text; undefined when it is no UTF-8. */
export function textOf({ bytes }: Pick<UpstreamAnswer, 'bytes'>): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** The body as a JSON value; undefined when it is anything else. */
export function jsonOf(answer: Pick<UpstreamAnswer, 'bytes'>): unknown {
  const text = textOf(answer)
  return text === undefined ? undefined : parseJson(text)
}

/** The value of a JSON text; undefined when it is none, or so long and deep that its value would take many times its memory. */
export function parseJson(text: string): unknown {
  if (text.length > longText && typeof countJsonKeys(text, longTextLimits) === 'string') return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The failure of an answer that the protocol does not know; a write may have been applied. */
export function unusable(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Cannot use an answer of the storage: ${what}`)
}

/** The length that an answer announces for its body; null when it announces none. */
export function announcedLength(headers: Headers): number | null {
  const length = headers.get('content-length')
  return length === null ? null : Number(length)
}

/**
 * Reads a source to its end; null when it holds more than `maxBytes`, beyond which nothing is read. `hold` is told of the
 * bytes before they are kept, and may throw; then the source is left as it is.
 */
export async function readBounded(
  source: ByteSource,
  maxBytes: number,
  hold: (bytes: number) => void = () => {},
): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = []
  let length = 0
  for (let piece = await source.read(); piece; piece = await source.read()) {
    length += piece.length
    if (length > maxBytes) {
      source.cancel()
      return null
    }
    hold(piece.length)
    pieces.push(piece)
  }
  return pieces.length === 1 ? pieces[0]! : joinBytes(pieces)
}

/**
 * What a rejection of `fetch`, or of a body that it gave, means. Only a failure before the first byte of a request can be
 * sent counts as `unreachable`; broken TLS (EPROTO) may come later. A rejection that is no network failure is passed on as it is.
 */
export function toUpstreamError(error: unknown, host: string): unknown {
  if (error instanceof UpstreamError) return error
  const code = codeOf(error)
  if (code === null) return error
  if (neverSent.test(code)) return new UpstreamError('unreachable', `Cannot reach "${host}": ${code}`)
  return new UpstreamError('connection-lost', `Cannot get an answer of "${host}": ${code}`)
}

const neverSent =
  /^(ECONNREFUSED|ConnectionRefused|FailedToOpenSocket|E(HOST|NET)(UNREACH|DOWN)|ENOTFOUND|EAI_|EDNS|DNS_|.*CERT|.*_ISSUER|ERR_TLS_|.*_LEAF_SIGNATURE|HOSTNAME_MISMATCH|CRL_|INVALID_CA|INVALID_PURPOSE)/

/** The code of what the runtime has thrown; null when it is no network failure. */
export function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if ('code' in error && typeof error.code === 'string') return error.code
  // An abort that is not ours, or the runtime's own timeout, which is longer than ours.
  return error.name === 'AbortError' || error.name === 'TimeoutError' ? error.name : null
}

/** The timestamp of the resource that was read; an answer without a readable one is `bad-response`. */
export function lastModifiedOf(headers: Headers): Timestamp {
  const value = fromSyncSeconds(headers.get('x-last-modified'))
  if (value === null) throw unusable('no readable X-Last-Modified')
  return value
}

/** The number of records in an answer, where the answer announces it. */
export function recordCountOf(headers: Headers): number | null {
  const text = headers.get('x-weave-records')
  return text !== null && /^\d{1,12}$/.test(text) ? Number(text) : null
}

const maxOffsetLength = 1024

/** Where the next page begins, opaque; null at the end. */
export function nextOffsetOf(headers: Headers): string | null {
  const offset = headers.get('x-weave-next-offset')
  if (offset === null || offset === '') return null
  if (offset.length > maxOffsetLength) throw unusable('endless offset')
  return offset
}

/** The offsets of a list's pages. Each may come once, or a broken storage would be followed for ever. */
export class OffsetTrail {
  readonly #seen = new Set<string>()

  /** The offset of the page after one with so many records; null at the end. */
  next(headers: Headers, recordCount: number): string | null {
    const offset = nextOffsetOf(headers)
    if (offset === null) return null
    if (recordCount === 0 || this.#seen.has(offset)) throw paginationLoop()
    this.#seen.add(offset)
    return offset
  }
}

export function paginationLoop(): UpstreamError {
  return unusable('a list that goes round in circles')
}

const maxSeconds = 86_400

/**
 * The seconds that an answer asks to wait, rounded up and at most a day; null when it asks for none or can't be read.
 * Numbers, also with a fraction, and HTTP dates; see RFC 9110, 10.2.3.
 */
export function readRetryAfter(headers: Headers, nowMs: number): number | null {
  const text = headers.get('retry-after')
  if (text === null) return null
  const seconds = readSeconds(text)
  if (seconds !== null) return seconds
  const atMs = httpDateForm.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(atMs) ? null : Math.min(maxSeconds, Math.max(0, Math.ceil((atMs - nowMs) / 1000)))
}

const httpDateForm = /^[A-Z][a-z]{2,8},? .{8,40}$/

/** Reads a number of seconds that upstream asks for, rounded up and at most a day; null for anything else. */
function readSeconds(text: string | null): number | null {
  if (text === null || !numberForm.test(text)) return null
  return Math.min(maxSeconds, Math.ceil(Number(text)))
}

const numberForm = /^\d{1,15}(?:\.\d{1,15})?$/

const maxAlertLength = 4096

/** Collects the notices in the headers of an answer; a value that is no number, or too long, is dropped. */
export function collectNotices(notices: Notices, headers: Headers): void {
  const backoffSeconds = readBackoff(headers)
  if (backoffSeconds !== null) notices.backoffSeconds = Math.max(notices.backoffSeconds ?? 0, backoffSeconds)
  const alert = headers.get('x-weave-alert')
  if (alert !== null && alert.length > 0 && alert.length <= maxAlertLength) notices.alert = alert
  const quota = headers.get('x-weave-quota-remaining')
  if (quota !== null && quotaForm.test(quota)) notices.quotaRemaining = quota
}

const quotaForm = /^\d{1,12}(?:\.\d{1,15})?$/

/** The pause between requests that an answer asks for, in seconds; null when it asks for none. */
export function readBackoff(headers: Headers): number | null {
  const weave = readSeconds(headers.get('x-weave-backoff'))
  const plain = readSeconds(headers.get('x-backoff'))
  return weave === null && plain === null ? null : Math.max(weave ?? 0, plain ?? 0)
}

/** Throws `UpstreamError` (bad-response) for what is no answer of the protocol. */
export function checkUsable({ status, headers }: Response, host: string): void {
  const encoding = headers.get('content-encoding')
  const problem =
    status < 200 || status > 599
      ? `status ${status}`
      : status >= 300 && status < 400 && status !== 304
        ? 'a redirection'
        : encoding !== null && encoding.toLowerCase() !== 'identity'
          ? 'encoded, though identity was asked for'
          : null
  if (problem === null) return
  throw new UpstreamError('bad-response', `Cannot use the answer of "${host}": ${problem}`, { status })
}

/** Transient 5xx are worth one retry. With Retry-After the server has said when; don't retry before. */
export function isTransient({ status, headers }: UpstreamAnswer): boolean {
  if (status !== 500 && status !== 502 && status !== 503 && status !== 504) return false
  return readRetryAfter(headers, 0) === null
}
