/** How a sandbox is started; each of the switches may be set from the beginning, and sizes one by one. */
export interface SandboxOptions extends Partial<Omit<Switches, 'limits'>> {
  /** @default '127.0.0.1' */
  hostname?: string
  /** @default 0, any free port */
  tokenPort?: number
  /** @default 0, any free port */
  storagePort?: number
  /** What tokens are signed with. @default random */
  secret?: string
  /** Milliseconds since the epoch; everything that depends on time asks it. @default Date.now */
  clock?: () => number
  /** Which implementation to behave like where they differ. @default over PostgreSQL */
  quirks?: Quirks
  /** Overrides of what `info/configuration` announces. */
  limits?: Partial<Limits>
  onRequest?: RequestListener
}

/** Called with each request; the function that it returns with the answer's status, and what failed in the sandbox. */
export type RequestListener = (request: {
  server: 'token' | 'storage'
  method: string
  /** Path and query as sent. */
  target: string
  headers: Headers
}) => (status: number, failure?: unknown) => void

/** The settings that options begin with; the node's URL is empty when it is yet to be known. */
export function initialSwitches(options: SandboxOptions, quirks: Quirks): Switches {
  const audiences = ['http://127.0.0.1*', 'http://localhost*', `http://${options.hostname ?? '127.0.0.1'}*`]
  return {
    batching: options.batching ?? true,
    listCap: options.listCap === undefined ? quirks.listCap : options.listCap,
    newUsers: options.newUsers ?? true,
    latencyMs: options.latencyMs ?? 0,
    tokenDurationSeconds: options.tokenDurationSeconds ?? 3600,
    limits: { ...quirks.limits, ...options.limits },
    nodeUrl: options.nodeUrl?.replace(/\/{1,16}$/, '') ?? '',
    quotaKilobytes: options.quotaKilobytes ?? null,
    identityKinds: options.identityKinds ?? ['browserid', 'bearer'],
    audiences: options.audiences ?? audiences,
    onFirstWrite: options.onFirstWrite ?? null,
    onNewAccount: options.onNewAccount ?? null,
    healthy: options.healthy ?? true,
  }
}

/** Settings that may change while the sandbox runs; each request reads them anew. */
export interface Switches {
  /** False: `batch=true` is ignored and the upload applied at once, and no batch id is known. */
  batching: boolean
  /** Most records that a list returns whether or not it names a limit; null for no cap. */
  listCap: number | null
  /** False: an account the token server has never seen is refused. */
  newUsers: boolean
  /** Added before every storage answer, in milliseconds. */
  latencyMs: number
  /** Life of the tokens handed out from now on. */
  tokenDurationSeconds: number
  /** Sizes announced by `info/configuration` and enforced. */
  limits: Limits
  /** Scheme, host and port that `api_endpoint` begins with, without a trailing slash. */
  nodeUrl: string
  /** Room of each store in KB of payloads; null for no quota. */
  quotaKilobytes: number | null
  /** The kinds of identity the token server accepts; others are answered 401 "Unsupported". */
  identityKinds: readonly IdentityKind[]
  /** Audiences of BrowserID assertions that are accepted; `*` stands for any text. */
  audiences: readonly string[]
  /**
   * Awaited between the checks of a write to a collection that has never been written to and the write itself. Writers
   * that meet there don't see one another: on PostgreSQL the last one wins, on MySQL it ends as a deadlock.
   */
  onFirstWrite: (() => Promise<void>) | null
  /** Awaited before an account that the token server doesn't know is added. Each request that meets there adds it. */
  onNewAccount: (() => Promise<void>) | null
  /** False: both servers' `__heartbeat__` answers 503. */
  healthy: boolean
}

/** `browserid` is an assertion of the old account protocol, `bearer` an OAuth access token. */
type IdentityKind = 'browserid' | 'bearer'

/** The sizes that `info/configuration` announces, under the names it uses; see Sync 1.5 API, "info/configuration". */
export interface Limits {
  max_request_bytes: number
  max_post_bytes: number
  max_post_records: number
  max_record_payload_bytes: number
  max_total_bytes: number
  max_total_records: number
  /** Absent on the Python server. */
  max_quota_limit?: number
  /** Different sizes for some collections, by collection name. */
  collections?: Record<string, CollectionLimits>
}

/** The sizes that may differ for one collection. */
type CollectionLimits = Partial<
  Pick<Limits, 'max_request_bytes' | 'max_post_bytes' | 'max_record_payload_bytes'>
>

/** The limits in force for one collection. */
export function limitsFor(limits: Limits, collection: string): Limits {
  return { ...limits, ...limits.collections?.[collection] }
}

/** The `info/configuration` document. Without batching it lacks the four sizes that only batches and posts have. */
export function configurationDocument({ limits, batching, quotaKilobytes }: Switches): Partial<Limits> {
  const max_quota_limit = limits.max_quota_limit && (quotaKilobytes ?? 0) * 1024
  if (batching) return { ...limits, max_quota_limit }
  const { max_request_bytes, max_record_payload_bytes, collections } = limits
  return { max_request_bytes, max_record_payload_bytes, max_quota_limit, collections }
}

/** The points in which the implementations differ and that a client can observe. */
export interface Quirks {
  readonly kind: 'postgres' | 'mysql' | 'spanner' | 'python'
  readonly limits: Limits
  /** The Python server, whose HTTP details differ from those of the three Rust ones. */
  readonly isPython: boolean
  /**
   * Ids that differ only in case or trailing blanks name one record, of which the last spelling is shown; names of
   * collections likewise, of which the first is.
   */
  readonly foldsIds: boolean
  /** An expired record still has a timestamp as far as preconditions are concerned. */
  readonly expiredCounts: boolean
  /** Lists without `sort` come newest first, or in no useful order. */
  readonly defaultSort: 'newest' | 'none'
  /** Lists of bare ids have no order unless asked for. */
  readonly unorderedIds: boolean
  /** In the order of sortindex, records without one come first instead of last. */
  readonly unsortedFirst: boolean
  /** Next offsets are plain numbers even where a position by time would be possible. */
  readonly plainOffsets: boolean
  /** Most records that a list without `limit` returns; null for all of them. */
  readonly listCap: number | null
  readonly batchIdForm: 'uuid' | 'decimal' | 'hex'
  /** Payloads that the database can hold; others end as its error. */
  readonly storable: RegExp
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
  batchIdForm: 'uuid',
  storable: /^[^\0]*$/,
  appendOverwritesAll: false,
}
