/** The part of a UDP socket that is needed here. */
export interface DatagramSocket {
  send(datagram: string): boolean
  close(): void
}

export interface StatsdOptions {
  /** Begins every name. Characters that have a meaning in the protocol are replaced. */
  prefix: string
  /** Rejects when the host is unknown at the moment; `open` is called again later. */
  open(): Promise<DatagramSocket>
  /** Calls the handler every `ms` until the returned function is called. */
  every(ms: number, handler: () => void): () => void
}

/** Sends counts and durations to a statsd, ten times a second. Never waits and never throws: what can't be sent is lost. */
export interface Statsd {
  /** Adds one. Names are our constants, never a client's text. */
  count(name: string): void
  /** A duration in ms. */
  time(name: string, ms: number): void
  /** Sends what is queued, and closes the socket. */
  close(): void
}

// An Ethernet frame holds this much beside the headers of IPv6 and UDP.
const maxDatagramBytes = 1400
const flushMs = 100
/** Datagrams beyond this number between two flushes are dropped. */
const maxQueuedDatagrams = 100
const reopenFlushes = 100

export function createStatsd({ prefix, open, every }: StatsdOptions): Statsd {
  const start = prefix === '' ? '' : `${prefix.replace(/[^\w-]{1,16}$/, '').replace(/[^\w.-]/g, '_')}.`
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
    if (datagrams.length < maxQueuedDatagrams) datagrams.push(last)
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
      // No process listens there at the moment.
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
