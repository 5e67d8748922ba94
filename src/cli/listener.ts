import type { Server } from 'bun'

interface ListenerOptions {
  hostname: string
  /** 0: any free port. */
  port: number
  reusePort?: boolean
  /** Whether it is only for browsers and programs of this machine. */
  isLocal: boolean
}

// A page elsewhere can make its own host name resolve to this machine, and would then read what is served here.
const localHost = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/

/**
 * Listens for requests besides those to the bridge. Throws if the address can't be used. All listeners are opened here, because the
 * runtime's development mode, which is the default, shows source files and stack traces to any client.
 */
export function openListener(
  { isLocal, ...address }: ListenerOptions,
  answer: (request: Request) => Response | Promise<Response>,
): Server<undefined> {
  return Bun.serve({
    ...address,
    development: false,
    maxRequestBodySize: 1024,
    async fetch(request) {
      const isRefused = isLocal && !localHost.test(request.headers.get('Host') ?? '')
      const response = isRefused ? new Response('Unknown host\n', { status: 400 }) : await answer(request)
      response.headers.set('X-Content-Type-Options', 'nosniff')
      return response
    },
    error: () => new Response('Cannot answer this request\n', { status: 500 }),
  })
}
