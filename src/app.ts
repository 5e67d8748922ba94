/**
 * The service as an Elysia app. The path of a request:
 *
 * 1. `load/permits.ts`: rejects a request above the limits, before the framework sees it
 * 2. `routes/call.ts`: host, origin and framing
 * 3. `routes/records.ts`, `batch.ts`, `service-resources.ts`, `pages.ts`: the handlers; `routes/unrouted.ts`: requests without a route
 * 4. `protocol/records.ts` and its neighbours: the declarations: path, schemas, operation, reply
 * 5. `batch/`: every write, many operations in one transaction
 * 6. `upstream/`: the storage and the token server
 *
 * `send` below turns every reply and every error into a response.
 */
import { Elysia } from 'elysia'
import { sendAtOnce } from './load/streams.ts'
import { isLarge, isSource, toResponse } from './protocol/envelope.ts'
import { isInLegacyBucket } from './protocol/identity.ts'
import { errorReply, type Reply } from './protocol/reply.ts'
import { versionPrefix } from './protocol/find.ts'
import { addBatchRoute } from './routes/batch.ts'
import { Call, rejectUnderLoad, withCalls, type Services } from './routes/call.ts'
import { addDocsRoutes, addExploreRoutes } from './routes/pages.ts'
import { addBucketRoutes } from './routes/records.ts'
import { addHealthRoutes, addServiceRoutes } from './routes/service-resources.ts'
import { answerUnrouted, rejectInvalid, routeOf } from './routes/unrouted.ts'

/** Creates the app with all routes, ready to listen. */
export function createApp(services: Services) {
  const { settings } = services

  /** Turns every reply into an HTTP response and reports it. All responses leave here. */
  function send(reply: Reply, call: Call): Response {
    // The handler of a route sets both.
    if (call.route === null) {
      call.route = routeOf(call)
      call.isLegacyBucket = isInLegacyBucket(call.path)
    }
    services.observers.request(call, reply, services.monotonicNow() - call.monotonicStartMs)
    call.body?.release()
    const body = sendBody(reply, call)
    const response = toResponse(reply, call, settings, services.load.backoffSeconds, body)
    // The rest of a body of unknown length could be parsed as another request.
    const isBodyUnread = call.headers['transfer-encoding'] !== undefined && !call.body?.isWhole
    if (services.isStopping || isBodyUnread) response.headers.set('Connection', 'close')
    return response
  }

  /** Streams a large response or a list, and sends others at once. */
  function sendBody(reply: Reply, call: Call): BodyInit | null {
    const { body } = reply
    if (body !== null && (isSource(body) || isLarge(body)))
      return services.streams.send(body, call.request, ({ bytes, failure }) => {
        call.releaseMemory()
        reply.ended?.()
        if (failure !== null) services.observers.listBroken(call, bytes, failure)
      })
    call.releaseMemory()
    return body === null ? null : sendAtOnce(body)
  }

  /** Responds before the body of the request has arrived. */
  function sendEarly(reply: () => Reply, call: Call): Response | Promise<Response> {
    // The server rejects a malformed chunked body itself. Yields first, or two responses would go out.
    if (call.headers['transfer-encoding'] === undefined) return send(reply(), call)
    return Bun.sleep(0).then(() => send(reply(), call))
  }

  // Without `standardHostname: false`, a Host shorter than four characters would confuse the framework's router.
  const bare = new Elysia({
    normalize: false,
    aot: true,
    strictPath: true,
    handler: { standardHostname: false },
  }).wrap((handle, request) => {
    const rejection = rejectUnderLoad(request, services)
    if (rejection !== null) return () => sendEarly(() => rejection, new Call(request, services))
    return isRelative(request) ? withHost(handle, settings.httpHost) : handle
  })
  const app = withCalls(bare, services)
  // All errors, expected or not, are answered here in the same form.
  app.onError(({ request, error, code, call = new Call(request, services) }) =>
    sendEarly(() => {
      try {
        if (code === 'NOT_FOUND') return answerUnrouted(call)
        if (code === 'VALIDATION') return rejectInvalid(call)
        throw error
      } catch (thrown) {
        services.observers.error(thrown)
        return errorReply(thrown, settings, call.method)
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

// Without a Host, as in HTTP/1.0, the URL is relative and the framework's router would misread its path. Requests that the runtime has
// routed already have `params`.
function isRelative(request: Request): boolean {
  return request.url.startsWith('/') && !('params' in request)
}

const withHost = (handle: (request: Request) => unknown, host: string | null) => (request: Request) =>
  handle(new Request(`http://${host ?? 'localhost'}${request.url}`, request))
