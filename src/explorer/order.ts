import type { SyncRecord } from '../client/collection.ts'
import { addedMsOf, numberOf, visitTimes, type Fields } from '../client/fields.ts'
import { ago, type Group, type Item } from './meaning.ts'

/** What lists are sorted by; empty: each the way that suits it. */
export type Order = '' | 'title' | 'address' | 'date'

const collator = new Intl.Collator(undefined, { numeric: true })

/**
 * Groups with their items in an order, and each item with its moment. `isFlat`: in one list, and every record in it once.
 */
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
    const atMs = momentOf(item)
    const meta = item.meta ?? (() => (atMs > 0 ? ago(atMs) : ''))
    return { item: { ...item, meta }, atMs, key: order === 'address' ? addressOf(item) : item.title }
  })
  const compare: (left: (typeof dated)[0], right: (typeof dated)[0]) => number =
    order === 'date'
      ? (left, right) => right.atMs - left.atMs
      : (left, right) => collator.compare(left.key, right.key)
  return dated.toSorted(compare).map(({ item }) => item)
}

/** Sites are told apart by what comes after the scheme and `www`. What has no address comes last. */
function addressOf({ url }: Item): string {
  return url?.replace(/^https?:\/\/(www\.)?/i, '') ?? '\uffff'
}

/** When a thing was made or used last, as far as it tells. */
function momentOf({ record: { clear, stored }, atMs }: Item): number {
  if (atMs !== undefined) return atMs
  const fields: Fields = clear ?? {}
  const told = [addedMsOf(fields), numberOf(fields.timeLastUsed), numberOf(fields.timeCreated)]
  return told.find((ms) => ms > 0) ?? visitTimes(fields)[0] ?? stored.last_modified
}
