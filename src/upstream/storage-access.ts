import { hawkHeader, hawkKey } from './hawk.ts'
import { storageUrl } from './storage-url.ts'
import type { SyncCredentials } from '../domain/credentials.ts'
import type { HawkKey, HawkRequest } from './hawk.ts'
import type { Address, Query } from './storage-url.ts'

/** What every call with some credentials needs of them, made of them once. */
export class StorageAccess {
  readonly #id: string
  readonly #key: HawkKey
  readonly #base: URL

  constructor({ hawkId, hawkKey: key, endpoint }: SyncCredentials) {
    this.#id = hawkId
    this.#key = hawkKey(key)
    this.#base = new URL(endpoint)
  }

  address(segments: readonly string[], query?: Query): Address {
    return storageUrl(this.#base, segments, query)
  }

  /** The `Authorization` value for one request. */
  sign(request: Omit<HawkRequest, 'id' | 'key'>): string {
    return hawkHeader({ id: this.#id, key: this.#key, ...request })
  }
}

// Held by the credentials themselves: gone when whoever remembers them forgets them.
const accesses = new WeakMap<SyncCredentials, StorageAccess>()

export function accessWith(credentials: SyncCredentials): StorageAccess {
  let access = accesses.get(credentials)
  if (!access) accesses.set(credentials, (access = new StorageAccess(credentials)))
  return access
}
