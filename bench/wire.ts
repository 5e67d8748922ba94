/**
 * A wire between the bridge and its storage: every byte arrives half a round trip later, in both directions, however many there
 * are. It passes bytes and knows nothing of what they say, so TLS and HTTP/2 go through it. To connect takes a round trip, as
 * TCP's handshake does: what a client sends before that leaves only then.
 *
 * Usage: bun bench/wire.ts PORT...; the ports of 127.0.0.1 to lead to. Prints those to use in their place as JSON. Each line of
 * its input is a round trip in ms, from now on, and is answered by `[]`.
 */
import type { Socket } from 'bun'

/** What is under way, in the order of its arrival, since everything takes equally long. */
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

/** One end of a connection, and what its other end has yet to receive. */
interface End {
  other: Socket<End> | null
  /** Sent before the connection stood; null since it stands. */
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
