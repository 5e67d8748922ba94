import { ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Identity } from '../domain/credentials.ts'
import type { Operation } from '../domain/operation.ts'
import type { BulkStorage, Notices } from '../domain/record-storage.ts'
import { errorReply, overload } from '../protocol/error-reply.ts'
import {
  findResources,
  isBucketResource,
  isEnabled,
  readRequest,
  resourceFor,
  versionPrefix,
} from '../protocol/find.ts'
import { readAnonymousIdentity, readAuthorization } from '../protocol/identity.ts'
import type { IdentityHeaders } from '../protocol/identity.ts'
import { readJson } from '../protocol/json.ts'
import { emptyReply, jsonReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import type { BucketResource, Input, Resource } from '../protocol/resource.ts'
import { batch, heartbeat, lbheartbeat, root, version } from '../protocol/service-resources.ts'
import { readBatch, toSubResponse } from '../protocol/subrequest.ts'
import type { MergedRequest } from '../protocol/subrequest.ts'
import { receiveBody, senderOf } from './guard.ts'
import type { App } from './guard.ts'
import { heartbeatReply, rootReplyFor } from './service.ts'
import { refusedMethod, unknownPath, unknownVersion } from './unrouted.ts'
import type { Call, Services } from './context.ts'

/** POST /batch: many requests, one transaction. */
export function addBatchRoute(app: App, prefix: string, services: Services): void {
  app.post(
    prefix + batch.path,
    async ({ call }) => {
      const { headers } = call
      call.route = batch.name
      readAuthorization(headers)
      const body = receiveBody(call, services)
      const storages = new Storages(call, services)
      // Authenticate the envelope before reading sub-requests. A legacy assertion, without a client state, is authenticated for
      // each bucket that they name.
      const identity = readAnonymousIdentity(headers)
      const refusal = identity?.clientState ? await storages.refusalOf(identity) : null
      if (refusal && isLarge(headers['content-length'])) return refusal
      await body.arrived
      const sender = storages.opened[0]?.owner ?? senderOf(call)
      const merged = readBatch(body.parse(sender, readJson), headers, services.settings)
      const pending = await Promise.all(merged.map((each) => prepare(each, storages, call, services)))
      const user = storages.opened[0]?.owner ?? sender
      const release = services.load.acquire(user, merged.length)
      if (!release) throw overload
      try {
        const replies = await carryOut(pending, storages, call, services)
        services.observeBatch(merged, replies)
        const responses = replies.map((reply, index) => toSubResponse(merged[index]!, reply))
        return { status: 200, headers: {}, body: `{"responses":[${responses.join(',')}]}` }
      } finally {
        release()
      }
    },
    batch.schemas,
  )
}

// With a refused envelope sub-requests may still carry credentials of their own. A large body, or one of unknown length,
// is not parsed then: a stranger must not get the time that it costs.
function isLarge(contentLength: string | undefined): boolean {
  return contentLength === undefined || Number(contentLength) > 65_536
}

/** A sub-request that was read: its answer is known already, or it waits for the storage. */
type Pending =
  | { reply: Reply }
  | {
      resource: BucketResource
      input: Input<Record<string, string>, Record<string, string>>
      operation: Operation
      storage: BulkStorage
    }

/** The storages of all identities in a batch. */
class Storages {
  /** All storages that could be opened. */
  readonly opened: BulkStorage[] = []
  readonly #openings = new Map<string, Promise<BulkStorage>>()

  constructor(
    private readonly call: Call,
    private readonly services: Services,
  ) {}

  /** The storage of an identity, which is asked for once. Rejects with `ServiceError` 401 when the identity is refused. */
  open(identity: Identity): Promise<BulkStorage> {
    const known = this.#openings.get(identity.key)
    if (known) return known
    const opening = Promise.try(() => this.services.openStorage(identity, this.call)).then((storage) => {
      this.opened.push(storage)
      return storage
    })
    this.#openings.set(identity.key, opening)
    return opening
  }

  /** The 401 of an identity that is refused. Rejects when the token server can't be used, which ends the whole batch. */
  refusalOf(identity: Identity): Promise<Reply | null> {
    return this.open(identity).then(
      () => null,
      (error: unknown) => ownReply(error, this.services),
    )
  }

  /** The storages' notices, joined. */
  notices(): Notices {
    const merged: Notices = { backoffSeconds: null, alert: null, quotaRemaining: null }
    for (const { notices } of this.opened) {
      const { backoffSeconds, alert, quotaRemaining } = notices
      if (backoffSeconds) merged.backoffSeconds = Math.max(merged.backoffSeconds ?? 0, backoffSeconds)
      merged.alert ??= alert
      merged.quotaRemaining ??= quotaRemaining
    }
    return merged
  }
}

/** Reads a sub-request as far as that needs no storage. Its own mistakes become its own answer. */
async function prepare(
  merged: MergedRequest,
  storages: Storages,
  call: Call,
  services: Services,
): Promise<Pending> {
  const { settings } = services
  const { method, path, headers, body } = merged
  try {
    const prefix = versionPrefix(settings)
    if (path !== prefix && !path.startsWith(`${prefix}/`)) throw unknownVersion()
    const below = path.slice(prefix.length) || '/'
    const found = findResources(below)
    const resource = found && resourceFor(method, found)
    if (!resource || !isEnabled(resource, found.params, settings))
      throw refusedMethod(method, below, services)
    if (!isBucketResource(resource)) {
      const reply = await answerOpenly(resource, headers, call, services)
      // A heartbeat of a part that is down; and one 503 makes the whole batch a 503.
      if (reply.status >= 500) throw new UpstreamError('refused', 'A sub-request is answered 503')
      return { reply }
    }
    const address = { host: call.host, path, query: merged.query }
    const read = readRequest(resource, { params: found.params, headers, body, address })
    if (read.isLegacyBucket) call.isLegacyBucket = true
    const storage = await storages.open(read.identity)
    return { resource, input: read.input, operation: asTransactionStep(read.operation), storage }
  } catch (error) {
    return { reply: ownReply(error, services) }
  }
}

/**
 * The operation for a transaction: there a count with filters must see the writes before it, so it becomes a list whose
 * records are counted.
 */
function asTransactionStep(operation: Operation): Operation {
  if (operation.kind !== 'count' || Object.keys(operation.filter).length === 0) return operation
  const { collection, filter, precondition } = operation
  return { kind: 'list', collection, options: { ...filter, sort: 'newest' }, precondition }
}

/** What needs no credentials. Pages, documents and metrics are left out of batches. */
async function answerOpenly(
  resource: Resource,
  headers: IdentityHeaders,
  call: Call,
  services: Services,
): Promise<Reply> {
  switch (resource) {
    case root:
      return rootReplyFor(headers, call, services)
    case heartbeat:
      return heartbeatReply(services)
    case lbheartbeat:
      return emptyReply(200)
    case version:
      return jsonReply(services.version)
    default:
      throw unknownPath()
  }
}

async function carryOut(
  pending: Pending[],
  storages: Storages,
  call: Call,
  services: Services,
): Promise<Reply[]> {
  const steps = pending.flatMap((one) => ('storage' in one ? [one] : []))
  try {
    const outcomes = steps.length === 0 ? [] : await services.transact(steps, call)
    let next = 0
    return pending.map((one) => {
      if ('reply' in one) return one.reply
      const outcome = outcomes[next++]!
      try {
        if (outcome.outcome === 'failed') throw outcome.error
        return one.resource.answer(outcome, one.input, services.settings)
      } catch (error) {
        return ownReply(error, services)
      }
    })
  } finally {
    call.notices = storages.notices()
  }
}

/** The answer of one sub-request that failed. A failure that is not its own ends the whole batch. */
function ownReply(error: unknown, { settings }: Services): Reply {
  if (error instanceof ServiceError && error.status < 500) return errorReply(error, settings)
  throw error
}
