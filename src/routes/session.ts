import type { Elysia } from 'elysia'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { IdentityReader } from '../protocol/identity.ts'
import { beginCall, checkCall } from './guard.ts'
import type { IncomingBody } from './body.ts'
import { userOf } from './load-shedding.ts'
import type { Call, Services } from './services.ts'

/** The app, whose routes all have a `call`. They are added to this one instance: plugins would add each three times. */
export type App = ReturnType<typeof withCalls>

/** Gives every route its `call`: what is known of the request. Checks it before anything else. */
export function withCalls(app: Elysia, services: Services) {
  return app.derive(({ request, headers }) => {
    const call = beginCall(request, services, headers)
    checkCall(call, services)
    return { call }
  })
}

/** Gives the routes that follow, those of buckets, their `storage`: that of the user whose credentials the request carries. */
export function withStorage(app: App, services: Services) {
  const identities = new IdentityReader()
  return app.resolve(async ({ params, headers, call }) => {
    const { bucket_id = '' }: Record<string, string> = params
    const { identity, isLegacyBucket } = identities.read(headers, bucket_id)
    if (isLegacyBucket) call.isLegacyBucket = true
    const opened = services.openStorage(identity, call)
    // Remembered credentials are at hand, and most requests have them: nothing is waited for then.
    const storage = opened instanceof Promise ? await opened : opened
    call.notices = storage.notices
    return { storage }
  })
}

/**
 * Begins to receive the body of a request, within what is left of the request's time. Called before anything is waited for.
 * Throws `ServiceError` 413 or 415.
 */
export function receiveBody(call: Call, services: Services): IncomingBody {
  return (call.body = services.bodies.receive(call.request, userOf(call.request), call.deadlineAtMs))
}

/** Carries out one operation. Lists stream as they come; a write is a transaction of one step. */
export function execute(
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
