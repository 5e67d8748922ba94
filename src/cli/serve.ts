import { startBridge } from '../service/bridge.ts'
import { runUntilStopped } from './lifecycle.ts'
import { listenAt, publicAddress, requireFree, sharesAddresses } from './listening.ts'
import { createOutputLog } from './output.ts'
import { stopSignals, workerOrders } from './signals.ts'
import { answerSupervisor, Workers } from './workers.ts'

import type { Settings } from '../settings/settings.ts'
import type { Bridge, BridgeOptions } from '../service/bridge.ts'
import type { Host } from './host.ts'
import type { Parent, Processes } from './processes.ts'
import type { RereadSettings, ServiceContext } from './reload.ts'
import type { StopOrders } from './signals.ts'

/**
 * Runs the bridge until a signal ends it: in this process, or in as many as the settings ask for, which this one then
 * supervises. SIGTERM or SIGINT: answers the requests in flight, and then 0; a second one: at once, and 128 with the
 * number of the signal. SIGHUP: follows the settings. SIGUSR2: a new process takes over. 1 when it can't listen.
 */
export async function serve(settings: Settings, host: Host, reread: RereadSettings): Promise<number> {
  const output = createOutputLog(settings, host, host.stdout)
  const context = { settings, host, output, reread }
  const supervisor = host.processes?.supervisor
  const code = await (supervisor ? serveAsWorker(context, supervisor) : serveAsMain(context))
  await output.flush()
  return code
}

async function serveAsMain(context: ServiceContext): Promise<number> {
  const { settings, host } = context
  const { processes } = host
  const orders = stopSignals(host, settings.shutdownDelaySeconds * 1000)
  const address = publicAddress(settings)
  const port = await listenAt(address, 'listen', host, () =>
    address.port !== 0 && sharesAddresses(settings, host) ? address.port : requireFree(address),
  )
  if (port === null) return 1
  if (processes && settings.workers > 1) return supervise(context, processes, port, orders)

  const sharesPort = settings.reusePort || processes?.canSharePorts === true
  const bridge = await listen(context, { sharesPort })
  if (!bridge) return 1
  const service = {
    ...bridge,
    workers: 1,
    isResponsive: () => true,
    families: async () => bridge.families(),
    stop: (delayMs: number) => drain(bridge, settings, delayMs),
    abort: async () => {},
  }
  return runUntilStopped(context, service, orders)
}

/**
 * Runs the service in several processes that share that port, and none of it in this one. The exit code is that of `serve`;
 * that of a worker which could not start in the beginning.
 */
async function supervise(context: ServiceContext, processes: Processes, port: number, orders: StopOrders) {
  const workers = new Workers(context, processes, port)
  const exitCode = await Promise.race([workers.start(), orders.stop.then(() => 0)])
  if (exitCode === null) return runUntilStopped(context, workers, orders)
  await workers.abort()
  return exitCode
}

async function serveAsWorker(context: ServiceContext, supervisor: Parent): Promise<number> {
  const { settings, host, reread } = context
  const orders = workerOrders(host, supervisor, settings.shutdownDelaySeconds * 1000)
  let bridge: Bridge | null = null
  const allFamilies = answerSupervisor(supervisor, () => bridge?.families() ?? [])
  bridge = await listen(context, { sharesPort: true, allFamilies })
  if (!bridge) return 1
  // The supervisor has logged the problems already.
  supervisor.onMessage(({ kind }) => {
    const changed = kind === 'reload' ? reread(() => {}) : null
    if (changed) bridge.reload(changed)
  })
  supervisor.send({ kind: 'listening' })

  const delayMs = await orders.stop
  return Promise.race([drain(bridge, settings, delayMs).then(() => 0), orders.abort])
}

async function drain(bridge: Bridge, settings: Settings, delayMs: number): Promise<void> {
  bridge.announceStop()
  await Bun.sleep(delayMs)
  await bridge.stop(settings.shutdownGraceSeconds * 1000)
}

/** The bridge; null when the address can't be used, and stderr tells why. */
async function listen(context: ServiceContext, options: BridgeOptions): Promise<Bridge | null> {
  const { settings, host, output } = context
  return listenAt(publicAddress(settings), 'listen', host, () =>
    startBridge(settings, host, output.log, { logLinesDropped: output.dropped, ...options }),
  )
}
