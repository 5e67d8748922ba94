/** A token server that answers nobody until it is told to. */
export interface HeldTokenServer extends AsyncDisposable {
  url: string
  /** Resolves when so many requests wait. */
  waiting(count: number): Promise<void>
  /** Refuses all that wait, and whoever comes. */
  release(): void
}

export function startHeldTokenServer(): HeldTokenServer {
  const released = Promise.withResolvers<void>()
  const watchers: { count: number; resolve(): void }[] = []
  let waiting = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 60,
    async fetch() {
      waiting += 1
      for (const { count, resolve } of watchers) if (waiting >= count) resolve()
      await released.promise
      return Response.json({ status: 'invalid-credentials' }, { status: 401 })
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    waiting(count) {
      const { promise, resolve } = Promise.withResolvers<void>()
      watchers.push({ count, resolve })
      if (waiting >= count) resolve()
      return promise
    },
    release: () => released.resolve(),
    async [Symbol.asyncDispose]() {
      released.resolve()
      await server.stop(true)
    },
  }
}

/** Asks who one is, which is answered when the token server has answered. */
export function askSlowly(url: string): Promise<Response> {
  const headers = { Authorization: `Bearer ${crypto.randomUUID()}`, 'X-KeyID': '1-AAAAAAAAAAAAAAAAAAAAAA' }
  return fetch(`${url}/v1/`, { headers })
}
