import { afterEach, describe, expect, it } from 'bun:test'

import { store } from './batch-case.ts'
import { startFaultyBridge } from './faulty-bridge.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { startFaultProxy, type Fault } from '../support/fault-proxy.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const list = '/collections/tabs/records'
const cleanUps: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** Users with one record each. */
function addUsers({ sandbox }: TestBridge, count: number, name: string): SandboxUser[] {
  return Array.from({ length: count }, (_, number) => {
    const user = sandbox.addUser(`${name} ${number}`)
    store(sandbox, user, { tabs: { stored: { payload: 'before', sortindex: null } } })
    return user
  })
}

const read = (bridge: TestBridge, as: SandboxUser) => bridge.ask(list, { as })
const write = (bridge: TestBridge, as: SandboxUser) =>
  bridge.ask(`${list}/stored`, { as, method: 'PUT', body: { data: { payload: 'after' } } })
const statusesOf = async (answers: Promise<{ status: number }>[]) =>
  (await Promise.all(answers)).map(({ status }) => status)

describe('a token server that hangs', () => {
  it('leaves users alone whose credentials are cached; others get a 503, and so do heartbeats', async () => {
    const bridge = await startFaultyBridge({
      writable: ['tabs'],
      settings: { upstream_timeout_seconds: '3', token_server_heartbeat_timeout_seconds: '0.3' },
    })
    cleanUps.push(() => bridge.stop())
    const [known] = addUsers(bridge, 1, 'known') as [SandboxUser]
    await read(bridge, known)
    bridge.tokenProxy.plan(() => ({ kind: 'hang' }))

    const waiting = addUsers(bridge, 5, 'new').map((user) => read(bridge, user))
    const served = await statusesOf([read(bridge, known), write(bridge, known)])
    const heartbeat = await bridge.ask('/v1/__heartbeat__', { as: null })

    expect(served).toEqual([200, 200])
    expect(heartbeat.status).toBe(503)
    for (const { status, body, headers } of await Promise.all(waiting)) {
      expect([status, body.errno]).toEqual([503, 201])
      expect(Number(headers.get('Retry-After'))).toBeGreaterThanOrEqual(1)
    }
  })
})

describe('a token server that asks to wait', () => {
  /** A bridge whose users were accepted, and need the token server again. */
  async function start() {
    let aheadMs = 0
    const bridge = await startFaultyBridge({
      writable: ['tabs'],
      settings: { cache_credentials_ttl_seconds: '1' },
      monotonicNow: () => performance.now() + aheadMs,
    })
    cleanUps.push(() => bridge.stop())
    const users = addUsers(bridge, 3, 'user') as [SandboxUser, SandboxUser, SandboxUser]
    for (const user of users) expect((await read(bridge, user)).status).toBe(200)
    // Their credentials have expired.
    aheadMs += 1000
    return { bridge, users }
  }

  it('pauses one client with 429, and leaves all others alone', async () => {
    const { bridge, users } = await start()
    const [paused, ...others] = users
    const { Authorization } = bridge.identityOf(paused)
    bridge.tokenProxy.plan(({ headers }) =>
      headers.get('Authorization') === Authorization
        ? { kind: 'status', status: 429, headers: { 'Retry-After': '300' }, body: '{}' }
        : null,
    )

    const first = await read(bridge, paused)
    const calls = bridge.tokenProxy.requests.length
    const second = await read(bridge, paused)
    const callsAfter = bridge.tokenProxy.requests.length
    const statuses = await statusesOf(others.flatMap((user) => [read(bridge, user), write(bridge, user)]))

    for (const { status, body, headers } of [first, second]) {
      expect([status, body.errno]).toEqual([429, 117])
      expect(Number(headers.get('Retry-After'))).toBeWithin(200, 301)
    }
    expect(callsAfter).toBe(calls)
    expect(statuses).toEqual([200, 200, 200, 200])
  })

  it('pauses all with 503', async () => {
    const { bridge, users } = await start()
    bridge.tokenProxy.plan(() => ({
      kind: 'status',
      status: 503,
      headers: { 'Retry-After': '40' },
      body: '',
    }))
    const first = await read(bridge, users[0])
    bridge.tokenProxy.plan(() => null)
    const calls = bridge.tokenProxy.requests.length

    const others = await statusesOf(users.map((user) => read(bridge, user)))

    expect(first.status).toBe(503)
    expect(others).toEqual([503, 503, 503])
    expect(bridge.tokenProxy.requests.length).toBe(calls)
  })
})

describe('accounts whose calls to a storage node fail', () => {
  const faults: Fault[] = [
    { kind: 'reset-before' },
    { kind: 'reset-after' },
    { kind: 'status', status: 500, body: '0' },
    { kind: 'status', status: 429, headers: { 'Retry-After': '300' } },
    { kind: 'garbage' },
  ]

  it.each([3, 100])('leave all bystanders of that node alone, if %d of them fail', async (count) => {
    const bridge = await startTestBridge({ writable: ['tabs'] })
    const node = await startFaultProxy({ target: bridge.sandbox.storageUrl })
    cleanUps.push(
      () => bridge.stop(),
      () => node.stop(),
    )
    bridge.sandbox.switches.nodeUrl = node.url
    const failing = addUsers(bridge, count, 'failing')
    const bystanders = addUsers(bridge, 25, 'bystander')
    const failingUids = new Map(failing.map(({ uid }, number) => [String(uid), number]))
    node.plan(({ path }) => {
      const number = failingUids.get(path.split('/')[2]!)
      return number === undefined ? null : faults[number % faults.length]!
    })

    const outcomes: number[] = []
    const failures: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const asked = failing.map((user) => (round === 1 ? write(bridge, user) : read(bridge, user)))
      outcomes.push(...(await statusesOf(bystanders.map((user) => read(bridge, user)))))
      outcomes.push(...(await statusesOf(bystanders.map((user) => write(bridge, user)))))
      failures.push(...(await statusesOf(asked)))
    }

    expect(outcomes.filter((status) => status !== 200)).toEqual([])
    expect(failures.filter((status) => status < 400)).toEqual([])
  })
})
