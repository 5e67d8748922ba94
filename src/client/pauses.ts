/** Pauses between requests. A module of its own, because the explorer does not need it. */

// Longer timers fire at once.
const longestTimerMs = 2 ** 31 - 1

/** Resolves after the time; rejects when the signal is aborted. */
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

/** The part of `Requests` that says how long to wait. */
interface Pausable {
  readonly options: {
    onPause?(seconds: number, status: number): void
    sleep?(seconds: number, signal?: AbortSignal): Promise<void>
  }
  readonly backoffUntilMs: number
}

/** Waits for that many seconds, or longer if the bridge has asked for it with `Backoff`. Rejects when the signal is aborted. */
export async function rest(requests: Pausable, seconds: number, signal?: AbortSignal): Promise<void> {
  const { onPause, sleep = wait } = requests.options
  const backoffSeconds = (requests.backoffUntilMs - Date.now()) / 1000
  if (backoffSeconds > seconds) onPause?.(Math.ceil(backoffSeconds), 200)
  await sleep(Math.max(seconds, backoffSeconds), signal)
}
