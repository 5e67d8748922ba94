import { identityKey } from '../domain/credentials.ts'
import { RecentMap } from '../domain/recent-map.ts'
import { maxSealedLength } from './seal.ts'

import type { Identity, SyncCredentials } from '../domain/credentials.ts'
import type { Opened, Seal } from './seal.ts'

interface LocalCredentialsOptions {
  seal: Seal
  /** The longest that anything is remembered. */
  ttlMs: number
  maxEntries: number
  wallClock(): number
  monotonicClock(): number
}

/** Longer identities are stored under their index, so that memory stays bounded. */
const maxKeyLength = 4096

/** Opened credentials that this process remembers: the hot path, which costs no cryptography and no I/O. */
export class LocalCredentials {
  readonly #options: LocalCredentialsOptions
  readonly #entries: RecentMap<string, Entry>

  constructor(options: LocalCredentialsOptions) {
    this.#options = options
    this.#entries = new RecentMap(options.maxEntries)
  }

  /** Null when there are none that may still be used. */
  recall(identity: Identity): SyncCredentials | null {
    const key = this.#keyOf(identity)
    const entry = this.#entries.get(key)
    if (!entry) return null
    const { wallClock, monotonicClock } = this.#options
    if (wallClock() < entry.wallEndMs && monotonicClock() < entry.monotonicEndMs) return entry.credentials
    this.#entries.delete(key)
    return null
  }

  remember(identity: Identity, { credentials, expiresAtMs }: Opened): void {
    const nowMs = this.#options.wallClock()
    const lifeMs = Math.min(expiresAtMs - nowMs, this.#options.ttlMs)
    this.#entries.set(this.#keyOf(identity), {
      credentials,
      wallEndMs: nowMs + lifeMs,
      monotonicEndMs: this.#options.monotonicClock() + lifeMs,
    })
  }

  forget(identity: Identity): void {
    this.#entries.delete(this.#keyOf(identity))
  }

  #keyOf(identity: Identity): string {
    const text = identityKey(identity)
    return text.length <= maxKeyLength ? text : this.#options.seal.index(identity)
  }
}

interface Entry {
  credentials: SyncCredentials
  // Two clocks: a wall clock that is set back must not lengthen a life, and a monotonic one may stand still while the
  // machine sleeps.
  wallEndMs: number
  monotonicEndMs: number
}

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
 * - `store-error`: the store could not be used
 * - `rejected-entry`: it held something that is not ours, not for this key, or too old
 */
export type SharedCredentialsEvent = 'store-error' | 'rejected-entry'

interface SharedCredentialsOptions {
  store: CredentialStore
  /** Seals what is stored. */
  seal: Seal
  /** Opens what was stored before the secret was changed. */
  previousSeal: Seal | null
  /** The longest life that entries are given. */
  ttlMs: number
  wallClock(): number
  observe(event: SharedCredentialsEvent): void
}

/** The greatest difference between the clocks of processes that share a store. */
const clockToleranceMs = 30_000

/**
 * Credentials kept sealed in a store that several processes share. The store is neither trusted nor relied upon: every
 * error of it, and every entry that is not ours, is a miss. No method rejects.
 */
export class SharedCredentials {
  readonly #options: SharedCredentialsOptions
  /** In the order in which they are tried. */
  readonly #seals: Seal[]

  constructor(options: SharedCredentialsOptions) {
    this.#options = options
    this.#seals = options.previousSeal ? [options.seal, options.previousSeal] : [options.seal]
  }

  async find(identity: Identity): Promise<Opened | null> {
    for (const seal of this.#seals) {
      const key = seal.index(identity)
      const text = await this.#options.store.get(key).catch(() => undefined)
      if (text === undefined) {
        this.#options.observe('store-error')
        // A failing store is not asked again, which would cost its timeout once more.
        return null
      }
      if (text === null) continue
      const opened = this.#open(seal, identity, text)
      if (!opened) {
        this.#options.observe('rejected-entry')
        void this.#delete(key)
        continue
      }
      if (seal !== this.#options.seal) void this.keep(identity, opened)
      return opened
    }
    return null
  }

  async keep(identity: Identity, opened: Opened): Promise<void> {
    const { store, seal, ttlMs, wallClock } = this.#options
    const lifeMs = Math.min(opened.expiresAtMs - wallClock(), ttlMs)
    try {
      const text = seal.seal(identity, opened)
      // A text that is too long would be refused at every lookup.
      if (text.length <= maxSealedLength && lifeMs >= 1) await store.set(seal.index(identity), text, lifeMs)
    } catch {
      this.#options.observe('store-error')
    }
  }

  async forget(identity: Identity): Promise<void> {
    await Promise.all(this.#seals.map((seal) => this.#delete(seal.index(identity))))
  }

  #open(seal: Seal, identity: Identity, text: string): Opened | null {
    const nowMs = this.#options.wallClock()
    const opened = seal.open(identity, text, nowMs)
    // A longer life than ours was measured by a clock that has been set back since.
    return opened && opened.expiresAtMs - nowMs <= this.#options.ttlMs + clockToleranceMs ? opened : null
  }

  async #delete(key: string): Promise<void> {
    await this.#options.store.delete(key).catch(() => this.#options.observe('store-error'))
  }
}
