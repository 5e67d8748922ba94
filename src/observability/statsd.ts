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
}

/** Sends counts and durations to a statsd. Never waits and never throws: what can't be sent is lost. */
export interface Statsd {
  /** Adds one. Names are our constants, never a client's text. */
  count(name: string): void
  /** A duration in ms. */
  time(name: string, ms: number): void
  /** Sends what is queued; called ten times a second. */
  flush(): void
  /** Sends what is queued, and closes the socket. */
  close(): void
}

// An Ethernet frame holds this much beside the headers of IPv6 and UDP.
const maxDatagramBytes = 1400
/** Durations beyond this number between two flushes are dropped. */
const maxQueuedLines = 3000
const reopenFlushes = 100

export function createStatsd({ prefix, open }: StatsdOptions): Statsd {
  const start = prefix === '' ? '' : `${prefix.replace(/[^\w-]{1,16}$/, '').replace(/[^\w.-]/g, '_')}.`
  const counts = new Map<string, number>()
  let durations: string[] = []
  let socket: DatagramSocket | null = null
  let flushes = 0
  let isClosed = false

  function flush(): void {
    const lines = [...durations, ...Array.from(counts, ([name, count]) => `${start}${name}:${count}|c`)]
    durations = []
    counts.clear()
    let datagram = ''
    for (const line of lines) {
      const fits = datagram.length + 1 + line.length <= maxDatagramBytes
      if (!fits) send(datagram)
      datagram = fits && datagram !== '' ? `${datagram}\n${line}` : line
    }
    if (datagram !== '') send(datagram)
    if (!socket && ++flushes % reopenFlushes === 0) void tryOpen()
  }

  function send(datagram: string): void {
    try {
      socket?.send(datagram)
    } catch {
      // No process listens there at the moment.
    }
  }

  async function tryOpen(): Promise<void> {
    const opened = await open().catch(() => null)
    if (isClosed || socket) opened?.close()
    else socket = opened
  }

  void tryOpen()
  return {
    flush,
    count: (name) => void counts.set(name, (counts.get(name) ?? 0) + 1),
    time(name, ms) {
      if (durations.length < maxQueuedLines) durations.push(`${start}${name}:${Math.round(ms)}|ms`)
    },
    close() {
      if (isClosed) return
      flush()
      isClosed = true
      socket?.close()
    },
  }
}
