import type { Socket } from 'bun'

/** Creates wires from the sockets of a listener or a connection. */
export const wireHandlers = {
  data: (socket: Socket<Wire>, data: Buffer) => socket.data.receive(data),
  drain: (socket: Socket<Wire>) => socket.data.drained(),
  end: (socket: Socket<Wire>) => socket.data.ended(),
  close: (socket: Socket<Wire>) => socket.data.ended(),
  error: (socket: Socket<Wire>) => socket.data.ended(),
}

/** Connects to the host and port of an address. */
export async function openWire({ hostname, port }: URL): Promise<Wire> {
  const open = (socket: Socket<Wire>) => void (socket.data = new Wire(socket))
  const data = undefined as unknown as Wire
  const socket = await Bun.connect<Wire>({
    hostname,
    port: Number(port || 80),
    data,
    socket: { ...wireHandlers, open },
  })
  return socket.data
}

const maxBufferedBytes = 1024 * 1024

/** A socket with asynchronous reads and writes. */
export class Wire {
  readonly closed: Promise<void>
  isClosed = false
  #received = Buffer.alloc(0)
  #isPaused = false
  #markClosed: () => void
  #changed = Promise.withResolvers<void>()
  #writable = Promise.withResolvers<void>()

  constructor(readonly socket: Socket<Wire>) {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.closed = promise
    this.#markClosed = resolve
  }

  receive(data: Buffer): void {
    this.#received = Buffer.concat([this.#received, data])
    this.#isPaused = this.#received.length > maxBufferedBytes
    if (this.#isPaused) this.socket.pause()
    this.#notify()
  }

  drained(): void {
    this.#writable.resolve()
  }

  ended(): void {
    this.isClosed = true
    this.#markClosed()
    this.#writable.resolve()
    this.#notify()
  }

  /** The data that has arrived and was not read. */
  get unreadBytes(): number {
    return this.#received.length
  }

  /** Everything up to and including the mark; null if the connection ended before it. */
  async readThrough(mark: string): Promise<Buffer | null> {
    const found = () => this.#received.indexOf(mark)
    await this.#until(() => found() >= 0)
    return found() < 0 ? null : this.#take(found() + mark.length)
  }

  async readExactly(length: number): Promise<Buffer | null> {
    // The buffer may have to grow beyond its usual size.
    await this.#until(() => this.#received.length >= length, length > maxBufferedBytes)
    return this.#received.length < length ? null : this.#take(length)
  }

  /** The data that has arrived, at least one byte; null at the end of the connection. */
  async readSome(most: number): Promise<Buffer | null> {
    await this.#until(() => this.#received.length > 0)
    return this.#received.length === 0 ? null : this.#take(Math.min(most, this.#received.length))
  }

  /** Resolves when the operating system has accepted all of it; rejects when the connection is lost. */
  async write(bytes: Uint8Array): Promise<void> {
    let left = bytes
    while (left.length > 0) {
      if (this.isClosed) throw new Error('Cannot write: the connection is closed')
      this.#writable = Promise.withResolvers()
      const written = this.socket.write(left)
      left = left.subarray(Math.max(0, written))
      if (left.length > 0) await this.#writable.promise
    }
  }

  async end(): Promise<void> {
    if (!this.isClosed) this.socket.end()
  }

  /** Aborts the connection; the other side sees a reset. */
  reset(): void {
    if (this.isClosed) return
    this.ended()
    this.socket.terminate()
  }

  async #until(isEnough: () => boolean, unbounded = false): Promise<void> {
    while (!isEnough() && !this.isClosed) {
      if (this.#isPaused && unbounded) this.#resume()
      await this.#changed.promise
    }
  }

  #take(length: number): Buffer {
    const taken = this.#received.subarray(0, length)
    this.#received = this.#received.subarray(length)
    if (this.#isPaused && this.#received.length <= maxBufferedBytes) this.#resume()
    return taken
  }

  #resume(): void {
    this.#isPaused = false
    this.socket.resume()
  }

  #notify(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
