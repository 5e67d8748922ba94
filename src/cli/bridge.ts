import { runTransaction } from '../batch/transaction.ts'
import type { TransactionEvent } from '../batch/transaction.ts'
import { Locks } from '../batch/locks.ts'
import { createApp } from '../app.ts'
import { createCredentials } from '../credentials/credentials.ts'
import type { CredentialStore } from '../credentials/credential-store.ts'
import { createRedisStore } from '../credentials/redis-store.ts'
import { ServiceError, UpstreamError } from '../domain/errors.ts'
import type { Log } from '../ops/log.ts'
import type { Settings } from '../ops/settings.ts'
import type { ExposedSettings } from '../protocol/exposed.ts'
import type { Services } from '../routes/services.ts'
import { createSend } from '../upstream/send.ts'
import { createLimitsCache } from '../upstream/storage-limits.ts'
import { createSyncStorage } from '../upstream/sync-storage.ts'
import { createTokenServer } from '../upstream/token-server.ts'
import { commit, name, source, version } from '../version.ts'
import { createHeartbeat } from './heartbeat.ts'
import type { Host } from './host.ts'

/** A bridge that listens. */
export interface Bridge {
  /** Scheme, host and port that it listens on. */
  url: string
  /** Refuses new connections and resolves once the requests under way are answered, or `graceMs` have passed. */
  stop(graceMs: number): Promise<void>
}

// Above every deadline of ours, because the server cuts a request that it finds idle without an answer.
const idleTimeoutSeconds = 240
// Of the request's time, kept back for committing what a batch has prepared.
const largestCommitReserveMs = 5000

/** Constructs all parts with their slices of the settings, joins them, and listens. Throws when the port is taken. */
export function startBridge(settings: Settings, host: Host, log: Log): Bridge {
  const parts = createParts(settings, host, log)
  const app = createApp(createServices(settings, parts, host, log)).listen({
    hostname: settings.host,
    port: settings.port,
    development: false,
    idleTimeout: idleTimeoutSeconds,
    // Larger bodies are refused by us, in JSON; this only bounds what the server would take in by itself.
    maxRequestBodySize: settings.maxRequestBytes + 64 * 1024 * 1024,
    error: () => lastResort.clone(),
  })
  const server = app.server!
  return {
    url: `http://${server.hostname}:${server.port}`,
    async stop(graceMs) {
      const timer = setTimeout(() => void server.stop(true), graceMs)
      await server.stop(false)
      clearTimeout(timer)
      await parts.store?.close()
    },
  }
}

/** What talks to the outside: the token server and the cache. */
export function createParts(settings: Settings, host: Pick<Host, 'now'>, log: Log) {
  const send = createSend({
    ...(settings.certificateCaBundle && { ca: settings.certificateCaBundle.pem }),
    observe: ({ target, method, status, failure, ms }) =>
      log.debug('upstream', { target, method, status, failure, ms: Math.round(ms) }),
    now: () => performance.now(),
    random: Math.random,
    delay: Bun.sleep,
  })
  const tokenPause = { seconds: 0, untilMs: 0 }
  const tokenServer = createTokenServer({
    url: settings.tokenServerUrl,
    send,
    timeoutMs: settings.upstreamTimeoutSeconds * 1000,
    now: host.now,
    userAgent: `${name}/${version}`,
    onBackoff: (seconds) => Object.assign(tokenPause, { seconds, untilMs: host.now() + seconds * 1000 }),
  })
  const store: CredentialStore | null =
    settings.cacheBackend === 'memory'
      ? null
      : createRedisStore({
          url: settings.cacheUrl,
          prefix: settings.cachePrefix,
          random: Math.random,
          onTrouble: oncePerMinute(host.now, (trouble, code) =>
            log.warning('cache trouble', { trouble, code }),
          ),
        })
  return { send, tokenServer, tokenPause, store }
}

type Parts = ReturnType<typeof createParts>

function createServices(settings: Settings, parts: Parts, host: Host, log: Log): Services {
  const { send, tokenServer, tokenPause, store } = parts
  const { now } = host
  const credentials = createCredentials({
    exchange: (identity) => tokenServer.exchange(identity),
    isLasting: (refusal) => refusal.cause !== 'invalid-timestamp',
    store,
    secret: settings.cacheHmacSecret,
    ...(settings.cacheHmacSecretPrevious && { previousSecret: settings.cacheHmacSecretPrevious }),
    tokenServerUrl: settings.tokenServerUrl,
    ttlSeconds: settings.cacheCredentialsTtlSeconds,
    wallClock: now,
    monotonicClock: () => performance.now(),
    randomBytes: host.randomBytes,
    observe: () => {},
  })
  const limitsCache = createLimitsCache(now)
  const locks = new Locks()
  const requestTimeoutMs = settings.requestTimeoutSeconds * 1000

  return {
    settings: exposedSettings(settings),
    requestTimeoutMs,
    now,
    version: { name, version, commit, source },
    async openStorage(identity, { userAgent, signal, deadlineAtMs }) {
      const storage = createSyncStorage({
        credentials: await credentials.obtain(identity),
        renew: (refused) => credentials.renew(identity, refused),
        send,
        userAgent: `${userAgent ?? ''} ${name}/${version}`.trim(),
        timeoutMs: settings.upstreamTimeoutSeconds * 1000,
        deadlineAtMs,
        signal,
        now,
        nonce: () => Buffer.from(host.randomBytes(6)).toString('base64url'),
        random: Math.random,
        delay: Bun.sleep,
        limitsCache,
      })
      if (now() < tokenPause.untilMs) storage.notices.backoffSeconds = tokenPause.seconds
      return storage
    },
    identify: (identity) =>
      credentials.obtain(identity).then(
        ({ uid }) => String(uid),
        () => null,
      ),
    transact: (steps, deadlineAtMs) =>
      runTransaction(steps, {
        deadlineAtMs,
        commitReserveMs: Math.min(largestCommitReserveMs, requestTimeoutMs / 3),
        now,
        delay: Bun.sleep,
        random: Math.random,
        locks,
        observe: (event) => reportTransaction(event, log),
      }),
    heartbeat: createHeartbeat({
      tokenServer: (timeoutMs) => tokenServer.heartbeat(timeoutMs),
      cache: async () => store === null || (await store.ping()),
      timeoutMs: settings.tokenServerHeartbeatTimeoutSeconds * 1000,
      now,
    }),
    observe: ({ method, route, status, durationMs }) =>
      log.info('request', { method, route, status, ms: durationMs }),
    reportDefect(error) {
      if (error instanceof ServiceError && error.status < 500) return
      if (error instanceof UpstreamError)
        return log.warning('upstream failed', { failure: error.failure, reason: error.message })
      log.error('defect', { reason: describeDefect(error) })
    },
  }
}

function exposedSettings(settings: Settings): ExposedSettings {
  return {
    projectName: settings.projectName,
    projectDocs: settings.projectDocs,
    projectVersion: version,
    errorInfoLink: settings.errorInfoLink,
    httpApiVersion: settings.httpApiVersion,
    httpScheme: settings.httpScheme,
    httpHost: settings.httpHost,
    batchMaxRequests: settings.batchMaxRequests,
    readonly: settings.readonly,
    writable: settings.writable,
    retryAfterSeconds: settings.retryAfterSeconds,
    backoffSeconds: settings.backoff,
    eos: settings.eos,
    eosMessage: settings.eosMessage,
    eosUrl: settings.eosUrl,
    corsOrigins: settings.corsOrigins === '*' ? null : settings.corsOrigins,
    corsMaxAgeSeconds: settings.corsMaxAgeSeconds,
    maxRequestBytes: settings.maxRequestBytes,
    docsEnabled: settings.docsEnabled,
    flushSafeEtag: settings.flushSafeEtag,
  }
}

function reportTransaction(event: TransactionEvent, log: Log): void {
  const collections =
    'collections' in event && Array.isArray(event.collections) ? event.collections.join(',') : null
  if (event.kind === 'partial' || event.kind === 'unknown') log.error(`batch.${event.kind}`, { collections })
  else log.debug(`batch.${event.kind}`, { collections })
}

// The stack names our files and lines; a message could repeat what a client sent.
function describeDefect(error: unknown): string {
  if (!(error instanceof Error)) return 'something was thrown that is no error'
  const frames = (error.stack ?? '').split('\n').filter((line) => line.trimStart().startsWith('at '))
  return `${error.name} ${frames
    .slice(0, 4)
    .map((line) => line.trim())
    .join(' ')}`
}

// One line tells of a cache that is away; one for each request would drown everything else.
function oncePerMinute<Args extends unknown[]>(now: () => number, report: (...args: Args) => void) {
  let quietUntilMs = 0
  return (...args: Args) => {
    if (now() < quietUntilMs) return
    quietUntilMs = now() + 60_000
    report(...args)
  }
}

// What the server says when not even our own error answer could be made.
const lastResort = new Response(
  JSON.stringify({
    code: 500,
    errno: 999,
    error: 'Internal Server Error',
    message: 'An error of this service',
  }),
  { status: 500, headers: { 'Content-Type': 'application/json; charset=utf-8', 'Retry-After': '30' } },
)
