import { ServiceError, UpstreamError } from '../domain/errors.ts'
import { createMetrics } from '../observability/metrics.ts'
import { isLogged } from '../observability/log.ts'
import { isSource } from '../protocol/envelope.ts'

import type { TransactionEvent } from '../batch/pace.ts'
import type { CredentialsEvent } from '../credentials/credentials.ts'
import type { RedisTrouble } from '../credentials/redis-store.ts'
import type { RejectionReason } from '../load/admission.ts'
import type { Log, LogFields } from '../observability/log.ts'
import type { MetricsSources } from '../observability/metrics.ts'
import type { Statsd } from '../observability/statsd.ts'
import type { Reply } from '../protocol/reply.ts'
import type { Call } from '../routes/call.ts'
import type { BreakerEvent } from '../upstream/circuit-breaker.ts'
import type { UpstreamCallSummary } from '../upstream/send.ts'

export type Observers = ReturnType<typeof createObservers>

/** Reports events to the log, and to metrics and statsd where they are switched on: null if they are not. */
export function createObservers(
  log: Log,
  sources: MetricsSources | null,
  statsd: Statsd | null,
  wallClock: () => number,
) {
  const metrics = sources && createMetrics(sources)
  const warnOfRedis = oncePerMinute(wallClock, (trouble: RedisTrouble, code: string | null) =>
    log.warning('redis error', {
      reason: trouble,
      code,
      remedy: trouble === 'unreachable' ? withoutRedis : undefined,
    }),
  )
  const warnOfLoad = oncePerMinute(wallClock, (reason: RejectionReason) =>
    log.warning('load shed', { reason }),
  )
  const warnOfUser = oncePerMinute(wallClock, (target: string, host: string) =>
    log.warning('circuit breaker opened for one user', { target, host }),
  )
  return {
    metrics,
    request(call: Call, reply: Reply, durationMs: number) {
      const route = call.route ?? 'none'
      metrics?.request(route, call.method, reply.status, durationMs)
      if (statsd) {
        statsd.time(`request.${route}`, durationMs)
        statsd.count(`response.${reply.status}`)
      }
      // Health checks every second would bury the rest. What is at no path is logged too, because somebody expected something there.
      const isForData = call.method !== 'OPTIONS' && (call.route === null || dataRoutes.has(call.route))
      const level = isForData ? 'info' : 'debug'
      if (isLogged(log, level)) log[level]('request', requestFields(call, reply, durationMs))
    },
    batch(requests: readonly { method: string }[], replies: readonly Reply[]) {
      metrics?.batch(requests.length)
      if (!isLogged(log, 'debug')) return
      for (const [index, { status, errno }] of replies.entries()) {
        const { method } = requests[index]!
        log.debug('sub-request', { index, method, status, errno })
      }
    },
    upstreamCall({ target, method, status, failure, ms }: UpstreamCallSummary) {
      metrics?.upstreamCall(target, method, status, failure, ms)
      if (statsd) {
        statsd.time(`upstream.${target}`, ms)
        if (status !== null) statsd.count(`syncclient.status_code.${status}`)
      }
      if (isLogged(log, 'debug'))
        log.debug('upstream', { target, method, status, failure, ms: Math.round(ms) })
    },
    breaker({ target, host, isForAll, change }: BreakerEvent) {
      if (!isForAll) {
        if (change === 'opened') warnOfUser(target, host)
        return
      }
      if (change === 'opened') metrics?.circuitOpened(target)
      statsd?.count(`breaker.${target}.${change}`)
      log[change === 'opened' ? 'warning' : 'info'](`circuit breaker ${change}`, { target, host })
    },
    credentials(event: CredentialsEvent) {
      metrics?.credentials(event)
      statsd?.count(`credentials.${event}`)
    },
    redisTrouble(trouble: RedisTrouble, code: string | null) {
      metrics?.redisError(trouble)
      statsd?.count(`redis.${trouble}`)
      warnOfRedis(trouble, code)
    },
    transaction(event: TransactionEvent) {
      metrics?.transaction(event.kind)
      statsd?.count(`batch.${event.kind}`)
      const level = ['partial', 'unknown', 'unremoved'].includes(event.kind) ? 'error' : 'debug'
      if (!isLogged(log, level)) return
      const { collections = null, ids } = event as { collections?: string[] | number; ids?: string[] }
      const names = Array.isArray(collections) ? collections.join(',') : null
      log[level](`batch.${event.kind}`, { collections: names, ids: ids?.join(' ') })
    },
    /** A request was rejected because of the load. */
    shed(reason: RejectionReason) {
      metrics?.shed(reason)
      statsd?.count(`shed.${reason}`)
      warnOfLoad(reason)
    },
    /** A list has broken off after so many bytes were sent: the status that was logged says nothing of it. */
    listBroken({ requestId }: Call, bytes: number, cause: unknown) {
      metrics?.listBroken()
      statsd?.count('list.broken')
      const reason = cause instanceof UpstreamError ? cause.message : describeDefect(cause)
      log.error('list.broken', { requestId, bytes, reason })
    },
    eventLoopLag: (ms: number) => metrics?.eventLoopLag(ms),
    /** A request failed because something was thrown. */
    error(thrown: unknown) {
      // A foreseen error, whatever its status.
      if (thrown instanceof ServiceError) return
      if (thrown instanceof UpstreamError) {
        if (thrown.failure === 'abandoned') return
        log.warning('upstream failed', { failure: thrown.failure, reason: thrown.message })
        return
      }
      metrics?.defect()
      statsd?.count('defect')
      log.error('defect', { reason: describeDefect(thrown) })
    },
  }
}

const dataRoutes = new Set(['bucket', 'collections', 'collection', 'records', 'record', 'batch'])

const withoutRedis = 'requests go on: look at service.cache_url, or set service.cache_backend = memory'

/** One request as a line of the log: no secrets, no ids of records. */
function requestFields(call: Call, { status, errno, body }: Reply, durationMs: number): LogFields {
  const { method, route, requestId, work } = call
  const toTenths = (ms: number) => Math.round(ms * 10) / 10
  return {
    method,
    route,
    status,
    errno,
    ms: toTenths(durationMs),
    // Undefined: it streams.
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

// The stack names our files and lines; the message could repeat what a client sent.
function describeDefect(error: unknown): string {
  if (!(error instanceof Error)) return 'something was thrown that is no error'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
  return [error.name, ...frames.slice(0, 4).map((line) => line.trim())].join(' ')
}

// One line a minute reports a cache that is away, or a flood; one line for each request would bury everything else.
function oncePerMinute<Args extends unknown[]>(now: () => number, report: (...args: Args) => void) {
  let quietUntilMs = 0
  return (...args: Args) => {
    if (now() < quietUntilMs) return
    quietUntilMs = now() + 60_000
    report(...args)
  }
}
