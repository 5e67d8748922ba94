import { LineWriter } from '../observability/line-writer.ts'
import { createLog } from '../observability/log.ts'
import { takeOver } from '../settings/settings.ts'
import { listenForMetrics } from './listening.ts'
import { createNotifier, takeoverRisk } from './linux.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'
import type { Host, Output } from './host.ts'
import type { Successor, Supervisor } from './processes.ts'
import type { Notifier } from './linux.ts'

/** Reads the settings again from their sources; null when they are bad. `report` gets every problem and warning. */
export type RereadSettings = (report: (line: string) => void) => Promise<Settings | null>

/** The context that a service is started in. */
export interface ServiceContext {
  settings: Settings
  host: Host
  output: OutputLog
  reread: RereadSettings
}

/** A service that listens, in this process or in several. */
interface RunningService {
  url: string
  port: number
  workers: number
  /** Whether all of its processes have given a sign of life lately. */
  isResponsive(): boolean
  /** The metrics of all of its processes. */
  families(): Promise<MetricFamily[]>
  /** Applies new settings where that needs no new process. */
  reload(settings: Settings): void
  /**
   * Goes on for `delayMs` while clients are asked to close connections; resolves once the requests in flight are answered
   * after that.
   */
  stop(delayMs: number): Promise<void>
  /** Ends at once. */
  abort(): Promise<void>
}

type OutputLog = ReturnType<typeof createOutputLog>

// The most that a pipe takes in one piece, so that lines of several processes are never mixed; see pipe(7), PIPE_BUF.
const pieceBytes = 4096

/**
 * The log on an output; a reader that stalls or leaves never delays the service. `flush` resolves once all lines are out, or
 * after half a second; `dropped` tells how many were lost so far.
 */
export function createOutputLog(settings: Settings, host: Host, output: Output) {
  const writer = new LineWriter(output, {
    pieceBytes,
    onRecovered: (lost) => log.warning('log lines dropped', { lines: lost }),
  })
  const log: Log = createLog({
    renderer: settings.loggingRenderer,
    level: settings.loggingLevel,
    write: (line) => writer.write(line),
    now: host.now,
    // See no-color.org. Whether it is a terminal takes the runtime some ms to tell, so only a text for people asks.
    colour: settings.loggingRenderer === 'text' && output.isTty && !host.environment.NO_COLOR,
    priorities: output.isJournal,
  })
  return { log, flush: () => Promise.race([writer.flush(), Bun.sleep(500)]), dropped: () => writer.dropped }
}

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
export function workerOrders(host: Host, supervisor: Supervisor, delayMs: number): StopOrders {
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

/** A successor that does not listen within this time is given up. */
const successorTimeoutMs = 30_000
/** Within this time most clients with open connections ask again, and are told to close them. */
const leastTakeoverDelayMs = 1000

/**
 * Runs a service that listens until a signal ends it or a successor has taken over; reports to the service manager and
 * the log. Returns the exit code.
 */
export async function runUntilStopped(
  context: ServiceContext,
  service: RunningService,
  orders: StopOrders,
): Promise<number> {
  const { settings, host } = context
  const { log } = context.output
  const metrics = await listenForMetrics(settings, host, service.families)
  if (metrics === 'failed') {
    await service.abort()
    return 1
  }
  const notifier = await createNotifier(host, service.isResponsive, (reason) =>
    log.debug('not notified', { reason }),
  )
  const takenOver = Promise.withResolvers<number>()
  const changes = new Changes(context, service, notifier, () =>
    takenOver.resolve(Math.max(stopDelayMs(settings), leastTakeoverDelayMs)),
  )
  host.onSignal('SIGHUP', () => void changes.reload())
  host.onSignal('SIGUSR2', () => void changes.replace())

  log.info('listening', { url: service.url, ...(service.workers > 1 && { workers: service.workers }) })
  warnOfTakeovers(context)
  const predecessor = host.processes?.predecessor
  // The service manager listens to the predecessor until the predecessor has named this process.
  if (predecessor) predecessor.announce(service.url)
  else notifier.ready()

  const delayMs = await Promise.race([orders.stop, takenOver.promise])
  changes.cancel()
  notifier.stopping()
  // Stops at once, so that the process that takes over is the one that is asked.
  void metrics?.stop()
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  const code = await Promise.race([service.stop(delayMs).then(() => 0), orders.abort])
  await service.abort()
  log.info('stopped')
  notifier.close()
  return code
}

function warnOfTakeovers({ settings, host, output }: ServiceContext): void {
  if (!settings.reusePort && !host.environment.NOTIFY_SOCKET) return
  const reason = takeoverRisk(host)
  if (reason) output.log.warning('taking over can reset connections', { reason })
}

/** Changes a running service: by new settings, or by a new process. One change at a time. */
class Changes {
  readonly #log: Log
  #isBusy = false
  #isAskedAgain = false
  /** The successor that has taken over. */
  #takenOverBy: Successor | null = null
  /** The successor that is starting. */
  #startingSuccessor: Successor | null = null
  /** The effective settings. */
  #running: Settings

  constructor(
    private readonly context: ServiceContext,
    private readonly service: RunningService,
    private readonly notifier: Notifier,
    private readonly onTakenOver: () => void,
  ) {
    this.#log = context.output.log
    this.#running = context.settings
  }

  /**
   * Applies the settings file. Where settings or a new executable need a new process, and the service manager allows the
   * main process to change, a successor takes over.
   */
  async reload(): Promise<void> {
    await this.#alone(async () => {
      const settings = await this.#reread()
      if (!settings) return
      const { host } = this.context
      const reloaded = { ...this.#running }
      const { changed, waiting } = takeOver(reloaded, settings)
      const isOutdated = waiting.length > 0 || host.processes?.hasNewExecutable() === true
      const isManaged = Boolean(host.environment.NOTIFY_SOCKET) && host.processes?.isReplaceable
      if (isOutdated && isManaged) return this.#startSuccessor()

      this.service.reload(settings)
      this.#running = reloaded
      if (waiting.length > 0) this.#log.warning('settings need a restart', { settings: waiting.join(', ') })
      this.#log.info('settings reloaded', { changed: changed.join(', ') })
    })
  }

  /** A successor takes over, with the present executable and settings. */
  async replace(): Promise<void> {
    await this.#alone(async () => {
      if (await this.#reread()) await this.#startSuccessor()
    })
  }

  /** The service ends, so no successor takes over any more. */
  cancel(): void {
    this.#startingSuccessor?.kill()
  }

  async #alone(change: () => Promise<void>): Promise<void> {
    if (this.#isBusy) {
      // The change in progress may have read the file before this request, so the file is read once more at the end.
      this.#isAskedAgain = true
      return this.#log.warning('a change is in progress already')
    }
    this.#isBusy = true
    this.notifier.reloading()
    await change()
    this.notifier.ready()
    this.#isBusy = false
    if (!this.#isAskedAgain) return
    this.#isAskedAgain = false
    if (this.#takenOverBy) this.#takenOverBy.reload()
    else await this.reload()
  }

  /** Null when they are bad; the log tells why. */
  async #reread(): Promise<Settings | null> {
    const lines: string[] = []
    const settings = await this.context.reread((line) => void lines.push(line))
    for (const line of lines) {
      if (settings) this.#log.warning('settings warning', { problem: line })
      else this.#log.error('settings refused', { problem: line })
    }
    if (!settings) this.#log.error('settings kept')
    return settings
  }

  async #startSuccessor(): Promise<void> {
    const { processes } = this.context.host
    if (!processes?.isReplaceable) {
      this.#log.error('takeover failed', { reason: 'the first process of a container can not be replaced' })
      return
    }
    this.#log.info('starting a successor')
    const successor = processes.startSuccessor(successorEnvironment(this.context, this.service.port))
    this.#startingSuccessor = successor
    const late = Promise.withResolvers<{ failure: string }>()
    const timer = setTimeout(
      () => late.resolve({ failure: `it did not listen within ${successorTimeoutMs / 1000} s` }),
      successorTimeoutMs,
    )
    const outcome = await Promise.race([successor.started, late.promise])
    clearTimeout(timer)
    this.#startingSuccessor = null
    if ('failure' in outcome) {
      successor.kill()
      this.#log.error('takeover failed', { reason: outcome.failure })
      return
    }
    this.notifier.handOver(successor.pid)
    this.#takenOverBy = successor
    this.#log.info('taken over', { pid: successor.pid })
    this.onTakenOver()
  }
}

function successorEnvironment({ settings, host }: ServiceContext, port: number) {
  // A free port that the system chose stays the same.
  return { ...host.environment, ...(settings.port === 0 && { SERVICE_PORT: String(port) }) }
}
