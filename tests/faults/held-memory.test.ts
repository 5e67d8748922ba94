import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

let bridge: FaultyBridge

beforeAll(async () => {
  // No list may time out on a busy machine, because that would free its memory.
  const patience = { upstream_timeout_seconds: '100', request_timeout_seconds: '100' }
  bridge = await startFaultyBridge({ writable: ['tabs'], settings: patience })
})

afterAll(() => bridge.stop())

const payload = 'x'.repeat(1_900_000)

/** A user with six records of 1.9 MB, whom the bridge knows already. */
async function newUser(name: string): Promise<SandboxUser> {
  const user = bridge.sandbox.addUser(name)
  const large = Array.from({ length: 6 }, (_, each) => ({ id: `large${each}`, payload }))
  bridge.sandbox.write(user, 'large', large)
  await bridge.ask('', { as: user })
  return user
}

interface SubRequest {
  method?: string
  path: string
  body?: object
}

async function batch(user: SandboxUser, requests: SubRequest[]): Promise<number> {
  const records = `/v1/buckets/${user.clientState}/collections/`
  const body = { requests: requests.map((request) => ({ ...request, path: records + request.path })) }
  return (await bridge.ask('/v1/batch', { method: 'POST', body, as: user })).status
}

describe('a batch of writes and reads, while other batches hold the memory for responses', () => {
  it('is rejected before anything is written, or applied', async () => {
    const held = Promise.withResolvers<null>()
    const holders = await Promise.all(Array.from({ length: 7 }, (_, each) => newUser(`holder ${each}`)))
    let waiting = 0
    const holding = holders.map(async (user) => {
      bridge.planFor(user, ({ path }) => {
        if (!path.endsWith('/other')) return null
        waiting += 1
        return held.promise
      })
      // The first list is held while the second one waits.
      return await batch(user, [{ path: 'large/records' }, { path: 'other/records' }])
    })
    await eventually('all hold their first list', () => waiting === holders.length)
    const writer = await newUser('writer')

    const statuses: number[] = []
    const contradictions: string[] = []
    for (const reads of [0, 3, 6]) {
      const id = `written${reads}`
      const write = { method: 'PUT', path: `tabs/records/${id}`, body: { data: { payload: id } } }
      const asked = Array.from({ length: reads }, (_, each) => ({ path: `large/records/large${each}` }))
      const status = await batch(writer, [write, ...asked])
      statuses.push(status)
      const isWritten = bridge.sandbox.records(writer, 'tabs').some((record) => record.id === id)
      if (isWritten !== (status === 200)) contradictions.push(`${reads} reads: ${status}, ${isWritten}`)
    }
    held.resolve(null)

    expect(contradictions).toEqual([])
    expect([...new Set(statuses)]).toEqual([200, 503])
    expect(await Promise.all(holding)).toEqual(holders.map(() => 200))
  })
})
