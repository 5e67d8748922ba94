import { UpstreamError } from '../domain/errors.ts'
import { retries } from '../domain/retries.ts'
import { lastModifiedOf, OffsetTrail, recordCountOf, unusable, type UpstreamResponse } from './response.ts'
import { listQuery, unmodifiedSinceHeader } from './request.ts'
import type { Timestamp } from '../domain/timestamp.ts'
import type { ListOptions } from '../domain/record-storage.ts'
import type { StorageCalls, StorageRead } from './signed-call.ts'

/** A read continues another one, and the collection has changed since. */
export class CollectionChanged extends UpstreamError {
  constructor() {
    super('refused', 'Cannot continue the list: the collection has changed', { status: 412, applied: 'no' })
  }
}

/**
 * Reads of one collection that must agree: all but the first are conditional on its timestamp and use its endpoint. They throw
 * `CollectionChanged`, or `UpstreamError` if the user has moved to another node.
 */
export class ConsistentReads {
  #timestamp: Timestamp | null = null
  #endpoint: string | undefined

  /** `endpoint`: the only one that may be used; without it, that of the first read. */
  constructor(
    private readonly calls: StorageCalls,
    readonly collection: string,
    endpoint?: string,
  ) {
    this.#endpoint = endpoint
  }

  /** The collection's timestamp as of the first read. */
  get timestamp(): Timestamp {
    return this.#timestamp!
  }

  /** Resolves to 304 or 412 only for a first read that is conditional. */
  async read(request: StorageRead): Promise<UpstreamResponse> {
    const isFirst = this.#timestamp === null
    const condition = isFirst ? {} : unmodifiedSinceHeader(this.timestamp)
    const headers = { ...request.headers, ...condition }
    const response = await this.calls.read({ ...request, headers, endpoint: this.#endpoint })
    if (!isFirst && response.status === 412) throw new CollectionChanged()
    if (!isFirst || response.status === 304 || response.status === 412) return response
    try {
      this.#timestamp = lastModifiedOf(response.headers)
    } catch (error) {
      response.stream?.cancel()
      throw error
    }
    this.calls.trackChange(response.headers)
    this.#endpoint = this.calls.endpoint
    return response
  }
}

/** Runs reads that must be consistent; repeats all of them, up to three times, if the collection changes meanwhile. */
export async function whileUnchanged<Result>(
  calls: StorageCalls,
  collection: string,
  endpoint: string | undefined,
  read: (reads: ConsistentReads) => Promise<Result>,
): Promise<Result> {
  for (let round = 0; round <= retries.consistentRead.times; round += 1) {
    try {
      return await read(new ConsistentReads(calls, collection, endpoint))
    } catch (error) {
      if (!(error instanceof CollectionChanged)) throw error
    }
  }
  const message = 'Cannot read several records consistently: the collection keeps changing'
  throw new UpstreamError('refused', message, { applied: 'no' })
}

/** A list that the storage can give: one part of what is listed. */
export type ListPart = Pick<ListOptions, 'newer' | 'older' | 'ids' | 'sort' | 'limit'>

/** Whether whole records are streamed as lines, or their ids are read as JSON. */
export type ListForm = 'lines' | 'ids'

interface FirstPage {
  /** The client's own condition. */
  conditions?: Record<string, string>
  /** Where the list begins, as the storage said. */
  offset?: string | null
  maxBytes?: number
}

/** The pages of a list, one after the other: those of each part, however the storage divides it further. */
export class Pager {
  /** Whether the response to the client has begun, so that its deadline no longer counts. */
  hasBegun = false
  #trail = new OffsetTrail()
  readonly #parts: ListPart[]
  #page: UpstreamResponse | null = null

  /** `isOnePage`: the rest of the list is not asked for. */
  constructor(
    private readonly reads: ConsistentReads,
    parts: ListPart[],
    private readonly form: ListForm,
    private readonly isOnePage = false,
  ) {
    this.#parts = [...parts]
  }

  /** Requests the first page. */
  first({ conditions = {}, offset = null, maxBytes }: FirstPage = {}): Promise<UpstreamResponse> {
    return this.#request(offset, conditions, maxBytes)
  }

  /** Requests the next page; null after the last one. Throws if the page before it had another number of records than announced. */
  async next(recordCount: number, maxBytes?: number): Promise<UpstreamResponse | null> {
    const { headers } = this.#page!
    checkCount(headers, recordCount)
    if (this.isOnePage) return null
    const offset = this.#trail.next(headers, recordCount)
    if (offset !== null) return await this.#request(offset, {}, maxBytes)
    this.#trail = new OffsetTrail()
    this.#parts.shift()
    return this.#parts.length === 0 ? null : await this.#request(null, {}, maxBytes)
  }

  async #request(
    offset: string | null,
    conditions: Record<string, string>,
    maxBytes = Infinity,
  ): Promise<UpstreamResponse> {
    const part = this.#parts[0]!
    const isStreamed = this.form === 'lines'
    const response = await this.reads.read({
      path: ['storage', this.reads.collection],
      query: listQuery(part, offset, this.form !== 'ids'),
      headers: isStreamed ? { Accept: 'application/newlines', ...conditions } : conditions,
      subject: subjectOf(part, offset),
      maxBytes,
      isStreamed,
      hasBegun: this.hasBegun,
    })
    if (isStreamed) requireFramed(response)
    return (this.#page = response)
  }
}

function subjectOf({ ids }: ListPart, offset: string | null): StorageRead['subject'] {
  if (offset !== null) return 'page'
  return ids ? 'record' : 'list'
}

/**
 * Throws if a lost connection could look like the end of a list: no length, no record count and not chunked. An empty body without a type
 * is no list either.
 */
function requireFramed({ status, headers, bytes, stream }: UpstreamResponse): void {
  if (status !== 200) return
  const isNothing = stream === null && bytes.length === 0 && !headers.has('content-type')
  const isFramed =
    (headers.has('content-length') && !isNothing) ||
    headers.get('transfer-encoding')?.toLowerCase() === 'chunked'
  if (isFramed || recordCountOf(headers) !== null) return
  stream?.cancel()
  throw unusable('a list has neither a length nor a record count')
}

/** Throws if the number of records differs from the announced one. */
function checkCount(headers: Headers, count: number): void {
  const announced = recordCountOf(headers)
  if (announced === null || announced === count) return
  const message = `Incomplete list from the storage: received ${count} of ${announced} records`
  throw new UpstreamError('connection-lost', message)
}
