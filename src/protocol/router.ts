import { Memoirist } from 'memoirist'
import { decodeSegment } from './request-parts.ts'
import { resources } from './resources.ts'
import type { Resource } from './resources.ts'

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
