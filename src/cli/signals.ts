import type { Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'
import type { Parent } from './processes.ts'

/** The orders to end. */
export interface StopOrders {
  /** Answer the requests in flight, and end; resolves to the ms for which the service goes on before it stops listening. */
  stop: Promise<number>
  /** End at once; resolves to the exit code of a process that a signal ends. */
  abort: Promise<number>
}

const signalNumbers = { SIGTERM: 15, SIGINT: 2 } as const

/** The first SIGTERM or SIGINT stops a service, and a second one aborts it. */
export function stopSignals(host: Host, delayMs: number): StopOrders {
  const stop = Promise.withResolvers<number>()
  const abort = Promise.withResolvers<number>()
  let isStopping = false
  // From the first moment on, because these signals end a process without a handler.
  for (const name of ['SIGHUP', 'SIGUSR2'] as const) host.onSignal(name, () => {})
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    host.onSignal(name, () => {
      if (isStopping) abort.resolve(128 + signalNumbers[name])
      isStopping = true
      stop.resolve(delayMs)
    })
  }
  return { stop: stop.promise, abort: abort.promise }
}

/**
 * The orders that a worker obeys. A terminal or a service manager sends its signals to all processes, the supervisor
 * included, so a signal is never a second order here. Without its supervisor a worker ends.
 */
export function workerOrders(host: Host, supervisor: Parent, delayMs: number): StopOrders {
  const stop = Promise.withResolvers<number>()
  const abort = Promise.withResolvers<number>()
  host.onSignal('SIGTERM', () => stop.resolve(delayMs))
  for (const name of ['SIGINT', 'SIGHUP', 'SIGUSR2'] as const) host.onSignal(name, () => {})
  supervisor.onLoss(() => stop.resolve(delayMs))
  supervisor.onMessage((message) => {
    if (message.kind === 'stop') stop.resolve(message.delayMs)
    if (message.kind === 'abort') abort.resolve(128 + signalNumbers.SIGTERM)
  })
  return { stop: stop.promise, abort: abort.promise }
}

/** For how long a service goes on after SIGTERM before it stops listening. */
export function stopDelayMs({ shutdownDelaySeconds }: Settings): number {
  return shutdownDelaySeconds * 1000
}
