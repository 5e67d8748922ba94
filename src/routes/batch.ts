import { invalidRequest, ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Identity } from '../domain/credentials.ts'
import type { Problem } from '../domain/errors.ts'
import type { Operation } from '../domain/operation.ts'
import type { BulkStorage, Notices } from '../domain/record-storage.ts'
import { errorReply, overload } from '../protocol/error-reply.ts'
import { tooLargeForBatch } from '../protocol/list-resources.ts'
import type { BucketInput, BucketResource, Resource } from '../protocol/record-resources.ts'
import { emptyReply, isSource, jsonReply, versionPrefix } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import {
  asTransactionStep,
  batch,
  findResources,
  heartbeat,
  isBucketResource,
  isEnabled,
  lbheartbeat,
  readQuery,
  resourceFor,
  root,
  version,
} from '../protocol/resources.ts'
import { IdentityReader, readAnonymousIdentity, requireAuthorization } from '../protocol/identity.ts'
import type { IdentityHeaders } from '../protocol/identity.ts'
import { readJson } from '../protocol/json.ts'
import { readBatch, toSubResponse } from '../protocol/subrequest.ts'
import type { MergedRequest } from '../protocol/subrequest.ts'
import { receiveBody, refusedMethod, senderOf, unknownPath, unknownVersion } from './guard.ts'
import type { App } from './guard.ts'
import { heartbeatReply, rootReplyFor } from './service.ts'
import type { Call, Services } from './context.ts'

/** POST /batch: many requests, one transaction. */
export function addBatchRoute(app: App, prefix: string, services: Services): void {
  const identities = new IdentityReader()
  app.post(
    prefix + batch.path,
    async ({ headers, call }) => {
      requireAuthorization(headers)
      const body = receiveBody(call, services)
      const storages = new Storages(identities, call, services)
      // No sub-request is looked at before the envelope's identity proved good. An assertion without a client state
      // belongs to the buckets that the sub-requests name, and can't be proved before.
      const identity = readAnonymousIdentity(headers)
      const refusal = identity && identity.clientState !== '' ? await storages.refusalOf(identity) : null
      if (refusal && isLarge(call.headers['content-length'])) return refusal
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
        return { ...jsonReply({}), body: `{"responses":[${responses.join(',')}]}` }
      } finally {
        release()
      }
    },
    { parse: 'none', headers: batch.headers },
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
      input: BucketInput
      operation: Operation
      storage: BulkStorage
    }

/** The storages of all identities in a batch. */
class Storages {
  /** All storages that could be opened. */
  readonly opened: BulkStorage[] = []
  readonly #openings = new Map<string, Promise<BulkStorage>>()

  constructor(
    readonly identities: IdentityReader,
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
      if (backoffSeconds !== null)
        merged.backoffSeconds = Math.max(merged.backoffSeconds ?? 0, backoffSeconds)
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
    const { params } = found
    const problems: Problem[] = []
    const query = readQuery(merged.query, problems)
    problems.push(...resource.check({ params, query, headers }))
    if (problems.length > 0) throw invalidRequest(problems)
    if (!isBucketResource(resource)) return { reply: await answerOpenly(resource, headers, call, services) }

    const { identity, isLegacyBucket } = storages.identities.read(headers, params.bucket_id ?? '')
    const input = { params, query, headers, body, address: { host: call.host, path, query: merged.query } }
    const operation = asTransactionStep(resource.operation(input, problems))
    if (problems.length > 0) throw invalidRequest(problems)
    if (isLegacyBucket) call.isLegacyBucket = true
    return { resource, input, operation, storage: await storages.open(identity) }
  } catch (error) {
    return { reply: ownReply(error, services) }
  }
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
      return successfulHeartbeat(services)
    case lbheartbeat:
      return emptyReply(200)
    case version:
      return jsonReply(services.version)
    default:
      throw unknownPath()
  }
}

// A heartbeat of a part that is down is a 503, and one 503 would make the whole batch a 503.
async function successfulHeartbeat(services: Services): Promise<Reply> {
  const reply = await heartbeatReply(services)
  if (reply.status >= 500)
    throw new UpstreamError('refused', 'A heartbeat inside a batch found a part that is down')
  return reply
}

/**
 * The most bytes that a batch answers to its reads: one record, asked for a thousand times, is a thousand times its
 * length.
 */
const mostReadBytes = 16 * 1024 * 1024

async function carryOut(
  pending: Pending[],
  storages: Storages,
  call: Call,
  services: Services,
): Promise<Reply[]> {
  const steps = pending.flatMap((one) => ('storage' in one ? [one] : []))
  try {
    const outcomes = steps.length === 0 ? [] : await services.transact(steps, call.deadlineAtMs)
    let next = 0
    let leftBytes = mostReadBytes
    return pending.map((one) => {
      if ('reply' in one) return one.reply
      const outcome = outcomes[next++]!
      try {
        if (outcome.outcome === 'failed') throw outcome.error
        const reply = one.resource.answer(outcome, one.input, services.settings)
        // The outcome of a write is always answered; its answer is no longer than what was sent and stored.
        if (one.resource.method !== 'GET') return reply
        leftBytes -= isSource(reply.body) ? 0 : (reply.body?.length ?? 0)
        if (leftBytes < 0) throw tooLargeForBatch('The answer')
        return reply
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
