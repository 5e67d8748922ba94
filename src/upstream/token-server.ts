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
  /** The token server asked for a pause between requests, in seconds, together with credentials. */
  onBackoff?(seconds: number): void
}

export interface TokenServer {
  /**
   * Credentials for an identity. Rejects with `ServiceError` 401 when the identity is refused, with `UpstreamError`
   * when the token server can't be used. `requestId` goes along as X-Request-Id.
   */
  exchange(identity: Identity, requestId?: string): Promise<SyncCredentials>
  /** Whether it is there and well; never rejects. */
  heartbeat(timeoutMs: number): Promise<boolean>
}

const exchangePath = '/1.0/sync/1.5'
const maxAnswerBytes = 65_536

export function createTokenServer(options: TokenServerOptions): TokenServer {
  const { send, timeoutMs, now, onBackoff, userAgent = 'sync-bridge' } = options
  const base = options.url.replace(/\/+$/, '').replace(/\/1\.0\/sync\/1\.5$/, '')
  const exchangeUrl = new URL(base + exchangePath)
  const heartbeatUrl = new URL(base + '/__heartbeat__')

  return { exchange, heartbeat }

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
    const answer = await send({ target: 'token', method: 'GET', url: exchangeUrl, headers, timeoutMs })
    if (answer.status !== 200) throw await readTokenRefusal(answer, now())
    if (answer.headers.get('content-type')?.startsWith('text/html')) {
      answer.body.cancel()
      throw new UpstreamError('bad-response', wrongAddress(200), { status: 200 })
    }
    const value = await readJson(answer, maxAnswerBytes).catch(undefinedWhenLost)
    if (value === undefined) return null
    const credentials = readCredentials(value, exchangeUrl, requestedAtMs)
    const backoffSeconds = readBackoff(answer.headers)
    if (backoffSeconds !== null) onBackoff?.(backoffSeconds)
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
        purpose: 'look',
      })
      await discard(answer)
      return answer.status === 200
    } catch {
      return false
    }
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
