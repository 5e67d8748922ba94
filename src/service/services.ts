import { runTransaction } from '../batch/transaction.ts'
import { Credentials, type Obtained } from '../credentials/credentials.ts'
import { RedisStore } from '../credentials/redis-store.ts'
import { isRefusal, UpstreamError } from '../domain/errors.ts'
import { Locks, RecentMap, within } from '../domain/bounded.ts'
import { overload } from '../protocol/reply.ts'
import { createPermits, type RequestLimit } from '../load/permits.ts'
import { createUpstream } from '../upstream/send.ts'
import { Transport } from '../upstream/transport.ts'
import { SyncStorage } from '../upstream/sync-storage.ts'
import { TokenServer } from '../upstream/token-server.ts'
import { commit, name, source, version } from '../version.ts'
import { limits } from '../load/limits.ts'
import type { Clock } from '../domain/clock.ts'
import type { Identity } from '../domain/credentials.ts'
import type { OperationOutcome, Step } from '../domain/operation.ts'
import type { BulkStorage } from '../domain/record-storage.ts'
import type { Call } from '../routes/call.ts'
import type { Settings } from '../settings/settings.ts'
import { StorageCalls, type StorageContext } from '../upstream/signed-call.ts'
import type { Observers } from './observers.ts'

/** The operating system, as a bridge uses it. */
export interface BridgeHost extends Clock {
  randomBytes(length: number): Uint8Array
  /** Maximum concurrent `fetch` requests of this process, for all hosts. */
  fetchSlots: number
  /** CPU time of this process, in ms. */
  cpuMs(): number
  /** Resident memory of this process. */
  residentBytes(): number
  /** Memory allocated by the program. */
  heapBytes(): number
}

// The part of a request's time reserved for committing what a batch has prepared.
const maxCommitReserveMs = 5000

const heartbeatFreshMs = 5000

/** The User-Agent for upstream. */
const product = `${name}/${version}`

/** Creates the services for routes from token server, storage and cache; see `Services`. `startBridge` adds the state of the process. */
export function createServices(
  settings: Settings,
  exposed: Settings,
  connections: Connections,
  observers: Observers,
  host: BridgeHost,
  load: RequestLimit,
  maxResponseBytes: number = limits.batchResponseBytes,
) {
  const { upstream, tokenServer, store, locks, absentId } = connections
  const { now } = host
  const credentials = new Credentials({
    exchange: (identity, requestId) => tokenServer.exchange(identity, requestId),
    store,
    secret: settings.cacheHmacSecret,
    ...(settings.cacheHmacSecretPrevious && { previousSecret: settings.cacheHmacSecretPrevious }),
    tokenServerUrl: settings.tokenServerUrl,
    ttlSeconds: settings.cacheCredentialsTtlSeconds,
    now,
    monotonicNow: host.monotonicNow,
    randomBytes: host.randomBytes,
    observe: observers.credentials,
  })
  const ofProcess = host.randomBytes(4).toHex()
  let ids = 0
  /** For requests, and as a nonce: unique is enough, and random bytes take longer. */
  const createId = () => ofProcess + (ids += 1).toString(16).padStart(8, '0')
  const storageContext: StorageContext = {
    upstream,
    timeoutMs: settings.upstreamTimeoutSeconds * 1000,
    limitsByNode: new RecentMap(1000),
    now,
    monotonicNow: host.monotonicNow,
    nonce: createId,
    delay: Bun.sleep,
  }
  // The call to the token server continues, because others may wait for it.
  const inTime = <Result>(result: Promise<Result>, deadlineAtMs: number) =>
    within(deadlineAtMs - host.monotonicNow(), result, tooLate)
  // Most credentials are known, and need neither a promise nor a timer.
  function openStorage(identity: Identity, call: Call): BulkStorage | Promise<BulkStorage> {
    const known = credentials.recall(identity)
    return known ? storageOf(identity, call, known) : obtainStorage(identity, call)
  }
  async function obtainStorage(identity: Identity, call: Call): Promise<BulkStorage> {
    const { deadlineAtMs, requestId, work } = call
    try {
      const obtained = await inTime(credentials.obtain(identity, requestId), deadlineAtMs)
      return storageOf(identity, call, obtained)
    } catch (error) {
      work.cached = false
      throw error
    }
  }
  function storageOf(identity: Identity, call: Call, obtained: Obtained): BulkStorage {
    const { headers, deadlineAtMs, requestId, work, notices } = call
    work.cached = work.cached !== false && obtained.source !== 'exchange'
    notices.backoffSeconds = Math.max(notices.backoffSeconds, tokenServer.backoffSeconds(identity) ?? 0)
    const userAgent = headers['user-agent']
    return new SyncStorage(
      new StorageCalls(storageContext, {
        credentials: obtained.credentials,
        renew: (refused) => inTime(credentials.renew(identity, refused, requestId), deadlineAtMs),
        userAgent: userAgent === undefined ? product : `${userAgent} ${product}`,
        deadlineAtMs,
        requestId,
        client: call.request,
        tally: work,
        holder: call,
        notices,
      }),
    )
  }

  return {
    settings: exposed,
    load,
    observers,
    now,
    monotonicNow: host.monotonicNow,
    createRequestId: createId,
    version: { name, version, commit, source },
    openStorage,
    async identify(identity: Identity, { requestId, deadlineAtMs }: Call) {
      const known = credentials.recall(identity)
      if (known) return String(known.credentials.uid)
      const release = load.acquireRootView(identity.key)
      if (!release) throw overload
      // Counts until the call to the token server ends, because it continues after the response.
      const obtained = credentials.obtain(identity, requestId).finally(release)
      try {
        const { credentials: found } = await inTime(obtained, deadlineAtMs)
        return String(found.uid)
      } catch (error) {
        if (isRefusal(error) || error instanceof UpstreamError) return null
        throw error
      }
    },
    transact: (
      steps: Step[],
      { deadlineAtMs, memory }: Call,
      accepts?: (outcomes: OperationOutcome[]) => boolean,
    ) =>
      runTransaction(steps, {
        deadlineAtMs,
        commitReserveMs: Math.min(maxCommitReserveMs, (settings.requestTimeoutSeconds * 1000) / 3),
        now: host.monotonicNow,
        delay: Bun.sleep,
        random: Math.random,
        locks,
        absentId,
        accepts,
        memory,
        maxResponseBytes,
        observe: observers.transaction,
      }),
    heartbeat: createHeartbeat(connections, settings, host.monotonicNow),
  }
}

type Connections = ReturnType<typeof connect>

/** Creates the connections to token server, storage and cache, and the locks of writers. */
export function connect(
  settings: Settings,
  host: Pick<BridgeHost, 'now' | 'monotonicNow' | 'randomBytes' | 'fetchSlots'>,
  observers: Pick<Observers, 'upstreamCall' | 'redisTrouble'>,
  waitMs?: number,
) {
  const clock = { now: host.monotonicNow, random: Math.random }
  const transport = new Transport(clock.now)
  transport.trust(settings.certificateCaBundle)
  const permits = createPermits(host.fetchSlots, waitMs)
  const upstream = createUpstream({
    permits,
    transport,
    ...clock,
    observe: observers.upstreamCall,
    delay: Bun.sleep,
  })
  const tokenServer = new TokenServer({
    url: settings.tokenServerUrl,
    send: upstream.send,
    timeoutMs: settings.upstreamTimeoutSeconds * 1000,
    now: host.now,
    monotonicNow: clock.now,
    userAgent: product,
  })
  // The shared store; null: each process has its own cache.
  const store =
    settings.cacheBackend === 'memory'
      ? null
      : new RedisStore({
          address: settings.cacheUrl,
          prefix: settings.cachePrefix,
          onTrouble: observers.redisTrouble,
        })
  return {
    transport,
    upstream,
    tokenServer,
    store,
    locks: new Locks(),
    absentId: host.randomBytes(32).toHex(),
  }
}

function tooLate(): UpstreamError {
  const message = 'Cannot get credentials: the request timed out'
  return new UpstreamError('timeout', message, { applied: 'no' })
}

/**
 * Checks the services that this one depends on, at most every 5 s, so that health checks can't overload them. Never rejects; a check that
 * times out counts as failed.
 */
function createHeartbeat({ tokenServer, store }: Connections, settings: Settings, now: () => number) {
  const timeoutMs = settings.tokenServerHeartbeatTimeoutSeconds * 1000
  let last: ReturnType<typeof probe> | null = null
  let untilMs = 0

  async function probe() {
    const [storage, cache] = await Promise.all([tokenServer.heartbeat(timeoutMs), store?.ping() ?? true])
    untilMs = now() + heartbeatFreshMs
    return { storage, cache, permission: true }
  }

  return () => {
    if (last && now() < untilMs) return last
    untilMs = Infinity
    return (last = probe())
  }
}
