import { startBridge, type Bridge, type BridgeOptions } from '../../service/bridge.ts'
import { runUntilStopped } from './lifecycle.ts'
import { listenAt, listenForMetrics, publicAddress, requireFree } from './listening.ts'
import { configOption, describeCommand, type CommandFactory } from '../command.ts'
import { loadSettings } from './load-settings.ts'
import { createOutputLog } from '../output.ts'
import { stopSignals } from '../signals.ts'
import { runWorker } from './worker.ts'
import { startWorkers } from './workers.ts'
import type { Settings } from '../../settings/settings.ts'
import type { Host } from '../host.ts'
import type { RereadSettings, RunningService, ServiceContext } from './reload.ts'

export const serveCommand =
  (start: typeof serve): CommandFactory =>
  (perform) =>
    describeCommand(
      'serve',
      'run the service in the foreground',
      'SIGTERM finishes the requests in flight and exits 0. SIGHUP applies the settings that can change in a running process.',
    )
      .addOption(configOption)
      .action(
        perform(async (host, { config = null }) => {
          // A reload only warns of what is new.
          const reread: RereadSettings = (report) =>
            loadSettings(config, { ...host, trusting: [] }, report)?.settings ?? null
          const supervisor = host.processes?.supervisor
          const settings = supervisor ? await supervisor.askSettings() : loadSettings(config, host)?.settings
          return settings ? start(settings, host, reread) : 2
        }),
      )

/**
 * Runs the bridge until a signal stops it, in this process or in workers that this process supervises. SIGTERM or SIGINT: stops gracefully
 * with 0; a second one: stops at once with 128 + signal number. SIGHUP: applies changed settings. 1 if it can't listen.
 */
export async function serve(settings: Settings, host: Host, reread: RereadSettings): Promise<number> {
  const output = createOutputLog(settings, host, host.stdout)
  const context = { settings, host, output, reread }
  const supervisor = host.processes?.supervisor
  const code = await (supervisor
    ? runWorker(context, supervisor, (allFamilies) => listen(context, { sharesPort: true, allFamilies }))
    : serveAsMain(context))
  await output.flush()
  return code
}

async function serveAsMain(context: ServiceContext): Promise<number> {
  const { settings, host } = context
  const { processes } = host
  const orders = stopSignals(host, settings.shutdownDelaySeconds * 1000)
  const address = publicAddress(settings)
  const port = await listenAt(address, host, () =>
    // Workers share a port, which is not the same as another instance that was started by mistake.
    address.port !== 0 && settings.reusePort ? address.port : requireFree(address),
  )
  if (port === null) return 1
  const running = Promise.withResolvers<RunningService>()
  // Before the public port: an instance that can't start must not have accepted requests.
  const metrics = await listenForMetrics(context, running.promise)
  if (metrics === 'failed') return 1
  const runService = (service: RunningService) => {
    running.resolve(service)
    return runUntilStopped(context, service, orders, metrics)
  }
  if (processes && settings.workers > 1) {
    const { service, started } = startWorkers(context, processes, port)
    const exitCode = await Promise.race([started, orders.stop.then(() => 0)])
    if (exitCode === null) return runService(service)
    await service.abort?.()
    return exitCode
  }
  const bridge = await listen(context, {})
  if (!bridge) return 1
  const stop = (delayMs: number) => bridge.stop(settings.shutdownGraceSeconds * 1000, delayMs)
  return runService({ ...bridge, stop })
}

/** The bridge; null if the address can't be used, with an error on stderr. */
async function listen(context: ServiceContext, options: BridgeOptions): Promise<Bridge | null> {
  const { settings, host, output } = context
  return listenAt(publicAddress(settings), host, () =>
    startBridge(settings, host, output.log, { logLinesDropped: output.dropped, ...options }),
  )
}
