import type { Limits } from './limits.ts'

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
export type IdentityKind = 'browserid' | 'bearer'
