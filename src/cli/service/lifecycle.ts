import { pageUrls } from './listening.ts'
import { createNotifier, resetRisk } from './linux.ts'
import { reloadOnHangup, type RunningService, type ServiceContext } from './reload.ts'
import type { StopOrders } from '../signals.ts'

/**
 * Runs a listening service until a signal stops it; notifies the service manager and the log. Returns the exit code. `metrics`: their own
 * listener, if there is one.
 */
export async function runUntilStopped(
  context: ServiceContext,
  service: RunningService,
  orders: StopOrders,
  metrics: { stop(): unknown } | null,
): Promise<number> {
  const { settings, host } = context
  const { log } = context.output
  const onFailure = (reason: string) => log.debug('not notified', { reason })
  const notifier = createNotifier(host.environment, onFailure)
  reloadOnHangup(context, service, notifier)

  const { url, workers } = service
  log.info('listening', { url, workers, ...pageUrls(settings, url) })
  const risk = settings.reusePort && resetRisk(host.readFile)
  if (risk) log.warning('a stop can reset connections', { reason: risk })
  notifier.ready()

  const delayMs = await orders.stop
  notifier.stopping()
  // Stops at once, so that another instance serves the metrics.
  void metrics?.stop()
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  const code = await Promise.race([service.stop(delayMs).then(() => 0), orders.abort])
  await service.abort?.()
  log.info('stopped')
  return code
}
