import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { makeCase, store } from './batch-case.ts'
import { startFaultyBridge } from './faulty-bridge.ts'
import type { Shape } from './batch-case.ts'
import type { FaultyBridge } from './faulty-bridge.ts'

const names = ['bookmarks', 'history', 'forms', 'tabs']

let bridge: FaultyBridge

beforeAll(async () => {
  // Two writes of one collection never meet within its clock step, as over a real network.
  bridge = await startFaultyBridge({ writable: names, sandbox: { latencyMs: 15 } })
})

afterAll(() => bridge.stop())

describe('the storage calls of a batch', () => {
  it('are at most 4 for 25 unconditional PUTs to one collection', async () => {
    const calls = await callsOf({ kind: 'puts', requests: 25, collections: 1 }, 'none')

    expect(calls.length).toBeLessThanOrEqual(4)
  })

  it('are at most 5 for 25 PUTs with If-Match to one collection', async () => {
    const calls = await callsOf({ kind: 'puts', requests: 25, collections: 1 }, 'If-Match')

    expect(calls.length).toBeLessThanOrEqual(5)
  })

  it('are at most 4 for each of 2 collections for a storage that was never asked before', async () => {
    const calls = await callsOf({ kind: 'mixed', requests: 24, collections: 2 }, 'none')

    expect(calls.map((call) => call.split('?')[0])).toHaveLength(8)
  })

  it.each([1, 2, 3, 4])('are at most 4 for each of %d collections', async (collections) => {
    const puts = await callsOf({ kind: 'puts', requests: 24, collections }, 'none')
    const deletes = await callsOf({ kind: 'deletes', requests: 24, collections }, 'none')
    const mixed = await callsOf({ kind: 'mixed', requests: 24, collections }, 'none')

    expect(puts.length).toBeLessThanOrEqual(4 * collections)
    expect(deletes.length).toBeLessThanOrEqual(4 * collections)
    expect(mixed.length).toBeLessThanOrEqual(4 * collections)
  })

  it.each([1, 2, 3])('are no more when %d collections have never been written to', async (collections) => {
    const plain = await callsOfFirst(collections, {})
    const conditional = await callsOfFirst(collections, { 'If-None-Match': '*' })

    expect(plain.length).toBeLessThanOrEqual(4 * collections)
    // Whatever is conditional is judged by one more look.
    expect(conditional.length).toBeLessThanOrEqual(5 * collections)
  })
})

let users = 0

/** The calls of a batch of 24 PUTs that is the first write to all of its collections, for a node never asked before. */
async function callsOfFirst(collections: number, headers: Record<string, string>): Promise<string[]> {
  const user = bridge.sandbox.addUser(`first ${(users += 1)}`)
  await bridge.ask('', { as: user })
  bridge.planFor(user, () => null)
  const requests = Array.from({ length: 24 }, (_, index) => ({
    method: 'PUT',
    path: `/buckets/${user.clientState}/collections/${names[index % collections]}/records/id${index}`,
    headers,
    body: { data: { payload: 'x' } },
  }))

  const { body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

  expect(body.responses.map(({ status }: { status: number }) => status)).toEqual(Array(24).fill(200))
  return bridge.callsOf(user).map(({ method, target }) => `${method} ${target}`)
}

/** The calls that a batch makes, one a user, after which each collection holds what it should. */
async function callsOf(shape: Shape, condition: 'none' | 'If-Match'): Promise<string[]> {
  const { sandbox } = bridge
  const user = sandbox.addUser(`counted ${(users += 1)}`)
  await bridge.ask('', { as: user })
  const { before, requests } = makeCase(shape, names)
  store(sandbox, user, before)
  const stored = new Map(sandbox.records(user, names[0]!).map(({ id, modified }) => [id, `"${modified}"`]))
  const made = requests(user.clientState).map((request) => {
    const entityTag = stored.get(request.path.split('/').at(-1)!)
    if (condition === 'none') return request
    return { ...request, headers: entityTag ? { 'If-Match': entityTag } : { 'If-None-Match': '*' } }
  })
  bridge.planFor(user, () => null)

  const { status, body } = await bridge.ask('/v1/batch', {
    method: 'POST',
    as: user,
    body: { requests: made },
  })

  expect(status).toBe(200)
  const statuses: number[] = body.responses.map((response: { status: number }) => response.status)
  expect(statuses.filter((each) => each !== 200 && each !== 204)).toEqual([])
  return bridge.callsOf(user).map(({ method, target }) => `${method} ${target}`)
}
