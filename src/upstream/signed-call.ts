import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { collectNotices, type UpstreamResponse } from './response.ts'
import { timestampStepMs } from '../domain/timestamp.ts'
import { hawkHeader, storageUrl, toUserAgent, type Query } from './request.ts'
import { retries } from '../domain/retries.ts'
import { readStorageRefusal, type Subject } from './storage-refusal.ts'
import type { RecentMap } from '../domain/bounded.ts'
import type { Clock } from '../domain/clock.ts'
import type { SyncCredentials } from '../domain/credentials.ts'
import type { Notices, StorageLimits } from '../domain/record-storage.ts'
import type { Upstream, UpstreamRequest } from './send.ts'

/** Shared by the calls of all users. */
export interface StorageContext extends Clock {
  upstream: Upstream
  /** Timeout until the response headers. */
  timeoutMs: number
  /** The cached limits of storage nodes. */
  limitsByNode: RecentMap<string, { limits: StorageLimits; untilMs: number }>
  nonce(): string
  delay(ms: number): Promise<void>
}

/** The user and the client request behind calls to a storage. */
export interface StorageCaller extends Pick<UpstreamRequest, 'client' | 'tally' | 'holder'> {
  credentials: SyncCredentials
  /** Fetches new credentials after the storage rejected these; called once per refusal. */
  renew(refused: SyncCredentials): Promise<SyncCredentials>
  userAgent: string
  notices: Notices
  /** The deadline of the client's request, on the monotonic clock. */
  deadlineAtMs: number
  /** The id of the client's request, passed on as X-Request-Id. */
  requestId?: string
}

export interface StorageRead extends Pick<UpstreamRequest, 'maxBytes' | 'isStreamed'> {
  path: readonly string[]
  query?: Query
  headers?: Record<string, string>
  subject: Subject
  /** The endpoint that this read must use, because it continues another read; see `StorageCalls.endpoint`. */
  endpoint?: string
  /** Whether 404 is a valid response. */
  mayBeMissing?: boolean
  /** Whether the response to the client has begun; then its deadline no longer counts. */
  hasBegun?: boolean
}

export interface StorageWrite extends StorageRead {
  method: 'POST' | 'DELETE'
  body?: string
}

/** Timeout of a read after the deadline that checks whether a write was applied. */
const finalProbeMs = 400

/** Signed calls to one user's storage, for one client request. */
export class StorageCalls {
  readonly owner: string
  readonly #caller: StorageCaller
  #credentials: SyncCredentials
  #renewing: Promise<void> | null = null
  #mustComplete = false
  #ignoresDeadline = false
  /**
   * When the storage's clock step of the last change ends, on the monotonic clock. Shared by all collections, so that the
   * commits of a batch wait together and are sent together.
   */
  #stepEndsAtMs = 0

  constructor(
    readonly context: StorageContext,
    caller: StorageCaller,
  ) {
    this.#caller = caller
    this.#credentials = caller.credentials
    this.owner = caller.credentials.endpoint.href
  }

  /** Fires when the client disconnects. */
  get signal(): AbortSignal | null {
    return this.#caller.client?.signal ?? null
  }

  /** Time left for the client's request, in ms. */
  get leftMs(): number {
    return this.#caller.deadlineAtMs - this.context.monotonicNow()
  }

  /** Throws if the client's request has timed out and nothing must be completed. */
  requireTime(): void {
    if (!this.#mustComplete && this.leftMs <= 0) throw tooLate()
  }

  /** The origin of the storage node. */
  get node(): string {
    return this.#credentials.endpoint.origin
  }

  /** The endpoint in use. Timestamps are only comparable within one endpoint. */
  get endpoint(): string {
    return this.#credentials.endpoint.href
  }

  /** From now on, calls need no permit, and a client disconnect no longer aborts them. */
  beginCommit(): void {
    this.#mustComplete = true
  }

  /** From now on, the client's deadline no longer stops a call. */
  ignoreDeadline(): void {
    this.#ignoresDeadline = true
  }

  /** Resolves to 200, to 404 if `mayBeMissing`, and to 304 or 412 if the headers are conditional. Throws for any other status. */
  read(request: StorageRead): Promise<UpstreamResponse> {
    return this.#call('GET', request)
  }

  /**
   * Starts a clock step if the collection changed just now: the storage would reject a write within it, so the next write waits, which is
   * cheaper than the refusal.
   */
  trackChange(headers: Headers): void {
    const changedAt = headers.get('x-last-modified')
    if (changedAt !== null && changedAt === headers.get('x-weave-timestamp')) this.#startClockStep()
  }

  #startClockStep(): void {
    this.#stepEndsAtMs = this.context.monotonicNow() + timestampStepMs
  }

  /** Like `read`, and also resolves to 202. Sent once; repeated only if rejected credentials prove that nothing was written. */
  async send(request: StorageWrite): Promise<UpstreamResponse> {
    const { delay, monotonicNow } = this.context
    const waitMs = this.#stepEndsAtMs - monotonicNow()
    if (waitMs > 0) await delay(waitMs)
    const response = await this.#call(request.method, { ...request, endpoint: this.owner })
    // The response to a deletion has the timestamp of the record, not of the collection.
    if (request.method === 'DELETE') this.#startClockStep()
    else this.trackChange(response.headers)
    return response
  }

  /** Sends a signed call; once more, with new credentials, if the storage rejects them. */
  async #call(
    method: UpstreamRequest['method'],
    request: StorageRead & { body?: string },
    renewals = 0,
  ): Promise<UpstreamResponse> {
    const { upstream, now } = this.context
    const { notices } = this.#caller
    const used = this.#credentials
    if (request.endpoint !== undefined && request.endpoint !== used.endpoint.href) throw endpointChanged()
    const response = await upstream.send(this.#signed(method, request, used))
    collectNotices(notices, response.headers)
    if (response.status === 513) notices.isShutDown = true
    if (isExpected(method, response.status, request)) return response
    if (response.status !== 401) {
      throw readStorageRefusal(response, { subject: request.subject, isWrite: method !== 'GET' }, now())
    }
    if (renewals >= retries.renewal.times) {
      const message = 'The storage rejected these credentials: sign in again'
      throw new ServiceError(401, errno.invalidCredentials, message)
    }
    // Concurrent calls may have been rejected as well and be renewing the credentials already.
    if (this.#credentials === used) await (this.#renewing ??= this.#renew(used))
    return await this.#call(method, request, renewals + 1)
  }

  #signed(
    method: UpstreamRequest['method'],
    request: StorageRead & { body?: string },
    credentials: SyncCredentials,
  ): UpstreamRequest {
    const { now, nonce } = this.context
    const { userAgent, requestId, client, tally, holder } = this.#caller
    const { body, maxBytes, isStreamed } = request
    const url = storageUrl(credentials.endpoint, request.path, request.query)
    const headers: Record<string, string> = {
      Accept: 'application/json',
      'User-Agent': toUserAgent(userAgent),
      Authorization: hawkHeader(credentials, method, url.target, Math.floor(now() / 1000), nonce()),
    }
    if (requestId !== undefined) headers['X-Request-Id'] = requestId
    if (body !== undefined) headers['Content-Type'] = 'application/json'
    if (request.headers !== undefined) Object.assign(headers, request.headers)
    return {
      target: 'storage',
      method,
      url,
      headers,
      body,
      timeoutMs: this.#timeoutMs(request.hasBegun === true),
      maxBytes,
      isStreamed,
      // A commit must not fail for lack of memory.
      holder: this.#mustComplete ? undefined : holder,
      client: method === 'GET' && !this.#mustComplete ? client : undefined,
      mustComplete: this.#mustComplete,
      user: this.owner,
      tally,
    }
  }

  async #renew(refused: SyncCredentials): Promise<void> {
    try {
      this.#credentials = await this.#caller.renew(refused)
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      // The rejected call wrote nothing, whatever the token server answered.
      const { failure, message, retryAfterSeconds } = error
      throw new UpstreamError(failure, message, { retryAfterSeconds, applied: 'no', cause: error })
    } finally {
      this.#renewing = null
    }
  }

  #timeoutMs(hasBegun: boolean): number {
    const { timeoutMs } = this.context
    if (hasBegun || this.#ignoresDeadline) return timeoutMs
    const { leftMs } = this
    if (this.#mustComplete) return Math.min(timeoutMs, Math.max(leftMs, finalProbeMs))
    if (leftMs > 0) return Math.min(timeoutMs, leftMs)
    throw tooLate()
  }
}

function isExpected(method: string, status: number, { headers, mayBeMissing }: StorageRead): boolean {
  if (status === 200 || (status === 202 && method !== 'GET')) return true
  if (status === 304) return headers !== undefined && 'X-If-Modified-Since' in headers
  if (status === 412) return headers !== undefined && 'X-If-Unmodified-Since' in headers
  return status === 404 && mayBeMissing === true
}

function tooLate(): UpstreamError {
  return new UpstreamError('timeout', 'Cannot call the storage: the request timed out', { applied: 'no' })
}

/** A timestamp from one store could match by accident in another, such as an empty one. */
function endpointChanged(): UpstreamError {
  return new UpstreamError('refused', "Cannot continue: this user's storage has moved to another node", {
    applied: 'no',
  })
}
