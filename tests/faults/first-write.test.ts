import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const rounds = 10

let one: TestBridge
let other: TestBridge

describe.each(['postgres', 'mysql'] as const)('the first write to a collection, on %s', (mode) => {
  beforeAll(async () => {
    one = await startTestBridge({ writable: ['tabs'], sandbox: { mode } })
    const { tokenServerUrl } = one.sandbox
    other = await startTestBridge({ writable: ['tabs'], tokenServerUrl })
  })

  afterAll(() => Promise.all([one.stop(), other.stop()]))

  it('has one winner if two bridges create one record at the same time', async () => {
    const { sandbox } = one
    const results: unknown[] = []
    for (let round = 0; round < rounds; round += 1) {
      const user = sandbox.addUser(`creator ${round}`)
      await Promise.all([one, other].map((bridge) => create(bridge, user, 'nobody', 'DELETE')))
      sandbox.switches.onFirstWrite = meetingOfTwo()

      const answers = await Promise.all([
        create(one, user, 'a', 'PUT', 'of one'),
        create(other, user, 'a', 'PUT', 'of the other'),
      ])

      const winner = answers.find(({ status }) => status === 200)
      const loser = answers.find(({ status }) => status === 412)
      const [stored] = sandbox.records(user, 'tabs')
      results.push({
        statuses: answers.map(({ status }) => status).sort(),
        isStored: stored?.payload === winner?.body.data.payload,
        isTold: loser?.body.details.existing?.payload === stored?.payload,
      })
    }

    expect(results).toEqual(
      Array.from({ length: rounds }, () => ({ statuses: [200, 412], isStored: true, isTold: true })),
    )
  })
})

function create(bridge: TestBridge, as: SandboxUser, id: string, method: string, payload?: string) {
  return bridge.ask(`/collections/tabs/records/${id}`, {
    method,
    as,
    headers: { 'If-None-Match': '*' },
    ...(payload && { body: { data: { payload } } }),
  })
}

/** Lets the first two continue together. */
function meetingOfTwo(): () => Promise<void> {
  const both = Promise.withResolvers<void>()
  let arrived = 0
  return () => {
    arrived += 1
    if (arrived === 2) both.resolve()
    return both.promise
  }
}
