import type { Host } from './host.ts'

/** Requests to stop. */
export interface StopOrders {
  /** Stop gracefully; resolves to the ms to keep serving before that. */
  stop: Promise<number>
  /** Stop at once; resolves to the exit code. */
  abort: Promise<number>
}

/** Resolves at the first signal that stops a command of a user; closing the terminal sends SIGHUP, which `nohup` makes it ignore. */
export function interruption(host: Host): Promise<void> {
  return new Promise((resolve) => {
    for (const name of ['SIGTERM', 'SIGINT'] as const) host.onSignal(name, resolve)
    if (!ignoresHangup(host)) host.onSignal('SIGHUP', resolve)
  })
}

/** Whether this process was started to ignore SIGHUP; only Linux says so. */
function ignoresHangup(host: Host): boolean {
  try {
    const [, mask] = /^SigIgn:\s*([\da-f]+)$/m.exec(host.readFile('/proc/self/status')) ?? []
    return (parseInt(mask ?? '0', 16) & 1) === 1
  } catch {
    return false
  }
}

/** The exit codes for these signals. */
const exitCodes = { SIGTERM: 128 + 15, SIGINT: 128 + 2 }

/** The first SIGTERM or SIGINT stops a service; a second one aborts it. */
export function stopSignals(host: Host, delayMs: number): StopOrders {
  const stop = Promise.withResolvers<number>()
  const abort = Promise.withResolvers<number>()
  let isStopping = false
  // Handled from the start, because it ends a process without a handler.
  host.onSignal('SIGHUP', () => {})
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    host.onSignal(name, () => {
      if (isStopping) abort.resolve(exitCodes[name])
      isStopping = true
      stop.resolve(delayMs)
    })
  }
  return { stop: stop.promise, abort: abort.promise }
}
