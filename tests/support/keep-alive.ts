import { connect, type Socket } from 'node:net'

/** One response on a connection that stays open. */
export interface PlainAnswer {
  status: number
  /** By lower-case name; repeated ones joined by a comma. */
  headers: Map<string, string>
  body: Buffer
}

/** Sends requests as bytes, in sequence, over a connection that is reopened when the server closes it. */
export class KeepAlive {
  readonly #port: number
  readonly #host: string
  #socket: Socket | null = null
  #received: Buffer[] = []
  #receivedBytes = 0
  /** Shorter data can't be a complete response. */
  #leastBytes = 0
  #waiting: { isHead: boolean; resolve: (answer: PlainAnswer | null) => void } | null = null

  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
  }

  /** Null if the connection ends before the response is complete. */
  async ask(bytes: Uint8Array, timeoutMs = 60_000): Promise<PlainAnswer | null> {
    const socket = (this.#socket ??= await this.#open())
    const { promise, resolve } = Promise.withResolvers<PlainAnswer | null>()
    this.#waiting = { isHead: bytes[0] === 72 && bytes[1] === 69, resolve }
    const timer = setTimeout(() => socket.destroy(), timeoutMs)
    socket.write(bytes)
    const answer = await promise
    clearTimeout(timer)
    if (answer?.headers.get('connection') === 'close') this.close()
    return answer
  }

  /** The data since the last response. */
  get strayBytes(): number {
    return this.#receivedBytes
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
    this.#receivedBytes = 0
  }

  async #open(): Promise<Socket> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const socket = connect({ port: this.#port, host: this.#host, noDelay: true }, () => resolve())
    this.#received = []
    this.#receivedBytes = 0
    this.#leastBytes = 0
    socket.on('error', reject)
    socket.on('data', (chunk: Buffer) => {
      if (socket !== this.#socket) return
      this.#received.push(chunk)
      this.#receivedBytes += chunk.length
      if (this.#receivedBytes >= this.#leastBytes) this.#take()
    })
    socket.on('close', () => {
      if (socket !== this.#socket) return
      this.#socket = null
      this.#settle(null)
    })
    await promise
    return socket
  }

  #take(): void {
    if (!this.#waiting) return
    const bytes = Buffer.concat(this.#received)
    const read = readAnswer(bytes, this.#waiting.isHead)
    // Parsed again when everything that its head announces has arrived, so that long responses are not copied with every chunk.
    this.#received = read ? [] : [bytes]
    this.#receivedBytes = read ? 0 : bytes.length
    this.#leastBytes = read ? 0 : promisedBytes(bytes)
    if (read) this.#settle(read)
  }

  #settle(answer: PlainAnswer | null): void {
    const waiting = this.#waiting
    this.#waiting = null
    waiting?.resolve(answer)
  }
}

function promisedBytes(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n')
  if (bytes.toString('latin1', 0, 12).startsWith('HTTP/1.1 1')) return 0
  const length = end === -1 ? null : /\r\ncontent-length: *(\d+)/i.exec(bytes.toString('latin1', 0, end))
  return length ? end + 4 + Number(length[1]) : 0
}

/** The response at the beginning of these bytes; null while it is incomplete. */
export function readAnswer(bytes: Buffer, isHead: boolean): PlainAnswer | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return null
  const [start, ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const status = Number(start!.split(' ')[1])
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value)
  }
  const rest = bytes.subarray(end + 4)
  // "100 Continue" comes before the response.
  if (status >= 100 && status < 200) return readAnswer(rest, isHead)
  if (isHead || status === 204 || status === 304) return { status, headers, body: Buffer.alloc(0) }
  if (headers.get('transfer-encoding') === 'chunked') {
    const body = readChunks(rest)
    return body && { status, headers, body }
  }
  const length = Number(headers.get('content-length') ?? 0)
  return rest.length < length ? null : { status, headers, body: rest.subarray(0, length) }
}

function readChunks(bytes: Buffer): Buffer | null {
  const chunks: Buffer[] = []
  for (let at = 0; ;) {
    const end = bytes.indexOf('\r\n', at)
    if (end === -1) return null
    const size = parseInt(bytes.toString('latin1', at, end), 16)
    const start = end + 2
    if (bytes.length < start + size + 2) return null
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(start, start + size))
    at = start + size + 2
  }
}
