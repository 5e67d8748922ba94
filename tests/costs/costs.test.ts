import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startExecutable } from '../support/executable.ts'
import { KeepAlive } from '../support/keep-alive.ts'
import { kindsOf, limits } from './kinds.ts'
import { loopMs, processorMs } from './processor-time.ts'

import type { Executable } from '../support/executable.ts'
import type { Kind } from './kinds.ts'

const mostBlockedMs = 100
const rounds = 3
// A round is that long, or has so many turns.
const longEnoughMs = 5
const mostTurns = 20

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
  /** Processor time of the whole process for one request. */
  ms: number
  /** Processor time of the loop while a heartbeat waited. */
  blockedMs: number
}

/** The least of several rounds, so that it does not matter what else the machine does. */
async function costOf(request: Uint8Array): Promise<Cost> {
  const least: Cost = { ms: Infinity, blockedMs: Infinity }
  for (let round = 0; round < rounds; round++) {
    const startedAtMs = processorMs(bridge.pid)
    let usedMs = 0
    let turns = 0
    for (; turns < mostTurns && usedMs < longEnoughMs; turns++) {
      await asking.ask(request)
      usedMs = processorMs(bridge.pid) - startedAtMs
    }
    least.ms = Math.min(least.ms, usedMs / turns)
    // What has been done at once in less time can not have blocked for longer.
    if (least.ms < mostBlockedMs / 2) least.blockedMs = Math.min(least.blockedMs, least.ms)
    else if (least.blockedMs > mostBlockedMs / 2)
      least.blockedMs = Math.min(least.blockedMs, await blockedBy(request))
  }
  return least
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

/** What a KB costs in each size. A machine that is busy makes some of them dearer: then the least of more rounds counts. */
async function curveOf({ name, sizes, indistinct, request }: Kind) {
  const requests = [0, ...sizes].map(request)
  const least: Cost[] = requests.map(() => ({ ms: Infinity, blockedMs: Infinity }))
  for (let pass = 1; ; pass++) {
    for (const [at, bytes] of requests.entries()) {
      const cost = await costOf(bytes)
      least[at] = {
        ms: Math.min(cost.ms, least[at]!.ms),
        blockedMs: Math.min(cost.blockedMs, least[at]!.blockedMs),
      }
    }
    const perKilobyte = sizes.map((size, at) =>
      Math.max(indistinct, ((least[at + 1]!.ms - least[0]!.ms) * 1000 * 1024) / size),
    )
    const ratio = steepest(perKilobyte)
    const blockedMs = Math.max(...least.map((cost) => cost.blockedMs))
    if (pass < 5 && (ratio > 3 || blockedMs > mostBlockedMs)) continue
    const curve = perKilobyte.map((cost) => cost.toFixed(1)).join(', ')
    return {
      ratio,
      blockedMs,
      shown: `${name}: ${curve} µs for each KB, blocks for ${blockedMs.toFixed(1)} ms`,
    }
  }
}

/** By how much a KB costs more in a larger request than in a smaller one. */
function steepest(perKilobyte: number[]): number {
  let least = Infinity
  let most = 0
  for (const cost of perKilobyte) {
    most = Math.max(most, cost / least)
    least = Math.min(least, cost)
  }
  return most
}

describe('what strangers choose the size of', () => {
  it('costs the same for each KB, and blocks the loop for no longer than 100 ms', async () => {
    const steep: string[] = []
    for (const kind of kinds) {
      if (process.env.COSTS && !new RegExp(process.env.COSTS).test(kind.name)) continue
      const { ratio, blockedMs, shown } = await curveOf(kind)
      // oxlint-disable-next-line no-console -- who looks for a cost wants to see all of them
      if (process.env.COSTS) console.log(shown)
      if (ratio > 3 || blockedMs > mostBlockedMs) steep.push(shown)
    }

    expect(steep).toEqual([])
  }, 300_000)
})
