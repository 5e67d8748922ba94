import type { Dialect } from './dialect.ts'
import type { Limits } from './limits.ts'

/** How to start a sandbox, with the initial value of any switch and of single limits. */
export interface SandboxOptions extends Partial<Omit<Switches, 'limits'>> {
  /** @default '127.0.0.1' */
  hostname?: string
  /** @default 0, any free port */
  tokenPort?: number
  /** @default 0, any free port */
  storagePort?: number
  /** Milliseconds since the epoch; the only source of time. @default Date.now */
  clock?: () => number
  /** Where another server differs. @default `mozilla` */
  dialect?: Dialect
  /** Overrides for the limits in `info/configuration`. */
  limits?: Partial<Limits>
  onRequest?: RequestListener
}

/** Called with each request. Calls the returned function with the response status, and the error if the sandbox failed. */
export type RequestListener = (request: {
  server: 'token' | 'storage'
  method: string
  /** Path and query as sent. */
  target: string
  headers: Headers
}) => (status: number, failure?: unknown) => void

/** The initial switches; the node's URL is empty until it is known. */
export function initialSwitches(options: SandboxOptions, dialect: Dialect): Switches {
  const audiences = ['http://127.0.0.1*', 'http://localhost*', `http://${options.hostname ?? '127.0.0.1'}*`]
  return {
    batching: options.batching ?? true,
    listCap: options.listCap === undefined ? dialect.listCap : options.listCap,
    latencyMs: options.latencyMs ?? 0,
    tokenDurationSeconds: options.tokenDurationSeconds ?? 3600,
    limits: { ...dialect.limits, ...options.limits },
    nodeUrl: options.nodeUrl?.replace(/\/{1,16}$/, '') ?? '',
    quotaKilobytes: options.quotaKilobytes ?? null,
    audiences: options.audiences ?? audiences,
    onFirstWrite: options.onFirstWrite ?? null,
    healthy: options.healthy ?? true,
  }
}

/** Settings that may change while the sandbox runs; each request reads the current values. */
export interface Switches {
  /** False: ignores `batch=true` and applies the upload at once; every batch id is unknown. */
  batching: boolean
  /** Maximum records that a list returns, with or without `limit`; null for no maximum. */
  listCap: number | null
  /** Delay before every storage response, in milliseconds. */
  latencyMs: number
  /** Lifetime of new tokens. */
  tokenDurationSeconds: number
  /** The limits that `info/configuration` announces and the storage enforces. */
  limits: Limits
  /** Scheme, host and port of `api_endpoint`, without a trailing slash. */
  nodeUrl: string
  /** Quota of each store in KB of payloads; null for no quota. */
  quotaKilobytes: number | null
  /** The accepted audiences of BrowserID assertions; `*` matches any text. */
  audiences: readonly string[]
  /**
   * Awaited between the checks and the write, for a collection that was never written to. Concurrent writers there don't
   * see each other, and the last one wins.
   */
  onFirstWrite: (() => Promise<void>) | null
  /** False: `__heartbeat__` of both servers returns 503. */
  healthy: boolean
}

/** The `info/configuration` document. Without batching, it lacks the four limits of batches and posts. */
export function configurationDocument({ limits, batching, quotaKilobytes }: Switches): Partial<Limits> {
  const max_quota_limit = limits.max_quota_limit && (quotaKilobytes ?? 0) * 1024
  if (batching) return { ...limits, max_quota_limit }
  const { max_request_bytes, max_record_payload_bytes, collections } = limits
  return { max_request_bytes, max_record_payload_bytes, max_quota_limit, collections }
}
