import type { CredentialStore } from '../credentials/credential-store.ts'

/**
 * A store that is loaded a moment after the start, because loading it takes longer than all the rest. Whoever needs it
 * before waits for it.
 */
export function laterStore(load: () => Promise<CredentialStore>, delayMs: number): CredentialStore {
  const store = Bun.sleep(delayMs).then(load)
  // Each call tells of a failure by itself.
  store.catch(() => {})
  return {
    get: async (key) => (await store).get(key),
    set: async (key, value, ttlMs) => (await store).set(key, value, ttlMs),
    delete: async (key) => (await store).delete(key),
    ping: () =>
      store.then(
        (loaded) => loaded.ping(),
        () => false,
      ),
    close: () =>
      store.then(
        (loaded) => loaded.close(),
        () => {},
      ),
  }
}
