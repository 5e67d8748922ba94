import { invalid } from '../domain/errors.ts'
import {
  cutPage,
  firstTimestampOf,
  idSelector,
  orders,
  readSkip,
  recordSelector,
  toListDocument,
} from '../domain/list.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import { evaluateCollection, type Precondition } from '../domain/precondition.ts'
import { whileUnchanged, type ConsistentReads } from './consistent-read.ts'
import { BsoRewriter } from './bso-stream.ts'
import { linesRequest, ListPages, readLines } from './list.ts'
import { chunkIds, listQuery, unmodifiedSinceHeader } from './request.ts'
import type { ListOptions, ListOutcome, Snapshot } from '../domain/record-storage.ts'
import type { UpstreamResponse } from './response.ts'
import type { StorageCalls } from './call.ts'

/** Records up to this total size are read at once and sorted here. */
const smallBytes = 1024 * 1024

/**
 * Lists records by more ids than one request can name, in constant memory. A few small records are read and sorted here; otherwise the
 * storage provides the order of its ids, and the records stream in that order.
 */
export async function listByIds(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { limit, position } = options
  const skip = readSkip(position)
  if (skip === null)
    throw invalid('querystring', '_token', 'belongs to another list: start again from the first page')
  return await whileUnchanged(calls, collection, undefined, async (reads): Promise<ListOutcome> => {
    const snapshot = await reads.records(options.ids!, smallBytes)
    const ids = snapshot ? sortedIds(snapshot, options) : await orderedIds(reads, options)
    const verdict = evaluateCollection(precondition, reads.timestamp)
    if (verdict) return verdict
    const firstTimestamp = firstTimestampOf(position, reads.timestamp)
    const { shown, next } = cutPage(ids, { skip, limit, firstTimestamp, hasMore: false })
    const document = snapshot
      ? toListDocument(shown.map((id) => snapshot.records.get(id)!))
      : await stream(calls, collection, shown, options, reads.timestamp)
    return { outcome: 'page', page: { timestamp: firstTimestamp, next, document, count: shown.length } }
  })
}

/** Pages need a stable order, so ties are ordered by id. */
function sortedIds({ records }: Snapshot, options: ListOptions): string[] {
  return [...records.values()]
    .filter(recordSelector(options))
    .toSorted((a, b) => orders[options.sort](a, b) || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id)
}

/** The ids that the list contains, in its order. Only the storage knows the order without reading all records. */
async function orderedIds(reads: ConsistentReads, options: ListOptions): Promise<string[]> {
  const { newer, older, sort } = options
  const isListed = idSelector(options)
  const ordered = new Set<string>()
  await reads.ids({ newer, older }, sort, (id) => {
    if (isListed(id)) ordered.add(id)
  })
  return [...ordered]
}

/** Streams the records with these ids as one document, in order. Breaks off if the collection changes. */
async function stream(
  calls: StorageCalls,
  collection: string,
  ids: string[],
  { sort }: ListOptions,
  since: Timestamp,
): Promise<Uint8Array | ListPages> {
  const parts = chunkIds(ids)
  const headers = unmodifiedSinceHeader(since)
  const { endpoint } = calls
  const readPart = async (hasBegun: boolean): Promise<UpstreamResponse | null> => {
    const part = parts.shift()
    if (part === undefined) return null
    const request = linesRequest(collection, listQuery({ ids: part, sort }), headers)
    return await readLines(calls, { ...request, endpoint, hasBegun })
  }
  const first = await readPart(false)
  if (!first) return toListDocument([])
  const rewriter = new BsoRewriter({ keep: idSelector({ ids }) })
  const pages = new ListPages(first, rewriter, () => readPart(true))
  const begun = await pages.begin()
  return pages.isDone ? begun : pages
}
