/** Waiting, which the explorer never does: it does not load this. */

// A timer for longer than that would fire at once.
const longestTimerMs = 2 ** 31 - 1

/** Resolves after that time; rejects when the signal fires. */
export function wait(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const timer = setTimeout(
      () => {
        signal?.removeEventListener('abort', onAbort)
        resolve()
      },
      Math.min(seconds * 1000, longestTimerMs),
    )
    function onAbort() {
      clearTimeout(timer)
      reject(signal!.reason)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

/** What is asked of a bridge, as far as it says how long to wait. */
interface Patient {
  readonly options: {
    onPause?(seconds: number, status: number): void
    sleep?(seconds: number, signal?: AbortSignal): Promise<void>
  }
  readonly backoffUntilMs: number
}

/** Waits for so many seconds, or for as long as the bridge wants to be left alone by those who have time. Rejects when the signal fires. */
export async function rest(requests: Patient, seconds: number, signal?: AbortSignal): Promise<void> {
  const { onPause, sleep = wait } = requests.options
  const backoffSeconds = (requests.backoffUntilMs - Date.now()) / 1000
  if (backoffSeconds > seconds) onPause?.(Math.ceil(backoffSeconds), 200)
  await sleep(Math.max(seconds, backoffSeconds), signal)
}
