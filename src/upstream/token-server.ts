import { Type } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import { errno, ServiceError, UpstreamError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { jsonOf, readBackoff, readRetryAfter, type UpstreamAnswer } from './answer.ts'
import type { Identity, SyncCredentials } from '../domain/credentials.ts'
import type { Address } from './request.ts'
import type { Upstream, UpstreamRequest } from './send.ts'

interface TokenServerOptions {
  /** With or without trailing slash or `/1.0/sync/1.5`; a path before these is kept. */
  url: string
  send: Upstream['send']
  /** The time until an answer's headers. */
  timeoutMs: number
  /** Wall clock, ms since 1970. */
  now(): number
  /** A clock in ms that never goes back. */
  monotonicNow(): number
  userAgent?: string
}

const exchangePath = '/1.0/sync/1.5'
const maxAnswerBytes = 65_536

/** Identities are remembered for a while, to tell those that were accepted from made-up ones. */
const maxIdentities = 10_000

export class TokenServer {
  readonly #pauses: Pauses
  readonly #backoffs = new RecentMap<string, { seconds: number; untilMs: number }>(maxIdentities)
  #hasAskedToBackOff = false
  readonly #exchangeUrl: Address
  readonly #heartbeatUrl: Address

  constructor(private readonly options: TokenServerOptions) {
    this.#pauses = new Pauses(options.monotonicNow)
    const base = options.url.replace(/\/{1,16}$/, '').replace(/\/1\.0\/sync\/1\.5$/, '')
    this.#exchangeUrl = addressOf(base + exchangePath)
    this.#heartbeatUrl = addressOf(base + '/__heartbeat__')
  }

  /**
   * Credentials for an identity. Rejects with `ServiceError` 401 when the identity is refused, with `UpstreamError`
   * when the token server can't be used. `requestId` goes along as X-Request-Id.
   */
  async exchange(identity: Identity, requestId?: string, isRepeated = false): Promise<SyncCredentials> {
    const { timeoutMs, now, send } = this.options
    const { scheme, assertion, clientState, keyId } = identity
    const name = nameOf(identity)
    this.#pauses.throwIfPaused(name)
    const requestedAtMs = now()
    const request = this.#request(this.#exchangeUrl, name, timeoutMs)
    const { headers } = request
    headers.Authorization = `${scheme} ${assertion}`
    // The root view asks for a user without knowing the client state.
    if (scheme === 'BrowserID' && clientState) headers['X-Client-State'] = clientState
    if (scheme === 'Bearer' && keyId !== undefined) headers['X-KeyID'] = keyId
    if (requestId !== undefined) headers['X-Request-Id'] = requestId
    const answer = await send(request)
    this.#pauses.recordAnswer(name, answer, now())
    if (answer.status !== 200) throw readTokenRefusal(answer, now())
    if (answer.headers.get('content-type')?.startsWith('text/html')) {
      throw new UpstreamError('bad-response', wrongAddress(200), { status: 200 })
    }
    const value = jsonOf(answer)
    if (value !== undefined) {
      const credentials = readCredentials(value, this.#exchangeUrl, requestedAtMs)
      this.#recordBackoff(name, answer.headers)
      return credentials
    }
    // A second answer may be JSON.
    if (!isRepeated) return await this.exchange(identity, requestId, true)
    const message = 'Cannot get credentials: the token server does not answer in JSON'
    throw new UpstreamError('bad-response', message)
  }

  /** The seconds that this identity was asked to leave between requests; null: none. */
  backoffSeconds(identity: Identity): number | null {
    // To compute the name is slow, so it is left out until some answer has asked for a pause.
    if (!this.#hasAskedToBackOff) return null
    const backoff = this.#backoffs.get(nameOf(identity))
    return backoff && this.options.monotonicNow() < backoff.untilMs ? backoff.seconds : null
  }

  /** Whether it answers and is well; never rejects. */
  async heartbeat(timeoutMs: number): Promise<boolean> {
    const request = this.#request(this.#heartbeatUrl, 'heartbeat', timeoutMs)
    return await this.options.send({ ...request, callClass: 'probe' }).then(
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

  #request(url: Address, user: string, timeoutMs: number): UpstreamRequest {
    const { userAgent = 'sync-bridge' } = this.options
    const headers = { Accept: 'application/json', 'User-Agent': userAgent }
    return { target: 'token', method: 'GET', url, user, timeoutMs, headers, maxBytes: maxAnswerBytes }
  }
}

const maxPauseMs = 300_000
/** So many identities that are asked to wait, one after the other, speak for all. */
const identitiesForAll = 10

/**
 * The pauses that the token server has asked for with `Retry-After`. Each is that of its identity. It counts for everybody when it was
 * given to an identity that was accepted before, or to ten in a row: anybody can make up identities that are asked to wait.
 */
class Pauses {
  readonly #untilMsByName = new RecentMap<string, number>(maxIdentities)
  readonly #accepted = new RecentMap<string, true>(maxIdentities)
  readonly #pausedInARow = new Set<string>()
  /** Of everybody. */
  #untilMs = -Infinity

  constructor(private readonly now: () => number) {}

  throwIfPaused(name: string): void {
    const forMs = Math.max(this.#untilMs, this.#untilMsByName.get(name) ?? -Infinity) - this.now()
    if (forMs <= 0) return
    throw new UpstreamError('refused', 'Cannot get credentials: the token server has asked for a pause', {
      retryAfterSeconds: Math.ceil(forMs / 1000),
      applied: 'no',
    })
  }

  /** `wallClockMs`: for a `Retry-After` that is a date. */
  recordAnswer(name: string, { status, headers }: UpstreamAnswer, wallClockMs: number): void {
    const isUnavailable = status === 429 || status >= 500
    const seconds = isUnavailable ? (readRetryAfter(headers, wallClockMs) ?? 0) : 0
    if (status === 200) this.#accepted.set(name, true)
    if (seconds === 0) return this.#pausedInARow.clear()
    const untilMs = this.now() + Math.min(seconds * 1000, maxPauseMs)
    this.#untilMsByName.set(name, untilMs)
    if (this.#pausedInARow.size < identitiesForAll) this.#pausedInARow.add(name)
    const isForAll = this.#accepted.get(name) || this.#pausedInARow.size >= identitiesForAll
    if (isForAll) this.#untilMs = Math.max(this.#untilMs, untilMs)
  }
}

/** A `URL` would make these texts anew at each look. */
function addressOf(text: string): Address {
  const { href, origin, host } = new URL(text)
  return { href, origin, host }
}

/** Tells identities apart where they are remembered after the call, without keeping a secret. */
function nameOf({ key }: Identity): string {
  return String(Bun.hash.xxHash64(key))
}

/**
 * Checks the token server's answer and makes credentials of it; see Sync "Token Server API", response. Throws `bad-
 * response` for missing or mistyped members, and for an address that credentials must not be sent to.
 */
function readCredentials(value: unknown, tokenServer: Address, requestedAtMs: number): SyncCredentials {
  tokenCheck ??= TypeCompiler.Compile(TokenAnswer)
  if (!tokenCheck.Check(value)) {
    const { path } = tokenCheck.Errors(value).First()!
    throw unusable(path === '' ? 'not an object' : `unusable "${path.slice(1)}"`)
  }
  const { id: hawkId, key: hawkKey, uid, duration, api_endpoint } = value
  const endpoint = readEndpoint(api_endpoint, uid, tokenServer)
  return { hawkId, hawkKey, endpoint, uid, expiresAtMs: requestedAtMs + duration * 1000 }
}

// Printable characters that fit into the quoted strings of a Hawk header.
const Quotable = Type.String({ pattern: '^[ !#-[\\]-~]{1,4096}$' })

const TokenAnswer = Type.Object({
  id: Quotable,
  key: Quotable,
  uid: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
  duration: Type.Number({ exclusiveMinimum: 0, maximum: 10 * 365 * 86_400 }),
  hashalg: Type.Optional(Type.Literal('sha256')),
  api_endpoint: Type.String(),
})

// Compiled at the first answer, so that the start does not wait for it.
let tokenCheck: TypeCheck<typeof TokenAnswer> | null = null

/** The address without its trailing slash. */
function readEndpoint(value: string, uid: number, tokenServer: Address): string {
  const url = URL.parse(value)
  if (!url) throw unusable('unusable "api_endpoint"')
  const { origin, pathname } = url
  const isHttps = origin.startsWith('https:')
  if (!isHttps && !(origin.startsWith('http:') && tokenServer.origin.startsWith('http:'))) {
    throw unusable('an "api_endpoint" that is not https')
  }
  if (url.href !== origin + pathname) throw unusable('an "api_endpoint" that is more than an address')
  const path = pathname.endsWith('/') ? pathname.slice(0, -1) : pathname
  if (!path.endsWith(`/${uid}`)) throw unusable('an "api_endpoint" of another user')
  return origin + path
}

function unusable(what: string): UpstreamError {
  return new UpstreamError('bad-response', `Cannot use the token server's answer: ${what}`)
}

/**
 * What an answer other than 200 means: the identity is refused (`ServiceError` 401, whose cause is the text `invalid-
 * timestamp` when only the clock is wrong), or the server can't be used. See Sync "Token Server API", error responses.
 */
function readTokenRefusal(answer: UpstreamAnswer, nowMs: number): ServiceError | UpstreamError {
  const { status, headers } = answer
  const retryAfterSeconds = readRetryAfter(headers, nowMs)
  if (status >= 500 || status === 429) {
    const message = `Cannot get credentials: the token server answered ${status}`
    return new UpstreamError('refused', message, { status, retryAfterSeconds, applied: 'no' })
  }
  const body = jsonOf(answer)
  const isObject = typeof body === 'object' && body !== null
  const { status: code, errors }: { status?: unknown; errors?: unknown } = isObject ? body : {}
  const error: { location?: unknown; description?: unknown } | null = Array.isArray(errors) ? errors[0] : null
  const isRefused =
    status === 401 || (status === 403 && isObject) || (status === 400 && error?.location === 'header')
  if (isRefused) return refusedIdentity(error?.description === 'Unsupported' ? 'unsupported' : code)
  return new UpstreamError('bad-response', wrongAddress(status), { status, retryAfterSeconds, applied: 'no' })
}

function wrongAddress(status: number): string {
  return `Cannot get credentials: the token server answered ${status}, token_server_url is probably wrong`
}

function refusedIdentity(reason: unknown): ServiceError {
  const message = explanations.get(reason) ?? 'The token server does not accept these credentials'
  const cause = reason === 'invalid-timestamp' ? reason : undefined
  return new ServiceError(401, errno.invalidCredentials, message, { cause })
}

/** By the `status` of the token server's error. Its own descriptions are never shown. */
const explanations = new Map<unknown, string>([
  ['invalid-credentials', 'The token server cannot verify this assertion or access token'],
  ['invalid-timestamp', 'The token server says that this assertion has expired, or that the clocks disagree'],
  ['invalid-generation', 'The password changed since this assertion was made: sign in again'],
  ['invalid-keysChangedAt', 'The encryption key changed since: get a new key and X-KeyID'],
  ['invalid-client-state', 'The client state is not the current one: get a new key'],
  ['invalid-key-id', 'The token server requires an X-KeyID header'],
  ['new-users-disabled', 'The token server does not admit new users'],
  ['unsupported', 'The token server does not support this authentication scheme'],
])
