import { expositionType, renderFamilies } from '../observability/metric-families.ts'
import { describeAddressError } from './listen-error.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'

/** Metrics at an address of their own. */
interface MetricsListener {
  stop(): Promise<void>
}

/**
 * Serves `/__metrics__` at `service.metrics_listen` and nothing else; null when that is not set. `families` are those of
 * all processes of the service. `failed` when the address can not be used; stderr tells it then.
 */
export async function listenForMetrics(
  { metricsListen, metricsEnabled, reusePort }: Settings,
  { stderr, processes }: Host,
  families: () => Promise<MetricFamily[]>,
): Promise<MetricsListener | null | 'failed'> {
  if (!metricsListen || !metricsEnabled) return null
  const { host: hostname, port } = metricsListen
  const address = { hostname, port, setting: 'service.metrics_listen' }
  // The port is not shared, because an instance of another service would get half of the questions.
  const isShared = reusePort || Boolean(processes?.predecessor)
  const refuse = (problem: string) => {
    stderr.write(`sync-bridge: cannot serve metrics on ${hostname}:${port}: ${problem}\n`)
    return 'failed' as const
  }
  const problem = isShared ? null : await processes?.addressProblem(address)
  if (problem) return refuse(problem)
  const answer = async () =>
    new Response(renderFamilies(await families()), { headers: { 'Content-Type': expositionType } })
  try {
    const server = Bun.serve({
      hostname,
      port,
      reusePort: reusePort || processes?.canSharePorts === true,
      development: false,
      // The second path is the one at the public port.
      routes: { '/__metrics__': { GET: answer }, '/v1/__metrics__': { GET: answer } },
      fetch: () => new Response('There is nothing at this path\n', { status: 404 }),
      error: () => new Response('The metrics can not be read\n', { status: 500 }),
    })
    return { stop: () => server.stop() }
  } catch (error) {
    const description = await describeAddressError(error, address)
    if (!description) throw error
    return refuse(description)
  }
}
