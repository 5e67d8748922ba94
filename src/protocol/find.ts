/** Finds the resource for a method and a path: for sub-requests, and for paths without a route. */
import { Memoirist } from 'memoirist'
import { invalidRequest, type Problem } from './problems.ts'
import type { Settings } from '../settings/settings.ts'
import { getBucket, getCollection, listCollections } from './collections.ts'
import { readIdentity } from './identity.ts'
import { countRecords, listRecords, queryProblem, type Parameter } from './lists.ts'
import { decodeSegment, deleteRecord, getRecord, putRecord } from './records.ts'
import type { BucketResource, Input, Resource } from './resource.ts'
import { ListQuery } from './schemas.ts'
import * as serviceResources from './service-resources.ts'

export const resources: Resource[] = [
  getBucket,
  listCollections,
  getCollection,
  listRecords,
  countRecords,
  getRecord,
  putRecord,
  deleteRecord,
  ...Object.values(serviceResources),
]

export function isBucketResource(resource: Resource): resource is BucketResource {
  return 'operation' in resource
}

/** The prefix of every path: "/v1" for version "1.5". */
export function versionPrefix({ httpApiVersion }: Pick<Settings, 'httpApiVersion'>): string {
  return `/v${httpApiVersion.split('.')[0]!}`
}

/** The part of a path after the version prefix; null if the prefix differs. */
export function belowVersion(path: string, settings: Pick<Settings, 'httpApiVersion'>): string | null {
  const prefix = versionPrefix(settings)
  return path === prefix || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) || '/' : null
}

// The framework uses the same router, so both agree on every path.
const router = new Memoirist<Resource[]>()
for (const [path, found] of Map.groupBy(resources, (resource) => resource.path)) router.add('', path, found)

/**
 * Finds the resources at a path (without version prefix) and the path parameters. Decodes names like the framework does; an invalid escape
 * fails every schema. Null if there is nothing, or the operator does not expose the collection.
 */
export function findResources(
  path: string,
  settings: Pick<Settings, 'readableCollections'>,
): { resources: Resource[]; params: Record<string, string> } | null {
  const found = router.find('', path)
  if (!found) return null
  const params = { ...found.params }
  for (const name in params) if (name !== '*') params[name] = decodeSegment(params[name]!) ?? '\ufffd'
  return isReadable(params, settings) ? { resources: found.store, params } : null
}

/** Whether the operator exposes the collection in a path. */
export function isReadable(
  { collection_id: name }: { collection_id?: string },
  { readableCollections }: Pick<Settings, 'readableCollections'>,
): boolean {
  return name === undefined || readableCollections?.has(name.toLowerCase()) !== false
}

/** The resource that answers a method; HEAD is answered like GET. */
export function resourceFor(method: string, all: Resource[]): Resource | undefined {
  const withMethod = (name: string) => all.find((resource) => resource.method === name)
  return withMethod(method) ?? (method === 'HEAD' ? withMethod('GET') : undefined)
}

/**
 * Validates a request that the framework has not: a sub-request, or one that it rejected. Throws `ServiceError` 400 with all problems, or
 * 401 if the path is valid and the credentials are not.
 */
export function readRequest(
  resource: BucketResource,
  { params, headers: given, address, body }: Omit<Input<Record<string, string>, never>, 'query'>,
  settings: Settings,
) {
  const problems: Problem[] = []
  const headers = { ...given }
  const query = readQuery(address.query, problems)
  problems.push(...resource.check({ params, query, headers }))
  const isPathRight = !problems.some(({ location }) => location === 'path')
  const identity = isPathRight ? readIdentity(headers, params.bucket_id ?? '') : null
  // Removes invalid values, so that each problem is reported once; valid values may still contradict each other.
  for (const { location, name } of problems) {
    if (location === 'querystring') delete query[name]
    if (location === 'header') delete headers[name.toLowerCase()]
  }
  const input = { params, query, headers, body, address }
  const operation = resource.operation(input, problems, settings)
  if (identity === null || problems.length > 0) throw invalidRequest(problems)
  return { input, operation, identity }
}

const maxParameters = 100

/**
 * Parses a query string like the framework does: the last of repeated parameters counts, and `+` is a space. Unlike the framework, reports
 * invalid escapes. For sub-requests, and for queries that the framework could not decode.
 */
export function readQuery(search: string, problems: Problem[]): Record<string, string> {
  const query: Record<string, string> = Object.create(null)
  if (search.length < 2) return query
  const parts = search.slice(1).split('&', maxParameters + 1)
  if (parts.length > maxParameters) {
    const description = `has more than ${maxParameters} parameters`
    problems.push({ location: 'querystring', name: 'querystring', description })
    return query
  }
  for (const part of parts) {
    const equals = part.indexOf('=')
    const name = decodeQuery(equals === -1 ? part : part.slice(0, equals))
    if (name === null || !Object.hasOwn(ListQuery.properties, name)) continue
    const value = decodeQuery(equals === -1 ? '' : part.slice(equals + 1))
    if (value === null) problems.push(queryProblem(name as Parameter))
    else query[name] = value
  }
  return query
}

function decodeQuery(text: string): string | null {
  return decodeSegment(text.includes('+') ? text.replaceAll('+', ' ') : text)
}
