import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { collectNotices, type UpstreamAnswer } from './answer.ts'
import { hawkHeader, originOf, storageAddress, toUserAgent, type Query } from './request.ts'
import { readStorageRefusal, type Subject } from './storage-refusal.ts'
import type { RecentMap } from '../domain/bounded.ts'
import type { SyncCredentials } from '../domain/credentials.ts'
import type { Notices, StorageLimits } from '../domain/record-storage.ts'
import type { Upstream, UpstreamRequest } from './send.ts'

/** What the calls of all users share. */
export interface StorageClient {
  upstream: Pick<Upstream, 'send' | 'lists'>
  /** The time until an answer's headers. */
  timeoutMs: number
  /** What storage nodes accept, as far as they were asked lately. */
  limitsByNode: RecentMap<string, { limits: StorageLimits; untilMs: number }>
  /** Wall clock, ms since 1970. */
  now(): number
  /** A clock in ms that never goes back. */
  monotonicNow(): number
  nonce(): string
  delay(ms: number): Promise<void>
}

/** The user and the client's request that a storage is called for. */
export interface StorageCaller extends Pick<UpstreamRequest, 'client' | 'tally' | 'holder'> {
  credentials: SyncCredentials
  /** Fetches other credentials than those that the storage refused; called once for each refusal. */
  renew(refused: SyncCredentials): Promise<SyncCredentials>
  userAgent: string
  /** When the client's request must be answered, on the clock that never goes back. */
  deadlineAtMs: number
  /** The id of the client's request; sent on as X-Request-Id. */
  requestId?: string
}

export interface StorageRead extends Pick<UpstreamRequest, 'maxBytes' | 'mayBeTooLong' | 'isStreamed'> {
  path: readonly string[]
  query?: Query
  headers?: Record<string, string>
  subject: Subject
  /** The endpoint that this read is bound to, because it continues another one; see `StorageCalls.endpoint`. */
  endpoint?: string
  /** Whether 404 is a valid answer. */
  mayBeMissing?: boolean
  /** Whether the client's answer has begun, after which its deadline no longer counts. */
  hasBegun?: boolean
}

export interface StorageWrite extends StorageRead {
  method: 'POST' | 'DELETE'
  body?: string
}

/** How long a call may take that looks, after the deadline, what became of a write. */
const finalProbeMs = 400

/** One step of the storage's clock. It refuses a second write to a collection within the same step. */
const clockStepMs = 10

/** Signed calls of one user's storage, for one request of a client. */
export class StorageCalls {
  readonly notices: Notices = { backoffSeconds: null, alert: null, quotaRemaining: null }
  readonly owner: string
  readonly #caller: StorageCaller
  #credentials: SyncCredentials
  #renewing: Promise<void> | null = null
  #mustComplete = false
  #ignoresDeadline = false
  /**
   * When the step of the storage's clock ends in which a collection changed last, on the clock that never goes back. One moment for
   * all collections: the commits of a batch wait together, so that they are sent together.
   */
  #stepEndsAtMs = 0

  constructor(
    readonly client: StorageClient,
    caller: StorageCaller,
  ) {
    this.#caller = caller
    this.#credentials = caller.credentials
    this.owner = caller.credentials.endpoint
  }

  /** Fires when the client hangs up. */
  get signal(): AbortSignal | null {
    return this.#caller.client?.signal ?? null
  }

  /** The time that is left for the client's request. */
  get leftMs(): number {
    return this.#caller.deadlineAtMs - this.client.monotonicNow()
  }

  /** The address of the storage node. */
  get node(): string {
    return originOf(this.#credentials.endpoint)
  }

  /** The endpoint in use. Timestamps of one endpoint mean nothing at another. */
  get endpoint(): string {
    return this.#credentials.endpoint
  }

  /** Neither an open breaker nor a client that hangs up stops a call any more. */
  beginCommit(): void {
    this.#mustComplete = true
  }

  /** Nor does the client's deadline. */
  ignoreDeadline(): void {
    this.#ignoresDeadline = true
  }

  /**
   * Resolves to 200, to 404 where it is foreseen, and to 304 and 412 where the headers ask for them. Every other answer
   * is thrown.
   */
  read(request: StorageRead): Promise<UpstreamAnswer> {
    return this.#call('GET', request, false)
  }

  /**
   * Notes when a collection changed that this answer is about. The storage would refuse a write within the same step of its
   * clock, so a write that comes sooner waits for the next one: that costs less time than the refusal, and no call.
   */
  trackChange(headers: Headers): void {
    const changedAt = headers.get('x-last-modified')
    if (changedAt !== null && changedAt === headers.get('x-weave-timestamp')) this.#startClockStep()
  }

  #startClockStep(): void {
    this.#stepEndsAtMs = this.client.monotonicNow() + clockStepMs
  }

  /** Like `read`, and also resolves to 202. Sent once, except when refused credentials prove that nothing was written. */
  async send(request: StorageWrite): Promise<UpstreamAnswer> {
    const { delay, monotonicNow } = this.client
    const waitMs = this.#stepEndsAtMs - monotonicNow()
    if (waitMs > 0) await delay(waitMs)
    const answer = await this.#call(request.method, { ...request, endpoint: this.owner }, false)
    // The deletion of one record is answered with when that was changed, and not the collection.
    if (request.method === 'DELETE') this.#startClockStep()
    else this.trackChange(answer.headers)
    return answer
  }

  /** Sends a signed call. Repeats it once when the storage refuses the credentials. */
  async #call(
    method: UpstreamRequest['method'],
    request: StorageRead & { body?: string },
    hasRenewed: boolean,
  ): Promise<UpstreamAnswer> {
    const { upstream, now } = this.client
    const used = this.#credentials
    if (request.endpoint !== undefined && request.endpoint !== used.endpoint) throw endpointChanged()
    const answer = await upstream.send(this.#signed(method, request, used))
    collectNotices(this.notices, answer.headers)
    if (isExpected(method, answer.status, request)) return answer
    if (answer.status !== 401) {
      throw readStorageRefusal(answer, { subject: request.subject, isWrite: method !== 'GET' }, now())
    }
    if (hasRenewed) {
      const message = 'The storage does not accept these credentials'
      throw new ServiceError(401, errno.invalidCredentials, message)
    }
    // Concurrent calls may have been refused as well, and may have renewed the credentials already or be about to.
    if (this.#credentials === used) await (this.#renewing ??= this.#renew(used))
    return await this.#call(method, request, true)
  }

  #signed(
    method: UpstreamRequest['method'],
    request: StorageRead & { body?: string },
    credentials: SyncCredentials,
  ): UpstreamRequest {
    const { now, nonce } = this.client
    const { userAgent, requestId, client, tally, holder } = this.#caller
    const { body, maxBytes, mayBeTooLong, isStreamed } = request
    const url = storageAddress(credentials.endpoint, request.path, request.query)
    const headers: Record<string, string> = {
      Accept: 'application/json',
      'User-Agent': toUserAgent(userAgent),
      Authorization: hawkHeader(credentials, method, url, Math.floor(now() / 1000), nonce()),
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
      mayBeTooLong,
      isStreamed,
      // A write that has begun must not fail because others hold the memory.
      holder: this.#mustComplete ? undefined : holder,
      client: method === 'GET' && !this.#mustComplete ? client : undefined,
      callClass: this.#mustComplete ? 'must-complete' : 'normal',
      user: this.owner,
      tally,
    }
  }

  async #renew(refused: SyncCredentials): Promise<void> {
    try {
      this.#credentials = await this.#caller.renew(refused)
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      // A refused call has written nothing, whatever the token server then answered.
      const { failure, message, retryAfterSeconds } = error
      throw new UpstreamError(failure, message, { retryAfterSeconds, applied: 'no', cause: error })
    } finally {
      this.#renewing = null
    }
  }

  #timeoutMs(hasBegun: boolean): number {
    const { timeoutMs } = this.client
    if (hasBegun || this.#ignoresDeadline) return timeoutMs
    const { leftMs } = this
    if (this.#mustComplete) return Math.min(timeoutMs, Math.max(leftMs, finalProbeMs))
    if (leftMs > 0) return Math.min(timeoutMs, leftMs)
    throw new UpstreamError('timeout', 'Cannot call the storage: no time is left for this request', {
      applied: 'no',
    })
  }
}

function isExpected(method: string, status: number, { headers, mayBeMissing }: StorageRead): boolean {
  if (status === 200 || (status === 202 && method !== 'GET')) return true
  if (status === 304) return headers !== undefined && 'X-If-Modified-Since' in headers
  if (status === 412) return headers !== undefined && 'X-If-Unmodified-Since' in headers
  return status === 404 && mayBeMissing === true
}

/** A condition that was read from one store would hold in another by accident, for instance in an empty one. */
function endpointChanged(): UpstreamError {
  return new UpstreamError('refused', 'Cannot go on: the storage of this user has moved', { applied: 'no' })
}
