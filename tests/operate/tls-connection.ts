import { connect } from 'node:tls'

import { readAnswer } from '../spec/raw-http.ts'

import type { RawAnswer } from '../spec/raw-http.ts'

/** A connection to a balancer on which exactly these bytes are sent. */
interface TlsConnection {
  write(bytes: string): void
  /** All that has come once the connection is closed, by either side; after 5 s it is closed by ours. */
  answer: Promise<RawAnswer>
}

export function openTls(port: number, ca: string): TlsConnection {
  const chunks: Buffer[] = []
  const { promise, resolve } = Promise.withResolvers<RawAnswer>()
  const socket = connect({ port, host: '127.0.0.1', ca })
  socket.setTimeout(5000, () => socket.destroy())
  socket.on('data', (chunk) => chunks.push(Buffer.from(chunk)))
  // A reset is an end as well; what came before it is what counts.
  socket.on('error', () => {})
  socket.on('close', () => resolve(readAnswer(Buffer.concat(chunks).toString('latin1'))))
  return { write: (bytes) => void socket.write(bytes, 'latin1'), answer: promise }
}

/** Sends this request line with the headers that every request needs, and reads the answer. */
export function askTls(port: number, ca: string, start: string): Promise<RawAnswer> {
  const connection = openTls(port, ca)
  connection.write(`${start}\r\nHost: sync.example.org\r\nConnection: close\r\n\r\n`)
  return connection.answer
}
