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
  /** The implementation to imitate where they differ. @default over PostgreSQL */
  quirks?: Quirks
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
export function initialSwitches(options: SandboxOptions, quirks: Quirks): Switches {
  const audiences = ['http://127.0.0.1*', 'http://localhost*', `http://${options.hostname ?? '127.0.0.1'}*`]
  return {
    batching: options.batching ?? true,
    listCap: options.listCap === undefined ? quirks.listCap : options.listCap,
    latencyMs: options.latencyMs ?? 0,
    tokenDurationSeconds: options.tokenDurationSeconds ?? 3600,
    limits: { ...quirks.limits, ...options.limits },
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
   * see each other: on PostgreSQL the last one wins, on MySQL it gets a deadlock.
   */
  onFirstWrite: (() => Promise<void>) | null
  /** False: `__heartbeat__` of both servers returns 503. */
  healthy: boolean
}

/** The limits of `info/configuration`, under their original names; see Sync 1.5 API, "info/configuration". */
export interface Limits {
  max_request_bytes: number
  max_post_bytes: number
  max_post_records: number
  max_record_payload_bytes: number
  max_total_bytes: number
  max_total_records: number
  /** Absent on the Python server. */
  max_quota_limit?: number
  /** Overrides by collection name. */
  collections?: Record<string, CollectionLimits>
}

/** The limits that a collection may override. */
type CollectionLimits = Partial<
  Pick<Limits, 'max_request_bytes' | 'max_post_bytes' | 'max_record_payload_bytes'>
>

/** The limits in force for one collection. */
export function limitsFor(limits: Limits, collection: string): Limits {
  return { ...limits, ...limits.collections?.[collection] }
}

/** The `info/configuration` document. Without batching, it lacks the four limits of batches and posts. */
export function configurationDocument({ limits, batching, quotaKilobytes }: Switches): Partial<Limits> {
  const max_quota_limit = limits.max_quota_limit && (quotaKilobytes ?? 0) * 1024
  if (batching) return { ...limits, max_quota_limit }
  const { max_request_bytes, max_record_payload_bytes, collections } = limits
  return { max_request_bytes, max_record_payload_bytes, max_quota_limit, collections }
}

/** The differences between implementations that a client can observe. */
export interface Quirks {
  readonly kind: 'postgres' | 'mysql' | 'spanner' | 'python'
  readonly limits: Limits
  /** Whether this is the Python server, whose HTTP details differ from the three Rust ones. */
  readonly isPython: boolean
  /**
   * Ids that differ only in case or trailing spaces name one record, shown in its last spelling. The same holds for
   * collection names, shown in their first spelling.
   */
  readonly foldsIds: boolean
  /** Preconditions still use the timestamp of an expired record. */
  readonly expiredCounts: boolean
  /** The order of lists without `sort`: newest first, or arbitrary. */
  readonly defaultSort: 'newest' | 'none'
  /** Lists of ids without `sort` have an arbitrary order. */
  readonly unorderedIds: boolean
  /** Sorting by sortindex puts records without one first instead of last. */
  readonly unsortedFirst: boolean
  /** Offsets of the next page are always plain numbers, never positions by time. */
  readonly plainOffsets: boolean
  /** Maximum records that a list without `limit` returns; null for all. */
  readonly listCap: number | null
  readonly batchIdPattern: 'uuid' | 'decimal' | 'hex'
  /** Matches the payloads that the database can store; others cause a database error. */
  readonly storable: RegExp
  /** Deleting a collection discards its batches. */
  readonly discardsBatches: boolean
  /** Staging an id twice overwrites the payload of everything staged so far. */
  readonly appendOverwritesAll: boolean
}

/** The current server over PostgreSQL. */
export const postgres: Quirks = {
  kind: 'postgres',
  limits: {
    max_request_bytes: 2_625_536,
    max_post_bytes: 2_621_440,
    max_post_records: 100,
    max_record_payload_bytes: 2_621_440,
    max_total_bytes: 262_144_000,
    max_total_records: 10_000,
    max_quota_limit: 2_097_152_000,
  },
  isPython: false,
  foldsIds: false,
  expiredCounts: true,
  defaultSort: 'newest',
  unorderedIds: false,
  unsortedFirst: true,
  plainOffsets: false,
  listCap: null,
  batchIdPattern: 'uuid',
  storable: /^[^\0]*$/,
  discardsBatches: true,
  appendOverwritesAll: false,
}
