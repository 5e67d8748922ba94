import type { RequestListener, Switches } from './options.ts'

const mostBodyBytes = 512 * 1024 * 1024

type Answer = (request: Request, target: RequestTarget) => Response | Promise<Response>

/** Opens a server. Unexpected failures are answered 500, body 0; only the listener learns of their cause. */
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
    maxRequestBodySize: mostBodyBytes,
    async fetch(request) {
      const target = readTarget(request.url)
      const { method, headers } = request
      const onAnswer = onRequest?.({ server, method, target: target.raw, headers })
      try {
        const response = await answer(request, target)
        onAnswer?.(response.status)
        return response
      } catch (error) {
        onAnswer?.(500, error)
        return Response.json(0, { status: 500 })
      }
    },
    error: () => Response.json(0, { status: 500 }),
  })
}

/** Path and query of a request as the client wrote them, which is what Hawk signs. */
export interface RequestTarget {
  /** Both together, as on the wire. */
  raw: string
  path: string
  query: string
}

/** Cut out of the URL text: parsing and printing it again could spell it differently. */
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
  const largest = limits.max_quota_limit
  const quota =
    quotaKilobytes === null
      ? { enabled: false, size: largest }
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

/** An answer of the storage before the headers that every answer gets. */
export interface Reply {
  status: number
  /** JSON text unless contentType says otherwise; null for no body. */
  body: string | ReadableStream<Uint8Array> | null
  contentType?: string
  /** Milliseconds; what becomes X-Last-Modified. Filled in with the resource's timestamp when a handler gives none. */
  lastModified?: number
  headers?: Record<string, string>
}

/** The integers that error bodies consist of; see Sync 1.5 API, "Response codes". */
export const code = { unspecified: 0, json: 6, invalidRecord: 8, overQuota: 14, tooLarge: 17 } as const

/** Any refusal of the storage: a status and a body that is one integer. Undoes the transaction it is thrown in. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: number | null = 0,
    readonly headers: Record<string, string> = {},
  ) {
    super(`refused with ${status}`)
  }
}

/** 200 with a JSON text. */
export function jsonReply(body: string, lastModified?: number): Reply {
  return lastModified === undefined ? { status: 200, body } : { status: 200, body, lastModified }
}
