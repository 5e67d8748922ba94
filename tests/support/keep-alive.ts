import { collect, readBody, readHead, responseFraming } from './http-messages.ts'
import { openWire, type Wire } from './wire.ts'

/** One response on a connection that stays open. */
export interface PlainAnswer {
  status: number
  headers: Headers
  body: Buffer
}

/** Sends requests as bytes, in sequence, over a connection that is reopened when the server closes it. */
export class KeepAlive {
  readonly #url: URL
  #wire: Wire | null = null

  constructor(url: string) {
    this.#url = new URL(url)
  }

  /** Null if the connection ends before the response is complete. */
  async ask(bytes: Uint8Array, timeoutMs = 60_000): Promise<PlainAnswer | null> {
    const wire = (this.#wire ??= await openWire(this.#url))
    const timer = setTimeout(() => wire.reset(), timeoutMs)
    const answer = await exchange(wire, bytes).catch(() => null)
    clearTimeout(timer)
    if (wire.isClosed || answer?.headers.get('connection') === 'close') this.close()
    return answer
  }

  /** The data since the last response. */
  get strayBytes(): number {
    return this.#wire?.unreadBytes ?? 0
  }

  close(): void {
    this.#wire?.reset()
    this.#wire = null
  }
}

async function exchange(wire: Wire, bytes: Uint8Array): Promise<PlainAnswer | null> {
  await wire.write(bytes)
  const method = new TextDecoder().decode(bytes.subarray(0, 4))
  for (;;) {
    const head = await readHead(wire)
    if (head === null) return null
    const status = Number(head.start.split(' ')[1])
    // "100 Continue" comes before the response.
    if (status >= 100 && status < 200) continue
    const { data } = await collect(readBody(wire, responseFraming(head, method)))
    return { status, headers: head.headers, body: data }
  }
}
