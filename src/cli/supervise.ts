import { listenForMetrics } from './metrics-listener.ts'
import { Workers } from './workers.ts'
import { createNotifier } from './notify.ts'
import { signalOrders } from './orders.ts'
import { reload } from './reload.ts'

import type { Settings } from '../settings/settings.ts'
import type { Host, Processes } from './host.ts'
import type { Orders } from './orders.ts'
import type { OutputLog } from './output-log.ts'
import type { ReadAgain } from './reload.ts'

export interface SupervisedService {
  settings: Settings
  host: Host
  processes: Processes
  output: OutputLog
  readAgain: ReadAgain
}

/** Beyond what a worker grants its requests. */
const patienceMs = 2000
const abortMs = 500

/**
 * Runs the service in several processes that share a port, and none of it in this one. The exit code is that of `serve`;
 * that of a worker which could not start in the beginning.
 */
export async function supervise(service: SupervisedService): Promise<number> {
  const { settings, host, processes, output, readAgain } = service
  const { log } = output
  const orders = signalOrders(host)
  const notifier = await createNotifier(host, (reason) => log.debug('not notified', { reason }))
  const workers = new Workers({
    count: settings.workers,
    start: (port, take) => processes.startWorker(workerEnvironment(host.environment, port), take),
    now: () => performance.now(),
    delay: Bun.sleep,
    onLoss: (code, pauseMs) => log.error('worker lost', { code, pauseMs }),
  })

  const outcome = await Promise.race([workers.start(), orders.stop])
  const giveUp = async (code: number) => {
    await Promise.race([workers.stop(), Bun.sleep(patienceMs)])
    workers.kill()
    return code
  }
  if (outcome && 'exitCode' in outcome) return giveUp(outcome.exitCode)
  const metrics = listenForMetrics(settings, host, () => workers.families())
  if (metrics === 'failed') return giveUp(1)
  orders.onReload(() => {
    notifier.reloading()
    const changed = reload(readAgain, log, settings)
    if (changed) {
      log.level = changed.loggingLevel
      workers.reload()
    }
    notifier.ready()
  })
  if (outcome) {
    log.info('listening', { url: outcome.url, workers: settings.workers })
    notifier.ready()
  }

  await orders.stop
  notifier.stopping()
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  void metrics?.stop()
  const code = await end(workers, settings, orders)
  log.info('stopped')
  notifier.close()
  return code
}

function workerEnvironment(
  environment: Host['environment'],
  port: number | null,
): Record<string, string | undefined> {
  const own = port === null ? {} : { SERVICE_PORT: String(port) }
  // The service manager hears from the supervisor alone.
  return { ...environment, ...own, NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined }
}

async function end(workers: Workers, settings: Settings, orders: Orders): Promise<number> {
  const stopped = workers.stop().then(() => 0)
  const graceMs = (settings.shutdownDelaySeconds + settings.shutdownGraceSeconds) * 1000
  const code = await Promise.race([stopped, orders.abort, Bun.sleep(graceMs + patienceMs).then(() => 0)])
  workers.abort()
  await Promise.race([stopped, Bun.sleep(abortMs)])
  workers.kill()
  return code
}
