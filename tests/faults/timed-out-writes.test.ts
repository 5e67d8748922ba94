import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { hangForever, startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault, ProxiedRequest } from '../support/fault-proxy.ts'

let bridge: FaultyBridge
let users = 0

beforeAll(async () => {
  bridge = await startFaultyBridge({
    writable: ['tabs', 'forms'],
    settings: { upstream_timeout_seconds: '0.4', request_timeout_seconds: '10' },
  })
})

afterAll(() => bridge.stop())

async function newUser(): Promise<SandboxUser> {
  const user = bridge.sandbox.addUser(`patient ${(users += 1)}`)
  for (const name of ['tabs', 'forms']) bridge.sandbox.write(user, name, [{ id: 'old', payload: 'old' }])
  await bridge.ask('', { as: user })
  return user
}

const isStaging = ({ query }: ProxiedRequest) => query.has('batch') && !query.has('commit')
const isFence = ({ query }: ProxiedRequest) => /^[0-9a-f]{64}$/.test(query.get('ids') ?? '')
const isCommit = (request: ProxiedRequest) =>
  request.method !== 'GET' && !isStaging(request) && !isFence(request)

const put = (collection: string) => ({ method: 'PUT', collection, body: { data: { payload: 'new' } } })
const remove = (collection: string) => ({ method: 'DELETE', collection, body: {} })
type Request = ReturnType<typeof put> | ReturnType<typeof remove>

describe('a write to a storage that does not respond to it, and responds to reads', () => {
  it.each<[string, Request[], 'never applied' | 'applied', string[]]>([
    ['a PUT', [put('tabs')], 'never applied', ['POST tabs']],
    ['a PUT', [put('tabs')], 'applied', ['POST tabs']],
    ['a DELETE', [remove('tabs')], 'never applied', ['DELETE tabs']],
    ['a DELETE', [remove('tabs')], 'applied', ['DELETE tabs']],
    ['PUTs in two collections', [put('tabs'), put('forms')], 'never applied', ['POST forms', 'POST tabs']],
    ['PUTs in two collections', [put('tabs'), put('forms')], 'applied', ['POST forms', 'POST tabs']],
  ])('is sent once and looked at: %s %#', async (_, requests, fate, expected) => {
    const user = await newUser()
    const fault: Fault | Promise<Fault> = fate === 'applied' ? { kind: 'hang-after' } : hangForever()
    bridge.planFor(user, (request) => (isCommit(request) ? fault : null))
    const path = (name: string) => `/buckets/${user.clientState}/collections/${name}/records/old`

    const answer = await bridge.ask('/v1/batch', {
      method: 'POST',
      as: user,
      body: { requests: requests.map(({ collection, ...rest }) => ({ ...rest, path: path(collection) })) },
    })

    expect(answer.status).toBe(fate === 'applied' ? 200 : 503)
    const sent = bridge.callsOf(user).filter(isCommit)
    expect(sent.map(({ method, path: at }) => `${method} ${at.split('/').at(-1)}`).toSorted()).toEqual(
      expected,
    )
    for (const { collection, method } of requests) {
      const payloads = bridge.sandbox.records(user, collection).map(({ payload }) => payload)
      const written = method === 'PUT' ? ['new'] : []
      expect(payloads).toEqual(fate === 'applied' ? written : ['old'])
    }
    // With several steps, an absent id is deleted, so that a commit that arrives late finds its condition failed.
    const fences = bridge.callsOf(user).filter(isFence)
    expect(fences).toHaveLength(requests.length > 1 && fate === 'never applied' ? 2 : 0)
  })

  it('is sent again once another one is visible', async () => {
    const user = await newUser()
    let isFirst = true
    bridge.planFor(user, (request) => {
      if (!isCommit(request) || !request.path.endsWith('/tabs') || !isFirst) return null
      isFirst = false
      return hangForever()
    })
    const path = (name: string) => `/buckets/${user.clientState}/collections/${name}/records/old`
    const requests = ['tabs', 'forms'].map((name) => ({
      ...put(name),
      path: path(name),
      collection: undefined,
    }))

    const answer = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(answer.status).toBe(200)
    for (const name of ['tabs', 'forms'])
      expect(bridge.sandbox.records(user, name)).toMatchObject([{ payload: 'new' }])
  })
})
