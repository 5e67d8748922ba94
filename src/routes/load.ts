import { AdmittedLimit, windowMs } from './admitted-limit.ts'
import { RefusalPace } from './refusal-pace.ts'

/**
 * Why a request was refused:
 * - `limit`: as many as were configured are under way
 * - `lag`: as many as the event loop can serve in time are under way
 * - `user`: there is hardly any room left, and that user has a share of it already
 */
export type RefusalReason = 'limit' | 'lag' | 'user'

export interface LoadOptions {
  /** Requests under way at most. */
  maxRequests: number
  /** Requests of one user under way at most, while there is hardly any room left; 0: as many as there are. */
  maxRequestsOfUser: number
  /** How late the event loop may be before less is admitted; 0: as late as it will. */
  maxLagMs: number
  /** Requests whose answers are not wholly sent, the one that is just looked at included. */
  requestsInFlight(): number
  /** On a clock in ms that never goes back. */
  now(): number
  /** Processor time that this process has used so far, in ms; null where nobody knows. */
  cpuMs(): number | null
  /** How late the event loop was in each window. */
  observeLag(ms: number): void
  observeRefusal(reason: RefusalReason): void
}

/** A request while it is under way. */
export interface Visit {
  /** It turned out to be that many in one; false: these are too many now, and it has to be refused. */
  weigh(requests: number): boolean
  /** Gives back all that it took; further calls do nothing. */
  end(): void
}

const busyShare = 0.8
const backoffAfterMs = 5000
const backoffSeconds = 30

/** Knows how much is under way in this process, and whether more may begin. Nothing of it outlives its request. */
export class Load {
  readonly #limit: AdmittedLimit
  readonly #pace = new RefusalPace()
  readonly #visitsOf = new Map<string, number>()
  #visits = 0
  #extraWeight = 0
  /** The most that was under way in this window, and how many began. */
  #peak = 0
  #begun = 0
  #windowStartMs: number
  #windowStartCpuMs: number | null
  #busySinceMs: number | null = null
  #backoffSeconds = 0

  constructor(private readonly options: LoadOptions) {
    this.#limit = new AdmittedLimit(options)
    this.#windowStartMs = options.now()
    this.#windowStartCpuMs = options.cpuMs()
  }

  /** How many requests are admitted at a time. */
  get admitted(): number {
    return this.#limit.value
  }

  /** How long clients are to stay away; 0: they need not. */
  get backoffSeconds(): number {
    return this.#backoffSeconds
  }

  /** Whether there is hardly any room left. To be asked for each request before anything else is done for it. */
  isBusy(): boolean {
    const weight = this.#weight(1)
    if (weight > this.#peak) this.#peak = weight
    return weight > busyShare * this.#limit.value
  }

  /** Whether a request of that user may not begin, when there is hardly any room left. */
  refuses(user: string): boolean {
    if (this.#exceeds(this.#weight(1))) return true
    const { maxRequestsOfUser, observeRefusal } = this.options
    const hasItsShare = maxRequestsOfUser > 0 && (this.#visitsOf.get(user) ?? 0) >= maxRequestsOfUser
    if (hasItsShare) observeRefusal('user')
    return hasItsShare
  }

  /** Null: refuse at once. Else a promise that resolves when it is time to. */
  refusalTurn(): Promise<void> | null {
    return this.#pace.turn()
  }

  /** A request of that user begins. The name is as secret as the user's credentials, and forgotten at the end. */
  begin(user: string): Visit {
    this.#visits += 1
    this.#begun += 1
    this.#visitsOf.set(user, (this.#visitsOf.get(user) ?? 0) + 1)
    let extraWeight = 0
    let hasEnded = false
    return {
      weigh: (requests) => {
        // However large, it has to fit in when there is nothing else.
        const more = Math.min(requests, this.#limit.floor) - 1
        if (more <= 0) return true
        if (this.#exceeds(this.#weight(0) + more)) return false
        extraWeight += more
        this.#extraWeight += more
        return true
      },
      end: () => {
        if (hasEnded) return
        hasEnded = true
        this.#visits -= 1
        this.#extraWeight -= extraWeight
        const others = this.#visitsOf.get(user)! - 1
        if (others === 0) this.#visitsOf.delete(user)
        else this.#visitsOf.set(user, others)
      },
    }
  }

  /** To be called every `windowMs`: judges what happened since the last time, and lets refusals go that wait. */
  endWindow(): void {
    const nowMs = this.options.now()
    const cpuMs = this.options.cpuMs()
    const lagMs = Math.max(0, nowMs - this.#windowStartMs - windowMs)
    const usedMs = cpuMs === null || this.#windowStartCpuMs === null ? null : cpuMs - this.#windowStartCpuMs
    const wasBusy = this.#peak > busyShare * this.#limit.value
    this.#busySinceMs = wasBusy ? (this.#busySinceMs ?? this.#windowStartMs) : null
    const isBusyForLong = this.#busySinceMs !== null && nowMs - this.#busySinceMs >= backoffAfterMs
    this.#backoffSeconds = isBusyForLong ? backoffSeconds : 0
    this.#limit.note(lagMs, usedMs)
    this.options.observeLag(lagMs)
    this.#peak = this.#weight(0)
    this.#windowStartMs = nowMs
    this.#windowStartCpuMs = cpuMs
    this.#pace.beginWindow(wasBusy ? this.#begun : Infinity)
    this.#begun = 0
  }

  // The server no longer knows of requests whose clients have hung up, although a write among them goes on.
  #weight(newcomers: number): number {
    const unanswered = this.options.requestsInFlight() - this.#pace.waiting
    return Math.max(unanswered, this.#visits + newcomers) + this.#extraWeight
  }

  #exceeds(weight: number): boolean {
    const exceeds = weight > this.#limit.value
    if (exceeds) this.options.observeRefusal(this.#limit.isLowered ? 'lag' : 'limit')
    return exceeds
  }
}
