import type { Host } from './host.ts'

/** The orders to end. */
export interface StopOrders {
  /** Answer the requests in flight, and end; resolves to the ms for which the service goes on before it stops listening. */
  stop: Promise<number>
  /** End at once; resolves to the exit code of a process that a signal ends. */
  abort: Promise<number>
}

/** The exit codes of processes that these signals end. */
const exitCodes = { SIGTERM: 128 + 15, SIGINT: 128 + 2 }

/** The first SIGTERM or SIGINT stops a service, and a second one aborts it. */
export function stopSignals(host: Host, delayMs: number): StopOrders {
  const stop = Promise.withResolvers<number>()
  const abort = Promise.withResolvers<number>()
  let isStopping = false
  // From the first moment on, because these signals end a process without a handler.
  for (const name of ['SIGHUP', 'SIGUSR2'] as const) host.onSignal(name, () => {})
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    host.onSignal(name, () => {
      if (isStopping) abort.resolve(exitCodes[name])
      isStopping = true
      stop.resolve(delayMs)
    })
  }
  return { stop: stop.promise, abort: abort.promise }
}
