/**
 * Everything that this service answers, each declared once. From here come the routes, the checks, the sub-requests of a batch,
 * the gates for writes, `Allow` and the API document.
 */
import { Type } from '@sinclair/typebox'
import type { TObject } from '@sinclair/typebox'
import { Memoirist } from 'memoirist'
import { errno, ServiceError } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import type { Operation } from '../domain/operation.ts'
import { canonicalCollection } from '../domain/record.ts'
import { compileRequestCheck } from './check.ts'
import {
  countRecords,
  getBucket,
  getCollection,
  listCollections,
  listRecords,
  queryProblem,
} from './list-resources.ts'
import { anything, decodeSegment, deleteRecord, getRecord, putRecord } from './record-resources.ts'
import type { BucketResource, Resource } from './record-resources.ts'
import { jsonReply, versionPrefix } from './reply.ts'
import type { ExposedSettings, Reply } from './reply.ts'
import { BatchBody, BatchHeaders, ListQuery, RootHeaders } from './schemas.ts'

const nothing = Type.Object({})

const FilePath = Type.Object({ file: Type.String({ description: 'The name of the file' }) })

/** A resource of the service itself, with a handler of its own. */
function declareService<H extends TObject, P extends TObject>(
  declaration: Omit<Resource, 'query' | 'check' | 'headers' | 'params'> & { headers: H; params: P },
) {
  const { params, headers } = declaration
  return { ...declaration, query: anything, check: compileRequestCheck({ params, query: anything, headers }) }
}

/** Is read without credentials and parameters. */
const open = { method: 'GET', headers: anything, params: nothing } as const

const fileOfPage = {
  ...open,
  params: FilePath,
  summary: 'Load a part of that page',
  answers: { 200: { description: 'The file', body: '*/*' } },
} as const

export const bucketResources: BucketResource[] = [
  getBucket,
  listCollections,
  getCollection,
  listRecords,
  countRecords,
  getRecord,
  putRecord,
  deleteRecord,
]

export const batch = declareService({
  name: 'batch',
  method: 'POST',
  path: '/batch',
  headers: BatchHeaders,
  params: nothing,
  body: BatchBody,
  id: 'batch',
  summary: 'Send many requests as one transaction',
  description:
    'Each sub-request sees what the earlier ones did, and one that is refused leaves the others standing. If the storage ' +
    'breaks, the answer is 503 and none of them has had any effect. `defaults` are merged under each of them, and the ' +
    'conditional headers of the batch itself count for those that have none.',
  answers: { 200: { description: 'An answer to each sub-request, in order', body: 'BatchAnswer' } },
})

export const root = declareService({
  ...open,
  name: 'root',
  path: '/',
  headers: RootHeaders,
  id: 'getRoot',
  summary: 'See what this service is',
  description: 'With credentials that the token server accepts, `user` tells whose they are.',
  answers: { 200: { description: 'The root view', body: 'RootAnswer' } },
})

export const heartbeat = declareService({
  ...open,
  name: 'heartbeat',
  path: '/__heartbeat__',
  id: 'getHeartbeat',
  summary: 'See whether the token server and the cache answer',
  description: 'Also answered without the version prefix.',
  answers: {
    200: { description: 'They do', body: 'HeartbeatAnswer' },
    503: {
      description: 'One of them does not',
      body: 'HeartbeatAnswer',
      headers: ['Retry-After'],
      example: { storage: false, cache: true, permission: true },
    },
  },
})

export const lbheartbeat = declareService({
  ...open,
  name: 'lbheartbeat',
  path: '/__lbheartbeat__',
  id: 'getLbheartbeat',
  summary: 'See whether this process answers',
  description: 'For load balancers. Also answered without the version prefix.',
  answers: { 200: { description: 'It does; the body is empty' } },
})

export const version = declareService({
  ...open,
  name: 'version',
  path: '/__version__',
  id: 'getVersion',
  summary: 'See which build this is',
  answers: { 200: { description: 'The version', body: 'VersionAnswer' } },
})

export const openapi = declareService({
  ...open,
  name: 'openapi',
  path: '/__api__',
  id: 'getApi',
  summary: 'Read this document',
  answers: { 200: { description: 'An OpenAPI 3 document', body: 'ApiDocumentAnswer' } },
})

export const metrics = declareService({
  ...open,
  name: 'metrics',
  path: '/__metrics__',
  id: 'getMetrics',
  summary: 'Read the metrics',
  description: 'In the text format of Prometheus. No name, label or figure tells of users or their records.',
  answers: { 200: { description: 'The metrics', body: 'text/plain' } },
})

export const docs = declareService({
  ...open,
  name: 'docs',
  path: '/docs',
  id: 'getDocs',
  summary: 'Open the page of this document',
  answers: { 200: { description: 'The page', body: 'text/html' } },
})

export const docsFile = declareService({
  ...fileOfPage,
  name: 'docs',
  path: '/docs/:file',
  id: 'getDocsFile',
})

export const explore = declareService({
  ...open,
  name: 'explore',
  path: '/explore',
  id: 'getExplorer',
  summary: 'Open a page to look at your own data',
  answers: { 200: { description: 'The page', body: 'text/html' } },
})

export const exploreFile = declareService({
  ...fileOfPage,
  name: 'explore',
  path: '/explore/:file',
  id: 'getExplorerFile',
})

export const resources: Resource[] = [
  ...bucketResources,
  batch,
  root,
  heartbeat,
  lbheartbeat,
  version,
  openapi,
  metrics,
  docs,
  docsFile,
  explore,
  exploreFile,
]

export function isBucketResource(resource: Resource): resource is BucketResource {
  return 'operation' in resource
}

// --- Finding a resource ---

/** What is at a path, by method, and the parameters in the path. */
interface Match {
  resources: Resource[]
  params: Record<string, string>
}

let made: Memoirist<Resource[]> | null = null

// The framework routes with the same library, so that both agree on every path.
function router(): Memoirist<Resource[]> {
  if (made) return made
  made = new Memoirist()
  for (const [path, found] of Map.groupBy(resources, (resource) => resource.path)) made.add('', path, found)
  return made
}

/**
 * Finds what is at a path below the version prefix. Names in the path are decoded as the framework does; one that can't be
 * decoded fails every schema.
 */
export function findResources(path: string): Match | null {
  const found = router().find('', path)
  if (!found) return null
  const params = { ...found.params }
  for (const name in params) if (name !== '*') params[name] = decodeSegment(params[name]!) ?? '\ufffd'
  return { resources: found.store, params }
}

/** Which of the resources at a path answers a method; HEAD is answered like GET. */
export function resourceFor(method: string, { resources: all }: Match): Resource | undefined {
  return (
    all.find((resource) => resource.method === method) ??
    (method === 'HEAD' ? all.find((resource) => resource.method === 'GET') : undefined)
  )
}

const mostParameters = 100

/**
 * Reads a query string the way the framework does: of repeated parameters the last counts, and `+` is a blank. But escapes
 * that are broken or no UTF-8 are a problem, where the framework leaves them as they are. For sub-requests, which the
 * framework never sees, and for requests whose query it could not decode.
 */
export function readQuery(search: string, problems: Problem[]): Record<string, string> {
  const query: Record<string, string> = Object.create(null)
  if (search.length < 2) return query
  const parts = search.slice(1).split('&', mostParameters + 1)
  if (parts.length > mostParameters) {
    const description = `has more than ${mostParameters} parameters`
    problems.push({ location: 'querystring', name: 'querystring', description })
    return query
  }
  for (const part of parts) {
    const equals = part.indexOf('=')
    const name = decodeQuery(equals === -1 ? part : part.slice(0, equals))
    if (name === null || !Object.hasOwn(ListQuery.properties, name)) continue
    const value = decodeQuery(equals === -1 ? '' : part.slice(equals + 1))
    if (value === null) problems.push(queryProblem(name as keyof ListQuery & string))
    else query[name] = value
  }
  return query
}

function decodeQuery(text: string): string | null {
  return decodeSegment(text.includes('+') ? text.replaceAll('+', ' ') : text)
}

// --- Methods ---

/** Whether the operator lets clients use this method; for a write, on the collection in its path. */
export function isEnabled(resource: Resource, params: object, settings: ExposedSettings): boolean {
  if (resource.method !== 'PUT' && resource.method !== 'DELETE') return true
  const collection = canonicalCollection((params as { collection_id?: string }).collection_id ?? '')
  return (
    !settings.readonly &&
    collection !== null &&
    settings.writable[resource.method === 'PUT' ? 'put' : 'delete'].has(collection)
  )
}

/** 405 for a method that is not answered at a path. */
export function methodNotAllowed(
  method: string,
  { resources: all, params }: Match,
  settings: ExposedSettings,
): ServiceError {
  const methods = new Set<string>()
  for (const resource of all) {
    if (!isEnabled(resource, params, settings)) continue
    methods.add(resource.method)
    if (resource.method === 'GET') methods.add('HEAD')
  }
  const message = all.some((resource) => resource.method === method)
    ? 'Method not allowed: the operator has not enabled this write'
    : 'Method not allowed on this resource'
  const headers = { Allow: [...methods, 'OPTIONS'].join(', ') }
  return new ServiceError(405, errno.methodNotAllowed, message, { headers })
}

/**
 * The operation for a transaction: there a count with filters must see the writes before it, so it becomes a list whose
 * records are counted.
 */
export function asTransactionStep(operation: Operation): Operation {
  if (operation.kind !== 'count' || Object.keys(operation.filter).length === 0) return operation
  const { collection, filter, precondition } = operation
  return { kind: 'list', collection, options: { ...filter, sort: 'newest' }, precondition }
}

/** The root view: what the service is and can do. Every client asks for it first. */
export function rootReply(origin: string, userId: string | null, settings: ExposedSettings): Reply {
  const url = origin + versionPrefix(settings)
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

// No names of extensions that are not here (history, attachments, accounts, permissions_endpoint): a client that sees
// such a name calls what it stands for.
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
