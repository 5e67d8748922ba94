import type { ClearRecord } from '../../src/client/crypto.ts'

/** A bookmark, folder or separator, in the form in which both sides are compared. */
export interface Item {
  id: string
  type: string
  title?: string
  bmkUri?: string
  tags?: string[]
  keyword?: string
  parentid: string
  children?: string[]
  dateAdded?: number
}

export function loginOf({ id, hostname, username, password }: ClearRecord): ClearRecord {
  return { id, hostname, username, password }
}

export function newId(): string {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(9))).toString('base64url')
}

export function byId<T extends { id: string }>(records: T[]): T[] {
  return records.toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

export function typed(forms: ClearRecord[]): string[] {
  return forms.map(({ name, value }) => `${String(name)}: ${String(value)}`).toSorted()
}

export function sortVisits({ id, histUri, title, visits }: ClearRecord): ClearRecord {
  return { id, histUri, title, visits: (visits as { date: number }[]).toSorted((a, b) => b.date - a.date) }
}

/** Firefox stores its own visits in microseconds and uploads milliseconds. */
export function inMilliseconds({ id, histUri, title, visits }: ClearRecord): ClearRecord {
  const rounded = (visits as { date: number; type: number }[]).map(({ date, type }) => ({
    date: Math.floor(date / 1000),
    type,
  }))
  return { id, histUri, title, visits: rounded }
}

export function urlsOf({ tabs }: ClearRecord): string[] {
  return (tabs as { urlHistory: string[] }[]).map(({ urlHistory }) => urlHistory[0]!).toSorted()
}

/** The items that another tree has, too. */
export function among(known: Item[], items: Item[]): Item[] {
  const ids = new Set(known.map(({ id }) => id))
  return items
    .filter(({ id }) => ids.has(id))
    .map((item) => (item.children ? { ...item, children: item.children.filter((id) => ids.has(id)) } : item))
}

/** Titles and ages of the roots differ between profiles. */
export function exceptRoots(items: Item[]): Item[] {
  return items.map((item) => (item.parentid === 'places' ? { ...item, title: '', dateAdded: 0 } : item))
}
