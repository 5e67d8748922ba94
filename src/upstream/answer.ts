import { UpstreamError } from '../domain/errors.ts'

/** Bytes that arrive piece by piece. */
export interface ByteSource {
  /** The next piece, or null at the end. Rejects with `UpstreamError` when it breaks. */
  read(): Promise<Uint8Array | null>
  /** Not interested in the rest; harmless at the end. */
  cancel(): void
}

/** What upstream answered. The body is read to its end or cancelled, or else it keeps its place among the calls. */
export interface UpstreamAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: ByteSource
}

/** The whole body. More than `maxBytes` is `bad-response`; nothing beyond is read. */
export async function readBounded(answer: UpstreamAnswer, maxBytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let length = 0
  if (Number(answer.headers.get('content-length')) > maxBytes) throw tooLarge(answer, maxBytes)
  for (let piece = await answer.body.read(); piece; piece = await answer.body.read()) {
    length += piece.length
    if (length > maxBytes) throw tooLarge(answer, maxBytes)
    pieces.push(piece)
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, length)
}

function tooLarge(answer: UpstreamAnswer, maxBytes: number): UpstreamError {
  answer.body.cancel()
  const { status } = answer
  return new UpstreamError('bad-response', `Cannot read an answer: larger than ${maxBytes} bytes`, { status })
}

/** The whole body as a JSON value; undefined when it is anything else. */
export async function readJson(answer: UpstreamAnswer, maxBytes: number): Promise<unknown> {
  return (await readJsonText(answer, maxBytes))?.value
}

/** The same, with the text that it was parsed from. */
export async function readJsonText(
  answer: UpstreamAnswer,
  maxBytes: number,
): Promise<{ text: string; value: unknown } | undefined> {
  const bytes = await readBounded(answer, maxBytes)
  try {
    const text = strictUtf8.decode(bytes)
    return { text, value: JSON.parse(text) }
  } catch {
    return undefined
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

const errorBodyBytes = 8192

/** The body of an error answer as a JSON value, undefined where it is none. Never shown: only known codes count. */
export async function readErrorBody(answer: UpstreamAnswer): Promise<unknown> {
  try {
    return await readJson(answer, errorBodyBytes)
  } catch {
    return undefined
  }
}

/** Ends an answer whose body says nothing; a short one is read, so that its connection can be used again. */
export async function discard(answer: UpstreamAnswer): Promise<void> {
  const length = answer.headers.get('content-length')
  if (length !== null && Number(length) <= errorBodyBytes) await readErrorBody(answer)
  else answer.body.cancel()
}
