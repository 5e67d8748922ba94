import { RecentMap } from '../domain/recent-map.ts'
import { identityKey } from '../domain/credentials.ts'

import type { Identity, SyncCredentials } from '../domain/credentials.ts'
import type { Opened, Seal } from './seal.ts'

export interface LocalCredentialsOptions {
  seal: Seal
  /** The longest that anything is remembered. */
  ttlMs: number
  maxEntries: number
  wallClock(): number
  monotonicClock(): number
}

/** Longer identities are known by their index, so that memory stays bounded. */
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
  // Two ends: a wall clock that is set back must not lengthen a life, and a monotonic one may stand still while
  // the machine sleeps.
  wallEndMs: number
  monotonicEndMs: number
}
