import { expositionType, renderFamilies } from '../../observability/metric-families.ts'
import { versionPrefix } from '../../service/bridge.ts'
import type { Settings } from '../../settings/settings.ts'
import { openListener } from '../listener.ts'
import type { Host } from '../host.ts'
import type { RunningService, ServiceContext } from './reload.ts'

/** An address to listen on. */
export interface ListeningAddress {
  hostname: string
  port: number
  /** The setting to change it. */
  setting: string
  /** What the address is needed for. */
  purpose: string
}

/** The address for clients. */
export function publicAddress({ host: hostname, port }: Settings): ListeningAddress {
  return { hostname, port, setting: 'service.host or service.port', purpose: `listen on ${hostname}:${port}` }
}

/** The address of its own for metrics; null if there is none. */
export function metricsAddress({ metricsListen, metricsEnabled }: Settings): ListeningAddress | null {
  if (!metricsListen || !metricsEnabled) return null
  const { host: hostname, port } = metricsListen
  const purpose = `serve metrics on ${hostname}:${port}`
  return { hostname, port, setting: 'service.metrics_listen', purpose }
}

/** Returns what `listen` returns; null if the address can't be used, with an error on stderr. */
export async function listenAt<T>(
  address: ListeningAddress,
  { stderr }: Host,
  listen: () => T | Promise<T>,
): Promise<T | null> {
  try {
    return await listen()
  } catch (error) {
    const problem = await describeAddressError(error, address)
    if (problem === null) throw error
    stderr.write(`sync-bridge: cannot ${address.purpose}: ${problem}\n`)
    return null
  }
}

/** Throws if the address is in use or can't be used. Returns the port; for port 0 a free one. */
export function requireFree({ hostname, port }: ListeningAddress): number {
  const listener = Bun.listen({ hostname, port, socket: { data() {} } })
  listener.stop(true)
  return listener.port
}

/** Scheme, host and port in a URL. */
export function originOf(hostname: string, port: number): string {
  return new URL(`http://${hostname.includes(':') ? `[${hostname}]` : hostname}:${port}`).origin
}

/** The URLs of enabled pages, under the public address if there is one. */
export function pageUrls(settings: Settings, listeningUrl: string) {
  const { httpHost, httpScheme, docsEnabled, explorerEnabled, metricsEnabled, metricsListen } = settings
  const origin = httpHost === null ? listeningUrl : `${httpScheme ?? 'http'}://${httpHost}`
  const prefix = versionPrefix(settings)
  const pages = origin + prefix
  const metrics = metricsListen ? originOf(metricsListen.host, metricsListen.port) : listeningUrl + prefix
  return {
    ...(docsEnabled && { docs: `${pages}/docs`, guides: `${pages}/docs/guides` }),
    ...(explorerEnabled && { explorer: `${pages}/explore` }),
    ...(metricsEnabled && { metrics: `${metrics}/__metrics__` }),
  }
}

/** Describes why an address can't be used, with the remedy; null for an unrelated error. */
export async function describeAddressError(
  error: unknown,
  { hostname, port, setting }: ListeningAddress,
): Promise<string | null> {
  const { code, message } = error as { code?: unknown; message?: unknown }
  if (typeof code !== 'string' && !String(message).startsWith('Failed to listen')) return null
  // For an unknown host name, the runtime repeats an earlier error.
  const addresses = await Bun.dns.lookup(hostname).catch(() => [])
  if (addresses.length === 0) return `unknown host: change ${setting}`
  const sysctl = `net.ipv4.ip_unprivileged_port_start=${port}`
  const denied =
    port > 0 && port < 1024
      ? `ports below 1024 need root: change ${setting}, or set the sysctl ${sysctl}`
      : 'the operating system does not allow it'
  const reasons: Record<string, string> = {
    EADDRINUSE: `the port is in use: change ${setting}, or stop the program that uses it`,
    EADDRNOTAVAIL: `the address is not one of this machine: change ${setting}`,
    EINVAL: `invalid address: change ${setting}`,
    EACCES: denied,
    EPERM: denied,
  }
  return reasons[String(code)] ?? null
}

/**
 * Serves only `/__metrics__` at `service.metrics_listen`, once the service runs; null if that is not set. `failed` if the address can't be
 * used, with an error on stderr.
 */
export async function listenForMetrics({ settings, host }: ServiceContext, service: Promise<RunningService>) {
  const address = metricsAddress(settings)
  if (!address) return null
  // The second path is the same as on the public port.
  const paths = ['/__metrics__', `${versionPrefix(settings)}/__metrics__`]
  const answer = async ({ method, url }: Request) => {
    const isKnown = ['GET', 'HEAD'].includes(method) && paths.includes(new URL(url).pathname)
    if (!isKnown) return new Response('Path not found\n', { status: 404 })
    const text = renderFamilies(await (await service).families())
    return new Response(text, { headers: { 'Content-Type': expositionType } })
  }
  const { hostname, port } = address
  const { reusePort } = settings
  const server = await listenAt(address, host, () =>
    openListener({ hostname, port, reusePort, isLocal: false }, answer),
  )
  return server ?? 'failed'
}
