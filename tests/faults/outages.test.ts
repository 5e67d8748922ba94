import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { contentOf, makeCase, store } from './batch-case.ts'
import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'

const names = ['bookmarks', 'forms', 'tabs']
const outagesMs = [100, 1000, 3000]
const kinds = ['refused connections', '503s'] as const
const shape = { kind: 'mixed', requests: 25, collections: 3 } as const

let bridge: FaultyBridge

beforeAll(async () => {
  // All trials are made at once, because they wait most of the time.
  bridge = await startFaultyBridge({
    writable: names,
    settings: { max_concurrent_requests: '5000' },
    // A busy machine needs longer than the storage is away.
    commitPatienceMs: 60_000,
  })
})

afterAll(() => bridge.stop())

describe('a storage that is restarted during a batch over three collections', () => {
  it('leaves all of the batch or nothing, wherever it happens and however long it takes', async () => {
    const { calls } = await run(null)
    expect(calls).toBeGreaterThan(7)
    const outages = kinds.flatMap((kind) =>
      outagesMs.flatMap((ms) => Array.from({ length: calls }, (_, call) => ({ kind, ms, call }))),
    )

    const results = await Promise.all(outages.map(async (outage) => ({ ...outage, ...(await run(outage)) })))

    expect(results.filter(({ isWhole }) => !isWhole)).toEqual([])
    expect(results.filter((each) => each.calls <= each.call)).toEqual([])
    expect(names.map((name) => bridge.eventsAbout(name, 'batch.partial'))).toEqual([0, 0, 0])
    // Some were finished after the restart, and some were not begun.
    expect(new Set(results.map(({ status }) => status))).toEqual(new Set([200, 503]))
  })
})

interface Outage {
  kind: (typeof kinds)[number]
  ms: number
  /** The call at which it begins, counted from 0. */
  call: number
}

let users = 0

async function run(outage: Outage | null) {
  const { sandbox } = bridge
  const user = sandbox.addUser(`restarted ${(users += 1)}`)
  await bridge.ask('', { as: user })
  const { before, after, requests } = makeCase(shape, names)
  store(sandbox, user, before)
  const node = bridge.nodeOf(user)
  let untilMs: number | null = null
  bridge.planFor(user, (_, index) => {
    if (outage === null || index < outage.call) return null
    if (untilMs === null) {
      untilMs = performance.now() + outage.ms
      if (outage.kind === 'refused connections') {
        node.leave()
        setTimeout(() => node.comeBack(), outage.ms)
      }
    }
    return performance.now() < untilMs ? { kind: 'status', status: 503 } : null
  })

  const body = { requests: requests(user.clientState) }
  const { status } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body })

  const content = contentOf(sandbox, user, names)
  const calls = bridge.callsOf(user).length
  const isWhole = Bun.deepEquals(content, status === 200 ? after : before)
  return { status, calls, isWhole }
}
