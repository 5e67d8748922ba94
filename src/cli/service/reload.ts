import { applyReloadable, type Settings } from '../../settings/settings.ts'
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

/** Applies the settings file at each SIGHUP, as far as a running process can. What it can't is logged: it needs a restart. */
export function reloadOnHangup(context: ServiceContext, service: RunningService, notifier: Notifier): void {
  const { onSignal, processes } = context.host
  const { log } = context.output
  /** The effective settings. */
  let running = context.settings

  function reload(): void {
    const settings = context.reread((line) => {
      const problem = line.replace(/^warning: /, '')
      if (problem === line) log.error('settings refused', { problem })
      else log.warning('settings warning', { problem })
    })
    if (!settings) return log.error('settings kept')
    const reloaded = { ...running }
    const { changed, waiting } = applyReloadable(reloaded, settings)
    service.reload(reloaded)
    running = reloaded
    if (waiting.length > 0) log.warning('settings need a restart', { settings: waiting.join(', ') })
    if (processes?.hasNewExecutable()) log.warning('the new executable needs a restart')
    log.info('settings reloaded', { changed: changed.join(', ') })
  }

  onSignal('SIGHUP', () => {
    notifier.reloading()
    try {
      reload()
    } catch (error) {
      // Not the message, which could quote settings.
      const { name, code } = error as { name?: string; code?: unknown }
      log.error('reload failed', { reason: String(code ?? name) })
    }
    notifier.ready()
  })
}
