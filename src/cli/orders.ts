import type { Host, Supervisor } from './host.ts'

/** What a running service is told to do, and by whom. */
export interface Orders {
  /** Resolves at the order to answer what is under way, and end. */
  stop: Promise<void>
  /** Resolves at the order to end at once, to the exit code of who obeys. */
  abort: Promise<number>
  /** Calls the handler whenever the settings are to be read again. */
  onReload(handler: () => void): void
}

const signalNumbers = { SIGTERM: 15, SIGINT: 2 } as const

/** SIGTERM or SIGINT: stop; a second one: abort, with the exit code of who is ended by it. SIGHUP: reload. */
export function signalOrders(host: Host): Orders {
  const stop = Promise.withResolvers<void>()
  const abort = Promise.withResolvers<number>()
  let isStopping = false
  const reloadHandlers: (() => void)[] = []
  // From the first moment on, because it would end a process that does not listen for it.
  host.onSignal('SIGHUP', () => reloadHandlers.forEach((handler) => handler()))
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    host.onSignal(name, () => {
      if (isStopping) abort.resolve(128 + signalNumbers[name])
      isStopping = true
      stop.resolve()
    })
  }
  return {
    stop: stop.promise,
    abort: abort.promise,
    onReload: (handler) => void reloadHandlers.push(handler),
  }
}

/**
 * The orders of a worker. Signals that a terminal or a service manager sends to all processes come to the supervisor
 * too, so they are never a second order; without a supervisor there is nothing to work for.
 */
export function supervisorOrders(host: Host, supervisor: Supervisor): Orders {
  const stop = Promise.withResolvers<void>()
  const abort = Promise.withResolvers<number>()
  const reloadHandlers: (() => void)[] = []
  host.onSignal('SIGTERM', stop.resolve)
  host.onSignal('SIGINT', () => {})
  host.onSignal('SIGHUP', () => {})
  supervisor.onLoss(stop.resolve)
  supervisor.onMessage(({ kind }) => {
    if (kind === 'stop') stop.resolve()
    if (kind === 'abort') abort.resolve(128 + signalNumbers.SIGTERM)
    if (kind === 'reload') for (const handler of reloadHandlers) handler()
  })
  return {
    stop: stop.promise,
    abort: abort.promise,
    onReload: (handler) => void reloadHandlers.push(handler),
  }
}
