import type { RequestListener, Switches } from './options.ts'

const maxBodyBytes = 512 * 1024 * 1024

type Answer = (request: Request, target: RequestTarget) => Response | Promise<Response>

/** Starts a server. Answers unexpected failures with 500 and the body 0; only the listener gets their cause. */
export function listen(
  server: 'token' | 'storage',
  {
    hostname = '127.0.0.1',
    port = 0,
    onRequest,
  }: { hostname?: string; port?: number; onRequest?: RequestListener },
  answer: Answer,
) {
  return Bun.serve({
    hostname,
    port,
    development: false,
    idleTimeout: 255,
    maxRequestBodySize: maxBodyBytes,
    async fetch(request) {
      const target = readTarget(request.url)
      const { method, headers } = request
      const onResponse = onRequest?.({ server, method, target: target.raw, headers })
      try {
        const response = await answer(request, target)
        onResponse?.(response.status)
        return response
      } catch (error) {
        onResponse?.(500, error)
        return Response.json(0, { status: 500 })
      }
    },
    error: () => Response.json(0, { status: 500 }),
  })
}

/** Path and query of a request as the client sent them, because Hawk signs this form. */
export interface RequestTarget {
  /** Both together, as on the wire. */
  raw: string
  path: string
  query: string
}

/** Cuts the target out of the URL text, because parsing and formatting the URL could change it. */
export function readTarget(url: string): RequestTarget {
  const authority = /^[a-z]+:\/\/[^/?]*/i.exec(url)?.[0] ?? ''
  const rest = url.slice(authority.length)
  const raw = rest.startsWith('/') ? rest : `/${rest}`
  const mark = raw.indexOf('?')
  return mark < 0
    ? { raw, path: raw, query: '' }
    : { raw, path: raw.slice(0, mark), query: raw.slice(mark + 1) }
}

/** Health and version pages, the same on both servers. */
export function dockerflow(
  { healthy, quotaKilobytes, limits }: Pick<Switches, 'healthy' | 'quotaKilobytes' | 'limits'>,
  path: string,
): Response {
  const state = healthy ? 'Ok' : 'Err'
  const maxQuota = limits.max_quota_limit
  const quota =
    quotaKilobytes === null
      ? { enabled: false, size: maxQuota }
      : { enabled: true, size: quotaKilobytes * 1024 }
  switch (path) {
    case '/__heartbeat__':
      return Response.json(
        { version: 'sandbox', database: state, status: state, quota },
        { status: healthy ? 200 : 503 },
      )
    case '/__lbheartbeat__':
      return Response.json({ active_connections: 0, idle_connections: 10 })
    case '/__version__':
      return Response.json({ source: 'sandbox', version: 'sandbox', commit: '', build: '' })
    default:
      return Response.json(0, { status: 404 })
  }
}
