import type { Batches } from './batches.ts'
import type { Dialect } from './dialect.ts'
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
  usedKilobytes,
} from './handlers.ts'
import type { HawkParts } from './hawk.ts'
import { dockerflow, type RequestTarget } from './http.ts'
import type { Switches } from './options.ts'
import { Refusal, type Reply } from './reply.ts'
import { failedPrecondition, type Route, readRequest, type StorageRequest } from './storage-request.ts'
import type { Storage } from './storage.ts'
import { formatSeconds } from './timestamps.ts'

/** What the storage server depends on. */
interface StorageServerParts extends HawkParts {
  storage: Storage
  batches: Batches
  switches: Switches
  dialect: Dialect
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
      return toResponse(startedAt, await transact(parts, read))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return toResponse(startedAt, toReply(error))
    }
  }
}

async function transact(parts: StorageServerParts, request: StorageRequest): Promise<Reply> {
  const { storage, switches, dialect } = parts
  const { method, route, collection } = request
  const isNew = () => storage.collectionTimestamp(route.uid, collection) === 0
  const isFirstWrite = method !== 'GET' && collection !== '' && isNew()
  if (switches.onFirstWrite === null || !isFirstWrite) {
    return storage.transaction(() => perform(begin(parts, request)))
  }
  // A collection that was never written to has no row that its first writers could lock.
  const operation = begin(parts, request)
  await switches.onFirstWrite()
  if (!isNew()) dialect.meetFirstWriter()
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
  const { dialect, method, route, switches } = operation
  const usage = { usedKilobytes: () => usedKilobytes(operation), quotaKilobytes: switches.quotaKilobytes }
  const page = route.kind === 'info' ? route.page : null
  const spoken = dialect.finishReply(reply, { method, resource: page ?? route.kind, ...usage })
  return { ...spoken, lastModified: spoken.lastModified ?? operation.resource }
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

function toReply({ status, code, headers }: Refusal): Reply {
  return { status, body: code === null ? null : String(code), headers }
}

// X-Weave-Timestamp is the time of the request, or X-Last-Modified if that is later.
function toResponse(startedAt: number, reply: Reply): Response {
  const { status, body, contentType = 'application/json', lastModified, headers = {} } = reply
  const time = Math.max(startedAt, lastModified ?? 0)
  const common: Record<string, string> = { 'X-Weave-Timestamp': formatSeconds(time) }
  if (lastModified !== undefined) common['X-Last-Modified'] = formatSeconds(lastModified)
  if (body !== null) common['Content-Type'] = contentType
  return new Response(body, { status, headers: { ...common, ...headers } })
}
