/** Which resource answers a method at a path: for sub-requests, and for paths that no route matched. */
import { Memoirist } from 'memoirist'
import { invalidRequest, type Problem } from '../domain/errors.ts'
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

/** What every path begins with: "/v1" for the version "1.5". */
export function versionPrefix({ httpApiVersion }: Pick<Settings, 'httpApiVersion'>): string {
  return `/v${httpApiVersion.split('.')[0]!}`
}

/** The part of a path below the version prefix; null for the path of another version, or of none. */
export function belowVersion(path: string, settings: Pick<Settings, 'httpApiVersion'>): string | null {
  const prefix = versionPrefix(settings)
  return path === prefix || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) || '/' : null
}

// The framework routes with the same library, so that both agree on every path.
const router = new Memoirist<Resource[]>()
for (const [path, found] of Map.groupBy(resources, (resource) => resource.path)) router.add('', path, found)

/**
 * Finds what is at a path below the version prefix, by method, and the parameters in the path. Names are decoded as the framework
 * does; one that can't be decoded fails every schema. Null where nothing is, or a collection that the operator has left out.
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

/** Whether clients may know of the collection in a path. */
export function isReadable(
  { collection_id: name }: { collection_id?: string },
  { readableCollections }: Pick<Settings, 'readableCollections'>,
): boolean {
  return name === undefined || readableCollections?.has(name.toLowerCase()) !== false
}

/** Which of the resources at a path answers a method; HEAD is answered like GET. */
export function resourceFor(method: string, all: Resource[]): Resource | undefined {
  const answering = (name: string) => all.find((resource) => resource.method === name)
  return answering(method) ?? (method === 'HEAD' ? answering('GET') : undefined)
}

/**
 * Reads a request that the framework has not validated: a sub-request, or one that it refused. Throws `ServiceError` 400 with all
 * problems, or 401 where the path is right and the credentials are not.
 */
export function readRequest(
  resource: BucketResource,
  { params, headers: given, address, body }: Omit<Input<Record<string, string>, never>, 'query'>,
) {
  const problems: Problem[] = []
  const headers = { ...given }
  const query = readQuery(address.query, problems)
  problems.push(...resource.check({ params, query, headers }))
  const isPathRight = !problems.some(({ location }) => location === 'path')
  const identified = isPathRight && readIdentity(headers, params.bucket_id ?? '')
  // Values that the schemas accept can contradict one another; refused ones are left out, so that each problem is reported once.
  for (const { location, name } of problems) {
    if (location === 'querystring') delete query[name]
    if (location === 'header') delete headers[name.toLowerCase()]
  }
  const input = { params, query, headers, body, address }
  const operation = resource.operation(input, problems)
  if (!identified || problems.length > 0) throw invalidRequest(problems)
  return { input, operation, ...identified }
}

const maxParameters = 100

/**
 * Reads a query string the way the framework does: of repeated parameters the last counts, and `+` is a blank. But escapes
 * that are broken or no UTF-8 are a problem, where the framework leaves them as they are. For sub-requests, which the
 * framework never sees, and for requests whose query it could not decode.
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
