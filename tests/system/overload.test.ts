import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { join } from 'node:path'

import { startExecutable, type Executable } from '../support/executable.ts'
import type { FloodPlan, Phase, PhaseReport } from './flood.ts'

// How many seconds a flood takes. A short one beside other tests, which take the processor when they like, shows that
// there is no collapse; a long one on a quiet machine shows what is promised, delays included.
const isFull = process.env.OVERLOAD_SECONDS !== undefined
const seconds = Number(process.env.OVERLOAD_SECONDS ?? 1.5)
const leastGoodput = isFull ? 0.85 : 0.1
const mostDelay = isFull ? 2 : Infinity
// A storage that takes its time makes this the most that the bridge can carry, and not the machine that it runs on.
const limit = 64
const storageMs = 100

let bridge: Executable
let plan: Omit<FloodPlan, 'phases'>
/** With next to no load. */
let calm: PhaseReport

beforeAll(async () => {
  bridge = await startExecutable({
    settings: { max_concurrent_requests: String(limit) },
    sandbox: { latencyMs: storageMs },
  })
  const users = Array.from({ length: 40 }, (_, index) => bridge.sandbox.addUser(`user-${index}`))
  for (const user of users) bridge.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'p'.repeat(1000) }])
  plan = {
    hostname: '127.0.0.1',
    port: Number(new URL(bridge.url).port),
    users: users.map((user) => ({
      path: `/v1/buckets/${user.clientState}/collections/tabs/records/a`,
      headers: { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId },
    })),
  }
  ;[, calm] = (await run(busy, few)) as [PhaseReport, PhaseReport]
})

afterAll(() => bridge.stop())

/** Runs these phases one after the other. */
async function run(...phases: Phase[]): Promise<PhaseReport[]> {
  const program = Bun.spawn(
    [process.execPath, join(import.meta.dir, 'flood.ts'), JSON.stringify({ ...plan, phases })],
    { stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' },
  )
  const lines = (await new Response(program.stdout).text()).trim().split('\n')
  return lines.map((line) => JSON.parse(line) as PhaseReport)
}

const few = { connections: 8, seconds: 0.4 }
/** As much as it can carry. */
const busy = { connections: limit, seconds: 0.7 }

/** What three times the load must not change. */
function expectGoodput([peak, flood, afterwards, peakAgain]: PhaseReport[]): void {
  for (const report of [peak, afterwards, peakAgain]) expect(report).toMatchObject({ shed: 0, failures: {} })
  expect(flood!.failures).toEqual({})
  expect(flood!.shed).toBeGreaterThan(0)
  // Whatever else this machine has to do comes and goes.
  expect(flood!.accepted).toBeGreaterThan(leastGoodput * Math.min(peak!.accepted, peakAgain!.accepted))
  // Those who are admitted wait for one another, and hardly for those who are not.
  expect(flood!.acceptedMs).toBeLessThan(mostDelay * Math.max(peak!.acceptedMs, peakAgain!.acceptedMs))
  expect(afterwards!.steadyAfterMs).toBeLessThan(5000)
  expect(afterwards!.acceptedMs).toBeLessThan(mostDelay * calm.acceptedMs)
}

describe('three times the load that a bridge can carry', () => {
  it('leaves it with the goodput of its peak when clients ask again as soon as they are refused', async () => {
    const flood = { connections: 3 * limit, seconds }

    expectGoodput(await run(busy, flood, few, busy))
  })

  it('leaves it with the goodput of its peak when three times as many requests come', async () => {
    const rate = (3 * limit * 1000) / storageMs
    const flood = { connections: 12 * limit, seconds, rate }

    expectGoodput(await run(busy, flood, few, busy))
  })

  it('is counted and told, and liveness answers', async () => {
    const liveness = await fetch(`${bridge.url}/__lbheartbeat__`)
    const metrics = await (await fetch(`${bridge.url}/v1/__metrics__`)).text()

    expect(liveness.status).toBe(200)
    expect(metrics).toMatch(/^sync_bridge_requests_shed_total\{reason="limit"\} [1-9]/m)
    // Once a minute at most.
    const told = bridge.events('load shed').length
    expect(told).toBeGreaterThan(0)
    expect(told).toBeLessThanOrEqual(1 + Math.floor((4 * seconds) / 60))
  })
})
