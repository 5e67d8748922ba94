/** The root view, version, metrics and health checks. */
import { readAnonymousIdentity } from '../protocol/identity.ts'
import { versionPrefix } from '../protocol/find.ts'
import { publicOrigin } from '../protocol/origin.ts'
import { emptyReply, jsonReply, type Reply } from '../protocol/reply.ts'
import type { RequestHeaders } from '../protocol/resource.ts'
import { heartbeat, lbheartbeat, metrics, root, version } from '../protocol/service-resources.ts'
import type { App, Call, Services } from './call.ts'

export function addServiceRoutes(app: App, prefix: string, services: Services): void {
  app.get(prefix + root.path, ({ call }) => rootReply(call.headers, call), root.schemas)
  app.get(prefix + version.path, () => jsonReply(services.version), version.schemas)
  if (services.metrics) app.get(prefix + metrics.path, services.metrics, metrics.schemas)
}

/** Health checks, also available without the version prefix. */
export function addHealthRoutes(app: App, prefix: string, services: Services): void {
  app.get(prefix + heartbeat.path, () => heartbeatReply(services), heartbeat.schemas)
  app.get(prefix + lbheartbeat.path, () => emptyReply(200), lbheartbeat.schemas)
}

/** The root view: what the service is and can do. Invalid credentials are no error; the reply then names no user. */
export async function rootReply(headers: RequestHeaders, call: Call): Promise<Reply> {
  const { services } = call
  const { settings, version } = services
  const identity = readAnonymousIdentity(headers)
  const userId = identity && (await services.identify(identity, call))
  const url = publicOrigin(call.host, settings) + versionPrefix(settings)
  const docs = settings.projectDocs ?? (settings.docsEnabled ? `${url}/docs` : url)
  return jsonReply({
    project_name: settings.projectName,
    project_docs: docs,
    project_version: version.version,
    http_api_version: settings.httpApiVersion,
    toolkit_protocol_version: '2',
    cliquet_protocol_version: '2',
    url,
    ...(settings.eos && { eos: settings.eos.text }),
    settings: {
      batch_max_requests: settings.batchMaxRequests,
      readonly: settings.readonly,
      'cliquet.batch_max_requests': settings.batchMaxRequests,
    },
    // Only extensions that exist: a client that sees history, attachments, accounts or permissions_endpoint calls them.
    capabilities: {
      sync_bridge: {
        description: 'The encrypted collections of a Firefox Sync storage',
        url: docs,
      },
      bearer_authentication: { description: 'OAuth access tokens, with the key id in X-KeyID', url: docs },
      browserid_authentication: {
        description: 'Identity assertions, for token servers that still accept them',
        url: docs,
      },
    },
    ...(userId !== null && { user: { id: userId } }),
  })
}

/** 200 if everything is available, else 503 with the same body. */
export async function heartbeatReply(services: Services): Promise<Reply> {
  const parts = await services.heartbeat()
  const pause = { 'Retry-After': String(Math.max(services.settings.retryAfterSeconds, 1)) }
  return Object.values(parts).every(Boolean) ? jsonReply(parts) : jsonReply(parts, pause, 503)
}
