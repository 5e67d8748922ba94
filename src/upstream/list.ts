import { UpstreamError } from '../domain/errors.ts'
import { freeMemory } from '../domain/bytes.ts'
import {
  firstTimestampOf,
  idSelector,
  listClosing,
  listOpening,
  readSkip,
  selectsIds,
} from '../domain/list.ts'
import { retries } from '../domain/retries.ts'
import { zeroTimestamp } from '../domain/timestamp.ts'
import { noPrecondition, type Precondition } from '../domain/precondition.ts'
import {
  lastModifiedOf,
  nextOffsetOf,
  OffsetTrail,
  recordCountOf,
  paginationLoop,
  unusable,
  type UpstreamResponse,
} from './response.ts'
import { BsoRewriter } from './bso-stream.ts'
import { listQuery, preconditionHeaders, unmodifiedSinceHeader } from './request.ts'
import type { ByteSource, ListOptions, ListOutcome, RecordPage } from '../domain/record-storage.ts'
import type { StorageCalls, StorageRead } from './call.ts'

/** Lists records: with a limit in one request, otherwise in as many as the storage has pages. */
export async function listByQuery(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const listing = new Listing(calls, collection, options)
  const outcome = await listing.begin(precondition)
  const isOtherVersion = precondition.kind === 'differs' && outcome.outcome === 'not-modified'
  if (!isOtherVersion || outcome.timestamp === precondition.timestamp) return outcome
  // The storage also returns 304 for older versions; clients get 304 only for the exact version that they named.
  return await listing.begin(noPrecondition)
}

class Listing {
  readonly #skip: number
  readonly #offset: string | null

  constructor(
    private readonly calls: StorageCalls,
    private readonly collection: string,
    private readonly options: ListOptions,
  ) {
    const { position } = options
    const skip = readSkip(position)
    this.#skip = skip ?? 0
    this.#offset = skip === null ? position!.offset : null
  }

  /** Requests the list; once more if its stream fails before anything was passed on. */
  async begin(precondition: Precondition, repeats = 0): Promise<ListOutcome> {
    const { limit, position } = this.options
    // Records that are skipped here must be requested too.
    const reach = limit === undefined ? {} : { limit: limit + this.#skip }
    const query = listQuery({ ...this.options, ...reach }, this.#offset)
    const response = await readLines(this.calls, this.#request(query, preconditionHeaders(precondition)))
    try {
      const current = lastModifiedOf(response.headers)
      if (response.status === 304) return { outcome: 'not-modified', timestamp: current }
      if (response.status === 412) return { outcome: 'precondition-failed', timestamp: current }
      const timestamp = firstTimestampOf(position, current)
      if (current === zeroTimestamp && repeats < retries.list.times && recordCountOf(response.headers)) {
        // PostgreSQL reads the timestamp first, and the collection's first write came in between.
        response.stream?.cancel()
        return await this.begin(precondition, repeats + 1)
      }
      const offset = nextOffsetOf(response.headers)
      if (offset !== null && offset === this.#offset) throw paginationLoop()
      const isFollowed = offset !== null && limit === undefined
      const next = offset === null || isFollowed ? null : { offset, firstTimestamp: timestamp }
      const document =
        isFollowed || response.stream !== null
          ? await this.#stream(response, isFollowed)
          : this.#whole(response)
      return { outcome: 'page', page: { timestamp, next, ...document } }
    } catch (error) {
      response.stream?.cancel()
      const isLost = error instanceof UpstreamError && error.failure === 'connection-lost'
      if (response.stream === null || repeats >= retries.list.times || !isLost) throw error
    }
    return await this.begin(precondition, repeats + 1)
  }

  #whole(response: UpstreamResponse): Pick<RecordPage, 'document' | 'count'> {
    const rewriter = this.#rewriter()
    const document = rewriter.pushWhole(response.bytes)
    freeMemory(response.bytes)
    checkCount(response, rewriter.recordCount)
    return { document, count: rewriter.keptCount }
  }

  async #stream(
    response: UpstreamResponse,
    isFollowed: boolean,
  ): Promise<Pick<RecordPage, 'document' | 'count'>> {
    const rewriter = this.#rewriter()
    const nextPage = isFollowed ? this.#followUp(response) : async () => null
    const pages = new ListPages(response, rewriter, nextPage)
    const first = await pages.begin()
    if (pages.isDone) return { document: first, count: rewriter.keptCount }
    const isCounted = nextOffsetOf(response.headers) === null && !rewriter.isSelective
    return { document: pages, count: isCounted ? recordCountOf(response.headers) : null }
  }

  /** Reads further pages on the condition that the collection is unchanged; otherwise the list breaks off. */
  #followUp(first: UpstreamResponse): NextPage {
    const trail = new OffsetTrail()
    const headers = unmodifiedSinceHeader(lastModifiedOf(first.headers))
    const { endpoint } = this.calls
    return async (response, recordCount) => {
      const offset = trail.next(response.headers, recordCount)
      if (offset === null) return null
      const request = this.#request(listQuery(this.options, offset), headers)
      return await readLines(this.calls, { ...request, endpoint, hasBegun: true })
    }
  }

  #request(query: StorageRead['query'], conditions: Record<string, string>): StorageRead {
    const subject = this.options.position ? 'page' : 'list'
    return { ...linesRequest(this.collection, query, conditions), subject }
  }

  #rewriter(): BsoRewriter {
    const keep = selectsIds(this.options) ? idSelector(this.options) : undefined
    return new BsoRewriter({ keep, skip: this.#skip })
  }
}

/** An unfinished line above this size counts towards the request's memory. */
const longCarryBytes = 262_144

/** Requests the page after this response, which had `recordCount` records; null at the end. */
type NextPage = (response: UpstreamResponse, recordCount: number) => Promise<UpstreamResponse | null>

/**
 * The document of a list over one or more pages of the storage. Fails if a page has another number of records than announced, or the next
 * page can't be read.
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
    private readonly rewriter: BsoRewriter,
    private readonly nextPage: NextPage,
  ) {
    this.#response = first
    this.#source = sourceOf(first)
  }

  /** Reads the first chunk, which `read` will return. */
  async begin(): Promise<Uint8Array> {
    return (this.#first = (await this.read())!)
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
    const recordCount = this.rewriter.recordCount - this.#countBefore
    checkCount(this.#response, recordCount)
    const next = await this.nextPage(this.#response, recordCount)
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

/** The request for a list as lines, with conditional headers. */
export function linesRequest(
  collection: string,
  query: StorageRead['query'],
  conditions: Record<string, string>,
): StorageRead {
  const path = ['storage', collection]
  const headers = { Accept: 'application/newlines', ...conditions }
  return { path, query, headers, subject: 'list', maxBytes: Infinity, isStreamed: true }
}

/**
 * Reads a list as lines. Throws if it has no timestamp, or if a lost connection could look like its end: no length, no record count and not
 * chunked. An empty body without a type is no list either. Also throws if the request continues a list, and the collection has changed.
 */
export async function readLines(calls: StorageCalls, request: StorageRead): Promise<UpstreamResponse> {
  const response = await calls.read(request)
  const { status, headers, bytes, stream } = response
  if (status === 412 && request.endpoint !== undefined)
    throw new UpstreamError('refused', 'Cannot continue the list: the collection has changed', { status })
  if (status !== 200) return response
  const isNothing = stream === null && bytes.length === 0 && !headers.has('content-type')
  const isFramed =
    (headers.has('content-length') && !isNothing) ||
    headers.get('transfer-encoding')?.toLowerCase() === 'chunked'
  try {
    lastModifiedOf(headers)
    if (!isFramed && recordCountOf(headers) === null)
      throw unusable('a list has neither a length nor a record count')
    return response
  } catch (error) {
    stream?.cancel()
    throw error
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

/** Throws if the number of records differs from the announced one. */
export function checkCount({ headers }: UpstreamResponse, count: number): void {
  const announced = recordCountOf(headers)
  if (announced === null || announced === count) return
  throw new UpstreamError(
    'connection-lost',
    `Incomplete list from the storage: received ${count} of ${announced} records`,
  )
}
