/** An answer, taken apart just as far as a client needs it that asks again on the same connection. */
export interface BareAnswer {
  status: number
  body: string
  /** Whether the server wants no further request on this connection. */
  isLast: boolean
}

interface Waiting {
  resolve(answer: BareAnswer): void
  reject(error: Error): void
}

const patienceMs = 30_000

/**
 * One TCP connection, one request at a time, and nothing that is done a second time behind the caller's back: whatever
 * happens to the connection while an answer is due rejects `ask`, with what it was as the message.
 */
export class BareConnection {
  readonly #socket: Bun.Socket
  #received = ''
  #waiting: Waiting | null = null
  #end: string | null = null

  private constructor(socket: Bun.Socket) {
    this.#socket = socket
  }

  static async open(hostname: string, port: number): Promise<BareConnection> {
    let connection: BareConnection | null = null
    const socket = await Bun.connect({
      hostname,
      port,
      socket: {
        data: (_, bytes) => connection?.take(bytes.toString('latin1')),
        end: () => connection?.fail('closed without an answer'),
        close: () => connection?.fail('closed without an answer'),
        error: (_, error) => connection?.fail((error as { code?: string }).code ?? error.message),
      },
    })
    return (connection = new BareConnection(socket))
  }

  /** Whether another request can be sent. */
  get isOpen(): boolean {
    return this.#end === null
  }

  async ask(request: string): Promise<BareAnswer> {
    if (this.#end !== null) throw new Error(this.#end)
    const { promise, resolve, reject } = Promise.withResolvers<BareAnswer>()
    this.#waiting = { resolve, reject }
    const timer = setTimeout(() => this.fail('no answer in time'), patienceMs)
    if (this.#socket.write(request) !== Buffer.byteLength(request)) this.fail('not sent at once')
    return await promise.finally(() => clearTimeout(timer))
  }

  close(): void {
    this.#end ??= 'closed by us'
    this.#socket.end()
  }

  private take(text: string): void {
    this.#received += text
    const answer = readAnswer(this.#received)
    if (!answer) return
    const waiting = this.#waiting
    this.#received = ''
    this.#waiting = null
    if (answer.isLast) this.close()
    waiting?.resolve(answer)
  }

  private fail(reason: string): void {
    this.#end ??= reason
    const begun = this.#received === '' ? '' : ', in the middle of an answer'
    this.#waiting?.reject(new Error(reason + begun))
    this.#waiting = null
    this.#socket.end()
  }
}

/** Null as long as something of it is missing. */
function readAnswer(text: string): BareAnswer | null {
  const headEnd = text.indexOf('\r\n\r\n')
  if (headEnd === -1) return null
  const head = text.slice(0, headEnd).toLowerCase()
  const rest = text.slice(headEnd + 4)
  const length = /\r\ncontent-length: *(\d+)/.exec(head)?.[1]
  const body = length === undefined ? readChunks(rest) : rest.length < Number(length) ? null : rest
  if (body === null) return null
  return { status: Number(head.split(' ', 2)[1]), body, isLast: /\r\nconnection: *close/.test(head) }
}

function readChunks(text: string): string | null {
  let body = ''
  for (let at = 0; ;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return null
    const size = Number.parseInt(text.slice(at, lineEnd), 16)
    const begin = lineEnd + 2
    if (text.length < begin + size + 2) return null
    if (size === 0) return body
    body += text.slice(begin, begin + size)
    at = begin + size + 2
  }
}
