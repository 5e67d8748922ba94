import { UpstreamError } from '../domain/errors.ts'
import { AnswerBody } from './answer-body.ts'
import { discard } from './answer.ts'
import { createAdmission, defaultCallLimits } from './admission.ts'
import { toUpstreamError } from './fetch-failure.ts'
import { readRetryAfter } from './retry-after.ts'
import type { CallLimits } from './admission.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { UpstreamFailure } from '../domain/errors.ts'

/** One of the two services that we call. */
export type UpstreamTarget = 'token' | 'storage'

export interface UpstreamRequest {
  target: UpstreamTarget
  url: URL
  method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  headers: Record<string, string>
  body?: string
  /** Until the answer's headers, over all attempts; the body has no limit but its stalls. */
  timeoutMs: number
  /** Gives up; only for what may be given up, that is reads. */
  signal?: AbortSignal
}

/** One exchange as metrics count it. Both are null when it was given up by its signal. */
export interface Exchange {
  target: UpstreamTarget
  method: string
  status: number | null
  failure: UpstreamFailure | null
  /** Until the answer's headers or the failure. */
  ms: number
}

export interface SendOptions {
  limits?: CallLimits
  /** PEM text; when given, the only authorities that are trusted. */
  ca?: string
  observe(exchange: Exchange): void
  /** A clock in ms. */
  now(): number
  /** Between 0 and 1. */
  random(): number
  delay(ms: number): Promise<void>
  /** The longest pause within a body. */
  stallMs?: number
}

/**
 * Sends one request, and a GET once more after what a second attempt may cure. Rejects with `UpstreamError`; every
 * status that HTTP knows is an answer, except for redirections, which are never followed.
 */
export type Send = (request: UpstreamRequest) => Promise<UpstreamAnswer>

/** The only door to the token server and the storage. */
export function createSend(options: SendOptions): Send {
  const { ca, observe, now, random, delay, stallMs = 30_000 } = options
  const admission = createAdmission(options.limits ?? defaultCallLimits)
  const tls = ca === undefined ? undefined : { ca }

  return async (request) => {
    const deadlineMs = now() + request.timeoutMs
    if (request.method !== 'GET') return await attempt(request, deadlineMs)
    try {
      const answer = await attempt(request, deadlineMs)
      if (!isPassing(answer) || !(await hasTimeForAnother(deadlineMs))) return answer
      await discard(answer)
    } catch (error) {
      if (!isWorthAnother(error, request.signal) || !(await hasTimeForAnother(deadlineMs))) throw error
    }
    return await attempt(request, deadlineMs)
  }

  async function hasTimeForAnother(deadlineMs: number): Promise<boolean> {
    const pauseMs = 50 + random() * 100
    if (now() + pauseMs >= deadlineMs) return false
    await delay(pauseMs)
    return true
  }

  async function attempt(request: UpstreamRequest, deadlineMs: number): Promise<UpstreamAnswer> {
    const { target, method, url } = request
    const startedAtMs = now()
    const report = (status: number | null, failure: UpstreamFailure | null) =>
      observe({ target, method, status, failure, ms: now() - startedAtMs })
    try {
      const leave = await admission.enter(target, url.origin)
      const answer = await exchange(request, Math.max(1, deadlineMs - now()), leave)
      report(answer.status, null)
      return answer
    } catch (error) {
      if (error instanceof UpstreamError) report(error.status, request.signal?.aborted ? null : error.failure)
      throw error
    }
  }

  async function exchange(
    request: UpstreamRequest,
    timeoutMs: number,
    leave: () => void,
  ): Promise<UpstreamAnswer> {
    const { url, method, headers, body, signal } = request
    const abort = new AbortController()
    const giveUp = () => abort.abort(new UpstreamError('lost', `Gave up a call of "${url.host}"`))
    const finished = () => {
      signal?.removeEventListener('abort', giveUp)
      leave()
    }
    const timer = setTimeout(() => abort.abort(tooSlow(url.host, timeoutMs)), timeoutMs)
    try {
      signal?.addEventListener('abort', giveUp)
      if (signal?.aborted) giveUp()
      const response = await fetch(url, {
        method,
        headers: { 'Accept-Encoding': 'identity', ...headers },
        body,
        signal: abort.signal,
        redirect: 'manual',
        decompress: false,
        // A pooled connection that dies makes the runtime send PUT and DELETE a second time by itself.
        keepalive: method === 'GET',
        tls,
      })
      const answerBody = new AnswerBody(response, url.host, stallMs, abort, finished)
      const answer = { status: response.status, headers: response.headers, body: answerBody }
      const nonsense = findNonsense(answer)
      if (nonsense === null) return answer
      answerBody.cancel()
      throw new UpstreamError('nonsense', `Cannot use the answer of "${url.host}": ${nonsense}`, {
        status: response.status,
      })
    } catch (error) {
      if (!(error instanceof UpstreamError && error.failure === 'nonsense')) finished()
      throw toUpstreamError(error, url.host)
    } finally {
      clearTimeout(timer)
    }
  }
}

function tooSlow(host: string, timeoutMs: number): UpstreamError {
  return new UpstreamError(
    'timeout',
    `Cannot get an answer of "${host}": none in ${Math.round(timeoutMs)} ms`,
  )
}

function findNonsense({ status, headers }: UpstreamAnswer): string | null {
  if (status < 200 || status > 599) return `status ${status}`
  if (status >= 300 && status < 400 && status !== 304) return 'a redirection'
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    return 'encoded, though identity was asked for'
  return null
}

/** A failure of the moment; who names a time to wait does not want to be asked before. */
function isPassing({ status, headers }: UpstreamAnswer): boolean {
  if (status !== 500 && status !== 502 && status !== 503 && status !== 504) return false
  return readRetryAfter(headers, 0) === null
}

function isWorthAnother(error: unknown, signal: AbortSignal | undefined): boolean {
  if (!(error instanceof UpstreamError) || signal?.aborted) return false
  return error.failure === 'unreachable' || error.failure === 'lost'
}
