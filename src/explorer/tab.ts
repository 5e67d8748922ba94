import { parseAccount, type Account } from '../client/account.ts'
import type { Credentials } from './account.ts'

/** A location within the page. */
export interface Place {
  /** The id of a view, or the collection of the open record; empty: none. */
  name: string
  /** The id of the open record, or null. */
  id: string | null
}

/** Reads the location from the address of the tab. */
export function readPlace(): Place {
  const [, name = '', id = null] = /^#\/([^/]*)(?:\/(.+))?$/.exec(location.hash) ?? []
  return { name: unescaped(name), id: id === null ? null : unescaped(id) }
}

/** The address of a view or a record. It contains only ids, because browsers store addresses. */
export function addressOf(name: string, id?: string): string {
  return `#/${[name, id]
    .filter((part) => part !== undefined)
    .map(encodeURIComponent)
    .join('/')}`
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The contents of a link to this page. */
export interface Link {
  values: Partial<Account>
  /** Whether the key survives a reload of this tab. */
  isKeyKept: boolean
}

/**
 * Reads values from the fragment of the address: `NAME=value`, joined by `&`, as other programs link to this page. With `KEEP_KEY=yes`, as
 * for the sandbox's account, the tab keeps the key. Removes the secrets from the address bar; the browser history may contain them already.
 */
export function takeLink(): Link | null {
  const { hash, pathname, search } = location
  if (hash === '' || hash.startsWith('#/')) return null
  history.replaceState(null, '', pathname + search)
  const values = parseAccount(hash.slice(1).replaceAll('&', '\n'))
  if (Object.keys(values).length === 0) return null
  return { values, isKeyKept: /[#&]KEEP_KEY=yes(&|$)/.test(hash) }
}

const storageKey = 'sync-bridge-explorer'

/**
 * Saves values for a reload of this tab: the key only if the user wants that. Browsers write them to disk, and restore them when a closed
 * tab is reopened.
 */
export function remember({ syncKey, ...others }: Credentials, isKeyKept: boolean): void {
  const kept: Partial<Credentials> = isKeyKept ? { ...others, syncKey } : others
  inStorage((storage) => storage.setItem(storageKey, JSON.stringify(kept)))
}

/** The saved values of this tab; none after `forget`. */
export function recall(): Partial<Credentials> {
  return inStorage((storage) => JSON.parse(storage.getItem(storageKey) ?? '{}') as Partial<Credentials>) ?? {}
}

export function forget(): void {
  inStorage((storage) => storage.removeItem(storageKey))
}

/** Uses the tab's storage; null if that fails, because browsers may block storage. */
export function inStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(sessionStorage)
  } catch {
    return null
  }
}
