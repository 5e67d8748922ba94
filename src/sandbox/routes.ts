import { Refusal } from './reply.ts'

/** What a path of the storage names. */
export type Route =
  | { kind: 'info'; uid: number; page: InfoPage }
  | { kind: 'store'; uid: number }
  | { kind: 'collection'; uid: number; collection: string }
  | { kind: 'item'; uid: number; collection: string; id: string }

/** The pages under `/info/`. */
export type InfoPage = (typeof infoPages)[number]

const infoPages = ['collections', 'collection_counts', 'collection_usage', 'quota', 'configuration'] as const

const methods: Record<Route['kind'], readonly string[]> = {
  info: ['GET'],
  store: ['DELETE'],
  collection: ['GET', 'POST', 'DELETE'],
  item: ['GET', 'PUT', 'DELETE'],
}

/** Printable ASCII, 1 to 64 characters. */
export const idPattern = /^[ -~]{1,64}$/

/**
 * Finds what method and path name; see Sync 1.5 API, "API Instructions". Throws a 404 for an unknown path, which
 * includes ids and names of the wrong form, and a 405 for a method that the path doesn't have. GET doesn't imply HEAD.
 */
export function matchRoute(method: string, path: string): Route {
  const route = readRoute(path)
  if (route === null) throw new Refusal(404)
  const known = methods[route.kind]
  if (!known.includes(method)) throw new Refusal(405, null, { Allow: known.join(', ') })
  return route
}

function readRoute(path: string): Route | null {
  const [empty, version, digits = '', ...rest] = path.split('/')
  if (empty !== '' || version !== '1.5' || !/^\d{1,10}$/.test(digits)) return null
  const uid = Number(digits)
  const [area, name, item] = rest
  if (area === undefined) return { kind: 'store', uid }
  if (area === 'info') {
    const page = infoPages.find((known) => known === name)
    return page === undefined || rest.length !== 2 ? null : { kind: 'info', uid, page }
  }
  if (area !== 'storage' || rest.length > 3) return null
  if (name === undefined) return { kind: 'store', uid }
  const collection = decode(name)
  if (collection === null || !/^[a-zA-Z0-9._-]{1,32}$/.test(collection)) return null
  if (item === undefined) return { kind: 'collection', uid, collection }
  const id = decode(item)
  return id === null || !idPattern.test(id) ? null : { kind: 'item', uid, collection, id }
}

function decode(segment: string): string | null {
  try {
    return decodeURIComponent(segment)
  } catch {
    return null
  }
}
