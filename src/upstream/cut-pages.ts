import { invalidPart } from '../domain/errors.ts'
import {
  cutPage,
  orders,
  readSkip,
  recordSelector,
  splitFilter,
  timestampOfPages,
  toListDocument,
} from '../domain/list.ts'
import { evaluateCollection, type Precondition } from '../domain/precondition.ts'
import { collectIds, collectRecords } from './consistent-read.ts'
import { BsoRewriter } from './bso-stream.ts'
import { writePages } from './list.ts'
import { Pager, whileUnchanged, type ConsistentReads } from './pager.ts'
import { chunkIds, isListable } from './request.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { ListOptions, ListOutcome, RecordPage } from '../domain/record-storage.ts'
import type { StorageCalls } from './signed-call.ts'

/** Whether the storage can't give this page by itself: it names more ids than one request can, or continues a page that was cut here. */
export function mustBeCut({ ids, position }: ListOptions): boolean {
  return (
    (ids !== undefined && chunkIds(ids).length > 1) || (position !== undefined && readSkip(position) !== null)
  )
}

/** More records of a page are read with the whole list: a request for each hundred of them would be too many. */
const maxNamedIds = 1000

/** Records up to this total size are read at once and sorted here. */
const smallBytes = 1024 * 1024

/**
 * Lists records in pages that are cut here, in constant memory. A few small records are read and sorted here; otherwise the storage
 * provides the order of its ids, and the records stream in that order.
 */
export async function listCutPage(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { ids: named, limit, position } = options
  const skip = readSkip(position)
  if (skip === null) throw invalidPart('page', 'belongs to another list: start again from the first page')
  return await whileUnchanged(calls, collection, undefined, async (reads): Promise<ListOutcome> => {
    const records = named ? await collectRecords(reads, named, smallBytes) : null
    const ids = records ? sortedIds(records, options) : await orderedIds(reads, options)
    const verdict = evaluateCollection(precondition, reads.timestamp)
    if (verdict) return verdict
    const timestamp = timestampOfPages(position, reads.timestamp)
    const { shown, next } = cutPage(ids, { skip, limit, version: timestamp, hasMore: false })
    const document = records
      ? toListDocument(shown.map((id) => records.get(id)!))
      : await stream(reads, shown, options)
    return { outcome: 'page', page: { timestamp, next, document, count: shown.length } }
  })
}

function sortedIds(records: Map<string, SyncRecord>, options: ListOptions): string[] {
  return [...records.values()]
    .filter(recordSelector(options))
    .toSorted(orders[options.sort])
    .map(({ id }) => id)
}

/** The ids that the list contains, in its order. Only the storage knows the order without reading all records. */
async function orderedIds(reads: ConsistentReads, options: ListOptions): Promise<string[]> {
  const { keepsId } = splitFilter(options)
  const ordered = new Set<string>()
  // Asks for all ids, because the parts of a list would each have an order of their own.
  const unnamed = { ...options, ids: undefined, keepsId: keepsId ?? undefined }
  await collectIds(reads, unnamed, options.sort, (id) => void ordered.add(id))
  return [...ordered]
}

/** Streams the records with these ids as one document, in order. Breaks off if the collection changes. */
async function stream(
  reads: ConsistentReads,
  ids: string[],
  options: ListOptions,
): Promise<RecordPage['document']> {
  if (ids.length === 0) return toListDocument([])
  const { sort } = options
  const shown = new Set(ids)
  // Ids that no request can name, and too many of them, are found by reading the whole list.
  const areNamed = ids.every(isListable) && (options.ids !== undefined || ids.length <= maxNamedIds)
  const parts = areNamed
    ? chunkIds(ids).map((part) => ({ ids: part, sort }))
    : [{ ...splitFilter({ ...options, ids: undefined }).storage, sort }]
  const pager = new Pager(reads, parts, 'lines')
  const rewriter = new BsoRewriter({ keep: ({ id }) => shown.has(id) })
  return (await writePages(await pager.first(), pager, rewriter, null)).document
}
