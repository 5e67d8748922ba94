import { ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Identity } from '../domain/credentials.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import { isLogged } from '../observability/log.ts'
import { readJson } from '../protocol/check.ts'
import { belowVersion, findResources, isBucketResource, readRequest, resourceFor } from '../protocol/find.ts'
import { isInLegacyBucket, readAnonymousIdentity, readAuthorization } from '../protocol/identity.ts'
import { disabledBy } from '../protocol/records.ts'
import { emptyReply, errorReply, jsonReply, overload, type Reply } from '../protocol/reply.ts'
import type { BucketResource, Input, RequestHeaders, Resource } from '../protocol/resource.ts'
import { batch, heartbeat, lbheartbeat, root, version } from '../protocol/service-resources.ts'
import { joinSubResponses, readBatch, type MergedRequest } from '../protocol/subrequest.ts'
import { receiveBody, type App, type Call, type Services } from './call.ts'
import { heartbeatReply, rootReply } from './service-resources.ts'
import { refusedMethod, unknownPath, unknownVersion } from './unrouted.ts'

/** POST /batch: many requests, one transaction. */
export function addBatchRoute(app: App, prefix: string): void {
  app.post(
    prefix + batch.path,
    async ({ call }) => {
      const { headers, services } = call
      call.route = batch.name
      readAuthorization(headers)
      const body = receiveBody(call)
      const open = opener(call)
      // Authenticates the batch before reading its sub-requests. A legacy assertion, without a client state, is authenticated per bucket.
      const identity = readAnonymousIdentity(headers)
      const known = identity?.clientState
        ? await open(identity).catch((error: unknown) => ownReply(error, services))
        : null
      // Sub-requests may have their own credentials, so a rejected batch is still parsed if its body is small. A large body, or one of unknown
      // length, is not, because that costs too much time for an unauthenticated client.
      const isSmall = Number(headers['content-length'] ?? Infinity) <= 65_536
      if (known && 'status' in known && !isSmall) return known
      await body.arrived
      const sender = known && 'owner' in known ? known.owner : call.owner
      const merged = readBatch(body.parse(sender, readJson), headers, services.settings)
      const pending = await Promise.all(merged.map((each) => prepare(each, open, call)))
      const steps = pending.filter((one) => 'storage' in one)
      const release = services.load.acquire(steps[0]?.storage.owner ?? sender)
      if (!release) throw overload
      try {
        const repliesOf = (outcomes: OperationOutcome[]) => {
          const left = outcomes.values()
          return pending.map((one) =>
            'storage' in one ? answerStep(one, left.next().value!, services) : one,
          )
        }
        const isAccepted = (outcomes: OperationOutcome[]) =>
          repliesOf(outcomes).every(({ status }) => status < 400)
        const isStrict = wantsStrict.test(headers.prefer ?? '')
        const outcomes =
          steps.length === 0 ? [] : await services.transact(steps, call, isStrict ? isAccepted : undefined)
        const replies = repliesOf(outcomes)
        services.observers.batch(merged.length)
        logSubRequests(merged, replies, services)
        const applied: Record<string, string> = isStrict ? { 'Preference-Applied': 'handling=strict' } : {}
        return { status: 200, headers: applied, body: joinSubResponses(merged, replies) }
      } finally {
        release()
      }
    },
    batch.schemas,
  )
}

/** Nothing is written unless every sub-request succeeds; see RFC 7240, 4.4. */
const wantsStrict = /(?:^|[,; ])handling="?strict"?(?:$|[,; ])/i

type Open = (identity: Identity) => Promise<BulkStorage>

/** Opens the storage of each identity in a batch once. Rejects with `ServiceError` 401 if the identity is rejected. */
function opener(call: Call): Open {
  const opened = new Map<string, Promise<BulkStorage>>()
  const openNow = (identity: Identity) => Promise.try(() => call.services.openStorage(identity, call))
  return (identity) => opened.getOrInsertComputed(identity.key, () => openNow(identity))
}

/** A sub-request that is read and waits for the storage. */
interface PendingStep extends Step {
  resource: BucketResource
  input: Input
}

/** Reads a sub-request. Its own errors become its reply. */
async function prepare(merged: MergedRequest, open: Open, call: Call): Promise<PendingStep | Reply> {
  const { services } = call
  const { settings } = services
  const { method, path, headers, body } = merged
  call.isLegacyBucket ||= isInLegacyBucket(path)
  try {
    const below = belowVersion(path, settings)
    if (below === null) throw unknownVersion()
    const found = findResources(below, settings)
    const resource = found && resourceFor(method, found.resources)
    if (!resource || disabledBy(resource, found.params, settings) !== null)
      throw refusedMethod(method, below, services)
    if (!isBucketResource(resource)) {
      const reply = await answerWithoutCredentials(resource, headers, call)
      // A failed heartbeat; one 503 makes the whole batch a 503.
      if (reply.status >= 500) throw new UpstreamError('refused', 'The heartbeat in a sub-request failed')
      return reply
    }
    const address = { host: call.host, path, query: merged.query }
    const read = readRequest(resource, { params: found.params, headers, body, address }, settings)
    const storage = await open(read.identity)
    return { resource, input: read.input, operation: read.operation, storage }
  } catch (error) {
    return ownReply(error, services)
  }
}

/** Answers resources that need no credentials. Batches do not serve pages, documents and metrics. */
async function answerWithoutCredentials(
  resource: Resource,
  headers: RequestHeaders,
  call: Call,
): Promise<Reply> {
  if (resource === root) return rootReply(headers, call)
  if (resource === heartbeat) return heartbeatReply(call.services)
  if (resource === lbheartbeat) return emptyReply(200)
  if (resource === version) return jsonReply(call.services.version)
  throw unknownPath()
}

function answerStep(
  { resource, operation, input }: PendingStep,
  outcome: OperationOutcome,
  services: Services,
): Reply {
  try {
    if (outcome.outcome === 'failed') throw outcome.error
    return resource.reply(outcome, operation, input, services.settings)
  } catch (error) {
    return ownReply(error, services)
  }
}

function logSubRequests(
  requests: readonly MergedRequest[],
  replies: readonly Reply[],
  { log }: Services,
): void {
  if (!isLogged(log, 'debug')) return
  for (const [index, { status, errno }] of replies.entries())
    log.debug('sub-request', { index, method: requests[index]!.method, status, errno })
}

/** The reply to a failed sub-request. Other failures end the whole batch. */
function ownReply(error: unknown, { settings }: Services): Reply {
  if (error instanceof ServiceError && error.status < 500) return errorReply(error, settings)
  throw error
}
