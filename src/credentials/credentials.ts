import { ServiceError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { maxSealedLength, Seal, type Opened, type SealOptions } from './seal.ts'
import type { Identity, SyncCredentials } from '../domain/credentials.ts'

/**
 * Keeps sealed credentials for a while. It may lose any of them at any time, and what it returns is not trusted:
 * `seal.ts` tells whether a value is what was once stored.
 */
export interface CredentialStore {
  /** The sealed value, or null once its time has passed. Rejects only when the store can't be used. */
  get(key: string): Promise<string | null>
  /** Replaces what was there. `ttlMs` is at least 1. Rejects only when the store can't be used. */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** An unknown key is no error. Rejects only when the store can't be used. */
  delete(key: string): Promise<void>
  /** Whether the store can be used right now; never rejects. */
  ping(): Promise<boolean>
  /** Closes connections and timers. Later calls may be rejected. */
  close(): Promise<void>
}

/**
 * What is worth counting:
 * - `hit-local`, `hit-shared`: found in this process, in the shared store
 * - `joined`: waits with others for an answer under way
 * - `exchange`: found nowhere, the token server is asked
 * - `refused-cached`: the token server refused the same identity a moment ago
 * - `store-error`, `rejected-entry`: the shared store could not be used, or held something that is not ours or too old
 */
export type CredentialsEvent =
  'hit-local' | 'hit-shared' | 'joined' | 'exchange' | 'refused-cached' | 'store-error' | 'rejected-entry'

export interface CredentialsOptions extends SealOptions {
  /**
   * One call to the token server, with a deadline of its own; it is told which request caused it. Rejects with
   * `ServiceError` 401 when the identity is refused, with the cause `invalid-timestamp` where that is about a clock, and
   * with `UpstreamError` when it can't be told.
   */
  exchange(identity: Identity, requestId: string): Promise<SyncCredentials>
  /**
   * Shared by several processes; null keeps everything in this one. It is neither trusted nor relied upon: every error of it, and
   * every entry that is not ours, is a miss.
   */
  store: CredentialStore | null
  /** Still opens what was sealed before the secret was changed. */
  previousSecret?: Uint8Array
  /** The longest use of credentials before the token server is asked again. */
  ttlSeconds: number
  /** Ms since 1970. */
  wallClock(): number
  /** Ms since some moment; never goes back. */
  monotonicClock(): number
  observe(event: CredentialsEvent): void
}

/** Credentials, and where they were found: in this process, in the shared store, or at the token server. */
interface Obtained {
  credentials: SyncCredentials
  source: 'memory' | 'cache' | 'exchange'
}

interface Remembered {
  credentials: SyncCredentials
  // Two clocks: a wall clock that is set back must not lengthen a life, and a monotonic one may stand still while the
  // machine sleeps.
  wallEndMs: number
  monotonicEndMs: number
}

const maxEntries = 10_000
/** Anybody can make up credentials of 8 KB that are refused. */
const maxRefusals = 1000
/** What another process has forgotten is used here for this time at most. */
const localTtlMs = 60_000
const refusalTtlMs = 5000
/** Requests in flight must reach the storage before their credentials expire. */
const expiryMarginMs = 10_000

/** From identities to credentials, remembered for a few minutes: opened in this process, sealed in the shared store. */
export class Credentials {
  readonly #options: CredentialsOptions
  readonly #seal: Seal
  /** The first one seals what is stored; the others open what was stored before the secret was changed. */
  readonly #seals: Seal[]
  readonly #maxLocalMs: number
  // By the key of their identity, so that no request gets what was fetched for another one.
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

  /** Credentials that this process remembers, without a wait: the way of most requests. */
  recall(identity: Identity): SyncCredentials | null {
    const known = this.#known(identity)
    return known && this.#counted('hit-local', known)
  }

  /**
   * Remembered credentials, or those of one call to the token server for all requests that wait. Rejects as `exchange`
   * does. The call goes on when the client that caused it has hung up.
   */
  obtain(identity: Identity, requestId: string): Promise<Obtained> {
    const known = this.recall(identity)
    if (known) return Promise.resolve({ credentials: known, source: 'memory' })
    const underWay = this.#lookups.get(identity.key)
    if (underWay) return this.#counted('joined', underWay.result)
    return this.#lookUp(identity, requestId, null)
  }

  /**
   * After the storage answered 401 to `refused`: forgets these credentials everywhere and asks the token server, once for
   * all requests that wait. Newer credentials that were fetched meanwhile are returned as they are.
   */
  async renew(identity: Identity, refused: SyncCredentials, requestId: string): Promise<SyncCredentials> {
    const { key } = identity
    for (let underWay = this.#lookups.get(key); underWay; underWay = this.#lookups.get(key)) {
      const { credentials } = await this.#counted('joined', underWay.result)
      // A lookup in flight may return the very credentials that were refused.
      if (underWay.isRenewal || !isSame(credentials, refused)) return credentials
    }
    const known = this.#known(identity)
    if (known && !isSame(known, refused)) return this.#counted('hit-local', known)
    this.#remembered.delete(key)
    return (await this.#lookUp(identity, requestId, refused)).credentials
  }

  /** Null when there are none that may still be used. */
  #known(identity: Identity): SyncCredentials | null {
    const known = this.#remembered.get(identity.key)
    if (!known) return null
    const { wallClock, monotonicClock } = this.#options
    if (wallClock() < known.wallEndMs && monotonicClock() < known.monotonicEndMs) return known.credentials
    this.#remembered.delete(identity.key)
    return null
  }

  #remember(identity: Identity, { credentials, expiresAtMs }: Opened): void {
    const nowMs = this.#options.wallClock()
    const lifeMs = Math.min(expiresAtMs - nowMs, this.#maxLocalMs)
    const monotonicEndMs = this.#options.monotonicClock() + lifeMs
    this.#remembered.set(identity.key, { credentials, wallEndMs: nowMs + lifeMs, monotonicEndMs })
  }

  /** Searches for all requests that wait. Rejects at once when the identity was refused a moment ago. */
  #lookUp(identity: Identity, requestId: string, refused: SyncCredentials | null): Promise<Obtained> {
    const { key } = identity
    const known = this.#refusals.get(key)
    if (known && this.#options.monotonicClock() < known.monotonicEndMs)
      return Promise.reject(this.#counted('refused-cached', known.refusal))
    const result = this.#find(identity, requestId, refused)
    this.#lookups.set(key, { isRenewal: refused !== null, result })
    return result
  }

  /** In the shared store, unless it has only what was `refused`, otherwise at the token server. */
  async #find(identity: Identity, requestId: string, refused: SyncCredentials | null): Promise<Obtained> {
    const { store, exchange, observe } = this.#options
    try {
      // Waits at least once: a lookup that fails at once must not end before `#lookUp` has noted it.
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
      // What is refused because of a clock may be accepted in a second.
      if (error instanceof ServiceError && error.status === 401 && error.cause !== 'invalid-timestamp') {
        const monotonicEndMs = this.#options.monotonicClock() + refusalTtlMs
        this.#refusals.set(identity.key, { refusal: error, monotonicEndMs })
      }
      throw error
    } finally {
      this.#lookups.delete(identity.key)
    }
  }

  #keep(identity: Identity, credentials: SyncCredentials): void {
    const nowMs = this.#options.wallClock()
    const expiresAtMs = Math.min(
      nowMs + this.#options.ttlSeconds * 1000,
      assertionExpiry(identity),
      credentials.expiresAtMs - expiryMarginMs,
    )
    if (expiresAtMs <= nowMs) return
    this.#remember(identity, { credentials, expiresAtMs })
    // Not awaited: a slow store must not delay an answer.
    if (this.#options.store) void this.#share(this.#options.store, identity, { credentials, expiresAtMs })
  }

  async #findShared(store: CredentialStore, identity: Identity): Promise<Opened | null> {
    const { wallClock, observe } = this.#options
    for (const seal of this.#seals) {
      const key = seal.index(identity)
      const text = await store.get(key).catch(() => undefined)
      // A failing store is not asked again, which would cost its timeout once more.
      if (text === undefined) return this.#counted('store-error', null)
      if (text === null) continue
      const opened = seal.open(identity, text)
      if (!opened) {
        observe('rejected-entry')
        void this.#deleteShared(key)
      } else if (wallClock() < opened.expiresAtMs) {
        if (seal !== this.#seal) void this.#share(store, identity, opened)
        return opened
      }
      // Another bridge, whose clock is behind ours, may still use it.
    }
    return null
  }

  async #share(store: CredentialStore, identity: Identity, opened: Opened): Promise<void> {
    const { wallClock, observe } = this.#options
    try {
      const text = this.#seal.seal(identity, opened)
      const lifeMs = opened.expiresAtMs - wallClock()
      // A text that is too long would be refused at every lookup.
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
 * The earliest moment that an assertion itself names as its end, in ms since 1970; infinite when it names none.
 * A BrowserID assertion is a chain of signed parts joined by `~` (certificates, then the assertion), each with its own
 * `exp` in milliseconds; an access token may be one such part with its `exp` in seconds (RFC 7519, 4.1.4), or opaque.
 *
 * Nothing is verified here, the token server does that. Whatever can't be read names no end; never throws.
 */
export function assertionExpiry({ assertion }: Pick<Identity, 'assertion'>): number {
  // An opaque access token.
  if (!assertion.includes('.')) return Infinity
  return Math.min(...assertion.split('~').map(readExpiry))
}

/** Read as seconds it lies beyond the year 5000, read as milliseconds before 1974: the two can't be confused. */
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
