/** A UDP socket as far as it is needed here. */
export interface DatagramSocket {
  send(datagram: string): boolean
  close(): void
}

export interface StatsdOptions {
  /** Begins every name; what the protocol would misread in it is replaced. */
  prefix: string
  /** Rejects when the address is unknown now; it is tried again later. */
  open(): Promise<DatagramSocket>
  /** Calls the handler every so many ms until the answer is called. */
  every(ms: number, handler: () => void): () => void
}

/** Sends figures to a statsd, a few times a second and without ever waiting. Whatever is wrong there is nobody's trouble. */
export interface Statsd {
  /** Adds one. Names come from our constants only. */
  count(name: string): void
  /** A duration in ms. */
  time(name: string, ms: number): void
  /** Sends what waits, and ends. */
  close(): void
}

// What fits into a frame of Ethernet together with the headers of IPv6 and UDP.
const maxDatagramBytes = 1400
const flushMs = 100
/** Of a burst, more than that between two flushes is lost. */
const maxDatagramsWaiting = 100
const reopenFlushes = 100

export function createStatsd({ prefix, open, every }: StatsdOptions): Statsd {
  const start = prefix === '' ? '' : `${prefix.replace(/[^\w-]+$/, '').replace(/[^\w.-]/g, '_')}.`
  const counts = new Map<string, number>()
  let datagrams: string[] = []
  let last = ''
  let socket: DatagramSocket | null = null
  let flushesUntilOpen = 0
  let isOpening = false
  let isClosed = false

  function append(line: string): void {
    if (last.length + 1 + line.length <= maxDatagramBytes) {
      last = last === '' ? line : `${last}\n${line}`
      return
    }
    if (datagrams.length < maxDatagramsWaiting) datagrams.push(last)
    last = line
  }

  function flush(): void {
    for (const [name, count] of counts) append(`${start}${name}:${count}|c`)
    counts.clear()
    if (last !== '') datagrams.push(last)
    last = ''
    const sending = datagrams
    datagrams = []
    if (socket) for (const datagram of sending) trySend(socket, datagram)
    else if (sending.length > 0) tryOpen()
  }

  function trySend(to: DatagramSocket, datagram: string): void {
    try {
      to.send(datagram)
    } catch {
      // Nobody listens there now.
    }
  }

  function tryOpen(): void {
    if (isOpening || flushesUntilOpen-- > 0) return
    isOpening = true
    open()
      .then(
        (opened) => {
          if (isClosed) opened.close()
          else socket = opened
        },
        () => void (flushesUntilOpen = reopenFlushes),
      )
      .finally(() => (isOpening = false))
  }

  tryOpen()
  const stop = every(flushMs, flush)
  return {
    count: (name) => void counts.set(name, (counts.get(name) ?? 0) + 1),
    time: (name, ms) => append(`${start}${name}:${Math.round(ms)}|ms`),
    close() {
      if (isClosed) return
      flush()
      isClosed = true
      stop()
      socket?.close()
    },
  }
}
