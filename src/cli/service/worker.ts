import type { MetricFamily } from '../../observability/metric-families.ts'
import type { Bridge } from '../../service/bridge.ts'
import type { Parent } from './processes.ts'
import type { Settings } from '../../settings/settings.ts'
import type { ServiceContext } from './reload.ts'

const responseTimeoutMs = 1000

/**
 * Runs one of several workers, until its supervisor, SIGTERM or the loss of the supervisor stops it. Returns the exit code: 1 if it can't
 * listen. `listen` gets a function for the metrics of all workers, which falls back to this worker's own after a second.
 */
export async function runWorker(
  { settings, host }: ServiceContext,
  supervisor: Parent,
  listen: (allFamilies: () => Promise<MetricFamily[]>) => Promise<Bridge | null>,
): Promise<number> {
  const stop = Promise.withResolvers<number>()
  let bridge: Bridge | null = null
  let reloaded: Settings | null = null
  let allMetrics = Promise.withResolvers<MetricFamily[]>()
  const ownFamilies = () => bridge?.families() ?? []
  const stopAfterDelay = () => stop.resolve(settings.shutdownDelaySeconds * 1000)

  // Terminals and service managers signal all processes, the supervisor included, so these signals have no effect here.
  for (const name of ['SIGINT', 'SIGHUP'] as const) host.onSignal(name, () => {})
  host.onSignal('SIGTERM', stopAfterDelay)
  supervisor.onLoss(stopAfterDelay)
  supervisor.onMessage((message) => {
    switch (message.kind) {
      case 'ping':
        return supervisor.send({ kind: 'pong', families: ownFamilies() })
      case 'all-metrics':
        allMetrics.resolve(message.families)
        allMetrics = Promise.withResolvers()
        return
      case 'settings':
        reloaded = message.settings
        return bridge?.reload(reloaded)
      case 'stop':
        return stop.resolve(message.delayMs)
      default:
        return message satisfies never
    }
  })
  bridge = await listen(async () => {
    supervisor.send({ kind: 'ask-metrics' })
    return (await Promise.race([allMetrics.promise, Bun.sleep(responseTimeoutMs)])) || ownFamilies()
  })
  if (!bridge) return 1
  // They may have been reloaded while it started.
  if (reloaded) bridge.reload(reloaded)
  supervisor.send({ kind: 'listening' })
  await bridge.stop(settings.shutdownGraceSeconds * 1000, await stop.promise)
  return 0
}
