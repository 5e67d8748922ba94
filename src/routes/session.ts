import type { Identity } from '../domain/credentials.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { readIdentity } from '../protocol/authorization.ts'
import type { HeaderLookup, ReadIdentity } from '../protocol/authorization.ts'
import { softAlert } from '../protocol/envelope.ts'
import { errorReply } from '../protocol/error-reply.ts'
import { readJson } from '../protocol/json.ts'
import { toExchange } from '../protocol/operations.ts'
import type { BucketResource } from '../protocol/operations.ts'
import { publicOrigin } from '../protocol/public-address.ts'
import { listFrame } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import type { ReceivedBody } from './body.ts'
import { contextOf } from './context.ts'
import { userOf, withPermit } from './load-shedding.ts'
import type { Caller, Services } from './services.ts'

/** Answers a request for something in a bucket: read who and what, ask the storage, reply. */
export async function askBucket(request: Request, services: Services): Promise<Reply> {
  const { bucket } = contextOf(request).resource as BucketResource
  const known = readIdentity((name) => request.headers.get(name), bucket)
  using body = request.method === 'PUT' ? await receiveBody(request, services) : null
  return await answerFromBucket(request, known, body, services)
}

async function answerFromBucket(
  request: Request,
  { identity, isLegacyBucket }: ReadIdentity,
  received: ReceivedBody | null,
  services: Services,
): Promise<Reply> {
  const context = contextOf(request)
  const resource = context.resource as BucketResource
  const header: HeaderLookup = (name) => request.headers.get(name)
  const here = publicOrigin(header('host'), services.settings) + context.path
  const open = () => services.openStorage(identity, callerOf(request, services))
  // A body is looked at only once the credentials of its sender proved good.
  const opened = received && (await open())
  const body = received?.parse(readJson)
  const { flushSafeEtag } = services.settings
  const { method } = request
  const exchange = toExchange({ method, resource, query: context.query, header, here, body, flushSafeEtag })

  const storage = opened ?? (await open())
  return await withPermit(
    services,
    { user: storage.owner, isList: exchange.operation.kind === 'list' },
    async () => {
      let reply: Reply
      try {
        reply = exchange.reply(await carryOut(exchange.operation, storage, context.startedAtMs, services))
      } catch (error) {
        services.reportDefect(error)
        reply = errorReply(error, services.settings)
      }
      // What the storage said besides belongs to an error answer too.
      reply.notices = storage.notices
      if (isLegacyBucket) reply.alert = legacyBucketAlert(services)
      return reply
    },
  )
}

/** The whole body of a request, within what is left of the request's time. Throws `ServiceError` 400, 413, 415 or 503. */
export function receiveBody(request: Request, services: Services): Promise<ReceivedBody> {
  const deadlineAtMs = contextOf(request).startedAtMs + services.requestTimeoutMs
  return services.bodies.receive(request, userOf(request), deadlineAtMs)
}

/** What a request hands on to the storage. */
export function callerOf(request: Request, services: Services): Caller {
  const { startedAtMs, requestId, work } = contextOf(request)
  return {
    userAgent: request.headers.get('user-agent'),
    signal: request.signal,
    deadlineAtMs: startedAtMs + services.requestTimeoutMs,
    requestId,
    work,
  }
}

/** Lists stream as they come; a write is a transaction of one step. */
function carryOut(
  operation: Operation,
  storage: BulkStorage,
  startedAtMs: number,
  services: Services,
): Promise<OperationOutcome> {
  switch (operation.kind) {
    case 'list':
      return storage.list(
        operation.collection,
        { ...operation.options, frame: listFrame },
        operation.precondition,
      )
    case 'get':
      return storage.get(operation.collection, operation.id, operation.precondition)
    case 'timestamps':
      return storage.collectionTimestamps().then((found) => ({ outcome: 'found', ...found }))
    case 'count':
    case 'put':
    case 'delete':
      return services
        .transact([{ storage, operation }], startedAtMs + services.requestTimeoutMs)
        .then(([outcome]) => outcome!)
    default:
      return operation satisfies never
  }
}

/** Tells old clients how buckets are named today. */
export function legacyBucketAlert({ settings }: Services): string {
  return softAlert('Use the client state as the bucket id, not X-Client-State', settings.projectDocs)
}

/** Tells identities apart; as secret as they are. */
export function identityKey({ scheme, assertion, clientState, keyId }: Identity): string {
  return JSON.stringify([scheme, assertion, clientState, keyId ?? null])
}
