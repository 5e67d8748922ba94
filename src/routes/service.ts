import { Elysia } from 'elysia'
import type { IdentityHeaders } from '../protocol/identity.ts'
import { readAnonymousIdentity } from '../protocol/identity.ts'
import { publicOrigin } from '../protocol/public-address.ts'
import { emptyReply, jsonReply, rootReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { heartbeat, lbheartbeat, metrics, root, version } from '../protocol/resources.ts'
import type { Call } from './guard.ts'
import type { Services } from './services.ts'
import { calls } from './session.ts'

/** What this service is, and whether it works. */
export function serviceRoutes(services: Services) {
  const app = new Elysia()
    .use(calls(services))
    .get(root.path, ({ headers, call }) => rootReplyFor(headers, call, services), { headers: root.headers })
    .get(version.path, () => jsonReply(services.version))
    .use(healthRoutes(services))
  if (!services.metrics) return app
  const { metrics: read } = services
  return app.get(metrics.path, async () => {
    const { text, type } = await read()
    return { status: 200, headers: { 'Content-Type': type }, body: text }
  })
}

/** Whether this process and the services behind it work. These are also answered without the version prefix. */
export function healthRoutes(services: Services) {
  return new Elysia()
    .use(calls(services))
    .get(heartbeat.path, () => heartbeatReply(services))
    .get(lbheartbeat.path, () => emptyReply(200))
}

/** The root view. Refused credentials are no error here: the answer then names no user. */
export async function rootReplyFor(headers: IdentityHeaders, call: Call, services: Services): Promise<Reply> {
  const identity = readAnonymousIdentity(headers)
  const userId = identity && (await services.identify(identity, call.requestId))
  return rootReply(publicOrigin(call.host, services.settings), userId, services.settings)
}

/** 200 when all parts answer, otherwise 503 with the same body. */
export async function heartbeatReply(services: Services): Promise<Reply> {
  const { storage, cache, permission } = await services.heartbeat()
  const isWell = storage && cache && permission
  const headers: Record<string, string> = isWell
    ? {}
    : { 'Retry-After': String(Math.max(services.settings.retryAfterSeconds, 1)) }
  return jsonReply({ storage, cache, permission }, headers, isWell ? 200 : 503)
}
