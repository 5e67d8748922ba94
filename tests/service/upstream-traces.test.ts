import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { startFaultyBridge, type FaultyBridge } from '../faults/faulty-bridge.ts'
import { eventually } from '../support/eventually.ts'
import type { AskInit } from '../support/bridge.ts'
import type { Fault, ProxiedRequest } from '../support/fault-proxy.ts'

let bridge: FaultyBridge

beforeAll(async () => {
  bridge = await startFaultyBridge({ writable: ['tabs'] })
})

afterEach(() => bridge.tokenProxy.plan(() => null))

afterAll(() => bridge.stop())

/** A new user, all of whose storage calls fail this way. */
function newcomer(fault: Fault | null = null) {
  const user = bridge.sandbox.addUser(crypto.randomUUID())
  bridge.planFor(user, () => fault)
  return {
    bucket: `/buckets/${user.clientState}`,
    ask: (name: string, path: string, init: AskInit = {}) =>
      bridge.ask(path, { ...init, as: user, headers: { 'X-Request-Id': name } }),
    /** The ids of requests in the calls during an action. */
    async namesDuring(act: () => Promise<unknown>) {
      const calls = () => [bridge.tokenProxy.requests, bridge.callsOf(user)] as const
      const known = calls().map(({ length }) => length)
      await act()
      const [token, storage] = calls().map((all, index) => all.slice(known[index]).map(nameOf))
      return { token: token!, storage: storage! }
    },
  }
}

const nameOf = ({ headers }: ProxiedRequest) => headers.get('X-Request-Id')
const list = '/collections/tabs/records'
const body = { data: { payload: 'x' } }

describe('X-Request-Id', () => {
  it('is sent to the token server and with every storage call', async () => {
    const { ask, bucket, namesDuring } = newcomer()
    const requests = [{ method: 'PUT', path: `${bucket}${list}/b`, body }, { path: `${bucket}${list}` }]

    const read = await namesDuring(() => ask('the.read', list))
    const put = await namesDuring(() => ask('the-put', `${list}/a`, { method: 'PUT', body }))
    const batch = await namesDuring(() =>
      ask('the_batch', '/v1/batch', { method: 'POST', body: { requests } }),
    )
    const other = newcomer()
    const root = await other.namesDuring(() => other.ask('the-root', '/v1/'))

    expect(read).toEqual({ token: ['the.read'], storage: ['the.read'] })
    expect([put.token, new Set(put.storage)]).toEqual([[], new Set(['the-put'])])
    expect(put.storage.length).toBeGreaterThan(1)
    expect([batch.token, new Set(batch.storage)]).toEqual([[], new Set(['the_batch'])])
    expect(root).toEqual({ token: ['the-root'], storage: [] })
  })

  it('is that of the request that calls the token server, for others that wait for the same call', async () => {
    const { ask, namesDuring } = newcomer()
    const { tokenProxy } = bridge
    tokenProxy.plan(() => ({ kind: 'hang' }))

    const names = await namesDuring(async () => {
      const from = tokenProxy.requests.length
      const first = ask('first', list)
      await tokenProxy.waitFor(({ index }) => index >= from)
      const second = ask('second', list)
      tokenProxy.plan(() => null)
      tokenProxy.release()
      await Promise.all([first, second])
    })

    expect(names.token).toEqual(['first'])
    expect(names.storage.toSorted()).toEqual(['first', 'second'])
  })
})

describe('the log line of a request', () => {
  it.each<[string, Fault | null, number, number | undefined]>([
    ['what the storage answered', null, 200, 200],
    ['an error of the storage', { kind: 'status', status: 503, headers: { 'Retry-After': '1' } }, 503, 503],
    ['a redirection', { kind: 'status', status: 302, headers: { Location: '/' } }, 503, 302],
    ['no status where there was no answer', { kind: 'reset-before' }, 503, undefined],
  ])('contains %s', async (_, fault, status, upstreamStatus) => {
    const name = crypto.randomUUID()

    await newcomer(fault).ask(name, list)
    const line = await lineOf(name)

    expect(line).toMatchObject({ route: 'records', status })
    expect(line.upstreamStatus).toBe(upstreamStatus)
    expect(line.upstreamCalls).toBeGreaterThan(0)
  })
})

async function lineOf(name: string): Promise<Record<string, unknown>> {
  const isIt = (line: string) => line.includes('"event":"request"') && line.includes(`"requestId":"${name}"`)
  await eventually('it is logged', () => bridge.logs.some(isIt))
  return JSON.parse(bridge.logs.find(isIt)!)
}
