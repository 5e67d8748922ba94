import { invalidRequest } from '../domain/errors.ts'
import type { Problem } from '../domain/errors.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { overload } from '../protocol/error-reply.ts'
import { IdentityReader } from '../protocol/identity.ts'
import { readJson } from '../protocol/json.ts'
import type { BucketInput, BucketResource, Resource } from '../protocol/record-resources.ts'
import { isSource } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { bucketResources, isEnabled } from '../protocol/resources.ts'
import { discardBody } from './body.ts'
import { belowVersion, receiveBody, refusedMethod } from './guard.ts'
import type { App } from './guard.ts'
import type { Release } from './load-shedding.ts'
import type { Call, Services } from './context.ts'

/** Buckets, collections and records: read the request, ask the storage of its user, answer. */
export function addBucketRoutes(app: App, prefix: string, services: Services): void {
  const identities = new IdentityReader()
  for (const resource of bucketResources) {
    const { name, method, path, params, query, headers } = resource
    const isWrite = method === 'PUT' || method === 'DELETE'
    app.route(
      method,
      prefix + path,
      // The framework awaits what a handler returns by a call; another asynchronous function would cost two microseconds.
      ({ params, query, headers, call }) => {
        call.route = name
        return answer(resource, { params, query, headers, address: call }, call, identities, services)
      },
      {
        params,
        query,
        headers,
        parse: 'none',
        ...(isWrite && {
          transform({ params, call }) {
            requireEnabled(resource, params, call, services)
            // The body begins to arrive before anything is waited for.
            if (method === 'PUT') receiveBody(call, services)
            else discardBody(call.request)
          },
        }),
      },
    )
  }
}

/** Refuses a write that the operator did not enable, before credentials and body are looked at. */
function requireEnabled(resource: Resource, params: object, call: Call, services: Services): void {
  // With an empty id the path is the list's with a slash too many, which is redirected for every method.
  if (('*' in params && params['*'] === '') || isEnabled(resource, params, services.settings)) return
  throw refusedMethod(call.method, belowVersion(call, services.settings), services)
}

/** Finds the storage, asks it and answers: the way of every request in a bucket. */
async function answer(
  resource: BucketResource,
  input: BucketInput,
  call: Call,
  identities: IdentityReader,
  services: Services,
): Promise<Reply> {
  const { identity, isLegacyBucket } = identities.read(call.headers, input.params.bucket_id ?? '')
  call.isLegacyBucket = isLegacyBucket
  const opened = services.openStorage(identity, call)
  // Remembered credentials are at hand, and most requests have them: nothing is waited for then.
  const storage = opened instanceof Promise ? await opened : opened
  const { owner } = storage
  call.notices = storage.notices
  if (call.body) {
    await call.body.arrived
    input.body = call.body.parse(owner, readJson)
  }
  const problems: Problem[] = []
  const operation = resource.operation(input, problems)
  if (problems.length > 0) throw invalidRequest(problems)
  // Only a list may have to wait for its turn, and nothing else pays for a wait.
  const release =
    operation.kind === 'list' ? await acquireList(owner, services) : services.load.acquire(owner)
  if (!release) throw overload
  let reply: Reply | null = null
  try {
    const outcome = await execute(operation, storage, call, services)
    if (outcome.outcome === 'failed') throw outcome.error
    return (reply = resource.answer(outcome, input, services.settings))
  } finally {
    // A list is in flight until the last byte of it was handed on.
    if (reply && isSource(reply.body)) reply.ended = release
    else release()
  }
}

/** A permit for a list, which waits for its turn among the lists of its user; null: it must be rejected. */
async function acquireList(user: string, { load, streams }: Services): Promise<Release | null> {
  const endTurn = await streams.acquire(user)
  if (!endTurn) return null
  const release = load.acquire(user)
  if (!release) {
    endTurn()
    return null
  }
  return () => {
    release()
    endTurn()
  }
}

/** Carries out one operation. Lists stream as they come; a write is a transaction of one step. */
function execute(
  operation: Operation,
  storage: BulkStorage,
  call: Call,
  services: Services,
): Promise<OperationOutcome> {
  switch (operation.kind) {
    case 'get':
      return storage.get(operation.collection, operation.id, operation.precondition)
    case 'list':
      return storage.list(operation.collection, operation.options, operation.precondition)
    case 'timestamps':
      return storage.collectionTimestamps().then((all) => ({ outcome: 'found', ...all }))
    case 'count':
      return storage
        .count(operation.collection, operation.filter)
        .then(
          ({ count, timestamp }) =>
            judgeCollection(operation.precondition, timestamp) ?? { outcome: 'counted', count, timestamp },
        )
    case 'put':
    case 'delete':
      return services.transact([{ storage, operation }], call.deadlineAtMs).then(([outcome]) => outcome!)
    default:
      return operation satisfies never
  }
}
