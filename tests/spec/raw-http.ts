import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** An answer as it came over the wire. */
export interface RawAnswer {
  /** 0 when the connection was closed without an answer. */
  status: number
  headers: Headers
  body: string
  /** Everything that came, further answers on the same connection included. */
  text: string
}

/** A connection on which exactly the bytes are sent that are written. */
interface RawConnection {
  write(bytes: string | Buffer): void
  /** Ends our side as soon as everything is sent. */
  end(): void
  /** What has come once the server has closed the connection; after a minute of silence it is closed by us. */
  answer: Promise<RawAnswer>
}

/** Opens one, by TLS with the certificate of an authority where that is given. */
export function openRaw(url: string, ca?: string): RawConnection {
  const { hostname: host, port } = new URL(url)
  const { promise, resolve } = Promise.withResolvers<RawAnswer>()
  const chunks: Buffer[] = []
  const socket = ca ? connectTls({ port: Number(port), host, ca }) : connect(Number(port), host)
  socket.setTimeout(60_000, () => socket.destroy())
  socket.on('data', (chunk: Buffer) => chunks.push(Buffer.from(chunk)))
  // A reset is an end as well; what came before it is what counts.
  socket.on('error', () => {})
  socket.on('close', () => resolve(readAnswer(Buffer.concat(chunks).toString('latin1'))))
  return { write: (bytes) => void socket.write(bytes), end: () => void socket.end(), answer: promise }
}

/** Sends these bytes, which have the server close the connection: a request that says `Connection: close` does. */
export function sendRaw(url: string, bytes: string | Buffer, { halfClose = false } = {}): Promise<RawAnswer> {
  const connection = openRaw(url)
  connection.write(bytes)
  if (halfClose) connection.end()
  return connection.answer
}

/** A request that ends its connection, as text; header values may repeat in `lines`. */
export function rawRequest(
  method: string,
  target: string,
  { url, lines = [], body = '' }: { url: string; lines?: string[]; body?: string },
): Buffer {
  const host = lines.some((line) => /^host:/i.test(line)) ? [] : [`Host: ${new URL(url).host}`]
  const head = [`${method} ${target} HTTP/1.1`, ...host, 'Connection: close', ...lines]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1')
}

/** Reads the first answer of what came over a connection. */
function readAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n')
  const [start = '', ...lines] = text.slice(0, end === -1 ? 0 : end).split('\r\n')
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return { status: Number(start.split(' ')[1] ?? 0), headers, body: text.slice(end + 4), text }
}
