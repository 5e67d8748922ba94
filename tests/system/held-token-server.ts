import { startFaultProxy } from '../support/fault-proxy.ts'

const refusal = {
  kind: 'status',
  status: 401,
  headers: { 'Content-Type': 'application/json' },
  body: '{"status":"invalid-credentials"}',
} as const

/** A token server that answers nobody until it is told to. */
export async function startHeldTokenServer() {
  const released = Promise.withResolvers<void>()
  const proxy = await startFaultProxy({ target: 'http://127.0.0.1:1' })
  proxy.plan(() => released.promise.then(() => refusal))
  return {
    url: proxy.url,
    /** Resolves when so many requests wait. */
    waiting: (count: number) => proxy.waitFor(({ index }) => index >= count - 1),
    /** Refuses all that wait, and whoever comes. */
    release: () => released.resolve(),
    async [Symbol.asyncDispose]() {
      released.resolve()
      await proxy.stop()
    },
  }
}

/** Asks who one is, which is answered when the token server has answered. */
export function askSlowly(url: string): Promise<Response> {
  const headers = { Authorization: `Bearer ${crypto.randomUUID()}`, 'X-KeyID': '1-AAAAAAAAAAAAAAAAAAAAAA' }
  return fetch(`${url}/v1/`, { headers })
}
