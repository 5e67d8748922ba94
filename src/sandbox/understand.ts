import { readBatchRequest } from './batches.ts'
import { checkHawk, type HawkParts } from './hawk-check.ts'
import { limitsFor } from './limits.ts'
import type { ListFormat } from './listing.ts'
import { readListQuery } from './list-query.ts'
import type { Operation } from './operation.ts'
import { noPrecondition, readPrecondition, type Precondition } from './precondition.ts'
import { Refusal } from './reply.ts'
import type { RequestTarget } from './request-target.ts'
import { matchRoute, type Route } from './routes.ts'
import type { Switches } from './switches.ts'
import { checkAnnounced, readBody, readBodyType, readItemBody, readUpload } from './upload.ts'

/** A request that has been understood, ready for its transaction. */
export interface Understood extends Pick<
  Operation,
  'query' | 'format' | 'batch' | 'fields' | 'upload' | 'limits'
> {
  method: string
  route: Route
  collection: string
  id: string
  precondition: Precondition
}

/**
 * Reads a request and refuses everything that can be refused without looking at what is stored, in the order in which
 * the server looks: route, signature, headers, query, body. Throws Refusal.
 */
export async function understand(
  { switches, quirks, ...rest }: HawkParts & { switches: Switches },
  request: Request,
  target: RequestTarget,
): Promise<Understood> {
  const { method, headers } = request
  const route = matchRoute(method, target.path)
  const isConfiguration = route.kind === 'info' && route.page === 'configuration'
  if (!isConfiguration || quirks.isPython) {
    const token = checkHawk(request, target, { ...rest, quirks })
    if (token.uid !== route.uid) throw new Refusal(quirks.isPython ? 401 : 400)
  }
  const collection = 'collection' in route ? route.collection : ''
  const id = 'id' in route ? route.id : ''
  const limits = limitsFor(switches.limits, collection)
  const format = route.kind === 'collection' && method === 'GET' ? readFormat(headers) : 'json'
  const isUpload = method === 'POST' || method === 'PUT'
  const type = isUpload ? readBodyType(request, quirks) : 'application/json'
  const text = isUpload ? await readBody(request, limits) : ''
  const query = readListQuery(target.query, quirks.isPython)
  const isPost = method === 'POST'
  const batch = isPost ? readBatchRequest(target.query, switches.batching) : ({ kind: 'none' } as const)
  if (isPost) checkAnnounced(headers, limits)
  const precondition = isConfiguration ? noPrecondition : readPrecondition(headers)
  const rules = { collection, limits, quirks }
  return {
    method,
    route,
    collection,
    id,
    limits,
    format,
    query,
    batch,
    precondition,
    fields: method === 'PUT' ? readItemBody(text, rules) : {},
    upload: isPost ? readUpload(text, type, rules) : { valid: [], failed: {} },
  }
}

// The known media range of the highest quality decides. A header that can't be parsed is ignored.
function readFormat(headers: Headers): ListFormat {
  const ranges = (headers.get('Accept') ?? '*/*').split(',').map((text) => {
    const [type = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase())
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1'
    return { type, quality: Number(quality) }
  })
  if (!ranges.every(({ type }) => /^[^/ ]+\/[^/ ]+$/.test(type))) return 'json'
  const known = ['*/*', 'application/json', 'application/newlines', 'text/plain']
  const best = ranges.toSorted((a, b) => b.quality - a.quality).find(({ type }) => known.includes(type))
  if (best === undefined || best.type === 'text/plain') throw new Refusal(406)
  return best.type === 'application/newlines' ? 'newlines' : 'json'
}
