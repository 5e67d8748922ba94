import { createOutputLog, runUntilStopped, stopDelayMs, stopSignals, workerOrders } from './lifecycle.ts'
import { listenAt, publicAddress, requireFree, sharesAddresses } from './listening.ts'
import { answerSupervisor, Workers } from './workers.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Settings } from '../settings/settings.ts'
import type { Bridge, BridgeOptions } from '../service/bridge.ts'
import type { Host } from './host.ts'
import type { Processes, Supervisor } from './processes.ts'
import type { RereadSettings, ServiceContext, StopOrders } from './lifecycle.ts'

/** The time that a worker gets beyond that of its requests. */
const patienceMs = 2000
const abortMs = 500

/**
 * Runs the bridge until a signal ends it: in this process, or in as many as the settings ask for, which this one then
 * supervises. SIGTERM or SIGINT: answers the requests in flight, and then 0; a second one: at once, and 128 with the
 * number of the signal. SIGHUP: follows the settings. SIGUSR2: a new process takes over. 1 when it can't listen.
 */
export async function serve(settings: Settings, host: Host, reread: RereadSettings): Promise<number> {
  const { processes } = host
  const output = createOutputLog(settings, host, host.stdout)
  const context = { settings, host, output, reread }
  const code = processes?.supervisor
    ? await serveAsWorker(context, processes.supervisor)
    : await serveAsMain(context)
  await output.flush()
  return code
}

async function serveAsMain(context: ServiceContext): Promise<number> {
  const { settings, host } = context
  const { processes } = host
  const orders = stopSignals(host, stopDelayMs(settings))
  const address = publicAddress(settings)
  const isUsable = await listenAt(address, 'listen', host, () => {
    if (!sharesAddresses(settings, host)) requireFree(address)
    return true
  })
  if (!isUsable) return 1
  return processes && settings.workers > 1
    ? supervise(context, processes, orders)
    : serveAlone(context, orders)
}

async function serveAlone(context: ServiceContext, orders: StopOrders): Promise<number> {
  const { settings, host } = context
  const bridge = await listen(context, {
    sharesPort: settings.reusePort || host.processes?.canSharePorts === true,
  })
  if (!bridge) return 1
  const service = {
    url: bridge.url,
    port: bridge.port,
    workers: 1,
    isResponsive: () => true,
    families: async () => bridge.families(),
    reload: (changed: Settings) => bridge.reload(changed),
    stop: (delayMs: number) => drain(bridge, settings, delayMs),
    abort: async () => {},
  }
  return runUntilStopped(context, service, orders)
}

/**
 * Runs the service in several processes that share a port, and none of it in this one. The exit code is that of `serve`;
 * that of a worker which could not start in the beginning.
 */
async function supervise(context: ServiceContext, processes: Processes, orders: StopOrders): Promise<number> {
  const { settings, host } = context
  const { log } = context.output
  const timeoutMs = settings.workerTimeoutSeconds * 1000
  const workers = new Workers({
    count: settings.workers,
    start: (port, take) => processes.startWorker(workerEnvironment(host.environment, port), take),
    now: host.monotonicNow,
    delay: Bun.sleep,
    timeoutMs,
    onHang: (pid) => log.error('worker hangs', { pid, silentSeconds: settings.workerTimeoutSeconds }),
    onLoss: (code, pauseMs) => log.error('worker lost', { code, pauseMs }),
  })

  const outcome = await Promise.race([workers.start(), orders.stop.then(() => ({ exitCode: 0 }))])
  if ('exitCode' in outcome) {
    await Promise.race([workers.stop(0), Bun.sleep(patienceMs)])
    workers.kill()
    return outcome.exitCode
  }
  const service = {
    ...outcome,
    workers: settings.workers,
    isResponsive: () => workers.areResponsive,
    families: () => workers.families(),
    reload(changed: ServiceContext['settings']) {
      log.level = changed.loggingLevel
      workers.reload()
    },
    async stop(delayMs: number) {
      const latestMs = delayMs + settings.shutdownGraceSeconds * 1000 + patienceMs
      await Promise.race([workers.stop(delayMs), Bun.sleep(latestMs)])
    },
    async abort() {
      workers.abort()
      await Promise.race([workers.stop(0), Bun.sleep(abortMs)])
      workers.kill()
    },
  }
  return runUntilStopped(context, service, orders)
}

function workerEnvironment(
  environment: Host['environment'],
  port: number | null,
): Record<string, string | undefined> {
  const own = port === null ? {} : { SERVICE_PORT: String(port) }
  // The service manager hears from the supervisor alone.
  return { ...environment, ...own, NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined }
}

async function serveAsWorker(context: ServiceContext, supervisor: Supervisor): Promise<number> {
  const { settings, host, reread } = context
  const orders = workerOrders(host, supervisor, stopDelayMs(settings))
  const own = (): MetricFamily[] => bridge?.families() ?? []
  const allFamilies = answerSupervisor(supervisor, own, Bun.sleep)
  let bridge: Bridge | null = null
  bridge = await listen(context, { sharesPort: true, allFamilies })
  if (!bridge) return 1
  // The supervisor has logged the problems already.
  supervisor.onMessage(async ({ kind }) => {
    const changed = kind === 'reload' ? await reread(() => {}) : null
    if (changed) bridge.reload(changed)
  })
  supervisor.send({ kind: 'listening', url: bridge.url, port: bridge.port })

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
  const { startBridge } = await import('../service/bridge.ts')
  const { settings, host, output } = context
  return listenAt(publicAddress(settings), 'listen', host, () =>
    startBridge(settings, host, output.log, { logLinesDropped: output.dropped, ...options }),
  )
}
