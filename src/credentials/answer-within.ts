/** Rejection of a promise that took too long. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'

  constructor() {
    super('Cannot use the credential cache: no answer in time')
  }
}

/** The same outcome, or `NoAnswer` when there is none after so many ms. */
export function answerWithin<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  const timer = setTimeout(() => reject(new NoAnswer()), timeoutMs)
  answer.then(resolve, reject).finally(() => clearTimeout(timer))
  return promise
}
