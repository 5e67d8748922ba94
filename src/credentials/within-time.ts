/** The rejection of a promise that took too long. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'

  constructor() {
    super('Cannot use the credential cache: no answer in time')
  }
}

// A timer that fires so late shows that this process stood still, not that the other side did not answer.
const latenessMs = 20
const secondChanceMs = 25

/**
 * The same outcome, or `NoAnswer` when there is none after so many ms. When this process itself has stood still, what may
 * have arrived meanwhile gets a moment to be read.
 */
export function answerWithin<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const startedAtMs = performance.now()
  const giveUp = () => reject(new NoAnswer())
  let timer = setTimeout(() => {
    const isLate = performance.now() - startedAtMs > timeoutMs + latenessMs
    if (isLate) timer = setTimeout(giveUp, secondChanceMs)
    else giveUp()
  }, timeoutMs)
  answer.then(resolve, reject).finally(() => clearTimeout(timer))
  return promise
}

const patienceMs = 500

/**
 * The time until a connection has been tried for once. Those who ask before wait for its end, because a moment after the
 * start there is no connection yet where there soon will be one; but no call waits once another one has waited in vain.
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

const firstDelayMs = 50
const maxDelayMs = 2000

/**
 * How long to wait before the next attempt to connect, in ms, after so many that failed: 50 doubling to 2000, less up
 * to a quarter by chance (`random` is from 0 up to 1), so that many processes don't come back at the same moment.
 */
export function reconnectDelayMs(failures: number, random: number): number {
  return Math.min(maxDelayMs, firstDelayMs * 2 ** failures) * (1 - 0.25 * random)
}
