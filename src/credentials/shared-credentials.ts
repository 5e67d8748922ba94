import { maxSealedLength } from './seal.ts'

import type { Identity } from '../domain/credentials.ts'
import type { Opened, Seal } from './seal.ts'

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

interface SharedCredentialsOptions {
  store: CredentialStore
  /** The first one seals what is stored; the others open what was stored before the secret was changed. */
  seals: [Seal, ...Seal[]]
  /** The longest life that entries are given. */
  ttlMs: number
  wallClock(): number
  /** `rejected-entry`: it held something that is not ours, not for this key, or too old. */
  observe(event: 'store-error' | 'rejected-entry'): void
}

/**
 * Credentials kept sealed in a store that several processes share. The store is neither trusted nor relied upon: every
 * error of it, and every entry that is not ours, is a miss. No method rejects.
 */
export class SharedCredentials {
  readonly #options: SharedCredentialsOptions

  constructor(options: SharedCredentialsOptions) {
    this.#options = options
  }

  async find(identity: Identity): Promise<Opened | null> {
    const { store, seals, wallClock, observe } = this.#options
    for (const seal of seals) {
      const key = seal.index(identity)
      const text = await store.get(key).catch(() => undefined)
      if (text === undefined) {
        observe('store-error')
        // A failing store is not asked again, which would cost its timeout once more.
        return null
      }
      if (text === null) continue
      const opened = seal.open(identity, text, wallClock())
      if (!opened) {
        observe('rejected-entry')
        void this.#delete(key)
        continue
      }
      if (seal !== seals[0]) void this.keep(identity, opened)
      return opened
    }
    return null
  }

  async keep(identity: Identity, opened: Opened): Promise<void> {
    const { store, seals, ttlMs, wallClock, observe } = this.#options
    const [seal] = seals
    const lifeMs = Math.min(opened.expiresAtMs - wallClock(), ttlMs)
    try {
      const text = seal.seal(identity, opened)
      // A text that is too long would be refused at every lookup.
      if (text.length <= maxSealedLength && lifeMs >= 1) await store.set(seal.index(identity), text, lifeMs)
    } catch {
      observe('store-error')
    }
  }

  async forget(identity: Identity): Promise<void> {
    await Promise.all(this.#options.seals.map((seal) => this.#delete(seal.index(identity))))
  }

  async #delete(key: string): Promise<void> {
    await this.#options.store.delete(key).catch(() => this.#options.observe('store-error'))
  }
}
