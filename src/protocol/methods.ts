import { errno, ServiceError } from '../domain/errors.ts'
import { isWritable } from './exposed.ts'
import type { ExposedSettings } from './exposed.ts'
import type { Resource, Target } from './target.ts'

/** The methods that each kind of resource has, besides OPTIONS. */
const methodsOf: Record<Resource['kind'], readonly string[]> = {
  root: ['GET', 'HEAD'],
  heartbeat: ['GET', 'HEAD'],
  lbheartbeat: ['GET', 'HEAD'],
  version: ['GET', 'HEAD'],
  openapi: ['GET', 'HEAD'],
  metrics: ['GET', 'HEAD'],
  docs: ['GET', 'HEAD'],
  explore: ['GET', 'HEAD'],
  batch: ['POST'],
  bucket: ['GET', 'HEAD'],
  collections: ['GET', 'HEAD'],
  collection: ['GET', 'HEAD'],
  records: ['GET', 'HEAD'],
  record: ['GET', 'HEAD', 'PUT', 'DELETE'],
}

/** The methods that a resource answers with these settings, OPTIONS included. */
export function allowedMethods(resource: Resource, settings: ExposedSettings): string[] {
  const collection = resource.kind === 'record' ? resource.collection : null
  return allowed(resource.kind, collection, settings)
}

/**
 * Refuses a method that a resource does not have, or a write that the operator did not enable: before anybody is asked
 * who they are, and before ids and body are looked at. Throws `ServiceError` 405.
 */
export function checkMethod(method: string, resource: Resource, settings: ExposedSettings): void {
  const known = methodsOf[resource.kind]
  // Reading is always allowed where it is known at all.
  if ((method === 'GET' || method === 'HEAD') && known.includes(method)) return
  refuseUnless(allowedMethods(resource, settings), method, known)
}

/** The same for a record whose id or collection nobody could have. */
export function checkMethodOfInvalid(
  method: string,
  target: Extract<Target, { outcome: 'invalid' }>,
  settings: ExposedSettings,
): void {
  const kind = target.isRecord ? 'record' : 'records'
  refuseUnless(allowed(kind, target.collection, settings), method, methodsOf[kind])
}

function allowed(kind: Resource['kind'], collection: string | null, settings: ExposedSettings): string[] {
  const methods = methodsOf[kind].filter((method) => {
    if (method !== 'PUT' && method !== 'DELETE') return true
    return collection !== null && isWritable(settings, method, collection)
  })
  return [...methods, 'OPTIONS']
}

function refuseUnless(allowedHere: string[], method: string, known: readonly string[]): void {
  if (allowedHere.includes(method)) return
  const message = known.includes(method)
    ? 'Method not allowed: the operator has not enabled this write'
    : 'Method not allowed on this resource'
  throw new ServiceError(405, errno.methodNotAllowed, message, { headers: { Allow: allowedHere.join(', ') } })
}
