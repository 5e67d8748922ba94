import { afterEach, beforeEach, describe, expect, it } from 'bun:test'

import { store } from './batch-case.ts'
import { startTestBridge } from '../support/bridge.ts'
import { startFaultProxy, type Fault } from '../support/fault-proxy.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const failing: Fault = { kind: 'status', status: 500 }
const list = '/collections/tabs/records'

let bridge: FaultyBridge
let users: number

beforeEach(async () => {
  users = 0
  bridge = await startFaultyBridge({
    writable: ['tabs'],
    settings: {
      upstream_timeout_seconds: '1',
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

/** A user whose credentials the bridge knows. */
async function acquaintance(): Promise<SandboxUser> {
  const user = newcomer()
  expect((await read(user)).status).toBe(200)
  return user
}

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
  it('is waited for by five; others are refused without a call, or served without one', async () => {
    const known = await acquaintance()
    bridge.tokenProxy.plan(() => ({ kind: 'hang' }))
    const before = callsOfTheTokenServer().exchanges

    const patient = await Promise.all(Array.from({ length: 5 }, () => read(newcomer())))
    const refused = await Promise.all([read(newcomer()), write(newcomer())])

    expect(patient.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503])
    for (const { status, body, headers } of refused) {
      expect([status, body.errno]).toEqual([503, 201])
      expect(Number(headers.get('Retry-After'))).toBeGreaterThanOrEqual(1)
    }
    expect(callsOfTheTokenServer().exchanges - before).toBe(5)
    expect((await read(known)).status).toBe(200)
    expect((await write(known)).status).toBe(200)
  })

  it('is asked by a heartbeat nevertheless, which tells what is so', async () => {
    bridge.tokenProxy.plan(() => ({ kind: 'hang' }))
    await Promise.all(Array.from({ length: 5 }, () => read(newcomer())))

    expect(await heartbeat()).toBe(503)
    expect(callsOfTheTokenServer()).toEqual({ exchanges: 5, heartbeats: 1 })
  })

  it('is tried with one call after a heartbeat that went well, and all goes on', async () => {
    bridge.tokenProxy.plan(() => ({ kind: 'hang' }))
    await Promise.all(Array.from({ length: 5 }, () => read(newcomer())))
    expect((await read(newcomer())).status).toBe(503)

    bridge.tokenProxy.plan(() => null)
    expect(await heartbeat()).toBe(200)
    const [first, ...others] = [await read(newcomer()), await read(newcomer()), await read(newcomer())]

    expect([first, ...others].map(({ status }) => status)).toEqual([200, 200, 200])
    expect(callsOfTheTokenServer()).toEqual({ exchanges: 8, heartbeats: 1 })
  })

  it('is seen in the metrics and in the log', async () => {
    bridge.tokenProxy.plan(() => ({ kind: 'hang' }))
    const quiet = await metrics()
    const asking = Array.from({ length: 5 }, newcomer)
    await Promise.all(asking.map(read))

    const open = await metrics()
    bridge.tokenProxy.plan(() => null)
    expect(await heartbeat()).toBe(200)
    const halfOpen = await metrics()
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
    expect(halfOpen).toEqual({ ...opened, 's{target="token",state="half-open"}': 1 })
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

describe('a token server that asks to be left alone', () => {
  it('is once it has told so to three identities, also by heartbeats, while known users are served', async () => {
    const known = await acquaintance()
    bridge.tokenProxy.plan(() => ({ kind: 'status', status: 503, headers: { 'Retry-After': '120' } }))
    const before = callsOfTheTokenServer()

    const first = newcomer()
    const answers = [await read(first), await read(first), await read(newcomer())]
    answers.push(await read(newcomer()), await write(newcomer()))

    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503, 503, 503])
    expect(new Set(answers.map(({ headers }) => headers.get('Retry-After')))).toEqual(new Set(['120']))
    expect(await heartbeat()).toBe(503)
    expect(callsOfTheTokenServer()).toEqual({ ...before, exchanges: before.exchanges + 3 })
    expect((await read(known)).status).toBe(200)
  })
})

describe('a storage node that fails for one user', () => {
  it('is called for all others', async () => {
    await using shared = await startTestBridge({ writable: ['tabs'] })
    await using node = await startFaultProxy({ target: shared.sandbox.storageUrl })
    shared.sandbox.switches.nodeUrl = node.url
    const [unlucky, ...others] = ['a', 'b', 'c'].map((name) => shared.sandbox.addUser(name))
    node.plan(({ path }) => (path.startsWith(`/1.5/${unlucky!.uid}/`) ? failing : null))
    const ask = async (as: SandboxUser, method = 'GET') => {
      const body = method === 'PUT' ? { data: { payload: 'x' } } : undefined
      return (await shared.ask(`${list}${body ? '/stored' : ''}`, { as, method, body })).status
    }

    const statuses: number[] = []
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 8 }, () => ask(unlucky!)))
      for (const user of others) statuses.push(await ask(user), await ask(user, 'PUT'))
    }

    expect(new Set(statuses)).toEqual(new Set([200]))
    expect(node.requests.filter(({ path }) => path.startsWith(`/1.5/${unlucky!.uid}/`)).length).toBeLessThan(
      40,
    )
  })

  it('carries out a write that has begun, and is called again after that', async () => {
    const user = await acquaintance()
    const { promise: snapshot, resolve: goOn } = Promise.withResolvers<null>()
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>()
    bridge.planFor(user, (_, index) => {
      if (index === 0) begin()
      return index === 0 ? snapshot : index <= 5 ? failing : null
    })

    const writing = write(user)
    await begun
    const refused = [await read(user), await read(user), await read(user), await read(user)]
    goOn(null)

    expect((await writing).status).toBe(200)
    expect(refused.map(({ status }) => status)).toEqual([503, 503, 503, 503])
    const [first, ...calls] = bridge.callsOf(user).map(({ method }) => method)
    expect([first, calls.length, calls.at(-1)]).toEqual(['GET', 6, 'POST'])
    expect((await read(user)).status).toBe(200)
    expect(logged().map(({ event }) => event)).toEqual(['circuit breaker opened for one user'])
  })

  it('is looked at by a write whose answer was lost, though it is left alone by then', async () => {
    const user = await acquaintance()
    bridge.planFor(user, ({ method }, index) =>
      method === 'POST' ? { kind: 'reset-after' } : index > 0 && index <= 5 ? failing : null,
    )

    const { status, body } = await write(user)

    expect(status).toBe(200)
    expect(body.data.payload).toBe('after')
    const calls = bridge.callsOf(user).map(({ method }) => method)
    expect(calls.join(' ')).toBe('GET POST GET GET GET GET GET')
    expect(logged().map(({ event }) => event)).toEqual(['circuit breaker opened for one user'])
  })
})
