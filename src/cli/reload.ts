import { takeOver, type Settings } from '../settings/settings.ts'
import { signal, type Successor } from './processes.ts'
import type { MetricFamily } from '../observability/metric-families.ts'
import type { Bridge } from '../service/bridge.ts'
import type { Host } from './host.ts'
import type { Notifier } from './linux.ts'
import type { OutputLog } from './output.ts'

/** Reads the settings again from their sources; null when they are bad. `report` gets every problem and warning. */
export type RereadSettings = (report: (line: string) => void) => Settings | null

/** The context that a service is started in. */
export interface ServiceContext {
  settings: Settings
  host: Host
  output: OutputLog
  reread: RereadSettings
}

/** A service that listens, in this process or in several. */
export interface RunningService extends Pick<Bridge, 'url' | 'port' | 'reload'> {
  /** The number of its processes, if there are several. */
  workers?: number
  /** Whether all of its processes respond; absent where it runs in this one. */
  isResponsive?(): boolean
  /** The metrics of all of its processes. */
  families(): MetricFamily[] | Promise<MetricFamily[]>
  /**
   * Goes on for `delayMs` while clients are asked to close connections; resolves once the requests in flight are answered
   * after that.
   */
  stop(delayMs: number): Promise<void>
  /** Ends its other processes at once. */
  abort?(): Promise<void>
}

/** A successor that does not listen within this time is given up. */
const successorTimeoutMs = 30_000

/**
 * Changes a running service, one change at a time. SIGHUP applies the settings file; where settings or a new executable need
 * a new process, and the service manager allows the main process to change, a successor takes over. SIGUSR2: a successor
 * takes over anyway, with the present executable and settings.
 */
export function createChanges(context: ServiceContext, service: RunningService, notifier: Notifier) {
  const { processes, environment } = context.host
  const { log } = context.output
  const takenOver = Promise.withResolvers<void>()
  let isBusy = false
  let isAskedAgain = false
  /** The id of the successor. */
  let takenOverBy: number | null = null
  let starting: Successor | null = null
  /** The effective settings. */
  let running = context.settings

  const reload = () =>
    alone(async () => {
      const settings = reread()
      if (!settings) return
      const reloaded = { ...running }
      const { changed, waiting } = takeOver(reloaded, settings)
      const isOutdated = waiting.length > 0 || processes?.hasNewExecutable()
      if (isOutdated && environment.NOTIFY_SOCKET && processes?.isReplaceable) return startSuccessor()

      service.reload(settings)
      running = reloaded
      if (waiting.length > 0) log.warning('settings need a restart', { settings: waiting.join(', ') })
      log.info('settings reloaded', { changed: changed.join(', ') })
    })

  async function alone(change: () => Promise<void>): Promise<void> {
    // This process only ends its last requests.
    if (takenOverBy !== null) return signal(takenOverBy, 'SIGHUP')
    if (isBusy) {
      // The change in progress may have read the file before this request, so the file is read once more at the end.
      isAskedAgain = true
      return log.warning('a change is in progress already')
    }
    isBusy = true
    notifier.reloading()
    try {
      await change()
    } catch (error) {
      // The message could quote what was read.
      const { name, code } = error as { name?: string; code?: unknown }
      log.error('change failed', { reason: String(code ?? name) })
    } finally {
      notifier.ready()
      isBusy = false
    }
    if (!isAskedAgain) return
    isAskedAgain = false
    await reload()
  }

  /** Null when they are bad; the log tells why. */
  function reread(): Settings | null {
    const problems: string[] = []
    const settings = context.reread((line) => void problems.push(line))
    for (const problem of problems) {
      if (settings) log.warning('settings warning', { problem })
      else log.error('settings refused', { problem })
    }
    if (!settings) log.error('settings kept')
    return settings
  }

  async function startSuccessor(): Promise<void> {
    const failed = (reason: string) => log.error('takeover failed', { reason })
    if (!processes?.isReplaceable) return failed('the first process of a container can not be replaced')
    log.info('starting a successor')
    // A free port that the system chose stays the same.
    const port = context.settings.port === 0 && { SERVICE_PORT: String(service.port) }
    try {
      starting = processes.startSuccessor({ ...environment, ...port })
    } catch (error) {
      return failed(`it can not be started (${String((error as { code?: unknown }).code)})`)
    }
    const successor = starting
    const pidOrFailure = await Promise.race([
      successor.listening,
      successor.ended.then((end) => `it ended with ${typeof end === 'number' ? `exit code ${end}` : end}`),
      Bun.sleep(successorTimeoutMs).then(() => `it did not listen within ${successorTimeoutMs / 1000} s`),
    ])
    if (typeof pidOrFailure === 'string') {
      starting = null
      successor.kill()
      return failed(pidOrFailure)
    }
    await successor.release()
    starting = null
    notifier.handOver(pidOrFailure)
    takenOverBy = pidOrFailure
    log.info('taken over', { pid: pidOrFailure })
    takenOver.resolve()
  }

  context.host.onSignal('SIGHUP', () => void reload())
  context.host.onSignal('SIGUSR2', () => {
    void alone(async () => {
      if (reread()) await startSuccessor()
    })
  })
  return {
    /** Resolves once a successor has taken over. */
    takenOver: takenOver.promise,
    /** The service ends, so no successor takes over any more. */
    cancel: () => starting?.kill(),
  }
}
