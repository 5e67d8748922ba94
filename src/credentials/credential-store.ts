import { RecentMap } from '../domain/recent-map.ts'

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
  /** Lets go of connections and timers. What is asked afterwards may be rejected. */
  close(): Promise<void>
}

export interface MemoryStoreOptions {
  /** A monotonic clock, in ms. */
  clock(): number
  /** The least recently used entry makes room for one too many. 10 000 when left out. */
  maxEntries?: number
}

/** The store of a single process: bounded, gone with the process. */
export function createMemoryStore({ clock, maxEntries = 10_000 }: MemoryStoreOptions): CredentialStore {
  const entries = new RecentMap<string, { value: string; expiresAtMs: number }>(maxEntries)
  return {
    async get(key) {
      const entry = entries.get(key)
      if (!entry) return null
      if (clock() < entry.expiresAtMs) return entry.value
      entries.delete(key)
      return null
    },
    async set(key, value, ttlMs) {
      entries.set(key, { value, expiresAtMs: clock() + ttlMs })
    },
    async delete(key) {
      entries.delete(key)
    },
    async ping() {
      return true
    },
    async close() {},
  }
}
