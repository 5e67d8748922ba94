import { Elysia } from 'elysia'
import type { Identity } from '../domain/credentials.ts'
import type { Operation, OperationOutcome } from '../domain/operation.ts'
import { judgeCollection } from '../domain/precondition.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { softAlert } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { IdentityReader } from '../protocol/identity.ts'
import { BucketPath, ReadHeaders } from '../protocol/schemas.ts'
import { beginCall, checkCall } from './guard.ts'
import type { IncomingBody } from './body.ts'
import type { Call } from './guard.ts'
import { userOf } from './load-shedding.ts'
import type { Permit } from './load-shedding.ts'
import type { Services } from './services.ts'

// The framework recognises a plugin that several others use by its name and seed, of which it makes JSON each time.
const seed = 1

/** Gives every route its `call`: what is known of the request. Checks it before anything else. */
export function calls(services: Services) {
  return new Elysia({ name: 'calls', seed }).derive({ as: 'global' }, ({ request, headers }) => {
    const call = beginCall(request, headers, services)
    checkCall(call, services)
    return { call }
  })
}

/** Gives the routes of buckets their `storage`: that of the user whose credentials the request carries. */
export function sessions(services: Services) {
  const identities = new IdentityReader()
  return new Elysia({ name: 'sessions', seed })
    .use(calls(services))
    .guard({ params: BucketPath, headers: ReadHeaders })
    .resolve({ as: 'scoped' }, async ({ params, headers, call, request }) => {
      const { identity, isLegacyBucket } = identities.read(headers, params.bucket_id ?? '')
      if (isLegacyBucket) noteLegacyBucket(call, services)
      const opened = openStorage(identity, call, request, services)
      // Remembered credentials are at hand, and most requests have them: nothing is waited for then.
      const storage = opened instanceof Promise ? await opened : opened
      call.notices = storage.notices
      return { storage }
    })
}

/** The storage of an identity, for this request. Rejects with `ServiceError` 401 when the credentials are refused. */
export function openStorage(
  identity: Identity,
  call: Call,
  request: Request,
  services: Services,
): BulkStorage | Promise<BulkStorage> {
  return services.openStorage(identity, {
    userAgent: call.headers['user-agent'] ?? null,
    client: request,
    deadlineAtMs: deadlineOf(call, services),
    requestId: call.requestId,
    work: call.work,
  })
}

/**
 * Begins to receive the body of a request, within what is left of the request's time. Called before anything is waited for.
 * Throws `ServiceError` 413 or 415.
 */
export function receiveBody(request: Request, call: Call, services: Services): IncomingBody {
  return (call.body = services.bodies.receive(request, userOf(request), deadlineOf(call, services)))
}

/** Wall clock, ms since 1970, when a request must be answered. */
export function deadlineOf(call: Call, { requestTimeoutMs }: Services): number {
  return call.startedAtMs + requestTimeoutMs
}

/** Advises an old client to name the bucket by the client state. Several users share the URL of a legacy bucket, so its answers must not be stored. */
export function noteLegacyBucket(call: Call, { settings }: Services): void {
  call.isLegacyBucket = true
  call.alert = softAlert('Use the client state as the bucket id, not X-Client-State', settings.projectDocs)
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
      return services
        .transact([{ storage, operation }], deadlineOf(call, services))
        .then(([outcome]) => outcome!)
    default:
      return operation satisfies never
  }
}

/** The permits that a request needs. */
interface Admission {
  /** Names the user, alike for all of the user's credentials. */
  user: string
  /** The number of requests in a batch; one if absent. */
  requests?: number
  /** Whether it is a list: those in flight are also bounded for each user. */
  isList?: boolean
}

/** The permits of an admitted request. */
class Admitted {
  constructor(
    private readonly permit: Permit,
    private readonly listPermit: Permit | null,
  ) {}

  /** Releases the permits: now, or when the last byte of a streamed answer was handed on. */
  end(reply: Reply | null): void {
    if (reply?.body instanceof ReadableStream) reply.ended = () => this.#release()
    else this.#release()
  }

  #release(): void {
    this.permit.release()
    this.listPermit?.release()
  }
}

/**
 * Admits a request once body and credentials have proved good; null: it must be rejected. Only a list may have to wait for its
 * turn among the lists of its user, and it holds no permit meanwhile.
 */
export function admit(
  services: Pick<Services, 'load' | 'streams'>,
  { user, requests = 1, isList = false }: Admission,
): Admitted | null | Promise<Admitted | null> {
  if (isList) return admitList(services, user)
  const permit = services.load.acquire(user, requests)
  return permit && new Admitted(permit, null)
}

async function admitList(
  { load, streams }: Pick<Services, 'load' | 'streams'>,
  user: string,
): Promise<Admitted | null> {
  const listPermit = await streams.acquire(user)
  const permit = listPermit && load.acquire(user)
  if (permit) return new Admitted(permit, listPermit)
  listPermit?.release()
  return null
}
