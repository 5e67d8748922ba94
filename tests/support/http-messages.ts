/** HTTP/1.1 messages, read from a connection as they are framed on it. */
import type { Wire } from './wire.ts'

export interface Head {
  /** The bytes, including the empty line. */
  raw: Buffer
  /** Request line or status line. */
  start: string
  headers: Headers
}

type Framing = number | 'chunked' | 'until-close'

export async function readHead(wire: Wire): Promise<Head | null> {
  const raw = await wire.readThrough('\r\n\r\n')
  if (raw === null) return null
  const [start = '', ...lines] = raw.toString('latin1').trimEnd().split('\r\n')
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return { raw, start, headers }
}

export function requestFraming({ headers }: Head): Framing {
  if (/chunked/i.test(headers.get('Transfer-Encoding') ?? '')) return 'chunked'
  return Number(headers.get('Content-Length') ?? 0)
}

export function responseFraming({ start, headers }: Head, method: string): Framing {
  const status = Number(start.split(' ')[1])
  if (method === 'HEAD' || status === 204 || status === 304) return 0
  if (/chunked/i.test(headers.get('Transfer-Encoding') ?? '')) return 'chunked'
  const length = headers.get('Content-Length')
  return length === null ? 'until-close' : Number(length)
}

interface BodyPart {
  /** As framed on the wire. */
  raw: Buffer
  data: Buffer
}

export async function* readBody(wire: Wire, framing: Framing): AsyncGenerator<BodyPart> {
  if (framing === 'chunked') return yield* readChunks(wire)
  let left = framing === 'until-close' ? Number.POSITIVE_INFINITY : framing
  while (left > 0) {
    const data = await wire.readSome(left)
    if (data === null && framing === 'until-close') return
    if (data === null) throw new Error('Cannot read the body: the connection ended in the middle of it')
    left -= data.length
    yield { raw: data, data }
  }
}

async function* readChunks(wire: Wire): AsyncGenerator<BodyPart> {
  for (;;) {
    const line = await wire.readThrough('\r\n')
    const size = Number.parseInt(line?.toString() ?? '', 16)
    const chunk = await wire.readExactly(size + 2)
    if (line === null || chunk === null) throw new Error('Cannot read a chunk: the connection ended')
    yield { raw: Buffer.concat([line, chunk]), data: chunk.subarray(0, size) }
    if (size === 0) return
  }
}

export async function collect(parts: AsyncIterable<BodyPart>): Promise<BodyPart> {
  const all: BodyPart[] = []
  for await (const part of parts) all.push(part)
  return { raw: Buffer.concat(all.map(({ raw }) => raw)), data: Buffer.concat(all.map(({ data }) => data)) }
}
