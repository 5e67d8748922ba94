/** Routes of buckets, collections and records. */
import { invalidRequest, type Problem } from '../protocol/problems.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import { evaluateCollection } from '../domain/precondition.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { readJson } from '../protocol/check.ts'
import { getBucket, getCollection, listCollections } from '../protocol/collections.ts'
import { isSource } from '../protocol/envelope.ts'
import { overload, type Reply } from '../protocol/reply.ts'
import { belowVersion, isReadable } from '../protocol/find.ts'
import { isLegacyBucket, readIdentity } from '../protocol/identity.ts'
import { countRecords, listRecords } from '../protocol/lists.ts'
import { disabledBy, deleteRecord, getRecord, putRecord } from '../protocol/records.ts'
import type { BucketResource, Input, Resource } from '../protocol/resource.ts'
import { discardBody } from '../load/bodies.ts'
import { receiveBody, type App, type Call } from './call.ts'
import { refusedMethod, unknownPath } from './unrouted.ts'

export function addBucketRoutes(app: App, prefix: string): void {
  for (const resource of [getBucket, listCollections, getCollection, listRecords, countRecords, getRecord])
    app.route(resource.method, prefix + resource.path, handle(resource), {
      ...resource.schemas,
      transform: requireReadable,
    })
  app.put(prefix + putRecord.path, handle(putRecord), {
    ...putRecord.schemas,
    transform({ params, call }) {
      requireEnabled(putRecord, params, call)
      // Starts receiving before the first await.
      receiveBody(call)
    },
  })
  app.delete(prefix + deleteRecord.path, handle(deleteRecord), {
    ...deleteRecord.schemas,
    transform({ params, call }) {
      requireEnabled(deleteRecord, params, call)
      discardBody(call.request)
    },
  })
}

/** Returns 404 for a collection that the operator does not expose, before any other check. */
function requireReadable({ params, call }: { params: { collection_id?: string }; call: Call }): void {
  if (!isReadable(params, call.services.settings)) throw unknownPath()
}

/** Rejects a write that is not enabled, before credentials and body are checked. */
function requireEnabled(
  resource: Resource,
  params: { collection_id: string; '*': string },
  call: Call,
): void {
  requireReadable({ params, call })
  const { settings } = call.services
  // An empty id is the list's path with an extra slash, which is redirected for every method.
  if (params['*'] === '' || disabledBy(resource, params, settings) === null) return
  throw refusedMethod(call.method, belowVersion(call.path, settings)!, call.services)
}

type BucketInput = Input<Record<string, unknown> & { bucket_id: string }>

/** The handler of a resource. The framework reads its source to see which parts of the context it needs. */
function handle(resource: BucketResource) {
  return ({ params, query, call }: Pick<BucketInput, 'params' | 'query'> & { call: Call }) =>
    respond(resource, { params, query, headers: call.headers, address: call, body: undefined }, call)
}

/** Opens the storage, runs the operation and replies; used by all requests in a bucket. */
async function respond(resource: BucketResource, input: BucketInput, call: Call): Promise<Reply> {
  const { services } = call
  call.route = resource.name
  call.isLegacyBucket = isLegacyBucket(input.params.bucket_id)
  const identity = readIdentity(call.headers, input.params.bucket_id)
  const opening = services.openStorage(identity, call)
  // Each promise that is not needed saves 2 % of a short request.
  const storage = opening instanceof Promise ? await opening : opening
  const { owner } = storage
  if (call.body) {
    await call.body.arrived
    input.body = call.body.parse(owner, readJson)
  } else call.user = owner
  const problems: Problem[] = []
  const operation = resource.operation(input, problems, services.settings)
  if (problems.length > 0) throw invalidRequest(problems)
  const release = services.load.acquire(owner)
  if (!release) throw overload
  try {
    const outcome = await execute(operation, storage, call)
    if (outcome.outcome === 'failed') throw outcome.error
    const reply = resource.reply(outcome, operation, input, services.settings)
    // A list is in flight until its last byte is sent.
    if (isSource(reply.body)) reply.ended = release
    else release()
    return reply
  } catch (error) {
    release()
    throw error
  }
}

/** Runs one operation. Lists are streamed; a write is a transaction of one step. */
function execute(operation: Operation, storage: BulkStorage, call: Call): Promise<OperationOutcome> {
  switch (operation.kind) {
    case 'get':
      return storage.get(operation.collection, operation.id, operation.precondition)
    case 'list':
      return storage.list(operation.collection, operation.options, operation.precondition)
    case 'timestamps':
      return storage.collectionTimestamps().then((all) => ({ outcome: 'found', ...all }))
    case 'count':
      return storage.count(operation.collection, operation.filter).then((counted) => {
        const verdict = evaluateCollection(operation.precondition, counted.timestamp)
        return verdict ?? { outcome: 'counted', ...counted }
      })
    case 'put':
    case 'delete':
      return call.services.transact([{ storage, operation }], call).then(([outcome]) => outcome!)
    default:
      return operation satisfies never
  }
}
