import { pageUrls } from './listening.ts'
import { createNotifier, takeoverRisk } from './linux.ts'
import { createChanges, type RunningService, type ServiceContext } from './reload.ts'
import type { StopOrders } from '../signals.ts'

/** Most clients with open connections send another request within this time and are asked to close them. */
const minTakeoverDelayMs = 1000

/**
 * Runs a listening service until a signal stops it or a successor has taken over; notifies the service manager and the log. Returns the
 * exit code. `metrics`: their own listener, if there is one.
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
  const changes = createChanges(context, service, notifier)

  const { url, workers } = service
  log.info('listening', { url, workers, ...pageUrls(settings, url) })
  const risk = (settings.reusePort || host.environment.NOTIFY_SOCKET) && takeoverRisk(host.readFile)
  if (risk) log.warning('taking over can reset connections', { reason: risk })
  const predecessor = host.processes?.predecessor
  // The service manager only accepts messages of the predecessor, until that has named this process.
  if (predecessor) {
    predecessor.send({ kind: 'listening', pid: process.pid })
    predecessor.leave()
  } else notifier.ready()

  const takeoverDelayMs = Math.max(settings.shutdownDelaySeconds * 1000, minTakeoverDelayMs)
  const delayMs = await Promise.race([orders.stop, changes.takenOver.then(() => takeoverDelayMs)])
  changes.cancel()
  notifier.stopping()
  // Stops at once, so that the successor serves the metrics.
  void metrics?.stop()
  log.info('stopping', { graceSeconds: settings.shutdownGraceSeconds })
  const code = await Promise.race([service.stop(delayMs).then(() => 0), orders.abort])
  await service.abort?.()
  log.info('stopped')
  return code
}
