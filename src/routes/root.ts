import { Elysia } from 'elysia'
import { readAnonymousIdentity } from '../protocol/authorization.ts'
import type { HeaderLookup } from '../protocol/authorization.ts'
import { publicOrigin } from '../protocol/public-address.ts'
import { jsonReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { rootReply } from '../protocol/root-view.ts'
import { contextOf } from './context.ts'
import type * as Descriptions from './service-descriptions.ts'
import type { Services } from './services.ts'

/** GET / and GET /__version__: what this is. */
export function rootRoutes(services: Services, descriptions?: typeof Descriptions) {
  return new Elysia()
    .get('/', ({ request }) => rootReplyFor((name) => request.headers.get(name), request, services), {
      detail: descriptions?.rootDescription,
    })
    .get('/__version__', () => jsonReply(services.version), { detail: descriptions?.versionDescription })
}

/** The root view. Credentials that are refused are no error here: the answer just names no user. */
export async function rootReplyFor(
  header: HeaderLookup,
  request: Request,
  services: Services,
): Promise<Reply> {
  const identity = readAnonymousIdentity(header)
  const userId = identity && (await services.identify(identity, contextOf(request).requestId))
  return rootReply(publicOrigin(request.headers.get('host'), services.settings), userId, services.settings)
}
