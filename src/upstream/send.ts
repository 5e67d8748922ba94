import { UpstreamError } from '../domain/errors.ts'
import { AnswerBody } from './answer-body.ts'
import { discard } from './answer.ts'
import { createAdmission, defaultCallLimits } from './admission.ts'
import { createBreakers } from './circuit-breaker.ts'
import { CallsUnderWay, gaveUp } from './calls-under-way.ts'
import { toUpstreamError } from './fetch-failure.ts'
import { readRetryAfter } from './retry-after.ts'
import { Together } from './together.ts'
import type { CallLimits, Leave } from './admission.ts'
import type { UpstreamAnswer } from './answer.ts'
import type { Breakers, CallClass, Permit } from './circuit-breaker.ts'
import type { UpstreamFailure } from '../domain/errors.ts'
import type { Address } from './storage-url.ts'

/** One of the two services that we call. */
export type UpstreamTarget = 'token' | 'storage'

export interface UpstreamRequest {
  target: UpstreamTarget
  url: Address
  method: 'GET' | 'PUT' | 'POST' | 'DELETE'
  headers: Record<string, string>
  body?: string
  /** Until the answer's headers and the first piece of its body, over all attempts; the rest may only stall. */
  timeoutMs: number
  /** Gives up; only for what may be given up, that is reads. */
  signal?: AbortSignal
  /** Whether an open breaker stops it; `normal` if absent. */
  callClass?: CallClass
  /** Tells users apart, so that the failures of one don't count for all; not for logs. */
  user?: string
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
  /** Its own if absent. */
  breakers?: Breakers
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
 * Sends one request, and a GET once more after what a second attempt may cure. Rejects with `UpstreamError`, without
 * having sent anything while the target's breaker is open; every status that HTTP knows is an answer, except for
 * redirections, which are never followed.
 */
export type Send = (request: UpstreamRequest) => Promise<UpstreamAnswer>

/** The only door to the token server and the storage. */
export function createSend(options: SendOptions): Send {
  const { ca, observe, now, random, delay, stallMs = 30_000 } = options
  const breakers = options.breakers ?? createBreakers({ now, random })
  const admission = createAdmission(options.limits ?? defaultCallLimits)
  const calls = new CallsUnderWay()
  const together = new Together()
  const tls = ca === undefined ? undefined : { ca }

  return async (request) => {
    const deadlineMs = now() + request.timeoutMs
    if (request.method !== 'GET') return await attempt(request, deadlineMs)
    try {
      const answer = await attempt(request, deadlineMs)
      if (!isPassing(answer) || !(await mayTryAgain(request, deadlineMs))) return answer
      await discard(answer)
    } catch (error) {
      if (!isWorthAnother(error, request.signal) || !(await mayTryAgain(request, deadlineMs))) throw error
    }
    return await attempt(request, deadlineMs)
  }

  async function mayTryAgain(request: UpstreamRequest, deadlineMs: number): Promise<boolean> {
    const pauseMs = 50 + random() * 100
    if (now() + pauseMs >= deadlineMs) return false
    await delay(pauseMs)
    return breakers.admits(request)
  }

  async function attempt(request: UpstreamRequest, deadlineMs: number): Promise<UpstreamAnswer> {
    const { target, method, url } = request
    const permit = breakers.acquire(request)
    const startedAtMs = now()
    const report = (status: number | null, failure: UpstreamFailure | null) =>
      observe({ target, method, status, failure, ms: now() - startedAtMs })
    try {
      const entered = admission.enter(target, url.origin)
      // Nobody has to wait while there is room.
      const leave = typeof entered === 'function' ? entered : await confirmed(request, permit, entered)
      const answer = await exchange(request, Math.max(1, deadlineMs - now()), leave, permit)
      report(answer.status, null)
      return answer
    } catch (error) {
      breakers.ended(permit, request, error)
      if (error instanceof UpstreamError) report(error.status, request.signal?.aborted ? null : error.failure)
      throw error
    }
  }

  async function confirmed(
    request: UpstreamRequest,
    permit: Permit,
    entered: Promise<Leave>,
  ): Promise<Leave> {
    const leave = await entered
    try {
      breakers.confirm(permit, request)
      return leave
    } catch (error) {
      leave()
      throw error
    }
  }

  async function exchange(
    request: UpstreamRequest,
    timeoutMs: number,
    leave: () => void,
    permit: Permit,
  ): Promise<UpstreamAnswer> {
    const { url, method, headers, body, signal } = request
    const endMs = now() + timeoutMs
    const call = calls.begin(signal)
    const finished = () => {
      call.end()
      leave()
    }
    try {
      await together.wait()
      if (signal?.aborted) throw gaveUp()
      call.expectWithin(timeoutMs, () => tooSlow(url.host, timeoutMs))
      const response = await fetch(url.href, {
        method,
        headers: { 'Accept-Encoding': 'identity', ...headers },
        body,
        signal: call.signal,
        redirect: 'manual',
        decompress: false,
        // A pooled connection that dies makes the runtime send PUT and DELETE a second time by itself.
        keepalive: method === 'GET',
        tls,
      })
      call.rest()
      // Headers alone are no answer, so what time is left goes for the beginning of the body, too.
      const patience = { firstMs: Math.min(stallMs, Math.max(1, endMs - now())), stallMs }
      const answerBody = new AnswerBody(response, url.host, patience, call, (failure) => {
        finished()
        breakers.ended(permit, request, failure)
      })
      const answer = { status: response.status, headers: response.headers, body: answerBody }
      const nonsense = findNonsense(answer)
      if (nonsense === null) {
        breakers.answered(permit, request, answer, answerBody.isShort)
        return answer
      }
      const unusable = new UpstreamError(
        'bad-response',
        `Cannot use the answer of "${url.host}": ${nonsense}`,
        {
          status: response.status,
        },
      )
      breakers.ended(permit, request, unusable)
      answerBody.cancel()
      throw unusable
    } catch (error) {
      if (!(error instanceof UpstreamError && error.failure === 'bad-response')) finished()
      throw toUpstreamError(error, url.host)
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
  return error.failure === 'unreachable' || error.failure === 'connection-lost'
}
