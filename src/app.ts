/**
 * The service as an Elysia app. How a request travels, and where to read on:
 *
 * 1. `load/permits.ts`         a request that is one too many is rejected before the framework sees it
 * 2. `routes/call.ts`         what no router looks at: host, origin, framing
 * 3. `routes/records.ts`, `batch.ts`, `service.ts`, `pages.ts`: read, ask, answer; `routes/unrouted.ts` what no route matched
 * 4. `protocol/records.ts` and its neighbours: the declarations: path, schemas, operation, answer
 * 5. `batch/`                  every write: many operations, one transaction
 * 6. `upstream/`               the storage and the token server behind it all
 *
 * Whatever comes back, a reply or something thrown, becomes a message in `send` below and nowhere else.
 */
import { Elysia } from 'elysia'
import { isLarge, toResponse } from './protocol/envelope.ts'
import { errorReply, type Reply } from './protocol/reply.ts'
import { versionPrefix } from './protocol/find.ts'
import { addBatchRoute } from './routes/batch.ts'
import { Call, shedLoad, withCalls, type Services } from './routes/call.ts'
import { addDocsRoutes, addExploreRoutes } from './routes/pages.ts'
import { addBucketRoutes } from './routes/records.ts'
import { addHealthRoutes, addServiceRoutes } from './routes/service.ts'
import { answerUnrouted, rejectInvalid, routeOf } from './routes/unrouted.ts'

/** Composes the routes into an app that is ready to listen. */
export function createApp(services: Services) {
  const { settings } = services

  /** Turns every reply into an HTTP response and reports it. All responses leave here. */
  function send(reply: Reply, call: Call): Response {
    call.route ??= routeOf(call)
    services.observers.request(call, reply, services.monotonicNow() - call.monotonicStartMs)
    call.body?.release()
    const stream = isLarge(reply.body) ? sendStream(reply.body, reply, call) : null
    if (stream === null) call.releaseMemory()
    const response = toResponse(reply, call, settings, services.load.backoffSeconds, stream)
    // The rest of a body of unknown length could be taken for another request, and be answered.
    const isCutOff = call.headers['transfer-encoding'] !== undefined && !call.body?.isWhole
    if (services.isStopping || isCutOff) response.headers.set('Connection', 'close')
    return response
  }

  /** Sends a large answer, or a list, until its end or until it breaks off. */
  function sendStream(body: NonNullable<Reply['body']>, reply: Reply, call: Call) {
    return services.streams.send(body, call.request, ({ bytes, failure }) => {
      call.releaseMemory()
      reply.ended?.()
      if (failure !== null) services.observers.listBroken(call, bytes, failure)
    })
  }

  /** Answers before the body of the request has come. */
  function sendEarly(reply: () => Reply, call: Call): Response | Promise<Response> {
    // The server answers a malformed chunked body itself, and two responses would go out: its own has to be first.
    if (call.headers['transfer-encoding'] === undefined) return send(reply(), call)
    return Bun.sleep(0).then(() => send(reply(), call))
  }

  // A Host of less than four characters would confuse the framework's router if it took hosts to be standard ones.
  const bare = new Elysia({
    normalize: false,
    aot: true,
    strictPath: true,
    handler: { standardHostname: false },
  }).wrap((handle, request) => {
    const rejection = shedLoad(request, services)
    if (rejection !== null) return () => sendEarly(() => rejection, new Call(request, services))
    return isRelative(request) ? withHost(handle, settings.httpHost) : handle
  })
  const app = withCalls(bare, services)
  // The one place for errors: foreseen or not, each is answered in the contract's form.
  app.onError(({ request, error, code, call = new Call(request, services) }) =>
    sendEarly(() => {
      try {
        if (code === 'NOT_FOUND') return answerUnrouted(call)
        if (code === 'VALIDATION') return rejectInvalid(call)
        throw error
      } catch (thrown) {
        services.observers.error(thrown)
        return errorReply(thrown, settings)
      }
    }, call),
  )
  app.mapResponse(({ response, call }) =>
    response instanceof Response ? response : send(response as Reply, call),
  )
  const prefix = versionPrefix(settings)
  addHealthRoutes(app, '', services)
  addHealthRoutes(app, prefix, services)
  addServiceRoutes(app, prefix, services)
  addBatchRoute(app, prefix)
  addExploreRoutes(app, prefix, services)
  addDocsRoutes(app, prefix, services)
  addBucketRoutes(app, prefix)
  return app
}

// Without a Host, as HTTP/1.0 allows it, a URL is relative, and the framework's router would look for its path behind the second
// slash. What the runtime has routed by itself has its parameters already.
function isRelative(request: Request): boolean {
  return request.url.startsWith('/') && !('params' in request)
}

const withHost = (handle: (request: Request) => unknown, host: string | null) => (request: Request) =>
  handle(new Request(`http://${host ?? 'localhost'}${request.url}`, request))
