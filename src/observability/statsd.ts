type Address = { host: string; port: number }

export type Statsd = ReturnType<typeof createStatsd>

// Fits into one Ethernet frame, with the headers of IPv6 and UDP.
const maxDatagramBytes = 1400
/** Maximum durations between two flushes; more are dropped. */
const maxQueuedLines = 3000
const reopenFlushes = 100

/**
 * Sends counts and durations to statsd. Never blocks and never throws: what can't be sent is lost. `prefix` starts every name; characters
 * with a meaning in the protocol are replaced. `onUnknownHost` is called once.
 */
export function createStatsd(
  address: Address,
  prefix: string,
  onUnknownHost: (code: string) => void,
  open = openStatsdSocket,
) {
  const start = prefix === '' ? '' : `${prefix.replace(/[^\w-]{1,16}$/, '').replace(/[^\w.-]/g, '_')}.`
  const counts = new Map<string, number>()
  let durations: string[] = []
  let socket: Awaited<ReturnType<typeof openStatsdSocket>> | null = null
  let flushes = 0
  let isReported = false
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
      // Nothing listens there at the moment.
    }
  }

  async function tryOpen(): Promise<void> {
    const opened = await open(address).catch((error: { code?: unknown }) => {
      if (!isReported) onUnknownHost(String(error.code))
      isReported = true
      return null
    })
    if (isClosed || socket) opened?.close()
    else socket = opened
  }

  void tryOpen()
  return {
    /** Sends the queue; called ten times a second. */
    flush,
    /** Increments a count. Names are constants, never a client's text. */
    count: (name: string) => void counts.set(name, (counts.get(name) ?? 0) + 1),
    /** Records a duration in ms. */
    time(name: string, ms: number): void {
      if (durations.length < maxQueuedLines) durations.push(`${start}${name}:${Math.round(ms)}|ms`)
    },
    /** Sends the queue and closes the socket. */
    close(): void {
      if (isClosed) return
      flush()
      isClosed = true
      socket?.close()
    },
  }
}

/** Rejects if the host can't be resolved. */
export async function openStatsdSocket({ host: hostname, port }: Address) {
  const open = async (local: string) =>
    // Without an error listener, a host that refuses datagrams would end the process.
    Bun.udpSocket({ hostname: local, connect: { hostname, port }, socket: { error() {} } })
  // A socket has the family of its own address, and can't connect to the other one.
  const socket = await open('0.0.0.0').catch((error: { code?: unknown }) => {
    if (error.code !== 'EAFNOSUPPORT') throw error
    return open('::')
  })
  socket.unref()
  return socket
}
