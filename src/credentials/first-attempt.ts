import { answerWithin } from './answer-within.ts'

const patienceMs = 500

/**
 * The time until a connection has been tried for once. Those who ask before wait for its end, because a moment after the
 * start there is no connection yet where there soon will be one; but nobody waits once somebody has waited in vain.
 */
export class FirstAttempt {
  /** Resolves when it has succeeded, failed or lasted too long. */
  readonly ended: Promise<void>
  readonly #resolve: () => void
  #isOver = false

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#resolve = resolve
  }

  end(): void {
    this.#isOver = true
    this.#resolve()
  }

  /** Resolves at its end, after 500 ms at the latest. */
  async wait(): Promise<void> {
    if (!this.#isOver) await answerWithin(this.ended, patienceMs).catch(() => this.end())
  }
}
