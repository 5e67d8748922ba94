import { ownBridge } from './own-page.ts'
import type { Credentials } from './opened-account.ts'

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
export function placeAddress(name: string, id?: string): string {
  return `#/${[name, id]
    .filter((part) => part !== undefined)
    .map(encodeURIComponent)
    .join('/')}`
}

/** Names a view in the address, without a step for Back. */
export function setAddress(viewId: string): void {
  history.replaceState(null, '', placeAddress(viewId))
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
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

/**
 * Uses the tab's storage; null if that fails, because browsers may block storage. A command's own page keeps nothing: another program may
 * listen at its port next, and would be the page that reads it.
 */
export function inStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return ownBridge === null ? use(sessionStorage) : null
  } catch {
    return null
  }
}
