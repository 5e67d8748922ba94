import { UpstreamError } from '../domain/errors.ts'
import { readRetryAfter } from './wire.ts'
import type { UpstreamTarget } from './concurrency-limits.ts'
import type { Address } from './signed-address.ts'

/** What the end of a call says about its target. `ignored`: nothing, for instance because the client hung up. */
export type CallResult = 'success' | 'failure' | 'ignored'

/** `must-complete`: finishes or undoes a started write. `probe`: only tests whether the target answers. */
export type CallClass = 'normal' | 'must-complete' | 'probe'

/** A breaker has opened, or closed again. */
export interface BreakerEvent {
  target: UpstreamTarget
  host: string
  change: 'opened' | 'closed'
}

/** The number of open breakers of a kind, and of half-open ones. */
export interface BreakerCount {
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

/** The properties of a call that its breaker needs. */
export interface GuardedRequest {
  target: UpstreamTarget
  url: Address
  /** The request whose hanging up ends the call; only for reads, which may be given up. */
  client?: Client
  /** Whether an open breaker stops it; `normal` if absent. */
  callClass?: CallClass
  /** Tells users apart, so that the failures of one do not count for all; not for logs. */
  user?: string
}

/** A client's request. Its signal is read late, because a call that is over soon does not need it. */
export interface Client {
  readonly signal: AbortSignal
}

/**
 * A breaker for the token server, and one for each storage node that was called lately. Users whose calls fail have one
 * of their own besides, so that a user who alone meets failures is refused alone.
 */
export interface Breakers {
  /** Permits one call. Throws `refused`, with `applied: 'no'`, when the breaker is open. */
  acquire(request: GuardedRequest): Permit
  /** Whether `acquire` would permit it now. */
  admits(request: GuardedRequest): boolean
  /** Throws like `acquire` when the breaker has opened while the call waited for its turn. */
  confirm(permit: Permit, request: GuardedRequest): void
  /** The headers have come. Where the whole body is wanted, its end counts instead. */
  answered(permit: Permit, request: GuardedRequest, answer: Answered, isShort: boolean): void
  /** The call has ended by this error; null when everything that was wanted has come. */
  ended(permit: Permit, request: GuardedRequest, failure: unknown): void
  counts(): BreakerCount[]
  /** Resets all breakers. */
  reset(): void
}

interface Answered {
  status: number
  headers: Headers
}

/** The number of users whose failures, or pauses, count for everybody. */
const usersToBelieve = 3
const longestPauseMs = 300_000
/** A storage node's Retry-After may concern a single user, so it counts for this time at most. */
const longestNodePauseMs = 30_000
/** A longer Retry-After is not about two writes that collided; see `readStorageRefusal`. */
const longestConflictSeconds = 30
/** Timeouts below this don't count as failures: the client's deadline, not the target, was at fault. */
const shortestFairTimeoutMs = 900
const maxOwnBreakers = 1000

interface Guarded {
  shared: CircuitBreaker
  /** By user; only of users with recent failures. */
  own: Map<string, CircuitBreaker>
}

export function createBreakers({ now, random, observe }: BreakersOptions): Breakers {
  const all = { token: new Map<string, Guarded>(), storage: new Map<string, Guarded>() }

  return {
    acquire(request) {
      const { shared, own } = guardedOf(request)
      const callClass = request.callClass ?? 'normal'
      const { user } = request
      const ownBreaker = user === undefined || own.size === 0 ? undefined : own.get(user)
      if (ownBreaker && !ownBreaker.admits(callClass)) throw circuitOpen(request, ownBreaker)
      const permit = shared.acquire(callClass, user)
      if (!permit) throw circuitOpen(request, shared)
      permit.own = ownBreaker?.acquire(callClass, user) ?? null
      return permit
    },
    admits(request) {
      const { shared, own } = guardedOf(request)
      const { user, callClass = 'normal' } = request
      const ownBreaker = user === undefined ? undefined : own.get(user)
      return ownBreaker?.admits(callClass) !== false && shared.admits(callClass, user)
    },
    confirm(permit, request) {
      const refusing = [permit.own, permit].find((it) => it && !it.breaker.stillAdmits(it))
      if (refusing) throw circuitOpen(request, refusing.breaker)
    },
    answered(permit, request, { status, headers }, isShort) {
      if (status < 500 && status !== 429) {
        if (!isShort) end(permit, request, 'success')
        return
      }
      const pauseMs = 1000 * (readRetryAfter(headers, Date.parse(headers.get('date') ?? '')) || 0)
      if (request.target === 'token' && pauseMs > 0) {
        pause(request, Math.min(pauseMs, longestPauseMs))
        end(permit, request, 'ignored')
      } else if (isFailure(request.target, status, pauseMs))
        end(permit, request, 'failure', Math.min(pauseMs, longestNodePauseMs))
      else end(permit, request, status === 429 ? 'success' : 'ignored')
    },
    ended(permit, request, failure) {
      if (failure === null) end(permit, request, 'success')
      else if (!(failure instanceof UpstreamError) || request.client?.signal.aborted)
        end(permit, request, 'ignored')
      else end(permit, request, countsAsFailure(failure, permit) ? 'failure' : 'ignored')
    },
    counts: () => [count('token'), count('storage')],
    reset() {
      all.token.clear()
      all.storage.clear()
    },
  }

  function guardedOf({ target, url }: GuardedRequest): Guarded {
    const known = all[target].get(url.origin)
    if (known) return known
    forget(all[target])
    const onChange = (change: BreakerEvent['change']) => observe?.({ target, host: url.host, change })
    const shared = new CircuitBreaker({ now, random, onChange, usersToOpen: usersToBelieve })
    const made = { shared, own: new Map<string, CircuitBreaker>() }
    all[target].set(url.origin, made)
    return made
  }

  /** The user's own breaker, made where there is none yet; null for a call without a user. */
  function ownBreakerOf(request: GuardedRequest): CircuitBreaker | null {
    const { user, callClass } = request
    if (user === undefined || callClass === 'probe') return null
    const { own } = guardedOf(request)
    const known = own.get(user)
    if (known) return known
    for (const [other, breaker] of own) {
      if (own.size < maxOwnBreakers && !breaker.isForgotten) break
      own.delete(other)
    }
    const made = new CircuitBreaker({ now, random, onChange() {}, usersToOpen: 1 })
    own.set(user, made)
    return made
  }

  function end(permit: Permit, request: GuardedRequest, result: CallResult, openMs = 0): void {
    if (permit.hasEnded) return
    permit.end(result, openMs)
    if (permit.own || result !== 'failure') return
    const { user, callClass = 'normal' } = request
    ownBreakerOf(request)?.acquire(callClass, user)?.end(result, openMs)
  }

  /** The target has asked one user to wait. When several users wait, the pause is for all. */
  function pause(request: GuardedRequest, ms: number): void {
    const { shared, own } = guardedOf(request)
    ownBreakerOf(request)?.pause(ms)
    let paused = 0
    for (const breaker of own.values()) if (breaker.isPaused) paused += 1
    if (paused >= usersToBelieve) shared.pause(ms)
  }

  function countsAsFailure({ failure }: UpstreamError, { acquiredAtMs }: Permit): boolean {
    switch (failure) {
      case 'unreachable':
      case 'connection-lost':
      case 'bad-response':
        return true
      case 'timeout':
        return now() - acquiredAtMs >= shortestFairTimeoutMs
      case 'overload':
      case 'refused':
        return false
      default:
        return failure satisfies never
    }
  }

  function count(target: UpstreamTarget): BreakerCount {
    forget(all[target])
    const states = Array.from(all[target].values(), ({ shared }) => shared.state)
    return {
      target,
      open: states.filter((state) => state === 'open').length,
      halfOpen: states.filter((state) => state === 'half-open').length,
    }
  }
}

/** Users' nodes come and go. */
function forget(nodes: Map<string, Guarded>): void {
  for (const [origin, { shared }] of nodes) if (shared.isForgotten) nodes.delete(origin)
}

/** A 503 without a time, or with a short one, may be about two writes that collided, or about one client. */
function isFailure(target: UpstreamTarget, status: number, pauseMs: number): boolean {
  if (status === 503) return target === 'storage' && pauseMs > longestConflictSeconds * 1000
  return status === 500 || status === 502 || status === 504
}

function circuitOpen({ url }: GuardedRequest, breaker: CircuitBreaker): UpstreamError {
  return new UpstreamError('refused', `Does not call "${url.host}": it is left alone for a while`, {
    retryAfterSeconds: Math.max(1, Math.ceil(breaker.openForMs / 1000)),
    applied: 'no',
  })
}

interface CircuitBreakerOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  onChange(change: 'opened' | 'closed'): void
  /** Failures of fewer users open it only while no other user's calls succeed; 1 to 3. */
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
/** The most users that are told apart. */
const maxUsersSeen = 3

/**
 * Stops the calls to a target that keeps failing: after 5 failures in a row, or when half of at least 20 calls within
 * 10 s failed. All are refused for about 1 s, and twice as long each time, at most 4 s; then one at a time is let
 * through, until one succeeds.
 *
 * A user's own troubles must not close a target to all others. Failures of fewer than `usersToOpen` users open it only
 * when nobody else has succeeded within the window, and even then users who have not failed are let through.
 *
 * Calls that finish or undo a started commit bypass an open breaker; refusing them would turn a short outage into a
 * partial write. Their results count like any other, except that they make no open time longer, because they are
 * repeated at once, a few times, and don't wait until a probe is due.
 *
 * A probe is refused only while the target has asked for a pause. Its success does not prove that other calls would
 * succeed, so it only lets the next call try before its time.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  readonly #recent = new RecentCalls()
  #failuresInARow = 0
  readonly #usersInARow = new Set<string>()
  #isOpen = false
  #openMs = 0
  #openUntilMs = 0
  #pausedUntilMs = 0
  /** The users because of whom it is open; null: it is open for all. */
  #culprits: Set<string> | null = null
  /** Counts openings and closings. Results of calls from an earlier generation are ignored. */
  #generation = 0
  #probe: Permit | null = null
  #inFlight = 0
  #endedAtMs = 0

  constructor(options: CircuitBreakerOptions) {
    this.#options = options
  }

  /** `half-open`: the next call decides, or the one that is in flight. */
  get state(): 'closed' | 'open' | 'half-open' {
    if (!this.#isOpen) return 'closed'
    return this.openForMs > 0 ? 'open' : 'half-open'
  }

  /** How long normal calls will be refused; 0 also while a half-open breaker waits for its call. */
  get openForMs(): number {
    return this.#isOpen ? Math.max(0, this.#openUntilMs - this.#options.now()) : 0
  }

  get isPaused(): boolean {
    return this.#options.now() < this.#pausedUntilMs
  }

  /** Whether no call came for a minute, or one would be permitted now. */
  get isForgotten(): boolean {
    const lastMs = Math.max(this.#endedAtMs, this.#openUntilMs)
    return this.#inFlight === 0 && this.#options.now() >= lastMs + forgottenAfterMs
  }

  /** Permits one call; null when it is refused. */
  acquire(callClass: CallClass, user?: string): Permit | null {
    if (!this.admits(callClass, user)) return null
    const permit = new Permit(this, callClass, user, this.#generation, this.#options.now())
    if (callClass !== 'probe' && this.#isProbeDue(permit.acquiredAtMs)) this.#probe = permit
    this.#inFlight += 1
    return permit
  }

  /** Whether such a call would be permitted now. */
  admits(callClass: CallClass, user?: string): boolean {
    if (!this.#isOpen || callClass === 'must-complete') return true
    const nowMs = this.#options.now()
    if (callClass === 'probe') return nowMs >= this.#pausedUntilMs
    return this.#isInnocent(user) || this.#isProbeDue(nowMs)
  }

  /** Whether a call that was permitted, and then waited for its turn, is still permitted. */
  stillAdmits({ callClass, user, generation }: Permit): boolean {
    return (
      !this.#isOpen || generation === this.#generation || callClass !== 'normal' || this.#isInnocent(user)
    )
  }

  /** The target has asked for a pause. */
  pause(ms: number): void {
    const nowMs = this.#options.now()
    if (!this.#isOpen) this.#open(nowMs)
    this.#culprits = null
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + ms)
    this.#openUntilMs = Math.max(this.#openUntilMs, this.#pausedUntilMs)
  }

  /** A call has ended; called by permits alone. */
  end(permit: Permit, result: CallResult, openMs: number): void {
    const isProbe = permit === this.#probe
    if (isProbe) this.#probe = null
    const nowMs = this.#options.now()
    this.#inFlight -= 1
    this.#endedAtMs = nowMs
    if (result === 'ignored') return
    if (permit.callClass === 'probe') {
      if (result === 'success')
        this.#openUntilMs = Math.min(this.#openUntilMs, Math.max(nowMs, this.#pausedUntilMs))
    } else if (permit.generation === this.#generation) {
      if (!this.#isOpen) {
        if (this.#isTooMuch(result === 'failure', permit.user, nowMs)) this.#open(nowMs, openMs)
      } else if (result === 'success') this.#close()
      else {
        this.#accuse(permit.user)
        if (isProbe) this.#open(nowMs, openMs)
      }
    }
  }

  #isInnocent(user: string | undefined): boolean {
    return this.#culprits !== null && user !== undefined && !this.#culprits.has(user)
  }

  #accuse(user: string | undefined): void {
    if (user !== undefined) this.#culprits?.add(user)
    if (this.#culprits !== null && this.#culprits.size >= this.#options.usersToOpen) this.#culprits = null
  }

  #isProbeDue(nowMs: number): boolean {
    if (!this.#isOpen || nowMs < this.#openUntilMs) return false
    return this.#probe === null || nowMs >= this.#probe.acquiredAtMs + longestProbeMs
  }

  /** Counts a call; the users because of whom the breaker opens, if failures are too many now. */
  #isTooMuch(hasFailed: boolean, user: string | undefined, nowMs: number): boolean {
    const { calls, failures } = this.#recent.add(hasFailed, user, nowMs)
    if (!hasFailed) {
      this.#failuresInARow = 0
      if (this.#usersInARow.size > 0) this.#usersInARow.clear()
      return false
    }
    this.#failuresInARow += 1
    see(this.#usersInARow, user)
    const isRow = this.#failuresInARow >= failuresToOpen
    const isShare = calls >= callsToOpen && failures * 2 >= calls
    return (
      (isRow && this.#isBelieved(this.#usersInARow)) || (isShare && this.#isBelieved(this.#recent.failing()))
    )
  }

  #isBelieved(users: Set<string>): boolean {
    if (users.size >= this.#options.usersToOpen) this.#culprits = null
    else if (this.#recent.hasSuccessOfOthers(users)) return false
    else this.#culprits = new Set(users)
    return true
  }

  #open(nowMs: number, atLeastMs = 0): void {
    const { random, onChange } = this.#options
    const isNew = !this.#isOpen
    this.#openMs = isNew ? shortestOpenMs : Math.min(longestOpenMs, this.#openMs * 2)
    // Random, so that processes that lost the same target do not come back to it at the same moment.
    const randomMs = Math.min(longestOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    this.#openUntilMs = nowMs + Math.max(randomMs, atLeastMs)
    if (!isNew) return
    this.#isOpen = true
    this.#generation += 1
    onChange('opened')
  }

  #close(): void {
    this.#isOpen = false
    this.#generation += 1
    this.#failuresInARow = 0
    this.#usersInARow.clear()
    this.#recent.clear()
    this.#options.onChange('closed')
  }
}

/** One call that a breaker let through. Call `end` at least once; later calls are no-ops. */
export class Permit {
  hasEnded = false
  /** Of the user's own breaker, where there is one. */
  own: Permit | null = null

  constructor(
    readonly breaker: CircuitBreaker,
    readonly callClass: CallClass,
    readonly user: string | undefined,
    readonly generation: number,
    readonly acquiredAtMs: number,
  ) {}

  /** If that opens the breaker, it stays open for `openMs` at least. */
  end(result: CallResult, openMs = 0): void {
    if (this.hasEnded) return
    this.hasEnded = true
    this.breaker.end(this, result, openMs)
    this.own?.end(result, openMs)
  }
}

/** One half of the window. */
class CallCounts {
  calls = 0
  failures = 0
  readonly failing = new Set<string>()
  readonly succeeding = new Set<string>()
}

/** Counts the calls of the last 5 to 10 s. */
class RecentCalls {
  #current = new CallCounts()
  #earlier = new CallCounts()
  /** When the current half of the window began. */
  #sinceMs = -Infinity

  add(hasFailed: boolean, user: string | undefined, nowMs: number): { calls: number; failures: number } {
    if (nowMs >= this.#sinceMs + windowMs / 2) {
      this.#earlier = nowMs < this.#sinceMs + windowMs ? this.#current : new CallCounts()
      this.#current = new CallCounts()
      this.#sinceMs = nowMs
    }
    this.#current.calls += 1
    if (hasFailed) this.#current.failures += 1
    see(hasFailed ? this.#current.failing : this.#current.succeeding, user)
    return {
      calls: this.#earlier.calls + this.#current.calls,
      failures: this.#earlier.failures + this.#current.failures,
    }
  }

  failing(): Set<string> {
    return new Set([...this.#earlier.failing, ...this.#current.failing])
  }

  hasSuccessOfOthers(users: Set<string>): boolean {
    return [...this.#earlier.succeeding, ...this.#current.succeeding].some((user) => !users.has(user))
  }

  clear(): void {
    this.#sinceMs = -Infinity
  }
}

function see(users: Set<string>, user: string | undefined): void {
  if (user !== undefined && users.size < maxUsersSeen) users.add(user)
}
