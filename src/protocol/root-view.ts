import { majorVersion } from './exposed.ts'
import type { ExposedSettings } from './exposed.ts'
import { jsonReply } from './reply.ts'
import type { Reply } from './reply.ts'

/** What the service is and can do: the first thing that every client asks. */
export function rootReply(origin: string, userId: string | null, settings: ExposedSettings): Reply {
  const url = `${origin}/v${majorVersion(settings)}`
  const docs = settings.projectDocs ?? (settings.docsEnabled ? `${url}/docs` : url)
  return jsonReply({
    project_name: settings.projectName,
    project_docs: docs,
    project_version: settings.projectVersion,
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
    capabilities: capabilities(docs),
    ...(userId !== null && { user: { id: userId } }),
  })
}

// Never the names of extensions that are not here (history, attachments, accounts, permissions_endpoint): clients that
// see one call what it promises.
function capabilities(url: string): Record<string, { description: string; url: string }> {
  return {
    sync_bridge: { description: 'The collections of a Firefox Sync storage, encrypted as they are', url },
    bearer_authentication: { description: 'OAuth access tokens, with the key id in X-KeyID', url },
    browserid_authentication: {
      description: 'Identity assertions, for token servers that still take them',
      url,
    },
  }
}
