import { ServiceError, UpstreamError } from '../domain/errors.ts'
import { isLogged, type Log } from '../observability/log.ts'
import { isSource } from '../protocol/envelope.ts'
import type { TransactionEvent } from '../batch/context.ts'
import type { CredentialsEvent } from '../credentials/credentials.ts'
import { redisTroubles, type RedisTrouble } from '../credentials/redis-store.ts'
import { rejectionReasons, type RejectionReason } from '../load/permits.ts'
import type { LogFields } from '../observability/log-events.ts'
import type { Registry } from '../observability/registry.ts'
import type { Statsd } from '../observability/statsd.ts'
import type { Reply } from '../protocol/reply.ts'
import type { Call } from '../routes/call.ts'
import type { UpstreamCallSummary } from '../upstream/send.ts'

export type Observers = ReturnType<typeof createObservers>

const secondsBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const sizeBounds = [1, 2, 5, 10, 25, 50, 100, 250, 1000]
const countedMethods = new Set(['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'OPTIONS'])
const errorOutcomes = ['partial', 'unknown']

/** A program in the same process that gets the causes of failures, which are never sent over HTTP. */
export interface Insider {
  upstreamCall?(call: UpstreamCallSummary): void
  /** A request failed because of the token server or the storage. */
  upstreamFailed?(error: UpstreamError): void
}

/** Creates the observers, which report events to the log, the metrics and statsd, if configured. */
export function createObservers(
  log: Log,
  { counter, histogram }: Pick<Registry, 'counter' | 'histogram'>,
  statsd: Statsd | null,
  now: () => number,
  insider: Insider = {},
) {
  const timing = (name: string, help: string, ...labels: string[]) =>
    histogram(name, help, secondsBounds, labels)
  const requests = counter('requests_total', 'Answered requests', ['route', 'method', 'status'])
  const requestSeconds = timing('request_duration_seconds', 'Time to first byte', 'route')
  const defects = counter('defects_total', 'Requests that failed because of a defect of the bridge')
  const calls = counter('upstream_calls_total', 'Calls to upstream', ['target', 'method', 'result'])
  const callSeconds = timing('upstream_duration_seconds', 'Time to first byte of upstream', 'target')
  const credentials = counter('credentials_total', 'Sources of credentials', ['event'], ['rejected-entry'])
  const redisErrors = counter('redis_errors_total', 'Redis errors', ['reason'], redisTroubles)
  const transactions = counter('transactions_total', 'Outcomes of writes', ['event'], errorOutcomes)
  const brokenLists = counter('lists_broken_total', 'Lists that broke off after their start was sent')
  const batchSizes = histogram('batch_requests', 'Sub-requests in a batch', sizeBounds)
  const rejections = counter(
    'requests_rejected_total',
    'Requests rejected under load',
    ['reason'],
    rejectionReasons,
  )
  const lagSeconds = timing('event_loop_lag_seconds', 'Delay of the event loop')

  // Logs an event with the same reason at most once a minute, because one line per request would bury everything else.
  const quietUntilMs = new Map<string, number>()
  function warnOncePerMinute<Event extends 'redis error' | 'requests rejected'>(
    event: Event,
    fields: LogFields<Event> & { reason: string },
  ): void {
    // Not by `code`, which can be any word of a Redis server.
    const name = `${event} ${fields.reason}`
    if (now() < (quietUntilMs.get(name) ?? 0)) return
    quietUntilMs.set(name, now() + 60_000)
    log.warning(event, fields)
  }

  return {
    /** A request was answered. `route` is a kind of resource, never a path; `batch` stands for all its sub-requests. */
    request(call: Call, reply: Reply, durationMs: number) {
      const { method } = call
      const route = call.route ?? 'none'
      requests(`${route}|${countedMethods.has(method) ? method : 'other'}|${reply.status}`)
      requestSeconds(durationMs / 1000, route)
      statsd?.time(`request.${route}`, durationMs)
      statsd?.count(`response.${reply.status}`)
      // Health checks would bury the rest, so they are debug. Unknown paths are info, because someone expected something there.
      const isForData = method !== 'OPTIONS' && (call.route === null || dataRoutes.has(call.route))
      const level = isForData ? 'info' : 'debug'
      if (isLogged(log, level)) log[level]('request', requestFields(call, reply, durationMs))
    },
    batch: (requests: number) => batchSizes(requests),
    /** A call to upstream ended: with a status, with a failure, or aborted. */
    upstreamCall(call: UpstreamCallSummary) {
      const { target, method, status, failure, ms } = call
      insider.upstreamCall?.(call)
      calls(`${target}|${method}|${failure ?? status ?? 'aborted'}`)
      callSeconds(ms / 1000, target)
      statsd?.time(`upstream.${target}`, ms)
      if (status !== null) statsd?.count(`syncclient.status_code.${status}`)
      if (isLogged(log, 'debug'))
        log.debug('upstream', { target, method, status, failure, ms: Math.round(ms) })
    },
    credentials(event: CredentialsEvent) {
      credentials(event)
      statsd?.count(`credentials.${event}`)
    },
    redisTrouble(trouble: RedisTrouble, code: string | null) {
      redisErrors(trouble)
      statsd?.count(`redis.${trouble}`)
      const remedy = trouble === 'unreachable' ? withoutRedis : undefined
      warnOncePerMinute('redis error', { reason: trouble, code, remedy })
    },
    transaction({ kind, collections }: TransactionEvent) {
      transactions(kind)
      statsd?.count(`batch.${kind}`)
      const level = errorOutcomes.includes(kind) ? 'error' : 'debug'
      if (isLogged(log, level)) log[level](`batch.${kind}`, { collections: collections.join(',') || null })
    },
    rejected(reason: RejectionReason) {
      rejections(reason)
      statsd?.count(`rejected.${reason}`)
      warnOncePerMinute('requests rejected', { reason })
    },
    /** A list broke off after `bytes` were sent; its logged status was 200. */
    listBroken({ requestId }: Pick<Call, 'requestId'>, bytes: number, cause: unknown) {
      brokenLists()
      statsd?.count('list.broken')
      const reason = cause instanceof UpstreamError ? cause.message : describeDefect(cause)
      log.error('list.broken', { requestId, bytes, reason })
    },
    /** How late the event loop was, at each check. */
    eventLoopLag: (ms: number) => lagSeconds(ms / 1000),
    error(thrown: unknown) {
      if (thrown instanceof UpstreamError) insider.upstreamFailed?.(thrown)
      // An expected error, whatever its status.
      if (thrown instanceof ServiceError) return
      if (thrown instanceof UpstreamError) {
        if (thrown.failure === 'abandoned') return
        log.warning('upstream failed', { failure: thrown.failure, reason: thrown.message })
        return
      }
      defects()
      statsd?.count('defect')
      log.error('defect', { reason: describeDefect(thrown) })
    },
  }
}

const dataRoutes = new Set(['bucket', 'collections', 'collection', 'records', 'record', 'batch'])

const withoutRedis =
  'requests continue without the shared cache: check service.cache_url, or set service.cache_backend = memory'

/** The log fields of a request: no secrets and no record ids. */
function requestFields(call: Call, { status, errno, body }: Reply, durationMs: number): LogFields<'request'> {
  const { method, route, requestId, work } = call
  const toTenths = (ms: number) => Math.round(ms * 10) / 10
  return {
    method,
    route,
    status,
    errno,
    ms: toTenths(durationMs),
    // Undefined if streamed.
    bytes: isSource(body) ? undefined : Buffer.byteLength(body ?? ''),
    ...(work.cached !== null && {
      upstreamCalls: work.upstreamCalls,
      upstreamMs: toTenths(work.upstreamMs),
      upstreamStatus: work.upstreamStatus ?? undefined,
      cached: work.cached,
    }),
    requestId,
    userAgent: call.headers['user-agent']?.slice(0, 256),
  }
}

// Logs the stack, but not the message, which could repeat what a client sent.
function describeDefect(error: unknown): string {
  if (!(error instanceof Error)) return 'the thrown value is not an Error'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [error.name, ...frames.slice(0, 4).map((line) => line.trim())].join(' ')
}
