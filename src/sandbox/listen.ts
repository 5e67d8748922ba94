import type { createRequestLog } from './request-log.ts'
import { readTarget, type RequestTarget } from './request-target.ts'

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
