import { startFaultProxy } from '../support/fault-proxy.ts'

const refusal = {
  kind: 'status',
  status: 401,
  headers: { 'Content-Type': 'application/json' },
  body: '{"status":"invalid-credentials"}',
} as const

/** A token server that responds on demand. */
export async function startHeldTokenServer() {
  const released = Promise.withResolvers<void>()
  const proxy = await startFaultProxy({ target: 'http://127.0.0.1:1' })
  proxy.plan(() => released.promise.then(() => refusal))
  return {
    url: proxy.url,
    /** Resolves when that many requests wait. */
    waiting: (count: number) => proxy.waitFor(({ index }) => index >= count - 1),
    /** Rejects all waiting and later requests. */
    release: () => released.resolve(),
    async [Symbol.asyncDispose]() {
      released.resolve()
      await proxy.stop()
    },
  }
}

/** Requests the root view with credentials; its response waits for the token server. */
export function askSlowly(url: string): Promise<Response> {
  const headers = { Authorization: `Bearer ${crypto.randomUUID()}`, 'X-KeyID': '1-AAAAAAAAAAAAAAAAAAAAAA' }
  return fetch(`${url}/v1/`, { headers })
}
