import { afterEach, beforeEach, describe, expect, it } from 'bun:test'

import { store } from './batch-case.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const list = '/collections/tabs/records'

let bridge: FaultyBridge
let users: number
/** The clock of the circuits, which advances with hanging calls, however long a test takes. */
let nowMs: number

beforeEach(async () => {
  nowMs = 0
  users = 0
  bridge = await startFaultyBridge({
    writable: ['tabs'],
    monotonicNow: () => (nowMs += 0.001),
    settings: {
      upstream_timeout_seconds: '3',
      token_server_heartbeat_timeout_seconds: '0.3',
      metrics_enabled: 'true',
    },
  })
})

afterEach(() => bridge.stop())

function newcomer(): SandboxUser {
  const user = bridge.sandbox.addUser(`newcomer ${(users += 1)}`)
  store(bridge.sandbox, user, { tabs: { stored: { payload: 'before', sortindex: null } } })
  return user
}

/** A user whose credentials the bridge has cached. */
async function acquaintance(): Promise<SandboxUser> {
  const user = newcomer()
  expect((await read(user)).status).toBe(200)
  return user
}

/** From now on, a call to the token server takes as long as allowed. */
const hang = () =>
  bridge.tokenProxy.plan(() => {
    nowMs += 1000
    return { kind: 'hang' }
  })

const read = (as: SandboxUser) => bridge.ask(list, { as })
const write = (as: SandboxUser) =>
  bridge.ask(`${list}/stored`, { as, method: 'PUT', body: { data: { payload: 'after' } } })
const heartbeat = async () => (await bridge.ask('/v1/__heartbeat__', { as: null })).status

function callsOfTheTokenServer(): { exchanges: number; heartbeats: number } {
  const paths = bridge.tokenProxy.requests.map(({ path }) => path)
  return {
    exchanges: paths.filter((path) => path === '/1.0/sync/1.5').length,
    heartbeats: paths.filter((path) => path === '/__heartbeat__').length,
  }
}

async function metrics(): Promise<Record<string, number>> {
  const { text } = await bridge.ask('/v1/__metrics__', { as: null })
  const lines = [...text.matchAll(/^sync_bridge_circuit_breaker(\S+) (\d+)$/gm)]
  return Object.fromEntries(lines.map(([, series, value]) => [series!, Number(value)]))
}

function logged(): { level: string; event: string; target: string; host: string }[] {
  return bridge.logs
    .map((line) => JSON.parse(line))
    .filter(({ event }) => event.startsWith('circuit breaker'))
}

describe('a token server that hangs', () => {
  it('delays three requests; later ones are rejected without a call, except heartbeats, and known users are served', async () => {
    const known = await acquaintance()
    hang()
    const waiting = [newcomer(), newcomer(), newcomer()]
    const before = callsOfTheTokenServer().exchanges

    const patient = await Promise.all(waiting.map(read))
    const refused = [await read(waiting[0]!), await write(waiting[1]!)]

    expect(patient.map(({ status }) => status)).toEqual([503, 503, 503])
    for (const { status, body, headers } of refused) {
      expect([status, body.errno]).toEqual([503, 201])
      expect(Number(headers.get('Retry-After'))).toBeGreaterThanOrEqual(1)
    }
    expect(await heartbeat()).toBe(503)
    expect(callsOfTheTokenServer()).toEqual({ exchanges: before + 3, heartbeats: 1 })
    expect((await read(known)).status).toBe(200)
    expect((await write(known)).status).toBe(200)
  })

  it('is reported in the metrics and in the log', async () => {
    hang()
    const quiet = await metrics()
    const asking = Array.from({ length: 3 }, newcomer)
    await Promise.all(asking.map(read))

    const open = await metrics()
    bridge.tokenProxy.plan(() => null)
    await read(newcomer())
    const closed = await metrics()

    expect(quiet).toEqual({
      '_openings_total{target="token"}': 0,
      '_openings_total{target="storage"}': 0,
      's{target="token",state="open"}': 0,
      's{target="token",state="half-open"}': 0,
      's{target="storage",state="open"}': 0,
      's{target="storage",state="half-open"}': 0,
    })
    const opened = { ...quiet, '_openings_total{target="token"}': 1 }
    expect(open).toEqual({ ...opened, 's{target="token",state="open"}': 1 })
    expect(closed).toEqual(opened)
    const { host } = new URL(bridge.tokenProxy.url)
    expect(logged()).toMatchObject([
      { level: 'warning', event: 'circuit breaker opened', target: 'token', host },
      { level: 'info', event: 'circuit breaker closed', target: 'token', host },
    ])
    const secrets = asking.flatMap((user) => Object.values(bridge.identityOf(user)))
    expect(secrets.filter((secret) => JSON.stringify(logged()).includes(secret))).toEqual([])
  })
})
