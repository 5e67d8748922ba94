import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'

/** A response as received. */
export interface RawAnswer {
  /** 0 if the connection was closed without a response. */
  status: number
  headers: Headers
  body: string
  /** All data received, including further responses on the same connection. */
  text: string
}

/** A connection on which exactly the given bytes are sent. */
interface RawConnection {
  write(bytes: string | Buffer): void
  /** Closes our side as soon as everything is sent. */
  end(): void
  /** The data received until the server has closed the connection; after a minute of silence, this side closes it. */
  answer: Promise<RawAnswer>
}

/** Opens a connection; over TLS if a certificate authority is given. */
export function openRaw(url: string, ca?: string): RawConnection {
  const { hostname: host, port } = new URL(url)
  const { promise, resolve } = Promise.withResolvers<RawAnswer>()
  const chunks: Buffer[] = []
  const socket = ca ? connectTls({ port: Number(port), host, ca }) : connect(Number(port), host)
  socket.setTimeout(60_000, () => socket.destroy())
  socket.on('data', (chunk: Buffer) => chunks.push(Buffer.from(chunk)))
  // A reset is an end as well; only the data before it counts.
  socket.on('error', () => {})
  socket.on('close', () => resolve(readAnswer(Buffer.concat(chunks).toString('latin1'))))
  return { write: (bytes) => void socket.write(bytes), end: () => void socket.end(), answer: promise }
}

/** Sends these bytes, after which the server must close the connection, as with `Connection: close`. */
export function sendRaw(url: string, bytes: string | Buffer, { halfClose = false } = {}): Promise<RawAnswer> {
  const connection = openRaw(url)
  connection.write(bytes)
  if (halfClose) connection.end()
  return connection.answer
}

/** A request that closes its connection, as text; header values may repeat in `lines`. */
export function rawRequest(
  method: string,
  target: string,
  { url, lines = [], body = '' }: { url: string; lines?: string[]; body?: string },
): Buffer {
  const host = lines.some((line) => /^host:/i.test(line)) ? [] : [`Host: ${new URL(url).host}`]
  const head = [`${method} ${target} HTTP/1.1`, ...host, 'Connection: close', ...lines]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`, 'latin1')
}

/** Parses the first response received over a connection. */
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
