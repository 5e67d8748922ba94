import { ClientError } from './errors.ts'
import { isRenewable, type Account } from './account.ts'
import type { StoredRecord } from './record-list.ts'

/** How a client reaches the bridge, and what it tells about that. */
export interface ClientOptions {
  /** @default the global one */
  fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** How often a request that is asked to wait (503 or 429 with a pause of up to a minute) is repeated. @default 3 */
  maxPauses?: number
  /** Before each such pause, with its length in seconds and the status; that is 200 where `changes` keeps a longer one than its own. */
  onPause?(seconds: number, status: number): void
  /** What waits; it rejects when the signal fires. @default a timer */
  sleep?(seconds: number, signal?: AbortSignal): Promise<void>
  /** With a new access token, for those who keep it. */
  onNewToken?(token: string): Promise<void> | void
}

/** A request below the bucket. */
export interface RequestOptions {
  method?: 'GET' | 'HEAD' | 'POST'
  headers?: Record<string, string>
  body?: object
  signal?: AbortSignal
}

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Body = any

/** An answer that the bridge calls a success, or 304. */
export interface Answer {
  status: number
  body: Body
  headers: Headers
}

/** The longest pause that is kept without asking somebody. */
const longestPauseSeconds = 60

/** Asks a bridge for an account: renews the access token, keeps the pauses it is asked for, and turns refusals into errors. */
export class Requests {
  readonly options: ClientOptions
  /** Until when the bridge wants to be left alone by those who have time, in ms since 1970. */
  backoffUntilMs = 0
  readonly #account: Account
  readonly #api: string
  #renewing: Promise<void> | null = null

  /** The account's token is replaced when it is renewed. */
  constructor(account: Account, options: ClientOptions) {
    this.#account = account
    this.options = options
    let address = account.bridgeUrl
    while (address.endsWith('/')) address = address.slice(0, -1)
    this.#api = /\/v\d+$/.test(address) ? address : `${address}/v1`
  }

  /** Asks for a path below the version, such as `/batch`; an empty one is the root view. Rejects with `ClientError`. */
  async ask(path: string, options: RequestOptions = {}): Promise<Answer> {
    return read(await this.#sendPatiently(path, options), options)
  }

  /** Asks for a list of records; they are parsed as they come. Rejects with `ClientError`, and so does what it resolves to. */
  async stream(
    path: string,
    options: RequestOptions = {},
  ): Promise<{ headers: Headers; parts: AsyncIterable<StoredRecord[]> }> {
    const answer = await this.#sendPatiently(path, options)
    if (!answer.ok || answer.body === null) await read(answer, options)
    // The explorer, which shows pages, does not load this.
    const { parseRecords } = await import('./record-list.ts')
    return { headers: answer.headers, parts: parseRecords(answer.body!, brokenOff) }
  }

  async #sendPatiently(path: string, options: RequestOptions): Promise<Response> {
    const { maxPauses = 3, onPause } = this.options
    for (let pauses = 0; ; pauses += 1) {
      const answer = await this.#sendRenewed(path, options)
      const seconds = pauseOf(answer)
      if (pauses === maxPauses || seconds === null) return answer
      await answer.body?.cancel()
      onPause?.(seconds, answer.status)
      // The explorer, which never waits, does not load this.
      const { wait } = await import('./pauses.ts')
      await (this.options.sleep ?? wait)(seconds, options.signal)
    }
  }

  async #sendRenewed(path: string, options: RequestOptions): Promise<Response> {
    const { token } = this.#account
    const answer = await this.#send(path, options)
    if (answer.status !== 401 || !isRenewable(this.#account)) return answer
    await answer.body?.cancel()
    // Requests that are refused together, or after one another, need one new token.
    if (token === this.#account.token)
      await (this.#renewing ??= this.#renew().finally(() => (this.#renewing = null)))
    return this.#send(path, options)
  }

  async #renew(): Promise<void> {
    // Only those load it who have a refresh token, which the explorer has not.
    const { renewToken } = await import('./token.ts')
    this.#account.token = await renewToken(this.#account, this.#fetch)
    await this.options.onNewToken?.(this.#account.token)
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
      ...(body && { body: JSON.stringify(body) }),
    }
    try {
      const answer = await this.#fetch(`${this.#api}${path || '/'}`, init)
      const backoffMs = Number(answer.headers.get('Backoff')) * 1000 || 0
      this.backoffUntilMs = Math.max(this.backoffUntilMs, Date.now() + backoffMs)
      return answer
    } catch (error) {
      signal?.throwIfAborted()
      if (body) throw unknownOutcome(error)
      throw new ClientError(`The bridge does not answer at ${bridgeUrl}. Is it still running?`, {
        cause: error,
      })
    }
  }

  get #fetch() {
    // A browser's own must be called as a function of the window.
    return this.options.fetch ?? ((url: string, init: RequestInit) => fetch(url, init))
  }
}

/** The pause that an answer asks for; null where it asks for none, or for one that a person should know of. */
function pauseOf({ status, headers }: Response): number | null {
  if (status !== 503 && status !== 429) return null
  const seconds = Number(headers.get('Retry-After') ?? 1)
  return seconds <= longestPauseSeconds ? seconds : null
}

async function read(answer: Response, { method, body: sent }: RequestOptions): Promise<Answer> {
  const { status, headers } = answer
  const hasNoBody = method === 'HEAD' || status === 304
  const body: Body = hasNoBody ? null : await answer.json().catch(() => null)
  if ((answer.ok && body !== null) || (hasNoBody && (answer.ok || status === 304)))
    return { status, body, headers }
  if (answer.ok && sent) throw unknownOutcome()
  if (answer.ok) throw brokenOff()
  const message =
    body?.message ?? `The bridge answers ${status}${body ? '.' : ' and no JSON: is this its address?'}`
  const seconds = Number(headers.get('Retry-After'))
  throw new ClientError(seconds > 0 ? `${message} (in ${seconds} s)` : message, {
    status,
    errno: body?.errno,
    // 104: something is missing or contradicts itself, which another token would not cure.
    field: status !== 401 ? null : body?.errno === 104 ? 'keyId' : 'token',
  })
}

function brokenOff(cause?: unknown): ClientError {
  return new ClientError('The answer broke off: the storage failed, or the connection.', { cause })
}

function unknownOutcome(cause?: unknown): ClientError {
  const message = 'No answer came: this may have been written, or not. Look before you repeat it.'
  return new ClientError(message, { cause })
}
