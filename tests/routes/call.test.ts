import { expect, it } from 'bun:test'
import { Call, type Services } from '../../src/routes/call.ts'

const services = {
  settings: { requestTimeoutSeconds: 1 },
  now: () => 0,
  monotonicNow: () => 0,
  createRequestId: () => 'id',
} as unknown as Services

it('never counts unauthenticated credentials as the user whose storage they name', () => {
  const user = 'http://node.example/1.5/1'
  for (const authorization of [`Bearer ${user}`, user]) {
    const request = new Request('http://bridge/v1/batch', { method: 'POST', headers: { authorization } })
    const call = new Call(request, services)

    expect(call.owner).not.toBe(user)
    call.user = user
    expect(call.owner).toBe(user)
  }
})
