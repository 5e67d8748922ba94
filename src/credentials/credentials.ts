import { ServiceError } from '../domain/errors.ts'
import { RecentMap } from '../domain/recent-map.ts'
import { assertionExpiry } from './assertion-expiry.ts'
import { LocalCredentials, SharedCredentials } from './remembered.ts'
import { createSeal } from './seal.ts'

import type { Identity, SyncCredentials } from '../domain/credentials.ts'
import type { CredentialStore, SharedCredentialsEvent } from './remembered.ts'
import type { Opened, Seal } from './seal.ts'

/**
 * What is worth counting:
 * - `hit-local`, `hit-shared`: found in this process, in the shared store
 * - `joined`: waits with others for an answer under way
 * - `exchange`: found nowhere, the token server is asked
 * - `refused-cached`: the token server refused the same identity a moment ago
 * - `store-error`, `rejected-entry`: trouble with the shared store
 */
export type CredentialsEvent =
  'hit-local' | 'hit-shared' | 'joined' | 'exchange' | 'refused-cached' | SharedCredentialsEvent

export interface CredentialsOptions {
  /**
   * One call to the token server, with a deadline of its own. Rejects with `ServiceError` 401 when the identity is
   * refused and with `UpstreamError` when it can't be told.
   */
  exchange(identity: Identity, requestId: string): Promise<SyncCredentials>
  /**
   * Whether a refusal will still hold in a few seconds and may be remembered as long; if absent, every refusal does. One
   * that is about a clock does not.
   */
  isLasting?(refusal: ServiceError): boolean
  /** Shared by several processes; null keeps everything in this one. */
  store: CredentialStore | null
  /** 32 bytes; seals and opens. */
  secret: Uint8Array
  /** Still opens what was sealed before the secret was changed. */
  previousSecret?: Uint8Array
  tokenServerUrl: string
  /** The longest use of credentials before the token server is asked again. */
  ttlSeconds: number
  /** Ms since 1970. */
  wallClock(): number
  /** Ms since some moment; never goes back. */
  monotonicClock(): number
  randomBytes(count: number): Uint8Array
  observe(event: CredentialsEvent): void
}

/** Credentials, and where they were found: in this process, in the shared store, or at the token server. */
interface Obtained {
  credentials: SyncCredentials
  source: 'memory' | 'cache' | 'exchange'
}

/** The request that credentials are needed for. The token server is told its id. */
interface Requester {
  requestId: string
}

/** From identities to credentials, remembered for a few minutes. */
export interface Credentials {
  /** Credentials that this process remembers, without a wait: the way of most requests. */
  recall(identity: Identity): SyncCredentials | null
  /**
   * Remembered credentials, or those of one call to the token server for all requests that wait. Rejects as `exchange`
   * does. The call goes on when the client that caused it has hung up.
   */
  obtain(identity: Identity, requester: Requester): Promise<Obtained>
  /**
   * After the storage answered 401 to `refused`: forgets these credentials everywhere and asks the token server, once for
   * all requests that wait. Newer credentials that were fetched meanwhile are returned as they are.
   */
  renew(identity: Identity, refused: SyncCredentials, requester: Requester): Promise<SyncCredentials>
}

export function createCredentials(options: CredentialsOptions): Credentials {
  return new RememberedCredentials(options)
}

const maxEntries = 10_000
/** What another process has forgotten is used here for this time at most. */
const localTtlMs = 60_000
const refusalTtlMs = 5000
/** Requests in flight must reach the storage before their credentials expire. */
const expiryMarginMs = 10_000

interface Lookup {
  kind: 'obtain' | 'renew'
  result: Promise<Obtained>
}

class RememberedCredentials implements Credentials {
  readonly #options: CredentialsOptions
  readonly #seal: Seal
  readonly #local: LocalCredentials
  readonly #shared: SharedCredentials | null
  readonly #refusals = new RecentMap<string, { refusal: ServiceError; monotonicEndMs: number }>(maxEntries)
  /** By index, so that no request gets what was fetched for another identity. */
  readonly #lookups = new Map<string, Lookup>()

  constructor(options: CredentialsOptions) {
    const { store, secret, previousSecret, tokenServerUrl, randomBytes } = options
    const ttlMs = options.ttlSeconds * 1000
    const seal = createSeal({ secret, tokenServerUrl, randomBytes })
    const previousSeal = previousSecret
      ? createSeal({ secret: previousSecret, tokenServerUrl, randomBytes })
      : null
    const longestLocalMs = store ? Math.min(ttlMs, localTtlMs) : ttlMs
    this.#options = options
    this.#seal = seal
    this.#local = new LocalCredentials({ ...options, seal, ttlMs: longestLocalMs, maxEntries })
    this.#shared = store ? new SharedCredentials({ ...options, store, seal, previousSeal, ttlMs }) : null
  }

  recall(identity: Identity): SyncCredentials | null {
    const known = this.#local.recall(identity)
    return known && this.#counted('hit-local', known)
  }

  async obtain(identity: Identity, requester: Requester): Promise<Obtained> {
    const known = this.recall(identity)
    if (known) return { credentials: known, source: 'memory' }
    const index = this.#seal.index(identity)
    const lookup = this.#lookups.get(index)
    if (lookup) return this.#counted('joined', lookup.result)
    this.#throwIfRefused(index)
    return this.#start(index, 'obtain', () => this.#find(identity, index, requester))
  }

  async renew(identity: Identity, refused: SyncCredentials, requester: Requester): Promise<SyncCredentials> {
    const index = this.#seal.index(identity)
    for (let lookup = this.#lookups.get(index); lookup; lookup = this.#lookups.get(index)) {
      const { credentials } = await this.#counted('joined', lookup.result)
      // A lookup in flight may return the very credentials that were refused.
      if (lookup.kind === 'renew' || !isSame(credentials, refused)) return credentials
    }
    const known = this.#local.recall(identity)
    if (known && !isSame(known, refused)) return this.#counted('hit-local', known)
    this.#local.forget(identity)
    this.#throwIfRefused(index)
    const renewed = this.#start(index, 'renew', () => this.#replace(identity, index, refused, requester))
    return (await renewed).credentials
  }

  #start(index: string, kind: Lookup['kind'], work: () => Promise<Obtained>): Promise<Obtained> {
    const result = work().finally(() => this.#lookups.delete(index))
    this.#lookups.set(index, { kind, result })
    return result
  }

  async #find(identity: Identity, index: string, requester: Requester): Promise<Obtained> {
    const found = await this.#shared?.find(identity)
    return found ? this.#adopt(identity, found) : this.#exchange(identity, index, requester)
  }

  async #replace(
    identity: Identity,
    index: string,
    refused: SyncCredentials,
    requester: Requester,
  ): Promise<Obtained> {
    const found = await this.#shared?.find(identity)
    if (found && !isSame(found.credentials, refused)) return this.#adopt(identity, found)
    void this.#shared?.forget(identity)
    return this.#exchange(identity, index, requester)
  }

  #adopt(identity: Identity, found: Opened): Obtained {
    this.#local.remember(identity, found)
    return this.#counted('hit-shared', { credentials: found.credentials, source: 'cache' })
  }

  async #exchange(identity: Identity, index: string, { requestId }: Requester): Promise<Obtained> {
    this.#options.observe('exchange')
    try {
      const credentials = await this.#options.exchange(identity, requestId)
      this.#keep(identity, credentials)
      return { credentials, source: 'exchange' }
    } catch (error) {
      this.#noteRefusal(index, error)
      throw error
    }
  }

  #keep(identity: Identity, credentials: SyncCredentials): void {
    const nowMs = this.#options.wallClock()
    const expiresAtMs = Math.min(
      nowMs + this.#options.ttlSeconds * 1000,
      assertionExpiry(identity) ?? Infinity,
      credentials.expiresAtMs - expiryMarginMs,
    )
    if (expiresAtMs <= nowMs) return
    this.#local.remember(identity, { credentials, expiresAtMs })
    // Not awaited: a slow store must not delay an answer.
    void this.#shared?.keep(identity, { credentials, expiresAtMs })
  }

  #noteRefusal(index: string, error: unknown): void {
    if (!(error instanceof ServiceError) || error.status !== 401) return
    if (this.#options.isLasting && !this.#options.isLasting(error)) return
    const monotonicEndMs = this.#options.monotonicClock() + refusalTtlMs
    this.#refusals.set(index, { refusal: error, monotonicEndMs })
  }

  #throwIfRefused(index: string): void {
    const known = this.#refusals.get(index)
    if (!known) return
    if (this.#options.monotonicClock() < known.monotonicEndMs) {
      throw this.#counted('refused-cached', known.refusal)
    }
    this.#refusals.delete(index)
  }

  #counted<Value>(event: CredentialsEvent, value: Value): Value {
    this.#options.observe(event)
    return value
  }
}

function isSame(a: SyncCredentials, b: SyncCredentials): boolean {
  return a.hawkId === b.hawkId && a.hawkKey === b.hawkKey
}
