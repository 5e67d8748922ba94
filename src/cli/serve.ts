import { listenForMetrics } from './metrics-listener.ts'
import { leaveNewConnections } from './new-connections.ts'
import { createNotifier } from './notify.ts'
import { signalOrders, supervisorOrders } from './orders.ts'
import { createOutputLog } from './output-log.ts'
import { reload } from './reload.ts'
import { supervise } from './supervise.ts'
import { createWorkerLink } from './worker-link.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Settings } from '../settings/settings.ts'
import type { Bridge, BridgeOptions } from '../service/bridge.ts'
import type { Host, Supervisor } from './host.ts'
import type { Orders } from './orders.ts'
import type { OutputLog } from './output-log.ts'
import type { Probes } from './programs.ts'
import type { ReadAgain } from './reload.ts'

/**
 * Runs the bridge until a signal ends it: in this process, or in as many as the settings ask for, which this one then
 * supervises. SIGTERM or SIGINT: answers what is under way, and then 0; a second one: at once, and 128 with the number
 * of the signal. SIGHUP: reads the settings again. 1 when it can't listen.
 */
export async function serve(settings: Settings, host: Host, readAgain: ReadAgain): Promise<number> {
  const { processes } = host
  const output = createOutputLog(settings, host, host.stdout)
  const service = { settings, host, output, readAgain }
  const code = processes?.supervisor
    ? await serveAsWorker(service, processes.supervisor)
    : processes && settings.workers > 1
      ? await supervise({ ...service, processes })
      : await serveAlone(service)
  await output.flush()
  return code
}

interface Service {
  settings: Settings
  host: Host
  output: OutputLog
  readAgain: ReadAgain
}

async function serveAlone(service: Service): Promise<number> {
  const { settings, host, output, readAgain } = service
  const { log } = output
  const orders = signalOrders(host)
  const bridge = await listen(service)
  if (!bridge) return 1
  const metrics = listenForMetrics(settings, host, async () => bridge.families())
  if (metrics === 'failed') {
    await bridge.stop(0)
    return 1
  }
  const notifier = await createNotifier(host, (reason) => log.debug('not notified', { reason }))
  orders.onReload(() => {
    notifier.reloading()
    const changed = reload(readAgain, log, settings)
    if (changed) bridge.reload(changed)
    notifier.ready()
  })
  log.info('listening', { url: bridge.url })
  notifier.ready()

  await orders.stop
  notifier.stopping()
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  // At once, so that a process that takes over the port is the one that is asked.
  void metrics?.stop()
  const code = await drain(bridge, service, orders)
  log.info('stopped')
  notifier.close()
  return code
}

async function serveAsWorker(service: Service, supervisor: Supervisor): Promise<number> {
  const { host, readAgain } = service
  const orders = supervisorOrders(host, supervisor)
  const own = (): MetricFamily[] => bridge?.families() ?? []
  const link = createWorkerLink(supervisor, own, Bun.sleep)
  const bridge = await listen(service, { sharesPort: true, allFamilies: link.allFamilies })
  if (!bridge) return 1
  // The supervisor has told the log what there is to tell.
  orders.onReload(() => {
    const changed = readAgain(() => {})
    if (changed) bridge.reload(changed)
  })
  supervisor.send({ kind: 'listening', url: bridge.url, port: bridge.port })

  await orders.stop
  return drain(bridge, service, orders)
}

/** For connections that are just being made to be there and to send a request. Less than until they are tried again. */
const lastConnectionsMs = 500

/** The exit code once nothing is under way any more, or at the order to end at once. */
function drain(bridge: Bridge, { settings, host }: Service, orders: Orders): Promise<number> {
  const drained = async () => {
    bridge.announceStop()
    await Bun.sleep(settings.shutdownDelaySeconds * 1000)
    if (settings.reusePort && (await leaveNewConnections(host))) await Bun.sleep(lastConnectionsMs)
    await bridge.stop(settings.shutdownGraceSeconds * 1000)
    return 0
  }
  return Promise.race([drained(), orders.abort])
}

/** Null when that is impossible, and then stderr tells why. */
async function listen(
  { settings, host, output }: Service,
  options: BridgeOptions = {},
): Promise<Bridge | null> {
  const { startBridge } = await import('../service/bridge.ts')
  try {
    return startBridge(settings, host, output.log, { logLinesDropped: output.dropped, ...options })
  } catch (error) {
    const reason =
      (error as { code?: string }).code === 'EADDRINUSE'
        ? 'the port is in use'
        : 'the address can not be used'
    host.stderr.write(
      `sync-bridge: cannot listen on ${settings.host}:${settings.port}: ${reason}; change service.host or service.port\n`,
    )
    return null
  }
}

/** What `check` asks the service's surroundings. */
export async function createProbes(settings: Settings): Promise<Probes> {
  const { createParts } = await import('../service/parts.ts')
  const { tokenServer, store } = createParts(
    settings,
    { now: Date.now },
    { exchange() {}, breaker() {}, redisTrouble() {} },
  )
  const timeoutMs = settings.tokenServerHeartbeatTimeoutSeconds * 1000
  return {
    tokenServer: async () =>
      (await tokenServer.heartbeat(timeoutMs)) || `no answer from ${settings.tokenServerUrl}`,
    cache: async () =>
      store === null || (await answersSoon(() => store.ping())) || 'no answer: see service.cache_url',
    close: () => store?.close(),
  }
}

// A store connects in the background, so the first question may come too early.
async function answersSoon(ping: () => Promise<boolean>): Promise<boolean> {
  for (let attempt = 0; attempt < 20; attempt++) {
    if (await ping()) return true
    await Bun.sleep(50)
  }
  return false
}
