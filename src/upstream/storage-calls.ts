import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { discard } from './answer.ts'
import { collectNotices } from './notices.ts'
import { accessWith } from './storage-access.ts'
import { readStorageRefusal } from './storage-refusal.ts'
import { toUserAgent } from './wire.ts'
import type { SyncCredentials } from '../domain/credentials.ts'
import type { Notices } from '../domain/record-storage.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { Send, UpstreamRequest } from './send.ts'
import type { Subject } from './storage-refusal.ts'
import type { Query } from './storage-url.ts'

export interface StorageCallsOptions {
  credentials: SyncCredentials
  /** Other credentials than those that the storage refused; asked once for each refusal. */
  renew(refused: SyncCredentials): Promise<SyncCredentials>
  send: Send
  userAgent: string
  /** Until an answer's headers. */
  timeoutMs: number
  /** Wall clock, ms since 1970, when the client's request has to be answered; null for no limit. */
  deadlineAtMs: number | null
  /** What the client's request is called; goes along as X-Request-Id. */
  requestId?: string
  /** The client hung up: ends reads, never writes. */
  signal?: AbortSignal
  /** Wall clock, ms since 1970. */
  now(): number
  nonce(): string
  /** Between 0 and 1. */
  random(): number
  delay(ms: number): Promise<void>
}

export interface StorageRead {
  path: readonly string[]
  query?: Query
  headers?: Record<string, string>
  subject: Subject
  /** The endpoint that this read belongs to, because it continues another one; see `StorageCalls.place`. */
  place?: string
  /** Whether 404 is an answer. */
  mayBeMissing?: boolean
  /** Whether the client's answer has begun, after which its deadline means nothing any more. */
  isStreaming?: boolean
}

export interface StorageWrite extends StorageRead {
  method: 'POST' | 'DELETE'
  body?: string
}

const conflictRetries = 4
const conflictPatienceMs = 150

/** Signed calls of one user's storage, for one request of a client. */
export class StorageCalls {
  readonly notices: Notices = { backoffSeconds: null, alert: null, quotaRemaining: null }
  readonly owner: string
  #credentials: SyncCredentials
  #renewing: Promise<void> | null = null
  #hasDeadline: boolean
  #mustSettle = false

  constructor(private readonly options: StorageCallsOptions) {
    this.#credentials = options.credentials
    this.owner = options.credentials.endpoint
    this.#hasDeadline = options.deadlineAtMs !== null
  }

  /** The endpoint in use now. Timestamps of one endpoint say nothing at another. */
  get place(): string {
    return this.#credentials.endpoint
  }

  /** What has been begun is to be ended: neither the client's deadline nor an open breaker stops a call any more. */
  settle(): void {
    this.#hasDeadline = false
    this.#mustSettle = true
  }

  /**
   * Answers 200, 404 where it is foreseen, 304 and 412 where the headers ask for them; only a 200 has a body. Throws
   * all else; see `readStorageRefusal`.
   */
  async read(request: StorageRead): Promise<UpstreamAnswer> {
    const answer = await this.#call('GET', request)
    if (!isForeseen(answer.status, request)) {
      const { error } = await readStorageRefusal(answer, request.subject, this.options.now())
      throw error
    }
    if (answer.status !== 200) await discard(answer)
    return answer
  }

  /** Reads and takes in a short answer, once more when it breaks off on its way. */
  async take<Taken>(
    request: StorageRead,
    taking: (answer: UpstreamAnswer) => Promise<Taken>,
  ): Promise<Taken> {
    const answer = await this.read(request)
    try {
      return await taking(answer)
    } catch (error) {
      if (!(error instanceof UpstreamError && error.failure === 'connection-lost')) throw error
    }
    return await taking(await this.read(request))
  }

  /** Like `read`, and 202 is an answer too. Sent once, but for refusals that prove that nothing was done. */
  async write(request: StorageWrite): Promise<UpstreamAnswer> {
    const { random, delay, now } = this.options
    let pausedMs = 0
    for (let retries = 0; ; retries += 1) {
      const answer = await this.#call(request.method, { ...request, place: this.owner })
      if (answer.status === 200 || answer.status === 202) return answer
      if (isForeseen(answer.status, request)) {
        await discard(answer)
        return answer
      }
      const { error, isConflict } = await readStorageRefusal(answer, request.subject, now())
      const pauseMs = 15 + random() * 45
      if (!isConflict || retries === conflictRetries || pausedMs + pauseMs > conflictPatienceMs) throw error
      pausedMs += pauseMs
      await delay(pauseMs)
    }
  }

  async #call(method: UpstreamRequest['method'], request: StorageCall): Promise<UpstreamAnswer> {
    const used = this.#credentials
    const answer = await this.#send(method, request, used)
    if (answer.status !== 401) return answer
    await discard(answer)
    // Other calls of ours may have been refused as well, and have renewed them meanwhile or be about to.
    if (this.#credentials === used) await (this.#renewing ??= this.#renew(used))
    const second = await this.#send(method, request, this.#credentials)
    if (second.status !== 401) return second
    await discard(second)
    throw new ServiceError(401, errno.invalidCredentials, 'The storage does not accept these credentials')
  }

  async #renew(refused: SyncCredentials): Promise<void> {
    try {
      this.#credentials = await this.options.renew(refused)
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error
      // Whatever became of the token server: who is refused has written nothing.
      const { failure, message, retryAfterSeconds } = error
      throw new UpstreamError(failure, message, { retryAfterSeconds, applied: 'no', cause: error })
    } finally {
      this.#renewing = null
    }
  }

  async #send(
    method: UpstreamRequest['method'],
    request: StorageCall,
    credentials: SyncCredentials,
  ): Promise<UpstreamAnswer> {
    const { now, nonce, send, userAgent, requestId, signal } = this.options
    const { path, query, headers, body, place } = request
    if (place !== undefined && place !== credentials.endpoint) throw movedAway()
    const access = accessWith(credentials)
    const url = access.address(path, query)
    const timestampSeconds = Math.floor(now() / 1000)
    const all: Record<string, string> = {
      Accept: 'application/json',
      'User-Agent': toUserAgent(userAgent),
      Authorization: access.sign({ method, url, timestampSeconds, nonce: nonce() }),
    }
    if (requestId !== undefined) all['X-Request-Id'] = requestId
    if (body !== undefined) all['Content-Type'] = 'application/json'
    if (headers !== undefined) Object.assign(all, headers)
    const answer = await send({
      target: 'storage',
      method,
      url,
      headers: all,
      body,
      timeoutMs: this.#timeoutMs(request),
      signal: method === 'GET' ? signal : undefined,
      callClass: this.#mustSettle ? 'must-complete' : 'normal',
      user: this.owner,
    })
    collectNotices(this.notices, answer.headers)
    return answer
  }

  #timeoutMs({ isStreaming = false }: StorageCall): number {
    const { timeoutMs, deadlineAtMs, now } = this.options
    if (!this.#hasDeadline || deadlineAtMs === null || isStreaming) return timeoutMs
    const leftMs = deadlineAtMs - now()
    if (leftMs > 0) return Math.min(timeoutMs, leftMs)
    throw new UpstreamError('timeout', 'Cannot call the storage: no time is left for this request', {
      applied: 'no',
    })
  }
}

type StorageCall = StorageRead & { body?: string }

function isForeseen(status: number, { headers = {}, mayBeMissing = false }: StorageRead): boolean {
  if (status === 304) return 'X-If-Modified-Since' in headers
  if (status === 412) return 'X-If-Unmodified-Since' in headers
  return status === 200 || (status === 404 && mayBeMissing)
}

/** A condition that was read from one store would hold by accident in another, for instance in an empty one. */
function movedAway(): UpstreamError {
  return new UpstreamError('refused', 'Cannot go on: the storage of this user has moved', { applied: 'no' })
}
