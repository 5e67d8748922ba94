import type { Switches } from './options.ts'

const mostBodyBytes = 512 * 1024 * 1024

type Answer = (request: Request, target: RequestTarget) => Response | Promise<Response>

/** Opens a server that logs every request. Unexpected failures are kept in the log and answered 500, body 0. */
export function listen(
  hostname: string,
  port: number | undefined,
  log: ReturnType<typeof createRequestLog>,
  answer: Answer,
) {
  return Bun.serve({
    hostname,
    port: port ?? 0,
    development: false,
    idleTimeout: 255,
    maxRequestBodySize: mostBodyBytes,
    async fetch(request) {
      const target = readTarget(request.url)
      const entry = log.add({
        method: request.method,
        target: target.raw,
        headers: new Headers(request.headers),
      })
      try {
        const response = await answer(request, target)
        entry.status = response.status
        return response
      } catch (error) {
        Object.assign(entry, { status: 500, failure: error })
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

const mostEntries = 10_000

/** One request that a server was asked. */
export interface LoggedRequest {
  readonly method: string
  /** Path and query as sent. */
  readonly target: string
  readonly headers: Headers
  /** Zero until it has been answered. */
  status: number
  /** What went wrong inside the sandbox, when it answered 500. */
  failure?: unknown
}

/** What a server was asked, oldest first, at most the last 10 000. */
export interface RequestLog {
  readonly entries: readonly LoggedRequest[]
  clear(): void
}

/** A log and the function that adds to it and fills in the status once it is known. */
export function createRequestLog(): RequestLog & {
  add(request: Omit<LoggedRequest, 'status' | 'failure'>): LoggedRequest
} {
  const entries: LoggedRequest[] = []
  return {
    entries,
    clear: () => entries.splice(0),
    add(request) {
      const entry: LoggedRequest = { ...request, status: 0 }
      entries.push(entry)
      if (entries.length > mostEntries) entries.shift()
      return entry
    },
  }
}

/** Health and version pages, the same on both servers. */
export function dockerflow(
  { healthy, quotaKilobytes }: Pick<Switches, 'healthy' | 'quotaKilobytes'>,
  path: string,
): Response {
  const state = healthy ? 'Ok' : 'Err'
  const enabled = quotaKilobytes !== null
  const quota = { size: (quotaKilobytes ?? 0) * 1024, enabled, enforced: enabled }
  switch (path) {
    case '/__heartbeat__':
      return Response.json(
        { version: 'sandbox', database: state, status: state, quota },
        { status: healthy ? 200 : 503 },
      )
    case '/__lbheartbeat__':
      return Response.json({ active_connections: 0, idle_connections: 10, duration_ms: 0 })
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
