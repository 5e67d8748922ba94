import { createBreakers } from '../upstream/circuit-breaker.ts'
import { callLimitsFor } from '../upstream/concurrency-limits.ts'
import { createUpstream } from '../upstream/send.ts'
import { createTokenServer } from '../upstream/token-server.ts'
import { name, version } from '../version.ts'
import { laterStore } from './later-store.ts'

import type { CredentialStore } from '../credentials/credential-store.ts'
import type { Settings } from '../settings/settings.ts'
import type { BreakerCount } from '../upstream/circuit-breaker.ts'
import type { Upstream } from '../upstream/send.ts'
import type { TokenServer } from '../upstream/token-server.ts'
import type { BridgeHost } from './bridge.ts'
import type { Observers } from './observers.ts'

/** What talks to the outside: the token server, the storage and the cache. */
export interface Parts {
  upstream: Upstream
  tokenServer: TokenServer
  /** Null: every process remembers by itself. */
  store: CredentialStore | null
  /** The breakers that are not closed. */
  breakers(): BreakerCount[]
  /** From now on trusts the authorities that these settings name. */
  trust(settings: Settings): void
}

/** When the first answers are out. */
const redisDelayMs = 25

export function createParts(
  settings: Settings,
  host: Pick<BridgeHost, 'now'>,
  observers: Pick<Observers, 'upstreamCall' | 'breaker' | 'redisTrouble'>,
): Parts {
  const clock = { now: () => performance.now(), random: Math.random }
  let ca = settings.certificateCaBundle?.pem
  const breakers = createBreakers({ ...clock, observe: observers.breaker })
  const upstream = createUpstream({
    limits: callLimitsFor(settings.maxConcurrentRequests),
    breakers,
    ...(ca !== undefined && { ca }),
    ...clock,
    observe: observers.upstreamCall,
    delay: Bun.sleep,
  })
  const tokenServer = createTokenServer({
    url: settings.tokenServerUrl,
    send: upstream.send,
    timeoutMs: settings.upstreamTimeoutSeconds * 1000,
    now: host.now,
    userAgent: `${name}/${version}`,
  })
  const store =
    settings.cacheBackend === 'memory'
      ? null
      : laterStore(() => openRedisStore(settings, observers), redisDelayMs)
  return {
    upstream,
    tokenServer,
    store,
    breakers: () => breakers.counts(),
    trust({ certificateCaBundle }) {
      // What was learnt about targets is forgotten with it, which only a change is worth.
      if (certificateCaBundle?.pem === ca) return
      ca = certificateCaBundle?.pem
      upstream.trust(ca)
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
