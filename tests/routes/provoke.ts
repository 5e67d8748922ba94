import type { Answer, AskInit } from '../support/bridge.ts'
import type { Fault } from '../support/fault-proxy.ts'
import { askAt, announceQuota, type DocumentedWorld } from './documented-world.ts'

/** An operation by its name in the document: a path with parameters in braces, and a method. */
export interface Place {
  path: string
  method: string
}

/** Makes the service return a status for an operation, in the way that the document describes. Null if there is no way. */
export function provoke(place: Place, status: number, world: DocumentedWorld): Promise<Answer> | null {
  const isService = !/^\/(buckets|batch)/.test(place.path)
  const ask = (init: AskInit = {}, values: Values = {}) => askWell(place, world, init, values)
  const askElsewhere = (url: string, headers: Record<string, string> = {}) =>
    askAt(url, world, pathOf(place, world, {}), { method: place.method, headers, ...bodyOf(place, world) })
  switch (status) {
    case 200:
      return place.method === 'DELETE' ? ask({ headers: { Prefer: 'return=representation' } }) : ask()
    case 204:
      return ask()
    case 304:
      return ask().then(({ headers }) => ask({ headers: { 'If-None-Match': headers.get('etag')! } }))
    case 400:
      if (isService) return askElsewhere(world.restrictedCors.url, { Origin: 'https://elsewhere.example' })
      return place.path === '/batch' ? ask({ body: {} }) : ask({ headers: { 'If-Match': 'nonsense' } })
    case 401:
      return ask({ as: null })
    case 403:
    case 409:
    case 429:
      return withFault(world, { kind: 'status', status }, () => ask())
    case 404:
      return ask({}, { collection_id: 'passwords', file: 'absent.css' })
    case 405:
      return ask({}, { collection_id: 'history' })
    case 410:
      return askElsewhere(world.ended.url)
    case 412:
      return ask({ headers: { 'If-Match': '"10"' } })
    case 413:
      if (['PUT', 'POST'].includes(place.method))
        return ask({ body: { data: { payload: 'x'.repeat(5000) } } })
      return withFault(world, { kind: 'status', status }, () => ask())
    case 415:
      return ask({ headers: { 'Content-Type': 'text/plain' } })
    case 500:
      return askElsewhere(world.defective.url)
    case 503:
      return askElsewhere(place.path === '/' ? world.defective.url : world.cutOff.url)
    default:
      return null
  }
}

/** Sends a request to the healthy bridge, with a valid body. */
export async function askWell(
  place: Place,
  world: DocumentedWorld,
  init: AskInit = {},
  values: Values = {},
): Promise<Answer> {
  const { sandbox, user } = world.well
  if (place.method === 'DELETE') sandbox.write(user, 'bookmarks', [{ id: 'present', payload: 'p' }])
  const body = rightBody(place, world)
  return world.well.ask(pathOf(place, world, values), {
    method: place.method,
    ...(body !== undefined && { body }),
    ...init,
  })
}

/** Sends a request while every storage call fails. */
export async function withFault<T>(
  { proxy }: DocumentedWorld,
  fault: Fault,
  ask: () => Promise<T>,
): Promise<T> {
  proxy.plan(() => fault)
  try {
    return await ask()
  } finally {
    proxy.plan(announceQuota)
  }
}

type Values = Record<string, string>

/** The path with its parameters filled in. */
function pathOf({ path }: Place, { well }: DocumentedWorld, values: Values): string {
  const usual: Values = {
    bucket_id: well.user.clientState,
    collection_id: 'bookmarks',
    record_id: 'present',
    file: 'page.css',
  }
  return `/v1${path === '/' ? '' : path}`.replace(
    /\{(\w+)\}/g,
    (_, name: string) => values[name] ?? usual[name]!,
  )
}

function rightBody({ path, method }: Place, { well }: DocumentedWorld): unknown {
  if (method === 'PUT') return { data: { payload: 'new', sortindex: 5 } }
  if (path === '/batch' && method === 'POST')
    return { requests: [{ path: `/buckets/${well.user.clientState}/collections` }] }
  return undefined
}

function bodyOf(place: Place, world: DocumentedWorld) {
  const body = rightBody(place, world)
  return body === undefined ? {} : { body: JSON.stringify(body) }
}
