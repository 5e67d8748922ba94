import { expositionType, renderFamilies } from '../observability/metric-families.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'

/** Metrics at an address of their own. */
export interface MetricsListener {
  stop(): Promise<void>
}

/**
 * Serves `/__metrics__` at `service.metrics_listen` and nothing else; null when that is not set. `families` are those of
 * all processes of the service. `failed` when the address can not be used; stderr tells it then.
 */
export function listenForMetrics(
  { metricsListen, metricsEnabled, reusePort }: Settings,
  { stderr }: Host,
  families: () => Promise<MetricFamily[]>,
): MetricsListener | null | 'failed' {
  if (!metricsListen || !metricsEnabled) return null
  const { host: hostname, port } = metricsListen
  const answer = async () =>
    new Response(renderFamilies(await families()), { headers: { 'Content-Type': expositionType } })
  try {
    const server = Bun.serve({
      hostname,
      port,
      reusePort,
      development: false,
      // The second is what Prometheus asks of the public port.
      routes: { '/__metrics__': { GET: answer }, '/v1/__metrics__': { GET: answer } },
      fetch: () => new Response('There is nothing at this path\n', { status: 404 }),
      error: () => new Response('The metrics can not be read\n', { status: 500 }),
    })
    return { stop: () => server.stop() }
  } catch (error) {
    const { code } = error as { code?: string }
    if (!code?.startsWith('E')) throw error
    const reason = code === 'EADDRINUSE' ? 'the port is in use' : 'the address can not be used'
    const remedy = 'change service.metrics_listen'
    stderr.write(`sync-bridge: cannot serve metrics on ${hostname}:${port}: ${reason}; ${remedy}\n`)
    return 'failed'
  }
}
