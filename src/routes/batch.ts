import { Elysia } from 'elysia'
import { invalidRequest, ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Identity } from '../domain/credentials.ts'
import type { BulkStorage, Notices } from '../domain/record-storage.ts'
import { readIdentity, requireAuthorization } from '../protocol/authorization.ts'
import type { HeaderLookup } from '../protocol/authorization.ts'
import { errorReply } from '../protocol/error-reply.ts'
import { majorVersion } from '../protocol/exposed.ts'
import { readJson } from '../protocol/json.ts'
import { checkMethod, checkMethodOfInvalid } from '../protocol/methods.ts'
import { toExchange } from '../protocol/operations.ts'
import type { BucketResource, Exchange } from '../protocol/operations.ts'
import { publicOrigin } from '../protocol/public-address.ts'
import { emptyReply, jsonReply } from '../protocol/reply.ts'
import type { Reply } from '../protocol/reply.ts'
import { readBatch, toSubResponse } from '../protocol/subrequest.ts'
import type { MergedRequest } from '../protocol/subrequest.ts'
import { readTarget } from '../protocol/target.ts'
import type { Resource } from '../protocol/target.ts'
import { contextOf } from './context.ts'
import type * as Descriptions from './data-descriptions.ts'
import { unknownPath, unknownVersion } from './guard.ts'
import { heartbeatReply } from './health.ts'
import { userOf, withPermit } from './load-shedding.ts'
import { rootReplyFor } from './root.ts'
import type { Services, SubRequestSummary } from './services.ts'
import { callerOf, identityKey, legacyBucketAlert, receiveBody } from './session.ts'

/** POST /batch: many requests, one transaction. */
export function batchRoutes(services: Services, descriptions?: typeof Descriptions) {
  return new Elysia().post('/batch', ({ request }) => askBatch(request, services), {
    parse: 'none',
    detail: descriptions?.batchDescription,
  })
}

/** A sub-request on its way: either its answer is known already, or it waits for the storage. */
type Pending = { reply: Reply } | { identity: Identity; exchange: Exchange; isLegacyBucket: boolean }

async function askBatch(request: Request, services: Services): Promise<Reply> {
  const header: HeaderLookup = (name) => request.headers.get(name)
  requireAuthorization(header)
  using body = await receiveBody(request, services)
  const merged = readBatch(body.parse(readJson), header, services.settings)
  const pending = await Promise.all(merged.map((subRequest) => prepare(subRequest, request, services)))
  const { storages, refusals } = await openStorages(pending, request, services)
  const user = [...storages.values()][0]?.owner ?? userOf(request)
  return await withPermit(services, { user, requests: merged.length }, () =>
    answerBatch(merged, pending, storages, refusals, request, services),
  )
}

async function answerBatch(
  merged: MergedRequest[],
  pending: Pending[],
  storages: ReadonlyMap<string, BulkStorage>,
  refusals: ReadonlyMap<string, Reply>,
  request: Request,
  services: Services,
): Promise<Reply> {
  const replies = await carryOut(pending, storages, refusals, request, services)
  services.observeBatch(replies.length, (index) => describeSubRequest(merged[index]!, replies[index]!))
  const responses = replies.map((reply, index) => toSubResponse(merged[index]!, reply))
  const notices = mergeNotices([...storages.values()].map((storage) => storage.notices))
  const isLegacy = pending.some((waiting) => 'identity' in waiting && waiting.isLegacyBucket)
  return { ...jsonReply({ responses }), notices, ...(isLegacy && { alert: legacyBucketAlert(services) }) }
}

function describeSubRequest({ method }: MergedRequest, { status, errno }: Reply): SubRequestSummary {
  return { method, status, errno: errno ?? null }
}

/** Reads a sub-request as far as it goes without the storage. What is wrong with it is its own answer. */
async function prepare(subRequest: MergedRequest, request: Request, services: Services): Promise<Pending> {
  const { settings } = services
  const header: HeaderLookup = (name) => subRequest.headers.get(name) ?? null
  try {
    const resource = resourceOf(subRequest, services)
    checkMethod(subRequest.method, resource, settings)
    if (!('bucket' in resource)) return { reply: await answerOpenly(resource, header, request, services) }
    const { identity, isLegacyBucket } = readIdentity(header, resource.bucket)
    const exchange = toExchange({
      method: subRequest.method,
      resource,
      query: subRequest.query,
      header,
      here: publicOrigin(request.headers.get('host'), settings) + subRequest.path,
      body: subRequest.body,
      flushSafeEtag: settings.flushSafeEtag,
    })
    return { identity, exchange, isLegacyBucket }
  } catch (error) {
    return { reply: ownAnswer(error, services) }
  }
}

function resourceOf(subRequest: MergedRequest, { settings }: Services): Resource {
  const target = readTarget(subRequest.path, subRequest.query, majorVersion(settings))
  const isPage = target.outcome === 'resource' && ['docs', 'explore'].includes(target.resource.kind)
  if (target.outcome === 'resource' && !isPage) return target.resource
  if (target.outcome === 'invalid') {
    checkMethodOfInvalid(subRequest.method, target, settings)
    throw invalidRequest(target.problems)
  }
  throw target.outcome === 'unknown-version' ? unknownVersion() : unknownPath()
}

/** What anybody may ask. */
async function answerOpenly(
  resource: Exclude<Resource, BucketResource>,
  header: HeaderLookup,
  request: Request,
  services: Services,
): Promise<Reply> {
  switch (resource.kind) {
    case 'root':
      return rootReplyFor(header, request, services)
    case 'heartbeat':
      return successfulHeartbeat(services)
    case 'lbheartbeat':
      return emptyReply(200)
    case 'version':
      return jsonReply(services.version)
    case 'openapi':
    case 'metrics':
    case 'docs':
    case 'explore':
    case 'batch':
      throw unknownPath()
    default:
      return resource satisfies never
  }
}

// A part that is down is a 503, and a 503 anywhere is one for the whole batch.
async function successfulHeartbeat(services: Services): Promise<Reply> {
  const reply = await heartbeatReply(services)
  if (reply.status >= 500)
    throw new UpstreamError('refused', 'A heartbeat inside a batch found a part that is down')
  return reply
}

/** A storage for each identity in the batch; those that the token server refuses get their 401 alone. */
async function openStorages(pending: Pending[], request: Request, services: Services) {
  const identities = new Map<string, Identity>()
  for (const waiting of pending) {
    if ('identity' in waiting) identities.set(identityKey(waiting.identity), waiting.identity)
  }
  const storages = new Map<string, BulkStorage>()
  const refusals = new Map<string, Reply>()
  await Promise.all(
    [...identities].map(async ([key, identity]) => {
      try {
        storages.set(key, await services.openStorage(identity, callerOf(request, services)))
      } catch (error) {
        refusals.set(key, ownAnswer(error, services))
      }
    }),
  )
  return { storages, refusals }
}

async function carryOut(
  pending: Pending[],
  storages: ReadonlyMap<string, BulkStorage>,
  refusals: ReadonlyMap<string, Reply>,
  request: Request,
  services: Services,
): Promise<Reply[]> {
  const steps = pending.flatMap((waiting) => {
    const storage = 'identity' in waiting ? storages.get(identityKey(waiting.identity)) : undefined
    return 'identity' in waiting && storage ? [{ storage, operation: waiting.exchange.operation }] : []
  })
  const deadlineAtMs = contextOf(request).startedAtMs + services.requestTimeoutMs
  const outcomes = steps.length === 0 ? [] : await services.transact(steps, deadlineAtMs)
  let next = 0
  return pending.map((waiting) => {
    if ('reply' in waiting) return waiting.reply
    const refusal = refusals.get(identityKey(waiting.identity))
    if (refusal) return refusal
    const outcome = outcomes[next++]!
    try {
      return waiting.exchange.reply(outcome)
    } catch (error) {
      return ownAnswer(error, services)
    }
  })
}

/** The answer of one sub-request that went wrong. What is not its own fault ends the whole batch. */
function ownAnswer(error: unknown, { settings }: Services): Reply {
  if (error instanceof ServiceError && error.status < 500) return errorReply(error, settings)
  throw error
}

function mergeNotices(all: Notices[]): Notices {
  return {
    backoffSeconds: all.reduce<number | null>(
      (most, { backoffSeconds }) => greater(most, backoffSeconds),
      null,
    ),
    alert: all.find(({ alert }) => alert !== null)?.alert ?? null,
    quotaRemaining: all.find(({ quotaRemaining }) => quotaRemaining !== null)?.quotaRemaining ?? null,
  }
}

function greater(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.max(a, b)
}
