import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startFaultyBridge, statusFaults, type FaultyBridge } from './faulty-bridge.ts'

describe.each(['postgres', 'mysql', 'spanner'] as const)('a deletion among puts, on %s', (mode) => {
  let bridge: FaultyBridge
  beforeAll(async () => {
    bridge = await startFaultyBridge({ writable: ['tabs'], sandbox: { mode } })
  })
  afterAll(() => bridge.stop())

  /** A user with a record, and a batch that deletes it and puts another. */
  async function someone(name: string) {
    const user = bridge.sandbox.addUser(name)
    await bridge.ask('', { as: user })
    bridge.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'old' }])
    const path = (id: string) => `/buckets/${user.clientState}/collections/tabs/records/${id}`
    const requests = [
      { method: 'DELETE', path: path('a') },
      { method: 'PUT', path: path('b'), body: { data: { payload: 'new' } } },
    ]
    const deleteAmongPuts = () => bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })
    return { user, deleteAmongPuts }
  }

  it.each([
    ['was not applied', { kind: 'status', status: 500 }],
    ['was put off', statusFaults[503]],
    ['was applied', { kind: 'reset-after' }],
  ] as const)('leaves no row if the first call to remove it failed and %s', async (outcome, fault) => {
    const { user, deleteAmongPuts } = await someone(outcome)
    let hasFailed = false
    bridge.planFor(user, ({ method }) => {
      if (method !== 'DELETE' || hasFailed) return null
      hasFailed = true
      return fault
    })

    const { body } = await deleteAmongPuts()
    bridge.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'theirs' }])

    expect(hasFailed).toBe(true)
    expect(body.responses.map(({ status }: { status: number }) => status)).toEqual([204, 200])
    expect(bridge.sandbox.records(user, 'tabs').map(({ id }) => id)).toContain('a')
    expect(bridge.eventsAbout('tabs', 'batch.unremoved')).toBe(0)
  })

  if (mode === 'spanner') return
  it('removes nothing of others when it is repeated after an unknown result', async () => {
    const { user, deleteAmongPuts } = await someone('repeated')
    let removals = 0
    let unanswered = 0
    bridge.planFor(user, ({ method }) => {
      if (method === 'GET' && removals === 2 && unanswered < 2) {
        unanswered += 1
        return statusFaults[503]
      }
      if (method !== 'DELETE') return null
      removals += 1
      if (removals === 3) bridge.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'theirs' }])
      return removals === 1 ? { kind: 'reset-after' } : null
    })

    await deleteAmongPuts()

    const stored = bridge.sandbox.records(user, 'tabs').map(({ id, payload }) => [id, payload])
    expect(removals).toBeGreaterThanOrEqual(3)
    expect(Object.fromEntries(stored)).toEqual({ a: 'theirs', b: 'new' })
  })

  it('keeps what another client has written there, whatever happens to the revealing call', async () => {
    const { user, deleteAmongPuts } = await someone('spared')
    let uploads = 0
    bridge.planFor(user, ({ method }, index) => {
      if (method === 'DELETE' && index === 3)
        bridge.sandbox.write(user, 'tabs', [{ id: 'a', payload: 'theirs' }])
      if (method === 'POST') uploads += 1
      return method === 'POST' && uploads === 2 ? statusFaults[412] : null
    })

    await deleteAmongPuts()

    const stored = bridge.sandbox.records(user, 'tabs').map(({ id, payload }) => [id, payload])
    expect(Object.fromEntries(stored)).toEqual({ a: 'theirs', b: 'new' })
  })
})
