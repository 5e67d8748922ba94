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
import type { BucketResource, Method, Resource, ResourceName } from './record-resources.ts'
import { jsonReply, majorVersion } from './reply.ts'
import type { ExposedSettings, Reply } from './reply.ts'
import { BatchHeaders, ListQuery, RootHeaders } from './schemas.ts'

const nothing = Type.Object({})

const FilePath = Type.Object({ file: Type.String({ description: 'The name of the file' }) })

/** A resource of the service itself, with a handler of its own. */
function declareService<H extends TObject, P extends TObject>(
  name: ResourceName,
  method: Method,
  path: string,
  headers: H,
  params: P,
) {
  const schemas = { params, query: anything, headers }
  return { name, method, path, ...schemas, check: compileRequestCheck(schemas) } satisfies Resource
}

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

export const batch = declareService('batch', 'POST', '/batch', BatchHeaders, nothing)
export const root = declareService('root', 'GET', '/', RootHeaders, nothing)
export const heartbeat = declareService('heartbeat', 'GET', '/__heartbeat__', anything, nothing)
export const lbheartbeat = declareService('lbheartbeat', 'GET', '/__lbheartbeat__', anything, nothing)
export const version = declareService('version', 'GET', '/__version__', anything, nothing)
export const openapi = declareService('openapi', 'GET', '/__api__', anything, nothing)
export const metrics = declareService('metrics', 'GET', '/__metrics__', anything, nothing)
export const docs = declareService('docs', 'GET', '/docs', anything, nothing)
export const docsFile = declareService('docs', 'GET', '/docs/:file', anything, FilePath)
export const explore = declareService('explore', 'GET', '/explore', anything, nothing)
export const exploreFile = declareService('explore', 'GET', '/explore/:file', anything, FilePath)

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

/** The resource at a path, and the parameters in the path, as they were sent. */
interface Match {
  resource: Resource
  params: Record<string, string>
}

let made: Memoirist<Resource> | null = null

// The framework routes with the same library, so that both agree on every path.
function router(): Memoirist<Resource> {
  if (made) return made
  made = new Memoirist<Resource>()
  for (const resource of resources) made.add(resource.method, resource.path, resource)
  return made
}

/** The resource that answers a method at a path below the version prefix; HEAD is answered like GET. */
export function findResource(method: string, path: string): Match | null {
  const found = router().find(method, path) ?? (method === 'HEAD' ? router().find('GET', path) : null)
  return found && { resource: found.store, params: found.params }
}

const methods = new Set(resources.map(({ method }) => method))

/**
 * The parameters in a path, with the names decoded as the framework does; a value that can't be decoded fails every
 * schema.
 */
export function decodeNames(params: Match['params']): Match['params'] {
  const decoded = { ...params }
  for (const name in params) if (name !== '*') decoded[name] = decodeSegment(params[name]!) ?? '\ufffd'
  return decoded
}

/** All resources at a path, whatever the method. */
export function findResources(path: string): Match[] {
  return [...methods].flatMap((method) => findResource(method, path) ?? [])
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

/**
 * 405 for a method that a path does not answer. `others`: all resources of that path; `params`: the parameters in the
 * path.
 */
export function methodNotAllowed(
  method: string,
  others: Resource[],
  params: object,
  settings: ExposedSettings,
): ServiceError {
  const methods = new Set<string>()
  for (const resource of others) {
    if (!isEnabled(resource, params, settings)) continue
    methods.add(resource.method)
    if (resource.method === 'GET') methods.add('HEAD')
  }
  const message = others.some((resource) => resource.method === method)
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
