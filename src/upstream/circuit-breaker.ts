import { UpstreamError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import type { FetchRequest } from './transport.ts'

/** One of the two services that are called. */
export type UpstreamTarget = 'token' | 'storage'

/** The properties of a call that its circuit breaker needs. */
export interface GuardedRequest extends Pick<FetchRequest, 'method' | 'url'> {
  target: UpstreamTarget
  /**
   * The request whose hanging up ends the call; only for reads, which may be given up. Its signal is read late, because a
   * call that is over soon does not need it.
   */
  client?: Pick<Request, 'signal'>
  /**
   * `must-complete`: finishes or undoes a started write, so no circuit stops it. `probe`: only tests whether the target
   * answers. `normal` if absent.
   */
  callClass?: 'normal' | 'must-complete' | 'probe'
  /** Tells users apart, so that the failures of one do not count for all; not for logs. */
  user: string
}

/** A circuit has opened, or closed again. */
export interface BreakerEvent {
  target: UpstreamTarget
  host: string
  change: 'opened' | 'closed'
}

interface BreakersOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  observe?(event: BreakerEvent): void
}

/** One call that was let through. */
export interface GuardedCall {
  readonly request: GuardedRequest
  readonly circuit: Circuit
  readonly beganAtMs: number
}

/** So many users have to fail, with no success between, before a circuit opens. */
const usersToOpen = 3
const minOpenMs = 1000
/** The longest open time, so that a host that works again is in use within five seconds. */
const maxOpenMs = 4000
/** Timeouts below this don't count as failures: the client's deadline, not the host, was at fault. */
export const minFairTimeoutMs = 900
/** Users' nodes come and go, and so do users of a node whose calls fail. */
const maxHosts = 1000
const maxUsers = 1000

/**
 * One circuit for each host, which stops calls that would only cost time. It counts calls that fail without an answer: the host can't be
 * reached, the connection is lost, or nothing comes in time. It opens when three users fail with no success between. An answer never
 * opens it, 5xx neither.
 *
 * While it is open, one call at a time is let through to try: at any time of a user who has not failed lately, of others after 1 s, and
 * twice as long each time, at most 4 s. Users who fail while others succeed have a problem of their own: they don't count any more until
 * they succeed. Calls that finish or undo a started commit bypass an open circuit; refusing them would turn a short outage into a partial
 * write.
 */
export class Breakers {
  #circuits = noCircuits()

  constructor(private readonly options: BreakersOptions) {}

  /** Why a call may not be made now, with `applied: 'no'`; null when it may. */
  refusal(request: GuardedRequest): UpstreamError | null {
    return this.#circuitOf(request).refusal(request)
  }

  /** Notes that a call begins which is not refused. Its end has to be reported. */
  begin(request: GuardedRequest): GuardedCall {
    const circuit = this.#circuitOf(request)
    const call = { request, circuit, beganAtMs: this.options.now() }
    circuit.begin(call)
    return call
  }

  /** A call has failed. To be reported once of each call, by this or by `answered`. */
  failed(call: GuardedCall, error: unknown): void {
    const failure = error instanceof UpstreamError ? error.failure : null
    const isFairTimeout = failure === 'timeout' && this.options.now() - call.beganAtMs >= minFairTimeoutMs
    if (failure === 'unreachable' || failure === 'connection-lost' || isFairTimeout)
      call.circuit.fail(call, failure)
    else if (failure === 'bad-response') call.circuit.succeed(call)
    else call.circuit.ignore(call)
  }

  /** The host has answered, whatever the status is. */
  answered(call: GuardedCall): void {
    call.circuit.succeed(call)
  }

  /** How many hosts of a kind are not called, or with one call at a time. */
  counts(): { target: UpstreamTarget; open: number; halfOpen: number }[] {
    return (['token', 'storage'] as const).map((target) => {
      const states = this.#circuits[target].values().map(({ state }) => state)
      const ofState = (state: Circuit['state']) => states.filter((it) => it === state).length
      return { target, open: ofState('open'), halfOpen: ofState('half-open') }
    })
  }

  reset(): void {
    this.#circuits = noCircuits()
  }

  #circuitOf({ target, url: { origin, host } }: GuardedRequest): Circuit {
    const known = this.#circuits[target].get(origin)
    if (known) return known
    const made = new Circuit(this.options, (change) => this.options.observe?.({ target, host, change }))
    this.#circuits[target].set(origin, made)
    return made
  }
}

function noCircuits(): Record<UpstreamTarget, RecentMap<string, Circuit>> {
  return { token: new RecentMap(maxHosts), storage: new RecentMap(maxHosts) }
}

/** Closed, open for a while, or half-open: the next call decides, or the one that is in flight. */
class Circuit {
  #isOpen = false
  #openMs = 0
  #openUntilMs = -Infinity
  /** The call that tries whether the host works again. */
  #trial: GuardedCall | null = null
  /** Users whose calls failed since any call succeeded. */
  readonly #failing = new Set<string>()
  /** Users whose calls failed while those of others succeeded. */
  readonly #discounted = new RecentMap<string, true>(maxUsers)
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

  refusal({ callClass = 'normal', user, url }: GuardedRequest): UpstreamError | null {
    if (!this.#isOpen || callClass !== 'normal' || this.#mayTry(user)) return null
    const openForMs = Math.max(0, this.#openUntilMs - this.options.now())
    return new UpstreamError('refused', `Circuit open for "${url.host}"`, {
      retryAfterSeconds: Math.max(1, Math.ceil(openForMs / 1000)),
      applied: 'no',
    })
  }

  begin(call: GuardedCall): void {
    const { callClass = 'normal', user } = call.request
    if (this.#isOpen && callClass === 'normal' && this.#mayTry(user)) this.#trial = call
  }

  succeed(call: GuardedCall): void {
    this.ignore(call)
    // A health check proves that the host answers, and not that it answers users.
    if (call.request.callClass === 'probe') return
    const { user } = call.request
    this.#failing.delete(user)
    this.#discounted.delete(user)
    for (const other of this.#failing) this.#discounted.set(other, true)
    this.#failing.clear()
    this.#succeededAtMs = this.options.now()
    if (!this.#isOpen) return
    this.#isOpen = false
    this.onChange('closed')
  }

  fail(call: GuardedCall, failure: 'unreachable' | 'connection-lost' | 'timeout'): void {
    const wasTrial = call === this.#trial
    this.ignore(call)
    const { callClass, user } = call.request
    if (callClass === 'probe' || this.#isOutdated(call, failure)) return
    if (this.#discounted.get(user) === undefined && this.#failing.size < maxUsers) this.#failing.add(user)
    if (wasTrial || (!this.#isOpen && this.#failing.size >= usersToOpen)) this.#open()
  }

  /** The end of a call says nothing, for instance because its client hung up. */
  ignore(call: GuardedCall): void {
    if (call === this.#trial) this.#trial = null
  }

  /** Whether a call is about the time before the last success, or about a connection whose loss has been counted. */
  #isOutdated({ beganAtMs }: GuardedCall, failure: string): boolean {
    // Calls that time out together end without a success between them, however many succeeded while they waited.
    if (beganAtMs < this.#succeededAtMs) return true
    if (failure !== 'connection-lost') return false
    // The calls that were on one connection all began before the first of them failed.
    if (beganAtMs < this.#connectionLostAtMs) return true
    this.#connectionLostAtMs = this.options.now()
    return false
  }

  #mayTry(user: string): boolean {
    const nowMs = this.options.now()
    const trial = this.#trial
    // A trial that got no answer for so long does not keep the next one from trying.
    const isFree = trial === null || nowMs - trial.beganAtMs >= maxOpenMs
    if (this.#hasFailed(user)) return isFree && nowMs >= this.#openUntilMs
    return isFree || this.#hasFailed(trial.request.user)
  }

  #hasFailed(user: string): boolean {
    return this.#failing.has(user) || this.#discounted.get(user) !== undefined
  }

  #open(): void {
    const { now, random } = this.options
    this.#openMs = this.#isOpen ? Math.min(maxOpenMs, this.#openMs * 2) : minOpenMs
    // Random, so that processes that lost the same host do not come back to it at the same moment.
    this.#openUntilMs = now() + Math.min(maxOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    if (this.#isOpen) return
    this.#isOpen = true
    this.onChange('opened')
  }
}
