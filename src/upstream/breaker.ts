/** What the end of a call says about its target. `unclear`: nothing, for instance because its caller hung up. */
export type Verdict = 'well' | 'failed' | 'unclear'

/** Why a call is made: `work` for a client, `settling` to end what has been begun, `look` to tell how the target is. */
export type Purpose = 'work' | 'settling' | 'look'

export interface BreakerOptions {
  /** A clock in ms that never goes back. */
  now(): number
  /** From 0 up to, but not including, 1. */
  random(): number
  onChange(change: 'opened' | 'closed'): void
}

const failuresToOpen = 5
const callsToOpen = 20
const windowMs = 10_000
const shortestOpenMs = 1000
/** A target that is well again is in use within five seconds, whatever has gone before. */
const longestOpenMs = 4000
/** Whatever has become of a probe by then, another one shall tell. */
const longestProbeMs = 30_000
const forgottenAfterMs = 60_000

/**
 * Stops the calls to a target that keeps failing: after 5 failures in a row, or when half of at least 20 calls within
 * 10 s failed. All are refused for about 1 s, and twice as long each time, at most 4 s; then one at a time is let
 * through, until one goes well.
 *
 * What settles is never refused: a write that has begun and is then neither looked at, nor undone, nor committed would
 * make a lasting fault of a passing one. Its end counts like any other, except that it makes no open time longer,
 * because settling tries again at once, a few times, and does not wait until that is due.
 *
 * A look is refused only while the target has asked to be left alone. That it went well does not prove that work would,
 * so it only lets the next call try before its time.
 */
export class Breaker {
  readonly #options: BreakerOptions
  readonly #recent = new RecentCalls()
  #failuresInARow = 0
  #isOpen = false
  #openMs = 0
  #openUntilMs = 0
  #pausedUntilMs = 0
  /** Counts openings and closings: a call that began before the last one tells of a time that is over. */
  #era = 0
  #probe: Passage | null = null
  #underWay = 0
  #endedAtMs = 0

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /** `half-open`: the next call tells, or the one that is under way. */
  get state(): 'closed' | 'open' | 'half-open' {
    if (!this.#isOpen) return 'closed'
    return this.openForMs > 0 ? 'open' : 'half-open'
  }

  /** How long all work will be refused; 0 also while a probe is under way. */
  get openForMs(): number {
    return this.#isOpen ? Math.max(0, this.#openUntilMs - this.#options.now()) : 0
  }

  /** Whether nobody has called for a minute, or would have been let through. */
  get isForgotten(): boolean {
    const lastMs = Math.max(this.#endedAtMs, this.#openUntilMs)
    return this.#underWay === 0 && this.#options.now() >= lastMs + forgottenAfterMs
  }

  /** The way through for one call; null when it may not be made. */
  enter(purpose: Purpose): Passage | null {
    if (!this.admits(purpose)) return null
    const passage = new Passage(this, purpose, this.#era, this.#options.now())
    if (purpose !== 'look' && this.#isProbeDue(passage.beganAtMs)) this.#probe = passage
    this.#underWay += 1
    return passage
  }

  /** Whether such a call may be made now. */
  admits(purpose: Purpose): boolean {
    if (!this.#isOpen || purpose === 'settling') return true
    const nowMs = this.#options.now()
    return purpose === 'look' ? nowMs >= this.#pausedUntilMs : this.#isProbeDue(nowMs)
  }

  /** Whether a call that was let through, and then had to wait for its turn, may still be made. */
  stillAdmits({ purpose, era }: Passage): boolean {
    return !this.#isOpen || era === this.#era || purpose !== 'work'
  }

  /** The target has asked to be left alone for so long. */
  pause(ms: number): void {
    const nowMs = this.#options.now()
    if (!this.#isOpen) this.#open(nowMs)
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + ms)
    this.#openUntilMs = Math.max(this.#openUntilMs, this.#pausedUntilMs)
  }

  /** For passages alone: a call has ended. */
  leave(passage: Passage, verdict: Verdict, openMs: number): void {
    const isProbe = passage === this.#probe
    if (isProbe) this.#probe = null
    const nowMs = this.#options.now()
    this.#underWay -= 1
    this.#endedAtMs = nowMs
    if (verdict === 'unclear') return
    if (passage.purpose === 'look') {
      if (verdict === 'well')
        this.#openUntilMs = Math.min(this.#openUntilMs, Math.max(nowMs, this.#pausedUntilMs))
    } else if (passage.era === this.#era) {
      if (this.#isOpen) {
        if (verdict === 'well') this.#close()
        else if (isProbe) this.#open(nowMs, openMs)
      } else if (this.#isTooMuch(verdict === 'failed', nowMs)) this.#open(nowMs, openMs)
    }
  }

  #isProbeDue(nowMs: number): boolean {
    if (!this.#isOpen || nowMs < this.#openUntilMs) return false
    return this.#probe === null || nowMs >= this.#probe.beganAtMs + longestProbeMs
  }

  #isTooMuch(hasFailed: boolean, nowMs: number): boolean {
    const { calls, failures } = this.#recent.add(hasFailed, nowMs)
    this.#failuresInARow = hasFailed ? this.#failuresInARow + 1 : 0
    if (this.#failuresInARow >= failuresToOpen) return true
    return hasFailed && calls >= callsToOpen && failures * 2 >= calls
  }

  #open(nowMs: number, atLeastMs = 0): void {
    const { random, onChange } = this.#options
    const isNew = !this.#isOpen
    this.#openMs = isNew ? shortestOpenMs : Math.min(longestOpenMs, this.#openMs * 2)
    // Processes that lost the same target shall not come back to it at the same moment.
    const fuzzyMs = Math.min(longestOpenMs, this.#openMs * (0.75 + 0.5 * random()))
    this.#openUntilMs = nowMs + Math.max(fuzzyMs, atLeastMs)
    if (!isNew) return
    this.#isOpen = true
    this.#era += 1
    onChange('opened')
  }

  #close(): void {
    this.#isOpen = false
    this.#era += 1
    this.#failuresInARow = 0
    this.#recent.clear()
    this.#options.onChange('closed')
  }
}

/** One call that a breaker let through; its end has to be told, once or more often, of which the first counts. */
export class Passage {
  #hasEnded = false

  constructor(
    readonly breaker: Breaker,
    readonly purpose: Purpose,
    readonly era: number,
    readonly beganAtMs: number,
  ) {}

  /** When that opens the breaker it stays so for `openMs` at least. */
  end(verdict: Verdict, openMs = 0): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.breaker.leave(this, verdict, openMs)
  }
}

/** Counts the calls of the last 5 to 10 s. */
class RecentCalls {
  #calls = 0
  #failures = 0
  #earlierCalls = 0
  #earlierFailures = 0
  /** Of the two halves of the window, when the one that is counted now began. */
  #sinceMs = -Infinity

  add(hasFailed: boolean, nowMs: number): { calls: number; failures: number } {
    if (nowMs >= this.#sinceMs + windowMs / 2) {
      const isNext = nowMs < this.#sinceMs + windowMs
      this.#earlierCalls = isNext ? this.#calls : 0
      this.#earlierFailures = isNext ? this.#failures : 0
      this.#calls = 0
      this.#failures = 0
      this.#sinceMs = nowMs
    }
    this.#calls += 1
    if (hasFailed) this.#failures += 1
    return { calls: this.#earlierCalls + this.#calls, failures: this.#earlierFailures + this.#failures }
  }

  clear(): void {
    this.#sinceMs = -Infinity
  }
}
