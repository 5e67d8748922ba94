import { toExposedJson } from '../domain/record.ts'
import { invalidRequest } from '../domain/errors.ts'
import { judgeCollection } from '../domain/precondition.ts'
import { readConsistently } from './consistent-read.ts'
import { readSkip, skipPosition } from './skip-offset.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions, ListOutcome, SortOrder } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { StorageCalls } from './call.ts'

/** Lists records by more ids than one request can name: reads them all, then does here what the storage would. */
export async function listMerged(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { ids = [], sort, limit, position } = options
  const skip = position ? readSkip(position) : 0
  if (skip === null) {
    throw invalidRequest([
      { location: 'querystring', name: '_token', description: 'it belongs to another list' },
    ])
  }
  const { timestamp: current, records } = await readConsistently(calls, collection, ids)
  const verdict = judgeCollection(precondition, current)
  if (verdict) return verdict
  const selected = [...records.values()]
    .filter((record) => isSelected(record, options))
    .toSorted(orders[sort])
  const end = limit === undefined ? selected.length : skip + limit
  const page = selected.slice(skip, end)
  const timestamp = position?.firstTimestamp ?? current
  return {
    outcome: 'page',
    page: {
      timestamp,
      records: Buffer.from(page.map(toExposedJson).join(',')),
      count: page.length,
      next: end < selected.length ? skipPosition(end, timestamp) : null,
    },
  }
}

function isSelected({ id, lastModified }: SyncRecord, { newer, older, excludedIds }: ListOptions): boolean {
  if (newer !== undefined && lastModified <= newer) return false
  if (older !== undefined && lastModified >= older) return false
  return !excludedIds?.has(id)
}

type Order = (a: SyncRecord, b: SyncRecord) => number

const byId: Order = (a, b) => (a.id < b.id ? -1 : 1)

const orders: Record<SortOrder, Order> = {
  newest: (a, b) => b.lastModified - a.lastModified || byId(a, b),
  oldest: (a, b) => a.lastModified - b.lastModified || byId(a, b),
  index: (a, b) => weight(b) - weight(a) || byId(a, b),
}

/** A record without a weight comes after all others. */
function weight({ sortindex = -1_000_000_000 }: SyncRecord): number {
  return sortindex
}
