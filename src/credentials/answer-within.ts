/** Rejection of a promise that took too long. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'

  constructor() {
    super('Cannot use the credential cache: no answer in time')
  }
}

// A timer that comes so much too late tells that this process stood still, not that nobody answered.
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
