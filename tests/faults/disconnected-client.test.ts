import { expect, it } from 'bun:test'

import { startFaultyBridge } from './faulty-bridge.ts'

it('a client that disconnects at the second commit does not stop the look whether it was applied, nor does the shutdown', async () => {
  await using bridge = await startFaultyBridge({ writable: ['tabs', 'forms'] })
  const { sandbox, user } = bridge
  const collections = `/buckets/${user.clientState}/collections`
  await bridge.ask('')
  for (const name of ['tabs', 'forms']) sandbox.write(user, name, [{ id: 'a', payload: 'old' }])
  const arrived = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  let [commits, looks] = [0, 0]
  bridge.planFor(user, async ({ method, query }) => {
    if (method !== 'GET' && (query.has('commit') || !query.has('batch'))) {
      commits += 1
      return commits === 2 ? { kind: 'reset-after' } : null
    }
    // The look takes longer than the bridge waits for a client that has disconnected.
    if (commits === 2) {
      looks += 1
      arrived.resolve()
      await goOn.promise
    }
    return null
  })
  const abort = new AbortController()
  const requests = ['tabs', 'forms'].map((name) => {
    return { method: 'PUT', path: `${collections}/${name}/records/a`, body: { data: { payload: 'new' } } }
  })
  const headers = { ...bridge.identityOf(user), 'Content-Type': 'application/json' }
  const init = { method: 'POST', headers, body: JSON.stringify({ requests }), signal: abort.signal }

  const asked = fetch(`${bridge.url}/v1/batch`, init)
  await arrived.promise
  abort.abort()
  await asked.catch(() => {})
  const ended = bridge.end(10_000)
  setTimeout(goOn.resolve, 400)
  await ended

  const logged = bridge.logs.map((line) => (JSON.parse(line) as { event: string }).event)
  expect(logged).toContain('batch.committed')
  expect(looks).toBe(1)
})
