import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startExecutable, type Executable } from '../support/executable.ts'
import { KeepAlive } from '../support/keep-alive.ts'
import { bodyOf, kindsOf, limits, ordinaryBody, type Kind } from './kinds.ts'
import { loopMs, plainMs, processorMs } from './processor-time.ts'

/** How much longer a request may block the loop than copying and parsing plain text. */
const maxBlocked = 20
/** How much more a byte may cost in a larger request than in a smaller one. */
const maxGrowth = 3
const passes = 20
// A measurement takes this long, or this many requests.
const longEnoughMs = 5
const maxTurns = 16

let bridge: Executable
let kinds: Kind[]
let asking: KeepAlive
let beating: KeepAlive

const heartbeat = Buffer.from('GET /__lbheartbeat__ HTTP/1.1\r\nHost: bridge.example\r\n\r\n')

beforeAll(async () => {
  bridge = await startExecutable({
    settings: {
      max_request_bytes: String(limits.requestBytes),
      batch_max_requests: String(limits.batchRequests),
    },
    writable: ['history'],
  })
  const user = bridge.sandbox.addUser('alice')
  bridge.sandbox.write(user, 'history', [
    { id: 'short', payload: 'a payload' },
    { id: 'long', payload: 'x'.repeat(1_000_000) },
  ])
  for (let at = 0; at < 5000; at++) bridge.sandbox.write(user, `more-${at}`, [{ id: 'a', payload: '' }])
  kinds = kindsOf(user)
  asking = new KeepAlive(bridge.url)
  beating = new KeepAlive(bridge.url)
})

afterAll(async () => {
  asking.close()
  beating.close()
  await bridge.stop()
})

interface Cost {
  /** CPU time of the whole process for one request. */
  ms: number
  /** CPU time of the event loop while a heartbeat waited. */
  blockedMs: number
}

async function costOf(request: Uint8Array, maxMs: number): Promise<Cost> {
  const startedAtMs = processorMs(bridge.pid)
  let usedMs = 0
  let turns = 0
  // Twice as many each time, because reading the times of all threads takes as long as a short request.
  for (let more = 1; turns < maxTurns && usedMs < longEnoughMs; more = turns) {
    for (let each = 0; each < more; each++) await asking.ask(request)
    turns += more
    usedMs = processorMs(bridge.pid) - startedAtMs
  }
  const ms = usedMs / turns
  // A request can't block the loop for longer than it takes.
  return { ms, blockedMs: ms < maxMs / 2 ? ms : await blockedBy(request) }
}

async function blockedBy(request: Uint8Array): Promise<number> {
  const waiting = { forAnswer: true }
  let longest = 0
  const answered = asking.ask(request).then(() => (waiting.forAnswer = false))
  while (waiting.forAnswer) {
    const startedAtMs = loopMs(bridge.pid)
    await beating.ask(heartbeat)
    longest = Math.max(longest, loopMs(bridge.pid) - startedAtMs)
  }
  await answered
  return longest
}

const ordinary = ordinaryBody()
const recently: number[] = []

/** The cost of copying and parsing the largest text of ordinary records: the lower of the last two measurements on this machine. */
function ordinaryMs(): number {
  recently.push((plainMs(ordinary) * limits.requestBytes) / ordinary.length)
  return Math.min(...recently.slice(-2))
}

/**
 * The cost of a byte in each size, and how long a request blocks the loop, relative to plain text at that moment: ordinary records, or its
 * own text if that costs more. A busy machine makes some measurements slower; then the best of more rounds counts.
 */
async function judge({ name, sizes, indistinct, request }: Kind) {
  const requests = [0, ...sizes].map(request)
  const leastMs = requests.map(() => Infinity)
  let blocked = Infinity
  for (let pass = 1; ; pass++) {
    const unitMs = ordinaryMs()
    let longestMs = 0
    for (const [at, bytes] of requests.entries()) {
      const { ms, blockedMs } = await costOf(bytes, maxBlocked * unitMs)
      leastMs[at] = Math.min(leastMs[at]!, ms)
      longestMs = Math.max(longestMs, blockedMs)
    }
    // Some texts are so expensive to parse that it is only done if it may matter.
    const ownMs = longestMs > maxBlocked * unitMs ? plainMs(bodyOf(requests.at(-1)!)) : 0
    blocked = Math.min(blocked, longestMs / Math.max(unitMs, ownMs))
    const perByte = sizes.map((size, at) =>
      Math.max(indistinct, ((leastMs[at + 1]! - leastMs[0]!) / unitMs / size) * limits.requestBytes),
    )
    const isTooExpensive = blocked > maxBlocked || ratioOf(perByte) > maxGrowth
    if (isTooExpensive && pass < passes) continue
    const curve = perByte.map((cost) => cost.toFixed(0)).join(', ')
    return {
      isTooExpensive,
      shown: `${name}: ${curve} for each byte, blocks for ${blocked.toFixed(2)}, times plain text`,
    }
  }
}

/** How much more a byte costs in a larger request than in a smaller one. */
function ratioOf(perByte: number[]): number {
  let least = Infinity
  let most = 0
  for (const cost of perByte) {
    most = Math.max(most, cost / least)
    least = Math.min(least, cost)
  }
  return most
}

// The executable, because the costs of compiled code are measured, without those of the test.
describe('input whose size a client controls', () => {
  it('costs the same for each byte, and blocks the loop for at most twenty times as long as plain text', async () => {
    const tooExpensive: string[] = []
    for (const kind of kinds) {
      if (process.env.COSTS && !new RegExp(process.env.COSTS).test(kind.name)) continue
      const { isTooExpensive, shown } = await judge(kind)
      // oxlint-disable-next-line no-console -- who looks for a cost wants to see all of them
      if (process.env.COSTS) console.log(shown)
      if (isTooExpensive) tooExpensive.push(shown)
    }

    expect(tooExpensive).toEqual([])
  }, 600_000)
})
