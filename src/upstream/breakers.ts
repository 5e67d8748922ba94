import { UpstreamError } from '../domain/errors.ts'
import { Breaker } from './breaker.ts'
import { readRetryAfter } from './retry-after.ts'
import type { Leave } from './admission.ts'
import type { Passage } from './breaker.ts'
import type { UpstreamRequest, UpstreamTarget } from './send.ts'

/** A breaker has opened, or closed again. */
export interface BreakerEvent {
  target: UpstreamTarget
  host: string
  change: 'opened' | 'closed'
}

/** How many breakers of a kind let nothing through, or one call at a time. */
export interface BreakerCount {
  target: UpstreamTarget
  open: number
  halfOpen: number
}

export interface BreakersOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  observe?(event: BreakerEvent): void
}

export type GuardedRequest = Pick<UpstreamRequest, 'target' | 'url' | 'purpose' | 'signal'>

/** A breaker for the token server, and one for each storage node that was called lately. */
export interface Breakers {
  /** The way through for one call. Throws `refused`, of what is certainly not applied, when it may not be made. */
  enter(request: GuardedRequest): Passage
  /** Whether `enter` would let it through now. */
  admits(request: GuardedRequest): boolean
  /** After a call has waited for its place: gives that back and throws like `enter` when it comes too late. */
  confirm(passage: Passage, request: GuardedRequest, leave: Leave): Leave
  /** The headers have come. Where the body is to follow as a whole its end counts, not they. */
  answered(passage: Passage, request: GuardedRequest, answer: Answered, isShort: boolean): void
  /** Neither an answer nor the rest of one will come; null when all has come that was wanted. */
  ended(passage: Passage, request: GuardedRequest, failure: unknown): void
  counts(): BreakerCount[]
}

interface Answered {
  status: number
  headers: Headers
}

const longestPauseMs = 300_000
/** What a storage node asks for may concern one user only, so that it is believed for no longer than that. */
const longestNodePauseMs = 30_000
/** Who asks for more than that has not met another write; see `readStorageRefusal`. */
const longestConflictSeconds = 30
/** A client that leaves less time for its call learns nothing about the target. Somewhat less than a timeout of 1 s takes. */
const fairMs = 900

export function createBreakers({ now, random, observe }: BreakersOptions): Breakers {
  const all = { token: new Map<string, Breaker>(), storage: new Map<string, Breaker>() }

  return {
    enter(request) {
      const breaker = breakerOf(request)
      const passage = breaker.enter(request.purpose ?? 'work')
      if (passage) return passage
      throw leftAlone(request, breaker)
    },
    admits: (request) => breakerOf(request).admits(request.purpose ?? 'work'),
    confirm(passage, request, leave) {
      if (passage.breaker.stillAdmits(passage)) return leave
      leave()
      throw leftAlone(request, passage.breaker)
    },
    answered(passage, { target }, { status, headers }, isShort) {
      if (status < 500 && status !== 429) {
        if (!isShort) passage.end('well')
        return
      }
      const pauseMs = 1000 * (readRetryAfter(headers, Date.parse(headers.get('date') ?? '')) || 0)
      if (target === 'token' && pauseMs > 0) {
        passage.breaker.pause(Math.min(pauseMs, longestPauseMs))
        passage.end('unclear')
      } else if (isFailure(target, status, pauseMs))
        passage.end('failed', Math.min(pauseMs, longestNodePauseMs))
      else passage.end(status === 429 ? 'well' : 'unclear')
    },
    ended(passage, { signal }, failure) {
      if (failure === null) passage.end('well')
      else if (!(failure instanceof UpstreamError) || signal?.aborted) passage.end('unclear')
      else passage.end(isTelling(failure, passage) ? 'failed' : 'unclear')
    },
    counts: () => [count('token'), count('storage')],
  }

  function breakerOf({ target, url }: GuardedRequest): Breaker {
    const known = all[target].get(url.origin)
    if (known) return known
    forget(all[target])
    const onChange = (change: BreakerEvent['change']) => observe?.({ target, host: url.host, change })
    const made = new Breaker({ now, random, onChange })
    all[target].set(url.origin, made)
    return made
  }

  function isTelling({ failure }: UpstreamError, { beganAtMs }: Passage): boolean {
    switch (failure) {
      case 'unreachable':
      case 'connection-lost':
      case 'bad-response':
        return true
      case 'timeout':
        return now() - beganAtMs >= fairMs
      case 'overload':
      case 'refused':
        return false
      default:
        return failure satisfies never
    }
  }

  function count(target: UpstreamTarget): BreakerCount {
    forget(all[target])
    const states = Array.from(all[target].values(), ({ state }) => state)
    return {
      target,
      open: states.filter((state) => state === 'open').length,
      halfOpen: states.filter((state) => state === 'half-open').length,
    }
  }
}

/** Users' nodes come and go. */
function forget(breakers: Map<string, Breaker>): void {
  for (const [origin, breaker] of breakers) if (breaker.isForgotten) breakers.delete(origin)
}

/** A 503 without a time, or with a short one, may be about two writes that met, or about one client. */
function isFailure(target: UpstreamTarget, status: number, pauseMs: number): boolean {
  if (status === 503) return target === 'storage' && pauseMs > longestConflictSeconds * 1000
  return status === 500 || status === 502 || status === 504
}

function leftAlone({ url }: GuardedRequest, breaker: Breaker): UpstreamError {
  return new UpstreamError('refused', `Does not call "${url.host}": it is left alone for a while`, {
    retryAfterSeconds: Math.max(1, Math.ceil(breaker.openForMs / 1000)),
    applied: 'no',
  })
}
