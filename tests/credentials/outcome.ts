/**
 * What has become of a promise without waiting for anything outside: null when it is fulfilled, the message of its
 * rejection, or `waits`. No timer can have run and no answer can have been read meanwhile, however busy the machine is.
 */
export async function outcomeSoFar(promise: Promise<unknown>): Promise<string | null> {
  const outcome = promise.then(
    () => null,
    (error: Error) => error.message,
  )
  return Promise.race([
    outcome,
    (async () => {
      for (let turn = 0; turn < 100; turn += 1) await Promise.resolve()
      return 'waits'
    })(),
  ])
}
