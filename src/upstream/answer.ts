import { UpstreamError } from '../domain/errors.ts'

/** Bytes that arrive piece by piece. */
export interface ByteSource {
  /** The next piece, or null at the end. Rejects with `UpstreamError` when it breaks. */
  read(): Promise<Uint8Array | null>
  /** Cancels the rest of the body; harmless at its end. */
  cancel(): void
}

/**
 * The body of an answer whose beginning has come. It must be read to its end or cancelled, otherwise its call never ends.
 */
export interface BodyStream extends ByteSource {
  /** Releases the permit of its call: from now on the body takes as long as its reader. */
  releasePermit(): void
}

/** An answer of the token server or the storage. */
export interface UpstreamAnswer {
  readonly status: number
  readonly headers: Headers
  /** The whole body; empty for an error answer that is too long to be understood. */
  readonly bytes: Uint8Array
  /** Set in place of `bytes` where a stream was asked for and the body is not short. */
  readonly stream: BodyStream | null
}

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

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The length that an answer announces for its body; null when it announces none. */
export function announcedLength(headers: Headers): number | null {
  const length = headers.get('content-length')
  return length === null ? null : Number(length)
}

/** Reads a source to its end; null when it holds more than `maxBytes`, beyond which nothing is read. */
export async function readBounded(source: ByteSource, maxBytes: number): Promise<Uint8Array | null> {
  const pieces: Uint8Array[] = []
  let length = 0
  for (let piece = await source.read(); piece; piece = await source.read()) {
    length += piece.length
    if (length > maxBytes) {
      source.cancel()
      return null
    }
    pieces.push(piece)
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length)
}

/**
 * What a rejection of `fetch`, or of a body that it gave, means. Only a failure before the first byte of a request can be
 * sent counts as `unreachable`. A rejection that is no network failure is passed on as it is.
 */
export function toUpstreamError(error: unknown, host: string): unknown {
  if (error instanceof UpstreamError) return error
  const code = codeOf(error)
  if (code === null) return error
  if (neverSent.test(code)) return new UpstreamError('unreachable', `Cannot reach "${host}": ${code}`)
  return new UpstreamError('connection-lost', `Cannot get an answer of "${host}": ${code}`)
}

const neverSent =
  /^(ECONNREFUSED|ConnectionRefused|FailedToOpenSocket|E(HOST|NET)(UNREACH|DOWN)|ENOTFOUND|EAI_|EDNS|DNS_|.*CERT|.*_ISSUER|ERR_TLS_|HOSTNAME_MISMATCH|CRL_|INVALID_CA|INVALID_PURPOSE)/

function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if ('code' in error && typeof error.code === 'string') return error.code
  // An abort that is not ours, or the runtime's own timeout, which is longer than ours.
  return error.name === 'AbortError' || error.name === 'TimeoutError' ? error.name : null
}
