import { RecentMap } from '../../src/domain/bounded.ts'

import type { CredentialStore } from '../../src/credentials/credentials.ts'

interface MemoryStoreOptions {
  /** A monotonic clock in ms. */
  clock(): number
  /** Maximum entries; the least recently used one is evicted. 10 000 by default. */
  maxEntries?: number
}

/** A bounded store in this process. */
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
