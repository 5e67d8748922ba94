import { UpstreamError } from '../domain/errors.ts'
import { freeMemory } from '../domain/bytes.ts'
import { listClosing, listOpening, splitFilter, timestampOfPages, toListDocument } from '../domain/list.ts'
import { retries } from '../domain/retries.ts'
import { evaluateCollection, noPrecondition, type Precondition } from '../domain/precondition.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import {
  lastModifiedOf,
  nextOffsetOf,
  paginationLoop,
  recordCountOf,
  type UpstreamResponse,
} from './response.ts'
import { readCollectionTimestamps } from './storage-info.ts'
import { BsoRewriter } from './bso-stream.ts'
import { ConsistentReads, Pager } from './pager.ts'
import { preconditionHeaders } from './request.ts'
import type { SyncRecord } from '../domain/record.ts'
import type { ByteSource, ListOptions, ListOutcome, RecordPage } from '../domain/record-storage.ts'
import type { StorageCalls } from './signed-call.ts'

/** A list of no ids: only the collection's timestamp is read. */
export async function listNothing(
  calls: StorageCalls,
  collection: string,
  { position }: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { collections } = await readCollectionTimestamps(calls)
  const current = collections.get(collection) ?? zeroTimestamp
  const unmet = evaluateCollection(precondition, current)
  if (unmet) return unmet
  const timestamp = timestampOfPages(position, current)
  return { outcome: 'page', page: { timestamp, document: toListDocument([]), count: 0, next: null } }
}

/** Lists records: with a limit in one request, otherwise in as many as the storage has pages. */
export async function listByQuery(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const outcome = await beginList(calls, collection, options, precondition)
  const isOtherVersion = precondition.kind === 'differs' && outcome.outcome === 'not-modified'
  if (!isOtherVersion || outcome.timestamp === precondition.timestamp) return outcome
  // The storage also returns 304 for older versions; clients get 304 only for the exact version that they named.
  return await beginList(calls, collection, options, noPrecondition)
}

/** Requests the list; once more if its stream fails before anything was passed on. */
async function beginList(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
  repeats = 0,
): Promise<ListOutcome> {
  const { limit, sort, position } = options
  const { storage, keepsId, keepsRecord, isSelective } = splitFilter(options)
  const reads = new ConsistentReads(calls, collection)
  const pager = new Pager(reads, [{ ...storage, sort, limit }], 'lines', limit !== undefined)
  const offset = position?.offset ?? null
  const response = await pager.first({ conditions: preconditionHeaders(precondition), offset })
  try {
    const current = lastModifiedOf(response.headers)
    if (response.status === 304) return { outcome: 'not-modified', timestamp: current }
    if (response.status === 412) return { outcome: 'precondition-failed', timestamp: current }
    const timestamp = timestampOfPages(position, current)
    if (current === zeroTimestamp && repeats < retries.list.times && recordCountOf(response.headers)) {
      // PostgreSQL reads the timestamp first, and the collection's first write came in between.
      response.stream?.cancel()
      return await beginList(calls, collection, options, precondition, repeats + 1)
    }
    const nextOffset = nextOffsetOf(response.headers)
    if (nextOffset !== null && nextOffset === offset) throw paginationLoop()
    const isFollowed = nextOffset !== null && limit === undefined
    const next = nextOffset === null || isFollowed ? null : { offset: nextOffset, firstTimestamp: timestamp }
    const keep = keepsRecord ?? (keepsId && ((record: SyncRecord) => keepsId(record.id)))
    const isCounted = nextOffset === null && !isSelective
    const announced = isCounted ? recordCountOf(response.headers) : null
    const isWhole = response.stream === null && !isFollowed
    const write = isWhole ? writeWhole : writePages
    const page = await write(response, pager, new BsoRewriter({ keep }), announced)
    return { outcome: 'page', page: { timestamp, next, ...page } }
  } catch (error) {
    response.stream?.cancel()
    const isLost = error instanceof UpstreamError && error.failure === 'connection-lost'
    if (response.stream === null || repeats >= retries.list.times || !isLost) throw error
  }
  return await beginList(calls, collection, options, precondition, repeats + 1)
}

type WrittenPage = Pick<RecordPage, 'document' | 'count'>

async function writeWhole(
  { bytes }: UpstreamResponse,
  pager: Pager,
  rewriter: BsoRewriter,
): Promise<WrittenPage> {
  const document = rewriter.pushWhole(bytes)
  freeMemory(bytes)
  await pager.next(rewriter.recordCount)
  return { document, count: rewriter.keptCount }
}

/** Writes the pages of a list as one document; `announced` is the number of records, if it is known before they are read. */
export async function writePages(
  first: UpstreamResponse,
  pager: Pager,
  rewriter: BsoRewriter,
  announced: number | null,
): Promise<WrittenPage> {
  const pages = new ListPages(first, pager, rewriter)
  const document = await pages.begin()
  if (pages.isDone) return { document, count: rewriter.keptCount }
  return { document: pages, count: announced }
}

/** An unfinished line above this size counts towards the request's memory. */
const longCarryBytes = 262_144

/**
 * The document of a list over one or more pages of the storage. Fails if a page has another number of records than announced, the
 * collection changes, or the next page can't be read.
 */
export class ListPages implements ByteSource {
  #response: UpstreamResponse
  #source: ByteSource
  #first: Uint8Array | null = null
  #countBefore = 0
  #hasBegun = false
  /** Whether everything was read. */
  isDone = false
  /** Called once, at the end. */
  ended = () => {}
  /** Whether other lists wait for its permit. */
  hasWaiters = () => false

  constructor(
    first: UpstreamResponse,
    private readonly pager: Pager,
    private readonly rewriter: BsoRewriter,
  ) {
    this.#response = first
    this.#source = sourceOf(first)
  }

  /** Reads the first chunk, which `read` will return. */
  async begin(): Promise<Uint8Array> {
    this.#first = (await this.read())!
    this.pager.hasBegun = true
    return this.#first
  }

  async read(): Promise<Uint8Array | null> {
    if (this.#first) {
      const first = this.#first
      this.#first = null
      return first
    }
    try {
      while (!this.isDone) {
        const piece = await this.#source.read()
        // A slow reader must not hold the permit of a call; the list has its own permit.
        this.#response.stream?.releasePermit()
        const records = piece ? this.#push(piece) : await this.#endPage()
        if (piece) freeMemory(piece)
        if (records.length > 0 || this.isDone) return this.#framed(records)
      }
      return null
    } catch (error) {
      this.cancel()
      throw error
    }
  }

  #push(piece: Uint8Array): Uint8Array {
    const before = this.rewriter.carryBytes
    const records = this.rewriter.push(piece)
    const { carryBytes } = this.rewriter
    if (carryBytes > longCarryBytes) this.#response.stream?.hold(carryBytes - before)
    return records
  }

  /** Adds the text before the first record and after the last one. */
  #framed(records: Uint8Array): Uint8Array {
    const parts = [records]
    if (!this.#hasBegun) parts.unshift(listOpening)
    if (this.isDone) parts.push(listClosing)
    this.#hasBegun = true
    return parts.length === 1 ? records : Buffer.concat(parts)
  }

  cancel(): void {
    this.#response.stream?.cancel()
    this.#end()
  }

  #end(): void {
    if (this.isDone) return
    this.isDone = true
    this.ended()
  }

  async #endPage(): Promise<Uint8Array> {
    const last = this.rewriter.end()
    const next = await this.pager.next(this.rewriter.recordCount - this.#countBefore)
    this.#countBefore = this.rewriter.recordCount
    if (next) {
      this.#response = next
      this.#source = sourceOf(next)
    } else this.#end()
    // The client may have disconnected while the next page was requested.
    if (this.isDone) next?.stream?.cancel()
    return last
  }
}

/** The body of a response as a source, whether it is a stream or was read whole. */
function sourceOf({ bytes, stream }: UpstreamResponse): ByteSource {
  let whole: Uint8Array | null = bytes
  const read = async () => {
    const piece = whole
    whole = null
    return piece
  }
  return stream ?? { read, cancel() {} }
}
