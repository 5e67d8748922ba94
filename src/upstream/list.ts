import { UpstreamError } from '../domain/errors.ts'
import { readSkip } from '../domain/list.ts'
import { noPrecondition } from '../domain/record.ts'
import { lastModifiedOf, nextOffsetOf, OffsetTrail, recordCountOf, roundInCircles } from './answer.ts'
import { BsoRewriter } from './bso-stream.ts'
import { listByIds } from './list-by-ids.ts'
import { checkCount, freeMemory, ListPages, requireVisibleEnd, toLines } from './list-pages.ts'
import { chunkIds, isListable, listQuery, preconditionHeaders, unmodifiedSinceHeader } from './request.ts'
import type { Precondition } from '../domain/record.ts'
import type { ListOptions, ListOutcome, RecordPage } from '../domain/record-storage.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { StorageCalls, StorageRead } from './call.ts'
import type { NextPage } from './list-pages.ts'

/**
 * Lists records: in one request where there is a limit, otherwise in as many as the storage has pages. The first piece
 * has been read when this resolves, so that a storage that fails at once is an error and no broken stream. A list waits for a
 * permit of its user, which it holds until the last byte, before anything is asked.
 */
export async function listRecords(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const { lists } = calls.client.upstream
  const permit = await lists.acquire(calls.owner)
  let document: ListPages | null = null
  try {
    const { ids } = options
    const isOneRequest = !ids || (chunkIds(ids).length === 1 && ids.every(isListable))
    const list = isOneRequest ? listPlainly : listByIds
    const outcome = await list(calls, collection, options, precondition)
    if (outcome.outcome === 'page' && outcome.page.document instanceof ListPages)
      document = outcome.page.document
    return outcome
  } finally {
    if (document) document.ended = () => lists.release(permit)
    else lists.release(permit)
  }
}

async function listPlainly(
  calls: StorageCalls,
  collection: string,
  options: ListOptions,
  precondition: Precondition,
): Promise<ListOutcome> {
  const listing = new Listing(calls, collection, options)
  const outcome = await listing.begin(precondition)
  const isOtherVersion = precondition.kind === 'differs' && outcome.outcome === 'not-modified'
  if (!isOtherVersion || outcome.timestamp === precondition.timestamp) return outcome
  // The storage answers 304 for older versions, too; clients get 304 only for the very version that they named.
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

  /** Requests the list, and once more when its stream breaks off before any of it was handed on. */
  async begin(precondition: Precondition, isRepeated = false): Promise<ListOutcome> {
    const { limit, position } = this.options
    // Records that are skipped here have to be requested too.
    const reach = limit === undefined ? {} : { limit: limit + this.#skip }
    const query = listQuery({ ...this.options, ...reach }, this.#offset)
    const answer = await this.calls.read(this.#request(query, preconditionHeaders(precondition)))
    try {
      const current = lastModifiedOf(answer.headers)
      if (answer.status === 304) return { outcome: 'not-modified', timestamp: current }
      if (answer.status === 412) return { outcome: 'precondition-failed', timestamp: current }
      requireVisibleEnd(answer)
      const timestamp = position?.firstTimestamp ?? current
      const offset = nextOffsetOf(answer.headers)
      if (offset !== null && offset === this.#offset) throw roundInCircles()
      const isFollowed = offset !== null && limit === undefined
      const next = offset === null || isFollowed ? null : { offset, firstTimestamp: timestamp }
      const document =
        isFollowed || answer.stream !== null ? await this.#stream(answer, isFollowed) : this.#whole(answer)
      return { outcome: 'page', page: { timestamp, next, ...document } }
    } catch (error) {
      answer.stream?.cancel()
      if (answer.stream === null || isRepeated || !isConnectionLost(error)) throw error
    }
    return await this.begin(precondition, true)
  }

  #whole(answer: UpstreamAnswer): Pick<RecordPage, 'document' | 'count'> {
    const rewriter = this.#rewriter()
    const document = rewriter.pushWhole(toLines(answer.bytes))
    freeMemory(answer.bytes)
    checkCount(answer, rewriter.recordCount)
    return { document, count: rewriter.keptCount }
  }

  async #stream(
    answer: UpstreamAnswer,
    isFollowed: boolean,
  ): Promise<Pick<RecordPage, 'document' | 'count'>> {
    const rewriter = this.#rewriter()
    const nextPage = isFollowed ? this.#followUp(answer) : noNextPage
    const pages = new ListPages(answer, rewriter, nextPage)
    const first = await pages.begin()
    if (pages.isDone) return { document: first, count: rewriter.keptCount }
    const isCounted = nextOffsetOf(answer.headers) === null && !rewriter.isSelective
    return { document: pages, count: isCounted ? recordCountOf(answer.headers) : null }
  }

  /**
   * Reads the further pages under the condition that the collection has not changed since the first; otherwise the list
   * is cut.
   */
  #followUp(first: UpstreamAnswer): NextPage {
    const trail = new OffsetTrail()
    const headers = unmodifiedSinceHeader(lastModifiedOf(first.headers))
    const { endpoint } = this.calls
    return async (answer, recordCount) => {
      const offset = trail.next(answer.headers, recordCount)
      if (offset === null) return null
      const request = this.#request(listQuery(this.options, offset), headers)
      const next = await this.calls.read({ ...request, endpoint, hasBegun: true })
      if (next.status === 412) {
        throw new UpstreamError('refused', 'Cannot go on with a list: the collection changed', {
          status: 412,
        })
      }
      requireVisibleEnd(next)
      return next
    }
  }

  #request(query: StorageRead['query'], conditions: Record<string, string>): StorageRead {
    return {
      path: ['storage', this.collection],
      query,
      headers: { Accept: 'application/newlines', ...conditions },
      subject: this.options.position ? 'page' : 'list',
      maxBytes: Infinity,
      isStreamed: true,
    }
  }

  #rewriter(): BsoRewriter {
    const { ids, excludedIds } = this.options
    if (!ids && !excludedIds?.size) return new BsoRewriter({ skip: this.#skip })
    const included = ids && new Set(ids)
    const keep = (id: string) => included?.has(id) !== false && excludedIds?.has(id) !== true
    return new BsoRewriter({ keep, skip: this.#skip })
  }
}

function isConnectionLost(error: unknown): boolean {
  return error instanceof UpstreamError && error.failure === 'connection-lost'
}

async function noNextPage(): Promise<null> {
  return null
}
