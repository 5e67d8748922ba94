import { expect, it } from 'bun:test'
import { startFaultyBridge } from './faulty-bridge.ts'

const hourMs = 3_600_000

it.each([
  ['ahead', hourMs],
  ['back', -hourMs],
])('a wall clock that is set %s by an hour fails no request in flight', async (_, stepMs) => {
  let aheadMs = 0
  await using bridge = await startFaultyBridge({ writable: ['tabs'], now: () => Date.now() + aheadMs })
  bridge.sandbox.write(bridge.user, 'tabs', [{ id: 'stored', payload: 'before' }])
  bridge.planFor(bridge.user, (_, index) => {
    if (index === 0) aheadMs = stepMs
    return null
  })

  const { statuses } = await bridge.batch(bridge.user, [
    { method: 'PUT', path: 'tabs/records/new', body: { data: { payload: 'after' } } },
    { method: 'DELETE', path: 'tabs/records/stored' },
  ])

  expect(statuses).toEqual([200, 204])
})
