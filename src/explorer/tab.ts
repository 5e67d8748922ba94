import { parseAccount, type Account } from '../client/account.ts'
import type { Credentials } from './account.ts'

/** Where in the page one is. */
export interface Place {
  /** Of a view, or of a collection when a record is open. Empty: nowhere in particular. */
  name: string
  /** The record that is open, or null. */
  id: string | null
}

/** The place that the tab's address names. */
export function readPlace(): Place {
  const [, name = '', id = null] = /^#\/([^/]*)(?:\/(.+))?$/.exec(location.hash) ?? []
  return { name: unescaped(name), id: id === null ? null : unescaped(id) }
}

/** The address of a view, or of a record. Ids are all that it tells of what is in there: browsers remember addresses. */
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

/** What a link brings. */
export interface Link {
  values: Partial<Account>
  /** Whether a reload of this tab should find the key again, too. */
  isKeyKept: boolean
}

/**
 * What the fragment of the address fills in: `NAME=value`, joined by `&`, as programs that know the values lead to this page. With
 * `KEEP_KEY=yes` the tab keeps the key, as for the made-up account of the sandbox. Its secrets go out of sight, and out of what is
 * copied from the address bar. A browser may have them in its history already.
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
 * Keeps for a reload of this tab what `recall` then answers: the key only if somebody wants that. Browsers write it to
 * disk, and a closed tab that is opened again has it.
 */
export function remember({ syncKey, ...others }: Credentials, isKeyKept: boolean): void {
  const kept: Partial<Credentials> = isKeyKept ? { ...others, syncKey } : others
  inStorage((storage) => storage.setItem(storageKey, JSON.stringify(kept)))
}

/** What a tab has kept; nothing after `forget`, and in another tab. */
export function recall(): Partial<Credentials> {
  return inStorage((storage) => JSON.parse(storage.getItem(storageKey) ?? '{}') as Partial<Credentials>) ?? {}
}

export function forget(): void {
  inStorage((storage) => storage.removeItem(storageKey))
}

/** What comes of using the tab's storage; null where that fails, because browsers may refuse a page its storage. */
export function inStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(sessionStorage)
  } catch {
    return null
  }
}
