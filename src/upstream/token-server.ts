import { UpstreamError } from '../domain/errors.ts'
import { discard, readJson } from './answer.ts'
import { readBackoff } from './notices.ts'
import { readCredentials } from './token-answer.ts'
import { readTokenRefusal, wrongAddress } from './token-refusal.ts'
import type { Identity, SyncCredentials } from '../domain/credentials.ts'
import type { Send } from './send.ts'

export interface TokenServerOptions {
  /** With or without trailing slash or `/1.0/sync/1.5`; a path in front of these is kept. */
  url: string
  send: Send
  /** Until an answer's headers. */
  timeoutMs: number
  /** Wall clock, ms since 1970. */
  now(): number
  userAgent?: string
}

export interface TokenServer {
  /**
   * Credentials for an identity. Rejects with `ServiceError` 401 when the identity is refused, with `UpstreamError`
   * when the token server can't be used. `requestId` goes along as X-Request-Id.
   */
  exchange(identity: Identity, requestId?: string): Promise<SyncCredentials>
  /** Seconds that it asked this identity to leave between requests, or everybody; null when it asked for nothing. */
  backoffSeconds(identity: Identity): number | null
  /** Whether it is there and well; never rejects. */
  heartbeat(timeoutMs: number): Promise<boolean>
}

const exchangePath = '/1.0/sync/1.5'
const maxAnswerBytes = 65_536

export function createTokenServer(options: TokenServerOptions): TokenServer {
  const { send, timeoutMs, now, userAgent = 'sync-bridge' } = options
  const base = options.url.replace(/\/+$/, '').replace(/\/1\.0\/sync\/1\.5$/, '')
  const exchangeUrl = new URL(base + exchangePath)
  const heartbeatUrl = new URL(base + '/__heartbeat__')

  const backoffs = new Backoffs(now)

  return { exchange, heartbeat, backoffSeconds }

  function backoffSeconds(identity: Identity): number | null {
    return backoffs.isEmpty ? null : backoffs.of(nameOf(identity))
  }

  async function exchange(identity: Identity, requestId?: string): Promise<SyncCredentials> {
    const credentials = (await exchangeOnce(identity, requestId)) ?? (await exchangeOnce(identity, requestId))
    if (credentials) return credentials
    throw new UpstreamError(
      'bad-response',
      'Cannot get credentials: the token server does not answer in JSON',
    )
  }

  /** Null when the body broke off or is no JSON, which a second request may cure. */
  async function exchangeOnce(identity: Identity, requestId?: string): Promise<SyncCredentials | null> {
    const requestedAtMs = now()
    const headers: Record<string, string> = {
      Accept: 'application/json',
      'User-Agent': userAgent,
      ...identityHeaders(identity),
    }
    if (requestId !== undefined) headers['X-Request-Id'] = requestId
    const user = nameOf(identity)
    const answer = await send({ target: 'token', method: 'GET', url: exchangeUrl, headers, timeoutMs, user })
    if (answer.status !== 200) throw await readTokenRefusal(answer, now())
    if (answer.headers.get('content-type')?.startsWith('text/html')) {
      answer.body.cancel()
      throw new UpstreamError('bad-response', wrongAddress(200), { status: 200 })
    }
    const value = await readJson(answer, maxAnswerBytes).catch(undefinedWhenLost)
    if (value === undefined) return null
    const credentials = readCredentials(value, exchangeUrl, requestedAtMs)
    const pauseSeconds = readBackoff(answer.headers)
    if (pauseSeconds !== null) backoffs.add(user, pauseSeconds)
    return credentials
  }

  async function heartbeat(heartbeatTimeoutMs: number): Promise<boolean> {
    const headers = { Accept: 'application/json', 'User-Agent': userAgent }
    try {
      const answer = await send({
        target: 'token',
        method: 'GET',
        url: heartbeatUrl,
        headers,
        timeoutMs: heartbeatTimeoutMs,
        callClass: 'probe',
      })
      await discard(answer)
      return answer.status === 200
    } catch {
      return false
    }
  }
}

/** Tells identities apart without keeping them. */
function nameOf({ scheme, assertion, clientState }: Identity): string {
  return Bun.hash(`${scheme} ${assertion} ${clientState}`).toString(36)
}

const maxBackoffs = 1000
/** So many identities have to be asked for a pause until that counts for everybody. */
const identitiesToBelieve = 3

/** Pauses between requests that were asked for: each of its own identity, then of all. */
class Backoffs {
  readonly #ofIdentities = new Map<string, { seconds: number; untilMs: number }>()
  #ofAll = { seconds: 0, untilMs: 0 }

  constructor(private readonly now: () => number) {}

  get isEmpty(): boolean {
    return this.#ofIdentities.size === 0
  }

  add(identity: string, seconds: number): void {
    const nowMs = this.now()
    const backoff = { seconds, untilMs: nowMs + seconds * 1000 }
    this.#ofIdentities.delete(identity)
    for (const [other, { untilMs }] of this.#ofIdentities) {
      if (untilMs <= nowMs || this.#ofIdentities.size >= maxBackoffs) this.#ofIdentities.delete(other)
    }
    this.#ofIdentities.set(identity, backoff)
    if (this.#ofIdentities.size >= identitiesToBelieve) this.#ofAll = backoff
  }

  of(identity: string): number | null {
    const own = this.#ofIdentities.get(identity)
    const backoff = own && own.untilMs > this.#ofAll.untilMs ? own : this.#ofAll
    return this.now() < backoff.untilMs ? backoff.seconds : null
  }
}

function identityHeaders({ scheme, assertion, clientState, keyId }: Identity): Record<string, string> {
  const headers: Record<string, string> = { Authorization: `${scheme} ${assertion}` }
  switch (scheme) {
    case 'BrowserID':
      // The root view asks who somebody is without knowing a client state.
      if (clientState) headers['X-Client-State'] = clientState
      return headers
    case 'Bearer':
      if (keyId !== undefined) headers['X-KeyID'] = keyId
      return headers
    default:
      return scheme satisfies never
  }
}

function undefinedWhenLost(error: unknown): undefined {
  if (!(error instanceof UpstreamError && error.failure === 'connection-lost')) throw error
}
