/**
 * A program of its own that asks a bridge for one record over and over. Its one argument is a `FloodPlan` as JSON; it
 * prints a `PhaseReport` as JSON after each phase.
 */
import type { Socket } from 'bun'

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
  seconds: number
  /** Answered 200, in each second. */
  accepted: number
  /** Answered 503 with Retry-After, in each second. */
  shed: number
  /** Became due while all connections waited, and still did so a second later. */
  unsent: number
  /** Anything else, by what it was. */
  failures: Record<string, number>
  /** Since the request was sent. */
  acceptedMs: Percentiles
  shedMs: Percentiles
  /** Until the first ten requests in a row were accepted. */
  steadyAfterMs: number
}

export interface Percentiles {
  p50: number
  p99: number
  max: number
}

/** How long somebody waits for a connection. */
const patienceMs = 1000

const plan = JSON.parse(process.argv[2]!) as FloodPlan
const requests = plan.users.map(({ path, headers }) => {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`GET ${path} HTTP/1.1\r\nHost: ${plan.hostname}\r\n${lines.join('')}\r\n`)
})
let turn = 0

for (const phase of plan.phases) process.stdout.write(`${JSON.stringify(await run(phase))}\n`)
process.exit(0)

async function run({ connections, seconds, rate }: Phase): Promise<PhaseReport> {
  const answers = new Answers()
  const idle: Connection[] = []
  /** When requests became due that no connection was free for, the oldest at `next`. */
  const due: number[] = []
  let next = 0
  let unsent = 0
  let isOver = false

  function takeUp(connection: Connection): void {
    if (isOver) return void idle.push(connection)
    if (rate === undefined) return connection.ask()
    const nowMs = performance.now()
    for (; next < due.length && nowMs - due[next]! > patienceMs; next++) unsent += 1
    if (next === due.length) return void idle.push(connection)
    next += 1
    connection.ask()
  }

  const all = await Promise.all(Array.from({ length: connections }, () => Connection.open(answers, takeUp)))
  answers.startedAtMs = performance.now()
  for (const connection of all) takeUp(connection)
  const endsAtMs = answers.startedAtMs + seconds * 1000
  for (let begun = 0; performance.now() < endsAtMs;) {
    await Bun.sleep(1)
    if (rate === undefined) continue
    const nowMs = performance.now()
    for (const wanted = ((nowMs - answers.startedAtMs) / 1000) * rate; begun < wanted; begun++) {
      const connection = idle.pop()
      if (connection) connection.ask()
      else due.push(nowMs)
    }
  }
  isOver = true
  const tookSeconds = (performance.now() - answers.startedAtMs) / 1000
  const report = answers.report(tookSeconds, unsent + due.length - next)
  for (let rounds = 0; idle.length < connections && rounds < 500; rounds++) await Bun.sleep(10)
  for (const connection of all) connection.close()
  return report
}

/** Counts answers. */
class Answers {
  startedAtMs = 0
  readonly failures: Record<string, number> = {}
  readonly #acceptedMs: number[] = []
  readonly #shedMs: number[] = []
  #inARow = 0
  #steadyAfterMs = Infinity

  note(status: number, hasRetryAfter: boolean, ms: number): void {
    if (status === 200) {
      this.#acceptedMs.push(ms)
      this.#inARow += 1
      if (this.#inARow === 10) {
        this.#steadyAfterMs = Math.min(this.#steadyAfterMs, performance.now() - this.startedAtMs)
      }
      return
    }
    this.#inARow = 0
    if (status === 503 && hasRetryAfter) this.#shedMs.push(ms)
    else this.fail(`answered ${status}`)
  }

  fail(what: string): void {
    this.failures[what] = (this.failures[what] ?? 0) + 1
  }

  report(seconds: number, unsent: number): PhaseReport {
    return {
      seconds,
      accepted: this.#acceptedMs.length / seconds,
      shed: this.#shedMs.length / seconds,
      unsent,
      failures: { ...this.failures },
      acceptedMs: percentilesOf(this.#acceptedMs),
      shedMs: percentilesOf(this.#shedMs),
      steadyAfterMs: this.#steadyAfterMs,
    }
  }
}

function percentilesOf(values: number[]): Percentiles {
  const sorted = Float64Array.from(values).toSorted()
  const at = (share: number) => Math.round((sorted[Math.floor(share * (sorted.length - 1))] ?? 0) * 10) / 10
  return { p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** One connection that is kept. */
class Connection {
  #sentAtMs = 0
  #rest = Buffer.alloc(0)

  private constructor(
    private readonly socket: Socket<Connection>,
    private readonly answers: Answers,
    private readonly takeUp: (connection: Connection) => void,
  ) {}

  static async open(answers: Answers, takeUp: (connection: Connection) => void): Promise<Connection> {
    const socket: Socket<Connection> = await Bun.connect<Connection>({
      hostname: plan.hostname,
      port: plan.port,
      socket: {
        data: ({ data: connection }, bytes) => connection.#take(bytes),
        close: ({ data: connection }) => void (connection.#sentAtMs > 0 && answers.fail('closed')),
        error: () => answers.fail('broken'),
      },
    })
    const connection = new Connection(socket, answers, takeUp)
    socket.data = connection
    return connection
  }

  ask(): void {
    this.#sentAtMs = performance.now()
    this.socket.write(requests[turn++ % requests.length]!)
  }

  close(): void {
    this.socket.end()
  }

  #take(bytes: Buffer): void {
    const whole = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const headEnd = whole.indexOf('\r\n\r\n')
    const head = headEnd === -1 ? '' : whole.toString('latin1', 0, headEnd)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1])
    // An answer without a length would make this wait until the end, and the request count as unanswered.
    if (headEnd === -1 || !(whole.length >= headEnd + 4 + length)) {
      this.#rest = Buffer.from(whole)
      return
    }
    this.#rest = Buffer.alloc(0)
    const ms = performance.now() - this.#sentAtMs
    this.#sentAtMs = 0
    this.answers.note(Number(head.slice(9, 12)), /\r\nretry-after: \d/i.test(head), ms)
    this.takeUp(this)
  }
}
