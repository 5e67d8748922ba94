import { unexpected, type StoredRecord } from './answers.ts'
import { ClientError } from './errors.ts'
import { keepToken } from './account-file.ts'
import { isRenewable, type Account } from './account.ts'
import { wait } from './pauses.ts'
import { fieldsOf, numberOf, textOf } from './fields.ts'
import { parseRecords } from './record-list.ts'
import { renewToken, unlessAborted } from './token.ts'

/** How a client sends requests, and what it reports. */
export interface ClientOptions {
  /** May reject with `ClientError`, which is passed on. @default the global `fetch` */
  fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** Maximum retries of a request that gets 503 or 429 with a pause of up to a minute. @default 3 */
  maxPauses?: number
  /** Called before each pause, with its length in seconds and the status; 200 for a `Backoff` that `changes` respects. */
  onPause?(seconds: number, status: number): void
  /** Replaces the timer; rejects when the signal is aborted. */
  sleep?(seconds: number, signal?: AbortSignal): Promise<void>
  /** Called with a renewed access token, which is also written to the account's file. */
  onNewToken?(token: string): Promise<void> | void
}

/** Options of a request in the bucket. */
export interface RequestOptions {
  method?: 'GET' | 'HEAD' | 'POST'
  headers?: Record<string, string>
  body?: object
  signal?: AbortSignal
}

/** A successful response; `body` is null for HEAD, and is read by the functions of `answers.ts`. */
export interface Answer {
  status: number
  body: unknown
  headers: Headers
}

/** Longer pauses are reported as an error. */
const longestPauseSeconds = 60

/** How long an outage is assumed after a request failed despite its retries, unless another one succeeds. */
const outageMs = 60_000

/** Sends the requests of one account: renews the access token, waits when asked to, and turns error responses into `ClientError`. */
export class Requests {
  readonly options: ClientOptions
  /** When the pause ends that the bridge has asked for with `Backoff`, in ms since 1970. */
  backoffUntilMs = 0
  readonly #account: Account
  readonly #api: string
  #renewing: Promise<void> | null = null
  /** Until when an outage is assumed, in ms since 1970. */
  #downUntilMs = 0

  /** Renewing the token changes `account`. */
  constructor(account: Account, options: ClientOptions) {
    this.#account = account
    this.options = options
    let address = account.bridgeUrl
    while (address.endsWith('/')) address = address.slice(0, -1)
    this.#api = /\/v\d+$/.test(address) ? address : `${address}/v1`
  }

  /** Sends a request for a path below the version, such as `/batch`; an empty path is the root view. Rejects with `ClientError`. */
  async ask(path: string, options: RequestOptions = {}): Promise<Answer> {
    return read(await this.#sendWithRetries(path, options), options)
  }

  /** Requests a list of records, which are parsed as they arrive. Rejects with `ClientError`, as does `parts`. */
  async stream(
    path: string,
    options: RequestOptions = {},
  ): Promise<{ headers: Headers; parts: AsyncIterable<StoredRecord[]> }> {
    const answer = await this.#sendWithRetries(path, options)
    if (!answer.ok || answer.body === null) await read(answer, options)
    return { headers: answer.headers, parts: parseRecords(answer.body!, brokenOff, options.signal) }
  }

  async #sendWithRetries(path: string, options: RequestOptions): Promise<Response> {
    const { maxPauses = 3, onPause } = this.options
    for (let pauses = 0; ; pauses += 1) {
      const answer = await this.#sendRenewed(path, options)
      const seconds = pauseOf(answer)
      if (seconds === null) {
        this.#downUntilMs = 0
        return answer
      }
      // An outage affects all requests, so after one has failed despite its retries, the next ones are tried once.
      if (pauses === maxPauses || Date.now() < this.#downUntilMs) {
        this.#downUntilMs = Date.now() + outageMs
        return answer
      }
      await answer.body?.cancel()
      onPause?.(seconds, answer.status)
      await (this.options.sleep ?? wait)(seconds, options.signal)
    }
  }

  async #sendRenewed(path: string, options: RequestOptions): Promise<Response> {
    const { token } = this.#account
    const answer = await this.#send(path, options)
    if (answer.status !== 401 || !isRenewable(this.#account)) return answer
    await answer.body?.cancel()
    // Concurrent requests that get 401 share one new token.
    if (token === this.#account.token) {
      this.#renewing ??= renewToken(this.#account, this.#fetch)
        .then((renewed) => {
          this.#account.token = renewed
          if (this.#account.file !== '') keepToken(this.#account)
          return this.options.onNewToken?.(renewed)
        })
        .finally(() => (this.#renewing = null))
      await unlessAborted(this.#renewing, options.signal)
    }
    return this.#send(path, options)
  }

  async #send(path: string, { method = 'GET', headers, body, signal }: RequestOptions): Promise<Response> {
    const { token, keyId, bridgeUrl } = this.#account
    const init: RequestInit = {
      method,
      headers: {
        Authorization: `Bearer ${token}`,
        'X-KeyID': keyId,
        ...(body && { 'Content-Type': 'application/json' }),
        ...headers,
      },
      signal,
      cache: 'no-store',
      credentials: 'omit',
      // A redirect would lose the token, or the body of a write.
      redirect: 'manual',
      ...(body && { body: JSON.stringify(body) }),
    }
    try {
      const answer = await this.#fetch(`${this.#api}${path || '/'}`, init)
      const backoffMs = Number(answer.headers.get('Backoff')) * 1000
      // Only then: without `Backoff`, a clock that is set back must not cause a pause.
      if (backoffMs > 0) this.backoffUntilMs = Math.max(this.backoffUntilMs, Date.now() + backoffMs)
      return answer
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof ClientError) throw error
      if (body) throw unknownOutcome(error)
      const address = bridgeUrl || '"" (set bridgeUrl)'
      throw new ClientError(`No response from the bridge at ${address}. Is it running?`, { cause: error })
    }
  }

  get #fetch() {
    // The browser's `fetch` must be called as a method of the window.
    return this.options.fetch ?? ((url: string, init: RequestInit) => fetch(url, init))
  }
}

/** How many seconds the response asks to wait; null if it does not, or too long. */
function pauseOf({ status, headers }: Response): number | null {
  if (status !== 503 && status !== 429) return null
  const seconds = Number(headers.get('Retry-After') ?? 1)
  return seconds <= longestPauseSeconds ? seconds : null
}

async function read(answer: Response, { method, body: sent, signal }: RequestOptions): Promise<Answer> {
  const { status, headers, ok } = answer
  const isHead = method === 'HEAD'
  let cause: unknown
  const body: unknown = isHead ? null : await answer.json().catch((error: unknown) => void (cause = error))
  const { data, responses, settings, errno, message } = fieldsOf(body)
  // Every success of a bridge has a list, a record, or settings; other servers also return JSON.
  if (ok && (isHead || [data, responses, settings].some((part) => typeof part === 'object' && part !== null)))
    return { status, body, headers }
  signal?.throwIfAborted()
  if (ok && sent) throw unknownOutcome(cause)
  if (ok) throw !cause || cause instanceof SyntaxError ? unexpected('', cause) : brokenOff(cause)
  const reason =
    textOf(message) ||
    (body || isHead
      ? `The bridge returned ${status}.`
      : `A proxy or another server returned ${status}: is this the address of the bridge?`)
  const seconds = numberOf(headers.get('Retry-After'))
  const advice = `. Try again in ${seconds} s`
  throw new ClientError(seconds > 0 ? reason.replace(/: try again later$|\.$/, '') + advice : reason, {
    status,
    errno: typeof errno === 'number' ? errno : null,
    // errno 104: the credentials are missing or contradictory, and a new token would not help.
    field: status !== 401 ? null : errno === 104 ? 'keyId' : 'token',
  })
}

function brokenOff(cause?: unknown): ClientError {
  return new ClientError('The response broke off: the storage or the connection failed.', { cause })
}

/** The response to a write is lost. */
export function unknownOutcome(cause?: unknown): ClientError {
  return new ClientError('No response: the write may have been applied. Check before you repeat it.', {
    mayBeApplied: true,
    cause,
  })
}
