import { cutPage, isListed, orders, readSkip } from '../domain/list.ts'
import { invalidRequest } from '../domain/errors.ts'
import { judgeCollection } from '../domain/precondition.ts'
import { readConsistently } from './consistent-read.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListOptions, ListOutcome } from '../domain/record-storage.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { StorageCalls } from './call.ts'

/** Lists records by more ids than one request can name: reads them all, then filters and sorts them here. */
export async function listMerged(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { ids = [], sort, limit, position } = options
  const skip = readSkip(position)
  if (skip === null) {
    throw invalidRequest([
      { location: 'querystring', name: '_token', description: 'it belongs to another list' },
    ])
  }
  const { timestamp: current, records } = await readConsistently(calls, collection, ids)
  const verdict = judgeCollection(precondition, current)
  if (verdict) return verdict
  const selected = [...records.values()]
    .filter((record) => isListed(record, options))
    .toSorted((a, b) => orders[sort](a, b) || byId(a, b))
  const timestamp = position?.firstTimestamp ?? current
  return { outcome: 'page', page: cutPage(selected, { skip, limit, timestamp, goesOn: false }) }
}

/** Pages need the same order each time, also among records that are equal in the requested order. */
function byId(a: SyncRecord, b: SyncRecord): number {
  return a.id < b.id ? -1 : 1
}
