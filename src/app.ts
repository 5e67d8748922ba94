/**
 * The service as an Elysia app. How a request travels, and where to read on:
 *
 * 1. `routes/load-shedding.ts` a request that is one too many is rejected before the framework sees it
 * 2. `routes/guard.ts`    every other request, before routing: host, origin, preflight, redirects, method, end of service
 * 3. `routes/*.ts`        one plugin a resource: read -> ask -> reply
 * 4. `protocol/`          the codecs that they read and reply with; both directions, no I/O
 * 5. `batch/`             every write: many operations, one transaction
 * 6. `upstream/`          the storage and the token server behind it all
 *
 * Whatever comes back, a reply or something thrown, becomes a message in `answer` below and nowhere else.
 */
import { Elysia } from 'elysia'
import { toResponse } from './protocol/envelope.ts'
import { errorReply } from './protocol/error-reply.ts'
import { majorVersion } from './protocol/exposed.ts'
import type { Reply } from './protocol/reply.ts'
import { batchRoutes } from './routes/batch.ts'
import { collectionRoutes } from './routes/collections.ts'
import { contextOf, requestIdOf } from './routes/context.ts'
import type * as DataDescriptions from './routes/data-descriptions.ts'
import { docsRoutes } from './routes/docs.ts'
import { exploreRoutes } from './routes/explore.ts'
import { guard, unknownPath } from './routes/guard.ts'
import { healthRoutes } from './routes/health.ts'
import { shedLoad } from './routes/load-shedding.ts'
import { metricsRoutes } from './routes/metrics.ts'
import { recordRoutes } from './routes/records.ts'
import { rootRoutes } from './routes/root.ts'
import type * as ServiceDescriptions from './routes/service-descriptions.ts'
import type { Services } from './routes/services.ts'

/** Composes the routes into an app that is ready to listen. */
export function createApp(services: Services) {
  const answer = (request: Request, reply: Reply): Response => {
    const { origin, resource, monotonicStartMs, requestId, work } = contextOf(request)
    services.observe({
      method: request.method,
      route: resource?.kind ?? null,
      status: reply.status,
      errno: reply.errno ?? null,
      durationMs: services.monotonicNow() - monotonicStartMs,
      requestId,
      work,
      bytes: () => bodyBytes(reply),
      userAgent: () => request.headers.get('user-agent'),
    })
    const body = services.streams.send(reply.body, request, () => reply.ended?.())
    return send({ ...reply, body }, origin, requestId)
  }
  /** The one door out. */
  const send = (reply: Reply, origin: string | null, requestId: string): Response => {
    const { settings, now, load } = services
    const response = toResponse(reply, origin, settings, now(), load.backoffSeconds)
    response.headers.set('X-Request-Id', requestId)
    if (services.isStopping()) response.headers.set('Connection', 'close')
    return response
  }
  const answerError = (request: Request, error: unknown): Response => {
    services.reportDefect(error)
    return answer(request, errorReply(error, services.settings))
  }

  // Handlers are compiled at their first request: all of them at once would double the time that a start takes.
  // A Host of less than four characters would confuse the framework's router if it took hosts to be standard ones.
  return new Elysia({ normalize: false, aot: true, precompile: false, handler: { standardHostname: false } })
    .wrap((handle, request) => {
      const rejection = shedLoad(request, services)
      if (rejection === null) return handle
      const { headers } = request
      const sendRejection = (reply: Reply) =>
        send(reply, headers.get('origin'), requestIdOf(headers, services))
      return () => (rejection instanceof Promise ? rejection.then(sendRejection) : sendRejection(rejection))
    })
    .onRequest(({ request }) => {
      try {
        const reply = guard(request, services)
        return reply ? answer(request, reply) : undefined
      } catch (error) {
        return answerError(request, error)
      }
    })
    .onError(({ request, error, code }) => answerError(request, code === 'NOT_FOUND' ? unknownPath() : error))
    .mapResponse(({ request, response }) =>
      response instanceof Response ? response : answer(request, response as Reply),
    )
    .use(healthRoutes(services))
    .group(`/v${majorVersion(services.settings)}`, (app) => app.use(allRoutes(services)))
}

function bodyBytes({ body }: Reply): number | null {
  if (body === null) return 0
  if (typeof body === 'string') return Buffer.byteLength(body)
  return body instanceof Uint8Array ? body.length : null
}

/** What the API document says of the routes. */
interface Descriptions {
  data: typeof DataDescriptions
  service: typeof ServiceDescriptions
}

/** Every route, without the version prefix. */
function allRoutes(services: Services, described?: Descriptions): Elysia {
  return new Elysia()
    .use(rootRoutes(services, described?.service))
    .use(healthRoutes(services, described?.service))
    .use(collectionRoutes(services, described?.data))
    .use(recordRoutes(services, described?.data))
    .use(batchRoutes(services, described?.data))
    .use(metricsRoutes(services, described?.service))
    .use(exploreRoutes(services, described?.service))
    .use(docsRoutes(services, () => describedRoutes(services), described?.service)) as unknown as Elysia
}

// To make all descriptions takes as long as all else that a start does for the routes.
async function describedRoutes(services: Services): Promise<Elysia> {
  const data = await import('./routes/data-descriptions.ts')
  const service = await import('./routes/service-descriptions.ts')
  return allRoutes(services, { data, service })
}
