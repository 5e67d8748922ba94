import { Breakers } from '../upstream/circuit-breaker.ts'
import { callLimitsFor } from '../upstream/concurrency-limits.ts'
import { createUpstream } from '../upstream/send.ts'
import { TokenServer } from '../upstream/token-server.ts'
import { name, version } from '../version.ts'

import type { CredentialStore } from '../credentials/shared-credentials.ts'
import type { ProcessUsage } from '../observability/metrics.ts'
import type { Settings } from '../settings/settings.ts'
import type { BreakerCount } from '../upstream/circuit-breaker.ts'
import type { Upstream } from '../upstream/send.ts'
import type { Observers } from './observers.ts'

/** The connections to token server, storage and cache. */
export interface Connections {
  upstream: Upstream
  tokenServer: TokenServer
  /** The store that processes share; null: every process remembers by itself. */
  store: CredentialStore | null
  /** The breakers that are not closed. */
  breakers(): BreakerCount[]
  /** Trusts the certificate authorities of these settings from now on. */
  setCertificateAuthorities(settings: Settings): void
}

/** Loads the Redis client after the start, so that it does not delay the first answers. */
const redisDelayMs = 25

export function connect(
  settings: Settings,
  host: Pick<BridgeHost, 'now' | 'monotonicNow'>,
  observers: Pick<Observers, 'upstreamCall' | 'breaker' | 'redisTrouble'>,
): Connections {
  const clock = { now: host.monotonicNow, random: Math.random }
  let ca = settings.certificateCaBundle?.pem
  const breakers = new Breakers({ ...clock, observe: observers.breaker })
  const upstream = createUpstream({
    limits: callLimitsFor(settings.maxConcurrentRequests),
    breakers,
    ...(ca !== undefined && { ca }),
    ...clock,
    observe: observers.upstreamCall,
    delay: Bun.sleep,
  })
  const tokenServer = new TokenServer({
    url: settings.tokenServerUrl,
    send: upstream.send,
    timeoutMs: settings.upstreamTimeoutSeconds * 1000,
    now: host.now,
    userAgent: `${name}/${version}`,
  })
  const store =
    settings.cacheBackend === 'memory'
      ? null
      : lazyStore(() => openRedisStore(settings, observers), redisDelayMs)
  return {
    upstream,
    tokenServer,
    store,
    breakers: () => breakers.counts(),
    setCertificateAuthorities({ certificateCaBundle }) {
      // Circuit breakers and limits begin anew with it, so it happens only after a change.
      if (certificateCaBundle?.pem === ca) return
      ca = certificateCaBundle?.pem
      upstream.setCertificateAuthorities(ca)
    },
  }
}

async function openRedisStore(
  settings: Settings,
  observers: Pick<Observers, 'redisTrouble'>,
): Promise<CredentialStore> {
  const { createRedisStore } = await import('../credentials/redis-store.ts')
  return createRedisStore({
    address: settings.cacheUrl,
    prefix: settings.cachePrefix,
    random: Math.random,
    onTrouble: observers.redisTrouble,
  })
}

/** The parts of the process that a bridge needs. */
export interface BridgeHost {
  /** Wall clock, ms since 1970. */
  now(): number
  /** Ms since some moment; never goes back. */
  monotonicNow(): number
  randomBytes(length: number): Uint8Array
  /** Absent where nothing is known about the process. */
  processes?: {
    usage(): ProcessUsage
    /** Processor time that this process has used so far, in ms. */
    cpuMs(): number
    /** Memory that this process holds. */
    residentBytes(): number
    /** Bytes sent by a local port that are not acknowledged, by the remote port; null where that is not known. */
    unsentBytes(localPort: number): ReadonlyMap<number, number> | null
  }
}

/** Loads the store `delayMs` after the start, because loading it takes long. Calls before then wait. */
function lazyStore(load: () => Promise<CredentialStore>, delayMs: number): CredentialStore {
  const store = Bun.sleep(delayMs).then(load)
  // Each call rejects by itself.
  store.catch(() => {})
  return {
    get: async (key) => (await store).get(key),
    set: async (key, value, ttlMs) => (await store).set(key, value, ttlMs),
    delete: async (key) => (await store).delete(key),
    ping: () =>
      store.then(
        (loaded) => loaded.ping(),
        () => false,
      ),
    close: () =>
      store.then(
        (loaded) => loaded.close(),
        () => {},
      ),
  }
}
