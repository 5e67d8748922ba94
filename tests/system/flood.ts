/**
 * A program of its own that asks a bridge for one record over and over. Its one argument is a `FloodPlan` as JSON; it
 * prints a `PhaseReport` as JSON after each phase.
 */
export interface FloodPlan {
  hostname: string
  port: number
  /** Who asks for what, in turn. */
  users: { path: string; headers: Record<string, string> }[]
  phases: Phase[]
}

export interface Phase {
  connections: number
  seconds: number
  /** Requests that become due in a second, whatever comes back; as fast as answers come when left out. */
  rate?: number
}

/** What came back for the requests of one phase. */
export interface PhaseReport {
  /** Answered 200, in each second. */
  accepted: number
  /** Answered 503 with Retry-After, in each second. */
  shed: number
  /** Anything else, by what it was. */
  failures: Record<string, number>
  /** The median of the time from a request to its 200. */
  acceptedMs: number
  /** Until the first ten requests in a row were accepted. */
  steadyAfterMs: number
}

const plan = JSON.parse(process.argv[2]!) as FloodPlan
const requests = plan.users.map(({ path, headers }) => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`GET ${path} HTTP/1.1\r\nHost: ${plan.hostname}\r\n${lines.join('')}\r\n`)
})
let turn = 0

for (const phase of plan.phases) process.stdout.write(`${JSON.stringify(await run(phase))}\n`)
process.exit(0)

async function run({ connections, seconds, rate }: Phase): Promise<PhaseReport> {
  const failures: Record<string, number> = {}
  const acceptedMs: number[] = []
  /** Clients that wait until a request is due. */
  const idle: (() => void)[] = []
  let shed = 0
  let inARow = 0
  let steadyAfterMs = Infinity
  const startedAtMs = performance.now()
  const endsAtMs = startedAtMs + seconds * 1000

  async function ask(connection: Connection): Promise<void> {
    const sentAtMs = performance.now()
    const head = await connection.ask(requests[turn++ % requests.length]!)
    const status = head.slice(9, 12)
    if (performance.now() > endsAtMs) return
    if (status === '200') {
      acceptedMs.push(performance.now() - sentAtMs)
      inARow += 1
      if (inARow === 10) steadyAfterMs = Math.min(steadyAfterMs, performance.now() - startedAtMs)
      return
    }
    inARow = 0
    const what = head === '' ? 'closed' : `answered ${status}`
    if (status === '503' && /\r\nretry-after: \d/i.test(head)) shed += 1
    else failures[what] = (failures[what] ?? 0) + 1
  }

  const clients = Array.from({ length: connections }, async () => {
    const connection = await connect()
    while (performance.now() < endsAtMs) {
      if (rate !== undefined) await new Promise<void>((resolve) => idle.push(resolve))
      await ask(connection)
    }
    connection.close()
  })
  // What becomes due while all clients wait for answers is left out: nobody has so much patience.
  const perMs = (rate ?? 0) / 1000
  for (let begun = 0; performance.now() < endsAtMs; await Bun.sleep(1)) {
    for (; begun < (performance.now() - startedAtMs) * perMs; begun++) idle.pop()?.()
  }
  for (const resume of idle) resume()
  await Promise.all(clients)
  acceptedMs.sort((a, b) => a - b)
  return {
    accepted: acceptedMs.length / seconds,
    shed: shed / seconds,
    failures,
    acceptedMs: acceptedMs[acceptedMs.length >> 1] ?? 0,
    steadyAfterMs,
  }
}

interface Connection {
  /** The head of the answer; empty when the connection ends before a whole answer has come. */
  ask(request: Uint8Array): Promise<string>
  close(): void
}

/** A connection that is kept, and costs as little as it can, because the bridge shares the machine. */
async function connect(): Promise<Connection> {
  let received = ''
  let settle: (head: string) => void = () => {}
  const { hostname, port } = plan
  const socket = await Bun.connect({
    hostname,
    port,
    socket: {
      data(_, bytes) {
        received += bytes.toString('latin1')
        const headEnd = received.indexOf('\r\n\r\n')
        const head = received.slice(0, Math.max(0, headEnd))
        // An answer without a length would make this wait until the end.
        if (!(received.length >= headEnd + 4 + Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1]))) return
        received = ''
        settle(head)
      },
      close: () => settle(''),
      error: () => settle(''),
    },
  })
  return {
    ask: (request) =>
      new Promise((resolve) => {
        settle = resolve
        socket.write(request)
      }),
    close: () => void socket.end(),
  }
}
