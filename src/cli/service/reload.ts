import { takeOver, type Settings } from '../../settings/settings.ts'
import { signal, type Successor } from './processes.ts'
import type { MetricFamily } from '../../observability/metric-families.ts'
import type { Bridge } from '../../service/bridge.ts'
import type { Host } from '../host.ts'
import type { Notifier } from './linux.ts'
import type { OutputLog } from '../output.ts'

/** Reads the settings again; null if they have problems. `report` gets every problem and warning. */
export type RereadSettings = (report: (line: string) => void) => Settings | null

/** The context of a service. */
export interface ServiceContext {
  settings: Settings
  host: Host
  output: OutputLog
  reread: RereadSettings
}

/** A listening service, in this process or in several. */
export interface RunningService extends Pick<Bridge, 'url' | 'port' | 'reload'> {
  /** The number of its processes, if there are several. */
  workers?: number
  /** The metrics of all its processes. */
  families(): MetricFamily[] | Promise<MetricFamily[]>
  /** Keeps serving for `delayMs` while clients are asked to close connections, then resolves once the requests in flight are answered. */
  stop(delayMs: number): Promise<void>
  /** Kills its other processes. */
  abort?(): Promise<void>
}

/** Timeout for a successor to listen. */
const successorTimeoutMs = 30_000

/**
 * Changes a running service, one change at a time. SIGHUP applies the settings file; if settings or a new executable need a new process,
 * and the service manager allows it, a successor takes over. SIGUSR2 always starts a successor, with the current executable and settings.
 */
export function createChanges(context: ServiceContext, service: RunningService, notifier: Notifier) {
  const { processes, environment } = context.host
  const { log } = context.output
  const takenOver = Promise.withResolvers<void>()
  let isBusy = false
  let isRequestedAgain = false
  /** The process id of the successor. */
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

      service.reload(reloaded)
      running = reloaded
      if (waiting.length > 0) log.warning('settings need a restart', { settings: waiting.join(', ') })
      log.info('settings reloaded', { changed: changed.join(', ') })
    })

  async function alone(change: () => Promise<void>): Promise<void> {
    // This process only finishes its last requests.
    if (takenOverBy !== null) return signal(takenOverBy, 'SIGHUP')
    if (isBusy) {
      // The change in progress may have read the file already, so it is read again afterwards.
      isRequestedAgain = true
      return log.warning('a change is in progress already')
    }
    isBusy = true
    notifier.reloading()
    try {
      await change()
    } catch (error) {
      // Not the message, which could quote settings.
      const { name, code } = error as { name?: string; code?: unknown }
      log.error('change failed', { reason: String(code ?? name) })
    } finally {
      notifier.ready()
      isBusy = false
    }
    if (!isRequestedAgain) return
    isRequestedAgain = false
    await reload()
  }

  /** Null if they have problems, which are logged. */
  function reread(): Settings | null {
    const settings = context.reread((line) => {
      const problem = line.replace(/^warning: /, '')
      if (problem === line) log.error('settings refused', { problem })
      else log.warning('settings warning', { problem })
    })
    if (!settings) log.error('settings kept')
    return settings
  }

  async function startSuccessor(): Promise<void> {
    const failed = (reason: string) => log.error('takeover failed', { reason })
    if (!processes?.isReplaceable) return failed('cannot replace the first process of a container')
    log.info('starting a successor')
    // Keeps a port that the system chose.
    const port = context.settings.port === 0 && { SERVICE_PORT: String(service.port) }
    try {
      starting = processes.startSuccessor({ ...environment, ...port })
    } catch (error) {
      return failed(`cannot start it (${String((error as { code?: unknown }).code)})`)
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
    /** The service stops, so no successor may take over. */
    cancel: () => starting?.kill(),
  }
}
