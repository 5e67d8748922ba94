import type { SyncRecord } from '../client/collection.ts'
import { readBookmark, readLogin, readVisitedPage } from '../client/record-readers.ts'
import { ago } from './dates.ts'
import type { Group, Item } from './items.ts'

/** The sort order; empty: the default of each view. */
export type Order = '' | 'title' | 'address' | 'date'

const collator = new Intl.Collator(undefined, { numeric: true })

/** Sorts the items of each group, and shows the time of each. `isFlat`: merges them into one list without duplicates. */
export function inOrder(groups: Group[], order: Order, isFlat: boolean): Group[] {
  if (order === '') return groups
  if (!isFlat) return groups.map((group) => ({ ...group, items: sorted(group.items, order) }))
  const items = new Map<SyncRecord, Item>()
  for (const item of groups.flatMap((group) => group.items)) {
    if (!items.has(item.record)) items.set(item.record, { ...item, meta: undefined })
  }
  return [{ title: null, items: sorted([...items.values()], order) }]
}

function sorted(items: Item[], order: Order): Item[] {
  const dated = items.map((item) => {
    const atMs = timeOf(item)
    const meta = item.meta ?? (() => (atMs > 0 ? ago(atMs) : ''))
    return { item: { ...item, meta }, atMs, key: order === 'address' ? withoutScheme(item) : item.title }
  })
  const compare: (left: (typeof dated)[0], right: (typeof dated)[0]) => number =
    order === 'date'
      ? (left, right) => right.atMs - left.atMs
      : (left, right) => collator.compare(left.key, right.key)
  return dated.toSorted(compare).map(({ item }) => item)
}

/** The URL without scheme and `www`; items without a URL come last. */
function withoutScheme({ url }: Item): string {
  return url?.replace(/^https?:\/\/(www\.)?/i, '') ?? '\uffff'
}

/** The time when the item was created or last used, as far as known. */
function timeOf({ record: { clear, stored }, atMs }: Item): number {
  if (atMs !== undefined) return atMs
  const { lastUsedMs, createdMs } = readLogin(clear ?? {})
  const told = [readBookmark(clear ?? {}).addedMs, lastUsedMs, createdMs].find((ms) => ms > 0)
  return told ?? readVisitedPage(clear ?? {}).visits[0]?.atMs ?? stored.last_modified
}
