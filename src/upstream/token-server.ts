import { Type } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { retries } from '../domain/retries.ts'
import { jsonOf, readBackoff, readRetryAfter, type UpstreamResponse } from './response.ts'
import type { Clock } from '../domain/clock.ts'
import { toEndpoint, type Endpoint, type Identity, type SyncCredentials } from '../domain/credentials.ts'
import type { UpstreamUrl } from './request.ts'
import type { Upstream, UpstreamRequest } from './send.ts'

interface TokenServerOptions extends Clock {
  /** The base URL as read from the settings: without a trailing slash and without `/1.0/sync/1.5`. */
  url: string
  send: Upstream['send']
  /** Timeout until the response headers. */
  timeoutMs: number
  userAgent?: string
}

const exchangePath = '/1.0/sync/1.5'
const maxResponseBytes = 65_536

/** Known identities are remembered, to distinguish them from made-up ones. */
const maxIdentities = 10_000

export class TokenServer {
  readonly #pauses: Pauses
  readonly #backoffs = new RecentMap<string, { seconds: number; untilMs: number }>(maxIdentities)
  #hasAskedToBackOff = false
  readonly #exchangeUrl: URL
  readonly #heartbeatUrl: URL

  constructor(private readonly options: TokenServerOptions) {
    this.#pauses = new Pauses(options.monotonicNow)
    this.#exchangeUrl = new URL(options.url + exchangePath)
    this.#heartbeatUrl = new URL(options.url + '/__heartbeat__')
  }

  /**
   * Exchanges an identity for credentials. Rejects with `ServiceError` 401 if the identity is rejected and 429 if it must wait, with
   * `UpstreamError` if the token server can't be used. `requestId` is passed on as X-Request-Id.
   */
  async exchange(identity: Identity, requestId?: string): Promise<SyncCredentials> {
    const { timeoutMs, now, monotonicNow } = this.options
    const deadlineAtMs = monotonicNow() + timeoutMs
    const requestedAtMs = now()
    let response = await this.#ask(identity, requestId, timeoutMs)
    let value = jsonOf(response)
    for (let repeats = 0; value === undefined && repeats < retries.exchange.times; repeats += 1) {
      const leftMs = deadlineAtMs - monotonicNow()
      if (leftMs <= 0) break
      response = await this.#ask(identity, requestId, leftMs)
      value = jsonOf(response)
    }
    if (value === undefined) {
      const message = 'Cannot get credentials: the response of the token server is not JSON'
      throw new UpstreamError('bad-response', message)
    }
    const credentials = readCredentials(value, this.#exchangeUrl, requestedAtMs)
    this.#recordBackoff(identityHash(identity), response.headers)
    return credentials
  }

  /** Resolves to a response with status 200 that is no page. */
  async #ask(
    identity: Identity,
    requestId: string | undefined,
    timeoutMs: number,
  ): Promise<UpstreamResponse> {
    const { now, send } = this.options
    const { scheme, assertion, clientState, keyId } = identity
    const name = identityHash(identity)
    this.#pauses.throwIfPaused(name)
    const request = this.#request(this.#exchangeUrl, name, timeoutMs)
    const { headers } = request
    headers.Authorization = `${scheme} ${assertion}`
    // The root view has no client state.
    if (scheme === 'BrowserID' && clientState) headers['X-Client-State'] = clientState
    if (keyId !== undefined) headers['X-KeyID'] = keyId
    if (requestId !== undefined) headers['X-Request-Id'] = requestId
    const response = await send(request)
    this.#pauses.recordResponse(name, response, now())
    if (response.status !== 200) throw readTokenRefusal(response, now())
    if (isPage(response.headers)) throw new UpstreamError('bad-response', wrongAddress(200), { status: 200 })
    return response
  }

  /** The backoff in seconds that the token server asked of this identity; null if none. */
  backoffSeconds(identity: Identity): number | null {
    // Computing the name is slow, so skip it until a backoff was requested.
    if (!this.#hasAskedToBackOff) return null
    const backoff = this.#backoffs.get(identityHash(identity))
    return backoff && this.options.monotonicNow() < backoff.untilMs ? backoff.seconds : null
  }

  /** Whether the token server is healthy; never rejects. */
  async heartbeat(timeoutMs: number): Promise<boolean> {
    const request = this.#request(this.#heartbeatUrl, 'heartbeat', timeoutMs)
    return await this.options.send(request).then(
      ({ status }) => status === 200,
      () => false,
    )
  }

  #recordBackoff(name: string, headers: Headers): void {
    const seconds = readBackoff(headers)
    if (seconds === null) return
    this.#hasAskedToBackOff = true
    this.#backoffs.set(name, { seconds, untilMs: this.options.monotonicNow() + seconds * 1000 })
  }

  #request(url: UpstreamUrl, user: string, timeoutMs: number): UpstreamRequest {
    const { userAgent = 'sync-bridge' } = this.options
    const headers = { Accept: 'application/json', 'User-Agent': userAgent }
    return { target: 'token', method: 'GET', url, user, timeoutMs, headers, maxBytes: maxResponseBytes }
  }
}

const maxPauseMs = 300_000
const maxPauseOfAllMs = 60_000

/** The pauses that the token server asked for with `Retry-After`: a 429 is for its identity, a 503 for all. */
class Pauses {
  readonly #untilMsByName = new RecentMap<string, number>(maxIdentities)
  /** For all identities. */
  #untilMs = -Infinity

  constructor(private readonly now: () => number) {}

  throwIfPaused(name: string): void {
    const leftSeconds = (untilMs = -Infinity) => Math.ceil((untilMs - this.now()) / 1000)
    const own = leftSeconds(this.#untilMsByName.get(name))
    if (own > 0) throw tooManyRequests(own)
    const retryAfterSeconds = leftSeconds(this.#untilMs)
    if (retryAfterSeconds <= 0) return
    const message = 'Cannot get credentials: the token server asked to wait (Retry-After)'
    throw new UpstreamError('refused', message, { retryAfterSeconds, applied: 'no' })
  }

  /** `wallClockMs` is needed if `Retry-After` is a date. */
  recordResponse(name: string, { status, headers }: UpstreamResponse, wallClockMs: number): void {
    if (status !== 429 && status !== 503) return
    const pauseMs = (readRetryAfter(headers, wallClockMs) ?? 0) * 1000
    if (status === 429) this.#untilMsByName.set(name, this.now() + Math.min(pauseMs, maxPauseMs))
    else this.#untilMs = Math.max(this.#untilMs, this.now() + Math.min(pauseMs, maxPauseOfAllMs))
  }
}

function tooManyRequests(retryAfterSeconds: number | null): ServiceError {
  const message = 'Too many requests to the token server: try again later'
  return new ServiceError(429, errno.tooManyRequests, message, { retryAfterSeconds })
}

/** Identifies an identity without keeping a secret. */
function identityHash({ key }: Identity): string {
  return String(Bun.hash.xxHash64(key))
}

/**
 * Validates the token server's response and returns its credentials; see Sync "Token Server API", response. Throws `bad-response` for
 * missing or mistyped members, and for an endpoint that must not get credentials.
 */
function readCredentials(value: unknown, tokenServer: UpstreamUrl, requestedAtMs: number): SyncCredentials {
  tokenCheck ??= TypeCompiler.Compile(TokenResponse)
  if (!tokenCheck.Check(value)) {
    const { path } = tokenCheck.Errors(value).First()!
    throw unusableToken(path === '' ? 'not a JSON object' : `"${path.slice(1)}" is missing or invalid`)
  }
  const { id: hawkId, key: hawkKey, uid, duration, api_endpoint } = value
  const endpoint = readEndpoint(api_endpoint, uid, tokenServer)
  return { hawkId, hawkKey, endpoint, uid, expiresAtMs: requestedAtMs + duration * 1000 }
}

// Printable characters that are valid in the quoted strings of a Hawk header.
const Quotable = Type.String({ pattern: '^[ !#-[\\]-~]{1,4096}$' })

const TokenResponse = Type.Object({
  id: Quotable,
  key: Quotable,
  uid: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  duration: Type.Number({ exclusiveMinimum: 0, maximum: 10 * 365 * 86_400 }),
  hashalg: Type.Optional(Type.Literal('sha256')),
  api_endpoint: Type.String(),
})

// Compiled at the first response, to start faster.
let tokenCheck: TypeCheck<typeof TokenResponse> | null = null

function readEndpoint(value: string, uid: number, tokenServer: UpstreamUrl): Endpoint {
  const url = URL.parse(value)
  if (!url) throw unusableToken('"api_endpoint" is not a URL')
  const { origin, pathname } = url
  const isHttps = origin.startsWith('https:')
  if (!isHttps && !(origin.startsWith('http:') && tokenServer.origin.startsWith('http:'))) {
    throw unusableToken('"api_endpoint" is not https')
  }
  if (url.href !== origin + pathname) throw unusableToken('"api_endpoint" has a query, a fragment or a login')
  const endpoint = toEndpoint(url)
  if (!endpoint.path.endsWith(`/${uid}`)) throw unusableToken('"api_endpoint" belongs to another user')
  return endpoint
}

function unusableToken(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Unusable response from the token server: ${what}`)
}

/**
 * Translates a response other than 200: the identity was rejected (`ServiceError` 401, with the cause `invalid-timestamp` if only the clock
 * is wrong) or must wait (429), or the server can't be used. See Sync "Token Server API", error responses.
 */
function readTokenRefusal(response: UpstreamResponse, nowMs: number): ServiceError | UpstreamError {
  const { status, headers } = response
  const retryAfterSeconds = readRetryAfter(headers, nowMs)
  if (status === 429) return tooManyRequests(retryAfterSeconds)
  if (status >= 500) {
    const message = `Cannot get credentials: the token server returned ${status}`
    return new UpstreamError('refused', message, { status, retryAfterSeconds, applied: 'no' })
  }
  const body = jsonOf(response)
  const isObject = typeof body === 'object' && body !== null
  const { status: code, errors }: { status?: unknown; errors?: unknown } = isObject ? body : {}
  const error: { location?: unknown; description?: unknown } | null = Array.isArray(errors) ? errors[0] : null
  const isRefused =
    (status === 401 && !isPage(headers)) ||
    (status === 403 && isObject) ||
    (status === 400 && error?.location === 'header')
  if (isRefused) return refusedIdentity(error?.description === 'Unsupported' ? 'unsupported' : code)
  return new UpstreamError('bad-response', wrongAddress(status), { status, retryAfterSeconds, applied: 'no' })
}

/** Whether a response is a page, so that another server has sent it. */
function isPage(headers: Headers): boolean {
  return headers.get('content-type')?.startsWith('text/html') === true
}

function wrongAddress(status: number): string {
  return `Cannot get credentials: the token server returned ${status}: check token_server_url`
}

function refusedIdentity(reason: unknown): ServiceError {
  const message = explanations.get(reason) ?? 'The token server rejected these credentials: sign in again'
  const cause = reason === 'invalid-timestamp' ? reason : undefined
  return new ServiceError(401, errno.invalidCredentials, message, { cause })
}

/** Messages by the `status` of the token server's error; its own texts are never shown. */
const explanations = new Map<unknown, string>([
  ['invalid-credentials', 'The token server cannot verify this assertion or access token'],
  ['invalid-timestamp', 'The assertion has expired, or the clocks of client and token server differ'],
  ['invalid-generation', 'The password has changed since this assertion was issued: sign in again'],
  ['invalid-keysChangedAt', 'The encryption key has changed: get the new key and X-KeyID'],
  ['invalid-client-state', 'The client state is outdated: get the new encryption key'],
  ['invalid-key-id', 'The token server requires an X-KeyID header'],
  ['new-users-disabled', 'The token server does not accept new users'],
  ['unsupported', 'The token server does not support this authentication scheme'],
])
