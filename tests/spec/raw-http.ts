import { connect } from 'node:net'

/** An answer as it came over the wire. */
export interface RawAnswer {
  /** 0 when the connection was closed without an answer. */
  status: number
  headers: Headers
  body: string
  /** Everything that came, further answers on the same connection included. */
  text: string
}

/**
 * Sends exactly these bytes and reads until the server closes the connection, which a request that says
 * `Connection: close` brings about; gives up after 5 s. `endAfterMs`: ends our side as soon as everything is sent.
 */
export function sendRaw(
  url: string,
  bytes: string | Buffer,
  { halfClose = false }: { halfClose?: boolean } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  const { promise, resolve } = Promise.withResolvers<RawAnswer>()
  const chunks: Buffer[] = []
  const socket = connect(Number(port), hostname, () => {
    socket.write(bytes)
    if (halfClose) socket.end()
  })
  socket.setTimeout(5000, () => socket.destroy())
  socket.on('data', (chunk) => chunks.push(Buffer.from(chunk)))
  // A reset is an end as well; what came before it is what counts.
  socket.on('error', () => {})
  socket.on('close', () => resolve(readAnswer(Buffer.concat(chunks).toString('latin1'))))
  return promise
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
export function readAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n')
  const [start = '', ...lines] = text.slice(0, end === -1 ? 0 : end).split('\r\n')
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return { status: Number(start.split(' ')[1] ?? 0), headers, body: text.slice(end + 4), text }
}
