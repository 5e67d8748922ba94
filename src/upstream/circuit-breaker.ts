import { UpstreamError } from '../domain/errors.ts'
import { readRetryAfter } from './answer.ts'
import type { UpstreamTarget } from './concurrency-limits.ts'
import type { Address } from './request.ts'

/** The properties of a call that its breaker needs. */
export interface GuardedRequest {
  target: UpstreamTarget
  url: Address
  /**
   * The request whose hanging up ends the call; only for reads, which may be given up. Its signal is read late, because a
   * call that is over soon does not need it.
   */
  client?: Pick<Request, 'signal'>
  /**
   * `must-complete`: finishes or undoes a started write, so no breaker stops it. `probe`: only tests whether the target
   * answers. `normal` if absent.
   */
  callClass?: 'normal' | 'must-complete' | 'probe'
  /** Tells users apart, so that the failures of one do not count for all; not for logs. */
  user?: string
}

/** A breaker has opened, or closed again. */
export interface BreakerEvent {
  target: UpstreamTarget
  host: string
  change: 'opened' | 'closed'
}

/** The number of open breakers of a kind, and of half-open ones. */
interface BreakerCount {
  target: UpstreamTarget
  open: number
  halfOpen: number
}

interface BreakersOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  observe?(event: BreakerEvent): void
}

/** The number of users whose failures, or pauses, count for everybody. */
const usersToBelieve = 3
const longestPauseMs = 300_000
/** A storage node's Retry-After may concern a single user, so it counts for this time at most. */
const longestNodePauseMs = 30_000
/** A longer Retry-After is not about two writes that collided; see `readStorageRefusal`. */
const longestConflictMs = 30_000
/** Timeouts below this don't count as failures: the client's deadline, not the target, was at fault. */
const shortestFairTimeoutMs = 900
const maxOwnBreakers = 1000

/** The breakers of one target: that for all, and those of users with recent failures. */
interface Guarded {
  shared: CircuitBreaker
  own: Map<string | undefined, CircuitBreaker>
}

/**
 * A breaker for the token server, and one for each storage node that was called lately. Users whose calls fail have one
 * of their own besides, so that a user who alone meets failures is refused alone.
 */
export class Breakers {
  readonly #targets = { token: new Map<string, Guarded>(), storage: new Map<string, Guarded>() }

  constructor(private readonly options: BreakersOptions) {}

  /** Why a call may not be made now, with `applied: 'no'`; null when it may. */
  refusal(request: GuardedRequest): UpstreamError | null {
    return refusalBy(this.#targetOf(request), request)
  }

  /** Permits one call. Throws its refusal. */
  acquire(request: GuardedRequest): Permit {
    const target = this.#targetOf(request)
    const refusal = refusalBy(target, request)
    if (refusal) throw refusal
    return target.shared.acquire(request, target.own.get(request.user)?.acquire(request))
  }

  /** A call has failed. To be told once of each call, by this or by `answered`. */
  failed(permit: Permit, error: unknown): void {
    this.#end(permit, this.#isFault(error, permit) ? 'failure' : 'ignored')
  }

  /** Everything that was wanted of an answer has come. */
  answered(permit: Permit, { status, headers }: Pick<Response, 'status' | 'headers'>): void {
    if (status < 500 && status !== 429) return this.#end(permit, 'success')
    const { request } = permit
    const pauseMs = 1000 * (readRetryAfter(headers, Date.parse(headers.get('date') ?? '')) || 0)
    if (request.target === 'token' && pauseMs > 0) {
      this.#pause(request, Math.min(pauseMs, longestPauseMs))
      this.#end(permit, 'ignored')
    } else if (isFailure(request.target, status, pauseMs))
      this.#end(permit, 'failure', Math.min(pauseMs, longestNodePauseMs))
    else this.#end(permit, status === 429 ? 'success' : 'ignored')
  }

  counts(): BreakerCount[] {
    return (['token', 'storage'] as const).map((target) => {
      forget(this.#targets[target])
      const states = Array.from(this.#targets[target].values(), ({ shared }) => shared.state)
      const count = (state: CircuitBreaker['state']) => states.filter((it) => it === state).length
      return { target, open: count('open'), halfOpen: count('half-open') }
    })
  }

  reset(): void {
    this.#targets.token.clear()
    this.#targets.storage.clear()
  }

  #targetOf({ target, url }: GuardedRequest): Guarded {
    const known = this.#targets[target].get(url.origin)
    if (known) return known
    forget(this.#targets[target])
    const { observe } = this.options
    const onChange = (change: BreakerEvent['change']) => observe?.({ target, host: url.host, change })
    const shared = new CircuitBreaker({ ...this.options, onChange, usersToOpen: usersToBelieve })
    const made: Guarded = { shared, own: new Map() }
    this.#targets[target].set(url.origin, made)
    return made
  }

  /** The user's own breaker, made where there is none yet; null for a call without a user. */
  #ownBreakerOf(request: GuardedRequest): CircuitBreaker | null {
    const { user, callClass } = request
    if (user === undefined || callClass === 'probe') return null
    const { own } = this.#targetOf(request)
    const known = own.get(user)
    if (known) return known
    for (const [other, breaker] of own) {
      if (own.size < maxOwnBreakers && !breaker.isForgotten) break
      own.delete(other)
    }
    const made = new CircuitBreaker({ ...this.options, usersToOpen: 1 })
    own.set(user, made)
    return made
  }

  #end(permit: Permit, result: CallResult, openMs = 0): void {
    const { breaker, request } = permit
    breaker.end(permit, result, openMs)
    const own = permit.own ?? (result === 'failure' ? this.#ownBreakerOf(request)?.acquire(request) : null)
    own?.breaker.end(own, result, openMs)
  }

  /** The target has asked one user to wait. When several users wait, the pause is for all. */
  #pause(request: GuardedRequest, ms: number): void {
    const { shared, own } = this.#targetOf(request)
    this.#ownBreakerOf(request)?.pause(ms)
    const paused = Array.from(own.values()).filter(({ isPaused }) => isPaused)
    if (paused.length >= usersToBelieve) shared.pause(ms)
  }

  #isFault(error: unknown, { request, acquiredAtMs }: Permit): boolean {
    if (!(error instanceof UpstreamError) || request.client?.signal.aborted) return false
    if (error.failure === 'timeout') return this.options.now() - acquiredAtMs >= shortestFairTimeoutMs
    return error.failure !== 'overload' && error.failure !== 'refused'
  }
}

/** Users' nodes come and go. */
function forget(targets: Map<string, Guarded>): void {
  for (const [origin, { shared }] of targets) if (shared.isForgotten) targets.delete(origin)
}

/** A 503 without a time, or with a short one, may be about two writes that collided, or about one client. */
function isFailure(target: UpstreamTarget, status: number, pauseMs: number): boolean {
  if (status === 503) return target === 'storage' && pauseMs > longestConflictMs
  return status === 500 || status === 502 || status === 504
}

function refusalBy({ shared, own }: Guarded, request: GuardedRequest): UpstreamError | null {
  const ownBreaker = own.get(request.user)
  if (ownBreaker && !ownBreaker.admits(request)) return circuitOpen(request, ownBreaker)
  return shared.admits(request) ? null : circuitOpen(request, shared)
}

function circuitOpen({ url }: GuardedRequest, breaker: CircuitBreaker): UpstreamError {
  return new UpstreamError('refused', `Does not call "${url.host}": it is left alone for a while`, {
    retryAfterSeconds: Math.max(1, Math.ceil(breaker.openForMs / 1000)),
    applied: 'no',
  })
}

/** One call that a breaker let through. */
export interface Permit {
  readonly breaker: CircuitBreaker
  readonly request: GuardedRequest
  /** Of the user's own breaker, where there is one. */
  readonly own: Permit | null
  readonly generation: number
  readonly acquiredAtMs: number
}

/** What the end of a call says about its target. `ignored`: nothing, for instance because the client hung up. */
export type CallResult = 'success' | 'failure' | 'ignored'

interface CircuitBreakerOptions extends Pick<BreakersOptions, 'now' | 'random'> {
  onChange?(change: BreakerEvent['change']): void
  /** Failures of fewer users open it only while no other user's calls succeed. */
  usersToOpen: number
}

const failuresToOpen = 5
const callsToOpen = 20
const windowMs = 10_000
const shortestOpenMs = 1000
/** The longest open time, so that a target that works again is in use within five seconds. */
const longestOpenMs = 4000
/** A probe that has not ended by then no longer keeps others from being made. */
const longestProbeMs = 30_000
const forgottenAfterMs = 60_000

/**
 * Stops the calls to a target that keeps failing: after 5 failures in a row, or when half of at least 20 calls within
 * 10 s failed. All are refused for about 1 s, and twice as long each time, at most 4 s; then one at a time is let
 * through, until one succeeds.
 *
 * A user's own troubles must not close a target to all others. Failures of fewer than `usersToOpen` users open it only
 * when the last success within 10 s was not another user's, and even then users whose calls did not fail are let through.
 *
 * Calls that finish or undo a started commit bypass an open breaker; refusing them would turn a short outage into a
 * partial write. Their results count like any other, except that they make no open time longer, because they are
 * repeated at once, a few times, and don't wait until a probe is due.
 *
 * A probe is refused only while the target has asked for a pause. Its success does not prove that other calls would
 * succeed, so it only lets the next call try before its time.
 */
export class CircuitBreaker {
  #failuresInARow = 0
  /** The calls of the last 5 to 10 s, in two halves. */
  #current = { calls: 0, failures: 0 }
  #earlier = { calls: 0, failures: 0 }
  /** When the current half began. */
  #sinceMs = -Infinity
  /** The users whose last call failed, and when; not more than open it for all. */
  readonly #failing = new Map<string, number>()
  /** The user of the last call that succeeded. */
  #succeeding: string | undefined
  #succeededAtMs = -Infinity

  #isOpen = false
  /** Whether it is open for all, or only for `#failing`. */
  #isForAll = false
  #openMs = 0
  #openUntilMs = 0
  #pausedUntilMs = 0
  /** Counts openings and closings. Results of calls from an earlier generation are ignored. */
  #generation = 0
  #probe: Permit | null = null
  #inFlight = 0
  #endedAtMs = 0

  constructor(private readonly options: CircuitBreakerOptions) {}

  /** `half-open`: the next call decides, or the one that is in flight. */
  get state(): 'closed' | 'open' | 'half-open' {
    if (!this.#isOpen) return 'closed'
    return this.openForMs > 0 ? 'open' : 'half-open'
  }

  /** How long normal calls will be refused; 0 also while a half-open breaker waits for its call. */
  get openForMs(): number {
    return this.#isOpen ? Math.max(0, this.#openUntilMs - this.options.now()) : 0
  }

  get isPaused(): boolean {
    return this.options.now() < this.#pausedUntilMs
  }

  /** Whether no call came for a minute, or one would be permitted now. */
  get isForgotten(): boolean {
    const lastMs = Math.max(this.#endedAtMs, this.#openUntilMs)
    return this.#inFlight === 0 && this.options.now() >= lastMs + forgottenAfterMs
  }

  /** Whether such a call would be permitted now. */
  admits({ callClass, user }: GuardedRequest): boolean {
    if (!this.#isOpen || callClass === 'must-complete') return true
    if (callClass === 'probe') return !this.isPaused
    const isInnocent = !this.#isForAll && user !== undefined && !this.#failing.has(user)
    return isInnocent || this.#isProbeDue(this.options.now())
  }

  /** Permits a call that it admits. Its end has to be told. */
  acquire(request: GuardedRequest, own: Permit | null = null): Permit {
    const acquiredAtMs = this.options.now()
    const permit: Permit = { breaker: this, request, own, generation: this.#generation, acquiredAtMs }
    if (this.#isOpen && request.callClass !== 'probe' && this.#isProbeDue(acquiredAtMs)) this.#probe = permit
    this.#inFlight += 1
    return permit
  }

  /** The target has asked for a pause. */
  pause(ms: number): void {
    const nowMs = this.options.now()
    if (!this.#isOpen) this.#open(nowMs)
    this.#isForAll = true
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + ms)
    this.#openUntilMs = Math.max(this.#openUntilMs, this.#pausedUntilMs)
  }

  /** A call has ended. If that opens the breaker, it stays open for `openMs` at least. */
  end(permit: Permit, result: CallResult, openMs = 0): void {
    const nowMs = this.options.now()
    const isProbe = permit === this.#probe
    if (isProbe) this.#probe = null
    this.#inFlight -= 1
    this.#endedAtMs = nowMs
    if (result === 'ignored') return
    const { callClass, user } = permit.request
    if (callClass === 'probe') {
      if (result === 'success')
        this.#openUntilMs = Math.min(this.#openUntilMs, Math.max(nowMs, this.#pausedUntilMs))
    } else if (permit.generation !== this.#generation) return
    else if (result === 'success') this.#succeed(user, nowMs)
    else if (this.#fail(user, nowMs) || isProbe) this.#open(nowMs, openMs)
  }

  #succeed(user: string | undefined, nowMs: number): void {
    if (this.#isOpen) this.#close()
    this.#count(nowMs).calls += 1
    this.#failuresInARow = 0
    this.#succeeding = user
    this.#succeededAtMs = nowMs
    if (user !== undefined && this.#failing.size > 0) this.#failing.delete(user)
  }

  /** Counts a failure; whether the breaker has to open because of it. */
  #fail(user: string | undefined, nowMs: number): boolean {
    const { usersToOpen } = this.options
    for (const [other, failedAtMs] of this.#failing) {
      if (!this.#isOpen && nowMs >= failedAtMs + windowMs) this.#failing.delete(other)
    }
    if (user !== undefined && this.#failing.size < usersToOpen) this.#failing.set(user, nowMs)
    const isForAll = this.#failing.size >= usersToOpen
    this.#isForAll = isForAll || (this.#isOpen && this.#isForAll)
    if (this.#isOpen) return false
    const counted = this.#count(nowMs)
    counted.calls += 1
    counted.failures += 1
    this.#failuresInARow += 1
    const calls = counted.calls + this.#earlier.calls
    const failures = counted.failures + this.#earlier.failures
    const isTooMuch =
      this.#failuresInARow >= failuresToOpen || (calls >= callsToOpen && failures * 2 >= calls)
    const other = nowMs < this.#succeededAtMs + windowMs ? this.#succeeding : undefined
    const othersSucceed = other !== undefined && !this.#failing.has(other)
    return isTooMuch && (isForAll || !othersSucceed)
  }

  /** The current half of the window. */
  #count(nowMs: number): { calls: number; failures: number } {
    if (nowMs >= this.#sinceMs + windowMs / 2) {
      this.#earlier = nowMs < this.#sinceMs + windowMs ? this.#current : { calls: 0, failures: 0 }
      this.#current = { calls: 0, failures: 0 }
      this.#sinceMs = nowMs
    }
    return this.#current
  }

  #isProbeDue(nowMs: number): boolean {
    if (nowMs < this.#openUntilMs) return false
    return this.#probe === null || nowMs >= this.#probe.acquiredAtMs + longestProbeMs
  }

  #open(nowMs: number, atLeastMs = 0): void {
    const { random, onChange } = this.options
    this.#openMs = this.#isOpen ? Math.min(longestOpenMs, this.#openMs * 2) : shortestOpenMs
    // Random, so that processes that lost the same target do not come back to it at the same moment.
    const randomMs = Math.min(longestOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    this.#openUntilMs = nowMs + Math.max(randomMs, atLeastMs)
    if (this.#isOpen) return
    this.#isOpen = true
    this.#generation += 1
    onChange?.('opened')
  }

  #close(): void {
    this.#isOpen = false
    this.#generation += 1
    this.#sinceMs = -Infinity
    this.#failing.clear()
    this.options.onChange?.('closed')
  }
}
