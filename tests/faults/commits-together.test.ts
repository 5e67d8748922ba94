import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'

const collections = ['bookmarks', 'forms', 'tabs']

let bridge: TestBridge
let node: FaultProxy

beforeAll(async () => {
  bridge = await startTestBridge({ writable: collections, settings: { max_concurrent_requests: '4000' } })
  node = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  bridge.sandbox.switches.nodeUrl = node.url
})

afterAll(async () => {
  await bridge.stop()
  await node.stop()
})

describe('the commits of many concurrent batches', () => {
  it('are sent one batch after the other, so that few are partly visible at a time', async () => {
    // More calls than may be in flight at once, and few enough that none waits five seconds on a busy machine.
    const users = Array.from({ length: 40 }, (_, index) => bridge.sandbox.addUser(`writer ${index}`))
    for (const user of users) {
      for (const name of collections) bridge.sandbox.write(user, name, [{ id: 'a', payload: 'old' }])
    }
    // By the path of the user's storage.
    const commits = new Map<string, number>()
    let half = 0
    // After each commit. The maximum would say less: one slow connection is enough to make it large.
    const halfVisible: number[] = []
    node.plan(({ method, path, query }) => {
      if (method === 'POST' && (query.has('commit') || !query.has('batch'))) {
        const storage = path.split('/storage/')[0]!
        const sent = (commits.get(storage) ?? 0) + 1
        commits.set(storage, sent)
        if (sent === 1) half += 1
        if (sent === collections.length) half -= 1
        halfVisible.push(half)
      }
      return { kind: 'delay', ms: 20 }
    })

    const answers = await Promise.all(
      users.map((user) => {
        const requests = collections.map((name) => ({
          method: 'PUT',
          path: `/buckets/${user.clientState}/collections/${name}/records/a`,
          body: { data: { payload: 'new' } },
        }))
        return bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })
      }),
    )

    expect(answers.map(({ status }) => status)).toEqual(users.map(() => 200))
    expect([...commits.values()]).toEqual(users.map(() => collections.length))
    // It is 8 if commits wait among all other calls, and less than 1 if they leave together.
    const mean = halfVisible.reduce((sum, value) => sum + value, 0) / halfVisible.length
    expect(mean).toBeLessThan(4)
  })
})
