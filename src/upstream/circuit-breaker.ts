import { UpstreamError, type UpstreamFailure } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import type { FetchRequest } from './transport.ts'

/** One of the two upstream services. */
export type UpstreamTarget = 'token' | 'storage'

/** What a circuit breaker needs to know about a call. */
export interface GuardedRequest extends Pick<FetchRequest, 'method' | 'url'> {
  target: UpstreamTarget
  /**
   * The client request whose disconnect aborts the call; only for reads. Its signal is read late, because a short call does not need it.
   */
  client?: Pick<Request, 'signal'>
  /** `must-complete`: finishes or undoes a started write, so no circuit stops it. `probe`: a health check. Default: `normal`. */
  callClass?: 'normal' | 'must-complete' | 'probe'
  /** Identifies the user, so that one user's failures don't open the circuit. Not for logs. */
  user: string
}

/** A circuit opened or closed. */
export interface BreakerEvent {
  target: UpstreamTarget
  host: string
  change: 'opened' | 'closed'
}

interface BreakersOptions {
  /** A monotonic clock in ms. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  observe?(event: BreakerEvent): void
}

/** One call that was allowed. */
export interface GuardedCall {
  readonly request: GuardedRequest
  readonly circuit: Circuit
  readonly beganAtMs: number
}

/** A circuit opens after failures of this many users without a success in between. */
const usersToOpen = 3
const minOpenMs = 1000
/** Bounds the open time, so that a recovered host is used again within five seconds. */
const maxOpenMs = 4000
/** Shorter timeouts don't count as failures: they come from the client's deadline, not from the host. */
export const minCountedTimeoutMs = 900
/** Bounds what is remembered of hosts, and of users whose calls fail. */
const maxHosts = 1000
const maxUsers = 1000

/**
 * One circuit per host, which stops calls that would only cost time. It counts calls that fail without a response: host unreachable,
 * connection lost, timed out. It opens when three users fail without a success in between. A response never opens it, not even a 5xx.
 *
 * While it is open, one trial call at a time is allowed: at once for a user whose last call did not fail, for others after 1 to 4 s,
 * doubling each time. Users who fail while others succeed no longer count until they succeed. Calls that finish or undo a commit bypass
 * it, because stopping them would leave a partial write.
 */
export class Breakers {
  readonly #circuits = {
    token: new RecentMap<string, Circuit>(maxHosts),
    storage: new RecentMap<string, Circuit>(maxHosts),
  }

  constructor(private readonly options: BreakersOptions) {}

  /** The circuit of the host that a request goes to. */
  circuitOf({ target, url: { origin, host } }: GuardedRequest): Circuit {
    const known = this.#circuits[target].get(origin)
    if (known) return known
    const made = new Circuit(this.options, (change) => this.options.observe?.({ target, host, change }))
    this.#circuits[target].set(origin, made)
    return made
  }

  /** The number of open and half-open circuits by target. */
  counts(): { target: UpstreamTarget; open: number; halfOpen: number }[] {
    return (['token', 'storage'] as const).map((target) => {
      const states = this.#circuits[target].values().map(({ state }) => state)
      const ofState = (state: Circuit['state']) => states.filter((it) => it === state).length
      return { target, open: ofState('open'), halfOpen: ofState('half-open') }
    })
  }
}

/** The circuit of one host: closed, open, or half-open, where one trial call decides. */
class Circuit {
  #isOpen = false
  #openMs = 0
  #openUntilMs = -Infinity
  /** The call that tests whether the host has recovered. */
  #trial: GuardedCall | null = null
  /** Users whose calls failed since the last success. */
  readonly #failing = new Set<string>()
  /** For users whose last call failed, whether it counted or not: when the first one failed since their last success. */
  readonly #failedSinceMs = new RecentMap<string, number>(maxUsers)
  #succeededAtMs = -Infinity
  #connectionLostAtMs = -Infinity

  constructor(
    private readonly options: BreakersOptions,
    private readonly onChange: (change: BreakerEvent['change']) => void,
  ) {}

  get state(): 'closed' | 'open' | 'half-open' {
    if (!this.#isOpen) return 'closed'
    return this.options.now() < this.#openUntilMs ? 'open' : 'half-open'
  }

  /** The error if a call is not allowed now, with `applied: 'no'`; null if it is. */
  refusal({ callClass = 'normal', user, url }: GuardedRequest): UpstreamError | null {
    if (!this.#isOpen || callClass !== 'normal' || this.#mayTry(user)) return null
    const openForMs = Math.max(0, this.#openUntilMs - this.options.now())
    return new UpstreamError('refused', `Circuit open for "${url.host}"`, {
      retryAfterSeconds: Math.max(1, Math.ceil(openForMs / 1000)),
      applied: 'no',
    })
  }

  /** Registers the start of an allowed call. Its end must be reported. */
  begin(request: GuardedRequest): GuardedCall {
    const { callClass = 'normal', user } = request
    const call = { request, circuit: this, beganAtMs: this.options.now() }
    if (this.#isOpen && callClass === 'normal' && this.#mayTry(user)) this.#trial = call
    return call
  }

  /** Reports the end of a call, once: its error, or null if the host responded, with any status. */
  end(call: GuardedCall, error: unknown): void {
    const wasTrial = call === this.#trial
    if (wasTrial) this.#trial = null
    const failure = error instanceof UpstreamError ? error.failure : null
    const isCountedTimeout =
      failure === 'timeout' && this.options.now() - call.beganAtMs >= minCountedTimeoutMs
    // Any other error does not show whether the host works, such as after a client disconnect.
    if (failure === 'unreachable' || failure === 'connection-lost' || isCountedTimeout)
      this.#fail(call, failure, wasTrial)
    else if (error === null || failure === 'bad-response') this.#succeed(call)
  }

  #succeed(call: GuardedCall): void {
    // A health check shows that the host responds, but not that it serves users.
    if (call.request.callClass === 'probe') return
    const { user } = call.request
    this.#failedSinceMs.delete(user)
    this.#failing.clear()
    this.#succeededAtMs = this.options.now()
    if (!this.#isOpen) return
    this.#isOpen = false
    this.onChange('closed')
  }

  #fail(call: GuardedCall, failure: UpstreamFailure, wasTrial: boolean): void {
    const { callClass, user } = call.request
    if (callClass === 'probe') return
    const sinceMs = this.#failedSinceMs.get(user) ?? this.options.now()
    this.#failedSinceMs.set(user, sinceMs)
    if (this.#isOutdated(call, failure)) return
    // Those who failed while others succeeded don't count.
    if (sinceMs > this.#succeededAtMs && this.#failing.size < maxUsers) this.#failing.add(user)
    if (wasTrial || (!this.#isOpen && this.#failing.size >= usersToOpen)) this.#open()
  }

  /** Whether a failure is outdated: the call began before the last success, or its lost connection was counted already. */
  #isOutdated({ beganAtMs }: GuardedCall, failure: string): boolean {
    // A call may time out long after others have succeeded.
    if (beganAtMs < this.#succeededAtMs) return true
    if (failure !== 'connection-lost') return false
    // All calls on a lost connection began before the first of them failed.
    if (beganAtMs < this.#connectionLostAtMs) return true
    this.#connectionLostAtMs = this.options.now()
    return false
  }

  #mayTry(user: string): boolean {
    const nowMs = this.options.now()
    const trial = this.#trial
    // A trial without a response for this long no longer blocks the next one.
    const isFree = trial === null || nowMs - trial.beganAtMs >= maxOpenMs
    if (this.#hasFailedLately(user)) return isFree && nowMs >= this.#openUntilMs
    return isFree || this.#hasFailedLately(trial.request.user)
  }

  #hasFailedLately(user: string): boolean {
    return this.#failedSinceMs.get(user) !== undefined
  }

  #open(): void {
    const { now, random } = this.options
    this.#openMs = this.#isOpen ? Math.min(maxOpenMs, this.#openMs * 2) : minOpenMs
    // Jitter, so that processes don't return to a host at the same moment.
    this.#openUntilMs = now() + Math.min(maxOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    if (this.#isOpen) return
    this.#isOpen = true
    this.onChange('opened')
  }
}
