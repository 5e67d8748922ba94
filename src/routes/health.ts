import { Elysia } from 'elysia'
import { emptyReply, jsonReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import type * as Descriptions from './service-descriptions.ts'
import type { Services } from './services.ts'

/** GET /__heartbeat__ and GET /__lbheartbeat__: whether the parts work, and whether this process does. */
export function healthRoutes(services: Services, descriptions?: typeof Descriptions) {
  return new Elysia()
    .get('/__heartbeat__', () => heartbeatReply(services), { detail: descriptions?.heartbeatDescription })
    .get('/__lbheartbeat__', () => emptyReply(200), { detail: descriptions?.lbheartbeatDescription })
}

/** 200 when all parts answer, and else 503, with the same body. */
export async function heartbeatReply(services: Services): Promise<Reply> {
  const { storage, cache, permission } = await services.heartbeat()
  const isWell = storage && cache && permission
  const headers: Record<string, string> = isWell
    ? {}
    : { 'Retry-After': String(Math.max(services.settings.retryAfterSeconds, 1)) }
  return jsonReply({ storage, cache, permission }, headers, isWell ? 200 : 503)
}
