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
  const path = `/v1/buckets/${bridge.user.clientState}/collections/tabs/records`
  const requests = [
    { method: 'PUT', path: `${path}/new`, body: { data: { payload: 'after' } } },
    { method: 'DELETE', path: `${path}/stored` },
  ]
  bridge.planFor(bridge.user, (_, index) => {
    if (index === 0) aheadMs = stepMs
    return null
  })

  const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', body: { requests } })

  expect(status).toBe(200)
  expect(body.responses).toMatchObject([{ status: 200 }, { status: 204 }])
})
