import { UpstreamError } from '../domain/errors.ts'
import { RecentMap } from '../domain/bounded.ts'
import { readBackoff, readRetryAfter } from './answer.ts'
import type { UpstreamTarget } from '../load/permits.ts'
import type { FetchRequest } from './transport.ts'

/** The properties of a call that its circuit breakers need. */
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
  /** Whether it is for all users of the host, or for one. */
  isForAll: boolean
  change: 'opened' | 'closed'
}

interface BreakersOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  observe?(event: BreakerEvent): void
}

/** Failures in a row that open a circuit. */
const failuresToOpen = 5
/** Users whose failures, or pauses, count for everybody. */
const usersToBelieve = 3
const shortestOpenMs = 1000
/** The longest open time, so that a target that works again is in use within five seconds. */
const longestOpenMs = 4000
const longestTokenPauseMs = 300_000
/** A storage node's Retry-After may concern a single user, and a short one is about two writes that collided. */
const longestNodePauseMs = 30_000
/** Timeouts below this don't count as failures: the client's deadline, not the target, was at fault. */
export const shortestFairTimeoutMs = 900
/** Users' nodes come and go, and so do users of a node whose calls fail. */
const maxHosts = 1000
const maxUsers = 1000

/**
 * Stops calls that would fail. What counts:
 *
 * | What a call meets | Counts against |
 * |---|---|
 * | the host can't be reached | the host |
 * | no answer in time, a lost connection, 500, 502, 504, an unusable answer | the user; the host, once three users fail and nobody succeeds |
 * | 500 to a write | nobody: storages answer so when two writes collide |
 * | 503 or 429 of the token server with Retry-After | a pause for that identity; for all, once three identities have one |
 * | 503 of a storage that asks for more than 30 s | like a failure, and for 30 s |
 * | what we refused ourselves, a client that hung up | nobody |
 *
 * After five failures in a row a circuit opens for about 1 s, and twice as long each time, at most 4 s; then one call at a time is
 * let through, or another one after 4 s, until one succeeds. A connection that dies is one failure, however many calls were on it.
 *
 * Calls that finish or undo a started commit bypass an open circuit; refusing them would turn a short outage into a partial write.
 */
export class Breakers {
  /** Whether anybody was ever asked to leave time between requests. */
  hasAskedToBackOff = false
  #hosts = noHosts()

  constructor(private readonly options: BreakersOptions) {}

  /** Why a call may not be made now, with `applied: 'no'`; null when it may. */
  refusal(request: GuardedRequest): UpstreamError | null {
    const { shared, users } = this.#hostOf(request)
    const own = users.get(request.user)
    if (own && !own.admits(request)) return circuitOpen(request, own)
    return shared.admits(request) ? null : circuitOpen(request, shared)
  }

  /** Notes that a call begins which is not refused. Its end has to be told. */
  begin(request: GuardedRequest): GuardedCall {
    const host = this.#hostOf(request)
    const call = { request, host, beganAtMs: this.options.now() }
    host.shared.begin(call)
    host.users.get(request.user)?.begin(call)
    return call
  }

  /** A call has failed. To be told once of each call, by this or by `answered`. */
  failed(call: GuardedCall, error: unknown): void {
    const { host } = call
    const failure = error instanceof UpstreamError ? error.failure : null
    const lastedMs = this.options.now() - call.beganAtMs
    if (failure === 'unreachable') this.#fail(call, 0, true)
    else if (failure === 'timeout' && lastedMs >= shortestFairTimeoutMs) this.#fail(call)
    else if (failure === 'bad-response') this.#fail(call)
    // The calls that were on one connection all began before the first of them failed.
    else if (failure === 'connection-lost' && call.beganAtMs >= host.connectionLostAtMs) {
      host.connectionLostAtMs = this.options.now()
      this.#fail(call)
    } else this.#ignore(call)
  }

  /** Everything that was wanted of an answer has come. */
  answered(call: GuardedCall, { status, headers }: Pick<Response, 'status' | 'headers'>): void {
    const { target, method, callClass } = call.request
    if (status < 500 && status !== 429) return this.#succeed(call)
    const pauseMs = 1000 * (readRetryAfter(headers, Date.parse(headers.get('date') ?? '')) || 0)
    if (target === 'token' && pauseMs > 0 && callClass !== 'probe') {
      this.#ignore(call)
      this.#pause(call, Math.min(pauseMs, longestTokenPauseMs))
    } else if (status === 503 && target === 'storage' && pauseMs > longestNodePauseMs) {
      this.#fail(call, longestNodePauseMs)
    } else if (status === 429) this.#succeed(call)
    else if (status === 503 || (status === 500 && method !== 'GET')) this.#ignore(call)
    else this.#fail(call)
  }

  /** An answer asked this user to leave so many seconds between requests. Three users who were asked speak for all. */
  noteBackoff(request: GuardedRequest, headers: Headers): void {
    const seconds = readBackoff(headers)
    if (seconds === null) return
    this.hasAskedToBackOff = true
    const host = this.#hostOf(request)
    const untilMs = this.options.now() + seconds * 1000
    this.#ownCircuit(host, request).backoff = { seconds, untilMs }
    if (count(host.users, (user) => user.isAskedToBackOff) >= usersToBelieve)
      host.shared.backoff = { seconds, untilMs }
  }

  /** The seconds that this user was asked to leave between requests; null: none. */
  backoffSeconds(request: GuardedRequest): number | null {
    const { shared, users } = this.#hostOf(request)
    const own = users.get(request.user)
    const circuit = own?.isAskedToBackOff ? own : shared
    return circuit.isAskedToBackOff ? circuit.backoff.seconds : null
  }

  /** How many hosts of a kind are not called, or with one call at a time. */
  counts(): { target: UpstreamTarget; open: number; halfOpen: number }[] {
    return (['token', 'storage'] as const).map((target) => {
      const states = this.#hosts[target].values().map(({ shared }) => shared.state)
      const ofState = (state: Circuit['state']) => states.filter((it) => it === state).length
      return { target, open: ofState('open'), halfOpen: ofState('half-open') }
    })
  }

  reset(): void {
    this.#hosts = noHosts()
  }

  #hostOf({ target, url }: GuardedRequest): Host {
    const hosts = this.#hosts[target]
    const known = hosts.get(url.origin)
    if (known) return known
    const shared = new Circuit(this.options, this.#observer(target, url.host, true))
    const made: Host = {
      shared,
      users: new RecentMap(maxUsers),
      failing: new Set(),
      connectionLostAtMs: -Infinity,
      succeededAtMs: -Infinity,
    }
    hosts.set(url.origin, made)
    return made
  }

  #ownCircuit({ users }: Host, request: GuardedRequest): Circuit {
    const known = users.get(request.user)
    if (known) return known
    const made = new Circuit(this.options, this.#observer(request.target, request.url.host, false))
    users.set(request.user, made)
    return made
  }

  #observer(target: UpstreamTarget, host: string, isForAll: boolean): Circuit['onChange'] {
    return (change) => this.options.observe?.({ target, host, isForAll, change })
  }

  #succeed(call: GuardedCall): void {
    const { host, request } = call
    host.failing.clear()
    host.succeededAtMs = this.options.now()
    host.shared.succeed(call)
    host.users.get(request.user)?.succeed(call)
  }

  #fail(call: GuardedCall, openMs = 0, isOfHost = false): void {
    const { host, request } = call
    if (host.failing.size < usersToBelieve) host.failing.add(request.user)
    // Calls that time out together end without a success between them, however many succeeded while they waited.
    const nobodySucceeds = call.beganAtMs >= host.succeededAtMs
    const mayOpen = isOfHost || (host.failing.size >= usersToBelieve && nobodySucceeds)
    host.shared.fail(call, mayOpen, openMs)
    if (request.callClass !== 'probe') this.#ownCircuit(host, request).fail(call, true, openMs)
  }

  #ignore(call: GuardedCall): void {
    call.host.shared.ignore(call)
    call.host.users.get(call.request.user)?.ignore(call)
  }

  #pause({ host, request }: GuardedCall, ms: number): void {
    this.#ownCircuit(host, request).pause(ms)
    if (count(host.users, (user) => user.isPaused) >= usersToBelieve) host.shared.pause(ms)
  }
}

/** The circuit for all users of one host, and those of users whose calls have failed. */
interface Host {
  shared: Circuit
  users: RecentMap<string, Circuit>
  /** Users whose calls failed since any call succeeded; not more than speak for all. */
  failing: Set<string>
  connectionLostAtMs: number
  /** When a call succeeded last. */
  succeededAtMs: number
}

/** One call that was let through. */
export interface GuardedCall {
  readonly request: GuardedRequest
  readonly host: Host
  readonly beganAtMs: number
}

function noHosts(): Record<UpstreamTarget, RecentMap<string, Host>> {
  return { token: new RecentMap(maxHosts), storage: new RecentMap(maxHosts) }
}

function count(circuits: RecentMap<string, Circuit>, holds: (circuit: Circuit) => boolean): number {
  return circuits.values().filter(holds).length
}

function circuitOpen({ url }: GuardedRequest, circuit: Circuit): UpstreamError {
  return new UpstreamError('refused', `Circuit open for "${url.host}"`, {
    retryAfterSeconds: Math.max(1, Math.ceil(circuit.openForMs / 1000)),
    applied: 'no',
  })
}

/** Closed, open for a while, or half-open: the next call decides, or the one that is in flight. */
class Circuit {
  backoff = { seconds: 0, untilMs: -Infinity }
  #failures = 0
  #isOpen = false
  #openMs = 0
  #openUntilMs = -Infinity
  #pausedUntilMs = -Infinity
  /** When it opened or closed last. Results of calls from before are ignored. */
  #changedAtMs = -Infinity
  #probe: GuardedCall | null = null

  constructor(
    private readonly options: BreakersOptions,
    readonly onChange: (change: BreakerEvent['change']) => void,
  ) {}

  get state(): 'closed' | 'open' | 'half-open' {
    if (!this.#isOpen) return 'closed'
    return this.openForMs > 0 ? 'open' : 'half-open'
  }

  /** How long normal calls will be refused; 0 also while a half-open circuit waits for its call. */
  get openForMs(): number {
    return this.#isOpen ? Math.max(0, this.#openUntilMs - this.options.now()) : 0
  }

  get isPaused(): boolean {
    return this.options.now() < this.#pausedUntilMs
  }

  get isAskedToBackOff(): boolean {
    return this.options.now() < this.backoff.untilMs
  }

  admits({ callClass }: GuardedRequest): boolean {
    if (!this.#isOpen || callClass === 'must-complete') return true
    // A look at the target is refused only while it has asked for a pause.
    if (callClass === 'probe') return !this.isPaused
    return this.#isProbeDue()
  }

  begin(call: GuardedCall): void {
    const isLook = call.request.callClass === 'probe'
    if (this.#isOpen && !isLook && this.#isProbeDue()) this.#probe = call
  }

  succeed(call: GuardedCall): void {
    const { callClass } = call.request
    // The success of a look does not prove that other calls would succeed, so it only lets the next call try before its time.
    if (callClass === 'probe') {
      this.#openUntilMs = Math.min(this.#openUntilMs, Math.max(this.options.now(), this.#pausedUntilMs))
    } else if (this.#isCurrent(call)) {
      if (this.#isOpen) this.#change(false)
      this.#failures = 0
    }
    this.ignore(call)
  }

  /** `mayOpen`: whether these failures count for everybody whom the circuit is for. */
  fail(call: GuardedCall, mayOpen: boolean, openMs: number): void {
    const isProbe = call === this.#probe
    const { callClass } = call.request
    if (callClass !== 'probe' && this.#isCurrent(call)) {
      this.#failures += 1
      if (isProbe || (!this.#isOpen && mayOpen && this.#failures >= failuresToOpen)) this.#open(openMs)
    }
    this.ignore(call)
  }

  /** The end of a call says nothing, for instance because its client hung up. */
  ignore(call: GuardedCall): void {
    if (call === this.#probe) this.#probe = null
  }

  /** The target has asked for a pause. */
  pause(ms: number): void {
    if (!this.#isOpen) this.#open(0)
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, this.options.now() + ms)
    this.#openUntilMs = Math.max(this.#openUntilMs, this.#pausedUntilMs)
  }

  #isCurrent({ beganAtMs }: GuardedCall): boolean {
    return beganAtMs >= this.#changedAtMs
  }

  /** A call that got no answer for so long does not keep the next one from trying. */
  #isProbeDue(): boolean {
    const nowMs = this.options.now()
    const isOnlyOne = this.#probe === null || nowMs - this.#probe.beganAtMs >= longestOpenMs
    return isOnlyOne && nowMs >= this.#openUntilMs
  }

  #open(atLeastMs: number): void {
    const { now, random } = this.options
    this.#openMs = this.#isOpen ? Math.min(longestOpenMs, this.#openMs * 2) : shortestOpenMs
    // Random, so that processes that lost the same target do not come back to it at the same moment.
    const randomMs = Math.min(longestOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    this.#openUntilMs = now() + Math.max(randomMs, atLeastMs)
    if (!this.#isOpen) this.#change(true)
  }

  #change(isOpen: boolean): void {
    this.#isOpen = isOpen
    this.#failures = 0
    this.#changedAtMs = this.options.now()
    this.onChange(isOpen ? 'opened' : 'closed')
  }
}
