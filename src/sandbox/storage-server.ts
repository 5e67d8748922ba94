import type { Batches } from './batches.ts'
import {
  deleteCollection,
  deleteItem,
  deleteStore,
  getItem,
  listCollection,
  type Operation,
  postCollection,
  putItem,
  readInfo,
} from './handlers.ts'
import type { HawkParts } from './hawk.ts'
import { dockerflow, Refusal, type Reply, type RequestTarget } from './http.ts'
import type { Switches } from './options.ts'
import { failedPrecondition, type Route, readRequest, type StorageRequest } from './storage-request.ts'
import type { Storage } from './storage.ts'
import { formatSeconds } from './timestamps.ts'

/** What the storage server depends on. */
interface StorageServerParts extends HawkParts {
  storage: Storage
  batches: Batches
  switches: Switches
}

/** Firefox for iOS before version 20, which crashes on some responses and is rejected. */
function isRefused(agent: string): boolean {
  return /^Firefox-iOS-Sync\/(?:[1-9]|1\d)\.[.\d]+b/.test(agent) && /; iPhone OS [^)]+\) \(.*\)$/.test(agent)
}

/** Answers requests to the storage node; see Sync 1.5 API. */
export function createStorageServer(
  parts: StorageServerParts,
): (request: Request, target: RequestTarget) => Promise<Response> {
  return async (request, target) => {
    if (target.path.startsWith('/__')) return dockerflow(parts.switches, target.path)
    if (target.path === '/') return new Response(null, { status: 302, headers: { Location: '/__version__' } })
    if (isRefused(request.headers.get('User-Agent') ?? '')) return Response.json(0, { status: 503 })
    const startedAt = parts.clock.timestamp()
    try {
      if (parts.switches.latencyMs > 0) await Bun.sleep(parts.switches.latencyMs)
      const read = await readRequest(parts, request, target)
      return toResponse(parts, startedAt, request.method, await transact(parts, read))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return toResponse(parts, startedAt, request.method, toReply(parts, error))
    }
  }
}

// The Python server waits one quantum before it reports a conflict.
async function transact(parts: StorageServerParts, request: StorageRequest): Promise<Reply> {
  try {
    return await attempt(parts, request)
  } catch (error) {
    if (!parts.quirks.isPython || !(error instanceof Refusal) || error.status !== 503) throw error
    await Bun.sleep(10)
    return attempt(parts, request)
  }
}

async function attempt(parts: StorageServerParts, request: StorageRequest): Promise<Reply> {
  const { storage, switches, quirks } = parts
  const { method, route, collection } = request
  const isNew = () => storage.collectionTimestamp(route.uid, collection) === 0
  const isFirstWrite = method !== 'GET' && collection !== '' && isNew()
  if (switches.onFirstWrite === null || !isFirstWrite) {
    return storage.transaction(() => perform(begin(parts, request)))
  }
  // A collection that was never written to has no row that its first writers could lock.
  const operation = begin(parts, request)
  await switches.onFirstWrite()
  if (quirks.kind === 'mysql' && !isNew()) throw new Refusal(500)
  return storage.transaction(() => perform(operation))
}

function begin(parts: StorageServerParts, request: StorageRequest): Operation {
  const { storage, clock } = parts
  const { method, route, collection } = request
  const [nowMs, timestamp] = [clock.nowMs(), clock.timestamp()]
  const isWrite = method !== 'GET' && collection !== ''
  // A collection's timestamps strictly increase, so a second write within one quantum is rejected.
  if (isWrite && storage.collectionTimestamp(route.uid, collection) >= timestamp) {
    throw new Refusal(503, 0, { 'Retry-After': '10' })
  }
  const resource = resourceTimestamp(storage, route, nowMs)
  return { ...parts, ...request, uid: route.uid, nowMs, timestamp, resource }
}

function perform(operation: Operation): Reply {
  const failed = failedPrecondition(operation.precondition, operation.resource)
  if (failed !== null) return failed
  const reply = handle(operation)
  return { ...reply, lastModified: reply.lastModified ?? operation.resource }
}

function handle(operation: Operation): Reply {
  const { route, method } = operation
  switch (route.kind) {
    case 'info':
      return readInfo(route.page, operation)
    case 'store':
      return deleteStore(operation)
    case 'collection':
      if (method === 'GET') return listCollection(operation)
      return method === 'POST' ? postCollection(operation) : deleteCollection(operation)
    case 'item':
      if (method === 'GET') return getItem(operation)
      return method === 'PUT' ? putItem(operation) : deleteItem(operation)
    default:
      return route satisfies never
  }
}

function resourceTimestamp(storage: Storage, route: Route, nowMs: number): number {
  switch (route.kind) {
    case 'item':
      return storage.itemTimestamp(route.uid, route.collection, route.id, nowMs)
    case 'collection':
      return storage.collectionTimestamp(route.uid, route.collection)
    default:
      return storage.storeTimestamp(route.uid)
  }
}

function toReply({ quirks }: StorageServerParts, { status, code, headers }: Refusal): Reply {
  const number = status === 400 && code === 0 && quirks.isPython ? 1 : code
  return { status, body: number === null ? null : String(number), headers }
}

// X-Weave-Timestamp is the time of the request, or X-Last-Modified if that is later.
function toResponse(
  { quirks }: StorageServerParts,
  startedAt: number,
  method: string,
  reply: Reply,
): Response {
  const { status, body, contentType = 'application/json', lastModified, headers = {} } = reply
  const isWritten = quirks.isPython && method !== 'GET' && lastModified !== undefined && status < 300
  const time = isWritten ? lastModified : Math.max(startedAt, lastModified ?? 0)
  const common: Record<string, string> = { 'X-Weave-Timestamp': formatSeconds(time) }
  if (lastModified !== undefined) common['X-Last-Modified'] = formatSeconds(lastModified)
  if (body !== null) common['Content-Type'] = contentType
  return new Response(body, { status, headers: { ...common, ...headers } })
}
