/**
 * A wire between the bridge and its storage: every byte arrives half a round trip later, in both directions, regardless of throughput. It
 * only passes bytes, so it also carries TLS. Connecting takes a round trip, like TCP's handshake: earlier data from a client
 * waits for it. Usage: bun bench/wire.ts PORT..., the target ports on 127.0.0.1. Prints the ports to use instead, as JSON. Each input line
 * sets the round trip in ms, and is answered by `[]`.
 */
import type { Socket } from 'bun'

/** Data in transit, in order of arrival, since the delay is the same for all. */
class Delay {
  ms = 0
  #queue: { atMs: number; arrive: () => void }[] = []
  #first = 0
  #isTimed = false

  send(arrive: () => void): void {
    this.#queue.push({ atMs: performance.now() + this.ms, arrive })
    if (!this.#isTimed) this.#wait()
  }

  #wait(): void {
    this.#isTimed = true
    setTimeout(() => this.#arrive(), this.#queue[this.#first]!.atMs - performance.now())
  }

  #arrive(): void {
    const nowMs = performance.now()
    while (this.#first < this.#queue.length && this.#queue[this.#first]!.atMs <= nowMs) {
      this.#queue[this.#first]!.arrive()
      this.#first += 1
    }
    if (this.#first > 1024 || this.#first === this.#queue.length) {
      this.#queue = this.#queue.slice(this.#first)
      this.#first = 0
    }
    this.#isTimed = false
    if (this.#queue.length > 0) this.#wait()
  }
}

const oneWay = new Delay()
const handshake = new Delay()

/** One end of a connection, and the data that its other end has yet to receive. */
interface End {
  other: Socket<End> | null
  /** Data sent before the connection was open; null once it is. */
  early: Uint8Array[] | null
  unsent: Uint8Array[]
  isEnding: boolean
}

function newEnd(early: Uint8Array[] | null): End {
  return { other: null, early, unsent: [], isEnding: false }
}

function write(socket: Socket<End>, chunk: Uint8Array): void {
  const { unsent } = socket.data
  if (unsent.length > 0) {
    unsent.push(chunk)
    return
  }
  const written = socket.write(chunk)
  if (written < chunk.length) unsent.push(chunk.subarray(Math.max(0, written)))
}

function flush(socket: Socket<End>): void {
  const waiting = socket.data.unsent.splice(0)
  for (const chunk of waiting) write(socket, chunk)
  if (socket.data.isEnding && socket.data.unsent.length === 0) socket.end()
}

function end(socket: Socket<End>): void {
  socket.data.isEnding = true
  if (socket.data.unsent.length === 0) socket.end()
}

const handlers = {
  data(socket: Socket<End>, chunk: Uint8Array) {
    const { early, other } = socket.data
    if (early !== null) early.push(chunk)
    else if (other !== null) oneWay.send(() => write(other, chunk))
  },
  drain: flush,
  close(socket: Socket<End>) {
    const { other } = socket.data
    if (other !== null) oneWay.send(() => end(other))
  },
  error() {},
}

const listeners = process.argv.slice(2).map((port) =>
  Bun.listen<End>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      ...handlers,
      open(near) {
        near.data = newEnd([])
        handshake.send(() => void connect(near, Number(port)))
      },
    },
  }),
)
process.stdout.write(`${JSON.stringify(listeners.map(({ port }) => port))}\n`)
for await (const line of console) {
  oneWay.ms = Number(line) / 2
  handshake.ms = Number(line)
  process.stdout.write('[]\n')
}
process.exit()

async function connect(near: Socket<End>, port: number): Promise<void> {
  try {
    const data = newEnd(null)
    const far = await Bun.connect<End>({ hostname: '127.0.0.1', port, socket: handlers, data })
    far.data.other = near
    near.data.other = far
    for (const chunk of near.data.early!) oneWay.send(() => write(far, chunk))
    near.data.early = null
    if (near.readyState <= 0) oneWay.send(() => end(far))
  } catch {
    near.terminate()
  }
}
