import { ServiceError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { maxSealedLength, Seal, type Opened, type SealOptions } from './seal.ts'
import type { Clock } from '../domain/clock.ts'
import type { Identity, SyncCredentials } from '../domain/credentials.ts'

/** Stores sealed credentials for a while. It may lose entries at any time, and is not trusted: `seal.ts` verifies every value. */
export interface CredentialStore {
  /** The sealed value; null if absent or expired. Rejects only if the store can't be used. */
  get(key: string): Promise<string | null>
  /** Replaces the value. `ttlMs` is at least 1. Rejects only if the store can't be used. */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** An unknown key is no error. Rejects only if the store can't be used. */
  delete(key: string): Promise<void>
  /** Whether the store can be used now; never rejects. */
  ping(): Promise<boolean>
  /** Closes connections and timers. Later calls may be rejected. */
  close(): Promise<void>
}

/**
 * Events to count:
 * - `hit-local`, `hit-shared`: found in this process, in the shared store
 * - `joined`: waits for a lookup that is already in progress
 * - `exchange`: not found, so the token server is called
 * - `refused-cached`: the token server rejected the same identity a moment ago
 * - `store-error`, `rejected-entry`: the shared store failed, or had an entry that is invalid or too old
 */
export type CredentialsEvent =
  'hit-local' | 'hit-shared' | 'joined' | 'exchange' | 'refused-cached' | 'store-error' | 'rejected-entry'

export interface CredentialsOptions extends SealOptions, Clock {
  /**
   * Calls the token server once, with its own deadline; `requestId` names the request that caused it. Rejects with `ServiceError` 401 if
   * the identity is rejected, with the cause `invalid-timestamp` if only the clock is wrong, and with `UpstreamError` if the token server
   * can't be used.
   */
  exchange(identity: Identity, requestId: string): Promise<SyncCredentials>
  /** Shared by several processes; null keeps everything in this one. Not trusted: an error or an invalid entry counts as a miss. */
  store: CredentialStore | null
  /** Opens entries that were sealed before the secret changed. */
  previousSecret?: Uint8Array
  /** How long credentials are used before the token server is called again. */
  ttlSeconds: number
  observe(event: CredentialsEvent): void
}

/** Credentials, and their source: this process, the shared store, or the token server. */
export interface Obtained {
  credentials: SyncCredentials
  source: 'memory' | 'cache' | 'exchange'
}

interface Remembered {
  credentials: SyncCredentials
  // Two clocks, because a wall clock can be set back, and a monotonic one may stop while the machine sleeps.
  wallEndMs: number
  monotonicEndMs: number
}

const maxEntries = 10_000
/** Bounded, because anyone can send invalid credentials of up to 8 KB. */
const maxRefusals = 1000
/** How long this process may use what another process has deleted. */
const localTtlMs = 60_000
const refusalTtlMs = 5000
/** Stops using credentials early, so that requests in flight reach the storage before they expire. */
const expiryMarginMs = 10_000

/** Exchanges identities for credentials and caches these for a few minutes: in plain form in this process, sealed in the shared store. */
export class Credentials {
  readonly #options: CredentialsOptions
  readonly #seal: Seal
  /** The first one seals; the others only open entries from before the secret changed. */
  readonly #seals: Seal[]
  readonly #maxLocalMs: number
  // By the key of the whole identity, so that no request gets the credentials of another one.
  readonly #remembered = new RecentMap<string, Remembered>(maxEntries)
  readonly #refusals = new RecentMap<string, { refusal: ServiceError; monotonicEndMs: number }>(maxRefusals)
  readonly #lookups = new Map<string, { isRenewal: boolean; result: Promise<Obtained> }>()

  constructor(options: CredentialsOptions) {
    const { store, previousSecret, ttlSeconds } = options
    this.#options = options
    this.#seal = new Seal(options)
    this.#seals = [this.#seal, ...(previousSecret ? [new Seal({ ...options, secret: previousSecret })] : [])]
    this.#maxLocalMs = Math.min(ttlSeconds * 1000, store ? localTtlMs : Infinity)
  }

  /** Returns credentials cached in this process, without waiting; enough for most requests. */
  recall(identity: Identity): Obtained | null {
    const credentials = this.#known(identity)
    return credentials && this.#counted('hit-local', { credentials, source: 'memory' })
  }

  /**
   * Returns cached credentials, or calls the token server once for all waiting requests. Rejects like `exchange`. The call continues if the
   * client that caused it disconnects.
   */
  obtain(identity: Identity, requestId: string): Promise<Obtained> {
    const known = this.recall(identity)
    if (known) return Promise.resolve(known)
    const underWay = this.#lookups.get(identity.key)
    if (underWay) return this.#counted('joined', underWay.result)
    return this.#lookUp(identity, requestId, null)
  }

  /**
   * After the storage returned 401 for `refused`: deletes these credentials everywhere and calls the token server, once for all waiting
   * requests. Returns newer credentials if another request has fetched them already.
   */
  async renew(identity: Identity, refused: SyncCredentials, requestId: string): Promise<SyncCredentials> {
    const { key } = identity
    for (let underWay = this.#lookups.get(key); underWay; underWay = this.#lookups.get(key)) {
      const { credentials } = await this.#counted('joined', underWay.result)
      // A lookup in progress may still return the rejected credentials.
      if (underWay.isRenewal || !isSame(credentials, refused)) return credentials
    }
    const known = this.#known(identity)
    if (known && !isSame(known, refused)) return this.#counted('hit-local', known)
    this.#remembered.delete(key)
    return (await this.#lookUp(identity, requestId, refused)).credentials
  }

  /** Null if there are none, or they have expired. */
  #known(identity: Identity): SyncCredentials | null {
    const known = this.#remembered.get(identity.key)
    if (!known) return null
    const { now, monotonicNow } = this.#options
    if (now() < known.wallEndMs && monotonicNow() < known.monotonicEndMs) return known.credentials
    this.#remembered.delete(identity.key)
    return null
  }

  #remember(identity: Identity, { credentials, expiresAtMs }: Opened): void {
    const nowMs = this.#options.now()
    const lifeMs = Math.min(expiresAtMs - nowMs, this.#maxLocalMs)
    const monotonicEndMs = this.#options.monotonicNow() + lifeMs
    this.#remembered.set(identity.key, { credentials, wallEndMs: nowMs + lifeMs, monotonicEndMs })
  }

  /** Starts one lookup for all waiting requests. Rejects at once if the identity was rejected a moment ago. */
  #lookUp(identity: Identity, requestId: string, refused: SyncCredentials | null): Promise<Obtained> {
    const { key } = identity
    const known = this.#refusals.get(key)
    if (known && this.#options.monotonicNow() < known.monotonicEndMs)
      return Promise.reject(this.#counted('refused-cached', known.refusal))
    const result = this.#find(identity, requestId, refused)
    this.#lookups.set(key, { isRenewal: refused !== null, result })
    return result
  }

  /** Looks in the shared store, ignoring `refused`, then calls the token server. */
  async #find(identity: Identity, requestId: string, refused: SyncCredentials | null): Promise<Obtained> {
    const { store, exchange, observe } = this.#options
    try {
      // Awaits at least once, so that a lookup can't end before `#lookUp` has registered it.
      const found = await (store && this.#findShared(store, identity))
      if (found && !(refused && isSame(found.credentials, refused))) {
        this.#remember(identity, found)
        return this.#counted('hit-shared', { credentials: found.credentials, source: 'cache' })
      }
      if (refused) for (const seal of this.#seals) void this.#deleteShared(seal.index(identity))
      observe('exchange')
      const credentials = await exchange(identity, requestId)
      this.#keep(identity, credentials)
      return { credentials, source: 'exchange' }
    } catch (error) {
      // An identity rejected because of a clock may be accepted in a second.
      if (error instanceof ServiceError && error.status === 401 && error.cause !== 'invalid-timestamp') {
        const monotonicEndMs = this.#options.monotonicNow() + refusalTtlMs
        this.#refusals.set(identity.key, { refusal: error, monotonicEndMs })
      }
      throw error
    } finally {
      this.#lookups.delete(identity.key)
    }
  }

  #keep(identity: Identity, credentials: SyncCredentials): void {
    const nowMs = this.#options.now()
    const expiresAtMs = Math.min(
      nowMs + this.#options.ttlSeconds * 1000,
      assertionExpiry(identity),
      credentials.expiresAtMs - expiryMarginMs,
    )
    this.#remember(identity, { credentials, expiresAtMs })
    // Not awaited: a slow store must not delay a response.
    if (this.#options.store) void this.#share(this.#options.store, identity, { credentials, expiresAtMs })
  }

  async #findShared(store: CredentialStore, identity: Identity): Promise<Opened | null> {
    const { now, observe } = this.#options
    for (const seal of this.#seals) {
      const key = seal.index(identity)
      const text = await store.get(key).catch(() => undefined)
      // Does not ask a failing store again, which would cost its timeout once more.
      if (text === undefined) return this.#counted('store-error', null)
      if (text === null) continue
      const opened = seal.open(identity, text)
      if (!opened) {
        observe('rejected-entry')
        void this.#deleteShared(key)
      } else if (now() < opened.expiresAtMs) {
        if (seal !== this.#seal) void this.#share(store, identity, opened)
        return opened
      }
      // Expired by our clock only: another bridge, whose clock is behind, may still use it.
    }
    return null
  }

  async #share(store: CredentialStore, identity: Identity, opened: Opened): Promise<void> {
    const { now, observe } = this.#options
    try {
      const text = this.#seal.seal(identity, opened)
      const lifeMs = opened.expiresAtMs - now()
      // Longer texts would be rejected at every lookup.
      if (text.length <= maxSealedLength && lifeMs >= 1)
        await store.set(this.#seal.index(identity), text, lifeMs)
    } catch {
      observe('store-error')
    }
  }

  async #deleteShared(key: string): Promise<void> {
    await this.#options.store?.delete(key).catch(() => this.#options.observe('store-error'))
  }

  #counted<Value>(event: CredentialsEvent, value: Value): Value {
    this.#options.observe(event)
    return value
  }
}

function isSame(a: SyncCredentials, b: SyncCredentials): boolean {
  return a.hawkId === b.hawkId && a.hawkKey === b.hawkKey
}

/**
 * The earliest expiry that an assertion states, in ms since 1970; Infinity if none. A BrowserID assertion is a chain of signed parts joined
 * by `~`, each with an `exp` in milliseconds; an access token may be one such part with `exp` in seconds (RFC 7519, 4.1.4), or opaque.
 *
 * Verifies nothing, because the token server does; ignores what it can't parse; never throws.
 */
export function assertionExpiry({ assertion }: Pick<Identity, 'assertion'>): number {
  return Math.min(...assertion.split('~').map(readExpiry))
}

/** As seconds this is beyond the year 5000, as milliseconds before 1974, so the units can't be confused. */
const minMilliseconds = 1e11

function readExpiry(part: string): number {
  const [, payload, signature] = part.split('.', 3)
  if (!payload || signature === undefined) return Infinity
  try {
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: unknown } | null
    const exp = claims?.exp
    if (typeof exp !== 'number' || !Number.isFinite(exp)) return Infinity
    return exp < minMilliseconds ? Math.max(0, exp) * 1000 : exp
  } catch {
    return Infinity
  }
}
