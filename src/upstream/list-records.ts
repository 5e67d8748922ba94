import { UpstreamError } from '../domain/errors.ts'
import { noPrecondition } from '../domain/precondition.ts'
import { BsoRewriter } from './bso-stream.ts'
import { readBounded } from './answer.ts'
import { openLines } from './list-lines.ts'
import { checkCount, ListPages } from './list-pages.ts'
import { listMerged } from './merged-list.ts'
import { readSkip } from './skip-offset.ts'
import {
  chunkIds,
  lastModifiedOf,
  listQuery,
  nextOffsetOf,
  OffsetTrail,
  preconditionHeaders,
  recordCountOf,
  roundInCircles,
  unmodifiedSinceHeader,
} from './wire.ts'
import type { Precondition } from '../domain/precondition.ts'
import type { ListFrame, ListOptions, ListOutcome, RecordPage } from '../domain/record-storage.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls, StorageRead } from './storage-calls.ts'

/** Up to this size a list is read whole before it is handed on, so that its count is known. */
const wholeBytes = 262_144

/**
 * Lists records: in one request where there is a limit, else in as many as the storage makes of it. The beginning
 * has been read when this settles, so that a storage that fails at once is an error and no broken stream.
 */
export async function listRecords(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  if (options.ids && chunkIds(options.ids).length > 1) {
    return await listMerged(calls, collection, options, precondition)
  }
  const listing = new Listing(calls, collection, options)
  const outcome = await calls.take(listing.firstRequest(precondition), (answer) => listing.begin(answer))
  const isOtherVersion = precondition.kind === 'differs' && outcome.outcome === 'not-modified'
  if (!isOtherVersion || outcome.timestamp === precondition.timestamp) return outcome
  // The storage answers 304 for older versions, too; for clients it means the very version that they named.
  return await calls.take(listing.firstRequest(noPrecondition), (answer) => listing.begin(answer))
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
    const skip = position ? readSkip(position) : 0
    this.#skip = skip ?? 0
    this.#offset = skip === null ? position!.offset : null
  }

  firstRequest(precondition: Precondition): StorageRead {
    const { limit } = this.options
    // What is skipped has to be asked for.
    const reach = limit === undefined ? {} : { limit: limit + this.#skip }
    return this.#request(
      listQuery({ ...this.options, ...reach }, this.#offset),
      preconditionHeaders(precondition),
    )
  }

  async begin(answer: UpstreamAnswer): Promise<ListOutcome> {
    try {
      const current = lastModifiedOf(answer.headers)
      if (answer.status === 304) return { outcome: 'not-modified', timestamp: current }
      if (answer.status === 412) return { outcome: 'precondition-failed', timestamp: current }
      const timestamp = this.options.position?.firstTimestamp ?? current
      const offset = nextOffsetOf(answer.headers)
      const isFollowed = offset !== null && this.options.limit === undefined
      if (offset !== null && offset === this.#offset) throw roundInCircles()
      const next = offset === null || isFollowed ? null : { offset, firstTimestamp: timestamp }
      const elements = isFollowed || !isSmall(answer) ? this.#stream(answer) : this.#whole(answer)
      const isFramed = this.options.frame !== undefined
      return {
        outcome: 'page',
        page: { timestamp, next, ...(isFramed && { isFramed }), ...(await elements) },
      }
    } catch (error) {
      answer.body.cancel()
      throw error
    }
  }

  async #whole(answer: UpstreamAnswer): Promise<Pick<RecordPage, 'records' | 'count'>> {
    const rewriter = this.#rewriter()
    const lines = await readBounded({ ...answer, body: await openLines(answer) }, Infinity)
    const records = rewriter.pushWhole(lines, this.#frame)
    checkCount(answer, rewriter.recordCount)
    return { records, count: rewriter.keptCount }
  }

  async #stream(answer: UpstreamAnswer): Promise<Pick<RecordPage, 'records' | 'count'>> {
    const rewriter = this.#rewriter()
    const isFollowed = this.options.limit === undefined
    const pages = new ListPages(answer, rewriter, isFollowed ? this.#followUp(answer) : noNextPage)
    let first = await pages.read()
    const { opening, closing } = this.#frame
    if (first === null) return { records: Buffer.concat([opening, closing]), count: rewriter.keptCount }
    const records = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          if (first) {
            if (opening.length > 0) controller.enqueue(opening)
            controller.enqueue(first)
            first = null
            return
          }
          const piece = await pages.read()
          if (piece) return controller.enqueue(piece)
          if (closing.length > 0) controller.enqueue(closing)
          controller.close()
        },
        cancel: () => pages.cancel(),
      },
      { highWaterMark: 0 },
    )
    const isCounted = nextOffsetOf(answer.headers) === null && !rewriter.isSelective
    return { records, count: isCounted ? recordCountOf(answer.headers) : null }
  }

  /** All further pages belong to the collection as it was on the first: when it changes, the list is cut short. */
  #followUp(
    first: UpstreamAnswer,
  ): (answer: UpstreamAnswer, recordCount: number) => Promise<UpstreamAnswer | null> {
    const trail = new OffsetTrail()
    const headers = unmodifiedSinceHeader(lastModifiedOf(first.headers))
    const { place } = this.calls
    return async (answer, recordCount) => {
      const offset = trail.next(answer.headers, recordCount)
      if (offset === null) return null
      const request = this.#request(listQuery(this.options, offset), headers)
      const next = await this.calls.read({ ...request, place, isStreaming: true })
      if (next.status !== 412) return next
      throw new UpstreamError('refused', 'Cannot go on with a list: the collection changed', { status: 412 })
    }
  }

  #request(query: StorageRead['query'], conditions: Record<string, string>): StorageRead {
    const headers = { Accept: 'application/newlines', ...conditions }
    const subject = this.options.position ? 'page' : 'list'
    return { path: ['storage', this.collection], query, headers, subject }
  }

  get #frame(): ListFrame {
    return this.options.frame ?? noFrame
  }

  #rewriter(): BsoRewriter {
    const { ids, excludedIds } = this.options
    if (!ids && !excludedIds?.size) return new BsoRewriter({ skip: this.#skip })
    const included = ids && new Set(ids)
    const keep = (id: string) => included?.has(id) !== false && excludedIds?.has(id) !== true
    return new BsoRewriter({ keep, skip: this.#skip })
  }
}

function isSmall({ headers }: UpstreamAnswer): boolean {
  const length = headers.get('content-length')
  return length !== null && Number(length) <= wholeBytes
}

const noFrame: ListFrame = { opening: new Uint8Array(0), closing: new Uint8Array(0) }

async function noNextPage(): Promise<null> {
  return null
}
