import { within } from '../domain/bounded.ts'
import { createApp } from '../app.ts'
import { Bodies } from '../load/bodies.ts'
import { limits, limitsForOnePerson } from '../load/limits.ts'
import { MemoryBudget, ProcessMemory } from '../load/memory.ts'
import { RequestLimit } from '../load/permits.ts'
import { ResponseStreams } from '../load/streams.ts'
import { expositionType, renderFamilies, type MetricFamily } from '../observability/metric-families.ts'
import { createRegistry } from '../observability/registry.ts'
import { createStatsd } from '../observability/statsd.ts'
import { errorReply } from '../protocol/reply.ts'
import { applyReloadable, type Settings } from '../settings/settings.ts'
import { createObservers, type Insider } from './observers.ts'
import { addProcessMetrics } from './process-metrics.ts'
import { connect, createServices, type BridgeHost } from './services.ts'
import type { Log } from '../observability/log.ts'
import type { Services } from '../routes/call.ts'

/** The prefix of all paths. */
export { versionPrefix } from '../protocol/find.ts'

/** A running bridge. */
export type Bridge = ReturnType<typeof startBridge>

export interface BridgeOptions {
  /** Whether it serves one person, inside a command: it then refuses nothing for lack of resources. */
  isForOnePerson?: boolean
  /** Gets the causes of failures. */
  insider?: Insider
  /** Whether other processes may listen on the port too; default: `reuse_port`. */
  sharesPort?: boolean
  /** Log lines lost so far. */
  logLinesDropped?(): number
  /** The metrics of all processes, if there are several. */
  allFamilies?(): Promise<MetricFamily[]>
}

// Longer than all our deadlines, because the server closes connections that are idle for this long.
const idleTimeoutSeconds = 240

/** How often bodies, readers and process memory are checked. */
const watchEveryMs = 100

/** Creates and connects all parts, and listens. Throws if the address can't be used. */
export function startBridge(settings: Settings, host: BridgeHost, log: Log, options: BridgeOptions = {}) {
  const remedy = 'metrics for statsd are lost: check service.statsd_url'
  const reportUnknown = (code: string) => log.warning('statsd error', { code, remedy })
  const ownLimits = options.isForOnePerson ? limitsForOnePerson : limits
  const statsd = settings.statsdUrl && createStatsd(settings.statsdUrl, settings.statsdPrefix, reportUnknown)
  const registry = createRegistry()
  const { families } = registry
  const observers = createObservers(log, registry, statsd, host.monotonicNow, options.insider)
  // A reload changes this copy; the start-up settings stay, to see what needs a restart.
  const exposed = { ...settings }
  const processMemory = new ProcessMemory(
    { residentBytes: host.residentBytes, collectGarbage: () => Bun.gc(true) },
    ownLimits.rejectAboveBytes,
  )
  const maxMemoryBytes = Math.max(ownLimits.memoryBytes, 4 * settings.maxRequestBytes)
  const memory = new MemoryBudget(maxMemoryBytes, () => processMemory.watch())
  const load = new RequestLimit({
    maxRequests: settings.maxConcurrentRequests,
    maxRequestsPerUser: settings.maxConcurrentRequestsPerUser,
    now: host.monotonicNow,
    isShortOfMemory: () => processMemory.isShort,
    observeRejection: observers.rejected,
  })
  const connections = connect(settings, host, observers, ownLimits.waitMs)
  const streams = new ResponseStreams({
    now: host.monotonicNow,
    // Sets the shortest idle timeout, the only way to close a connection.
    disconnect: (request) => server.timeout(request, 1),
    observeRejection: observers.rejected,
    reportGarbage: (bytes) => memory.reportGarbage(bytes),
    limits: ownLimits,
  })
  const bodies = new Bodies({
    maxBytes: settings.maxRequestBytes,
    memory,
    now: host.monotonicNow,
    observeDrop: () => observers.rejected('body-memory'),
  })
  const allFamilies = options.allFamilies ?? families
  const metrics = async () => {
    const body = renderFamilies(await allFamilies())
    return { status: 200, headers: { 'Content-Type': expositionType }, body }
  }
  const services: Services = {
    ...createServices(settings, exposed, connections, observers, host, load, ownLimits.batchResponseBytes),
    log,
    memory,
    bodies,
    streams,
    isStopping: false,
    metrics: settings.metricsEnabled && !settings.metricsListen ? metrics : null,
  }
  const disconnect = async () => {
    statsd?.close()
    await connections.store?.close()
  }
  const app = createApp(services)
  const lastResort = errorReply(null, settings)
  lastResort.headers['Content-Type'] = 'application/json; charset=utf-8'
  try {
    app.listen({
      hostname: settings.host,
      port: settings.port,
      reusePort: options.sharesPort ?? settings.reusePort,
      development: false,
      // Zero: never.
      idleTimeout: options.isForOnePerson ? 0 : idleTimeoutSeconds,
      // We reject larger bodies ourselves, in JSON; this only bounds what the server buffers.
      maxRequestBodySize: settings.maxRequestBytes + 64 * 1024 * 1024,
      // The last resort, if even our own error reply failed.
      error: () => new Response(lastResort.body as string, { status: 500, headers: lastResort.headers }),
    })
  } catch (error) {
    void disconnect()
    throw error
  }
  const server = app.server!
  addProcessMetrics(registry, host, {
    requestsInFlight: () => server.pendingRequests,
    logLinesDropped: options.logLinesDropped ?? (() => 0),
  })
  let watchedAtMs = host.monotonicNow()
  const watch = setInterval(() => {
    try {
      const nowMs = host.monotonicNow()
      observers.eventLoopLag(Math.max(0, nowMs - watchedAtMs - watchEveryMs))
      watchedAtMs = nowMs
      processMemory.watch()
      bodies.expire()
      streams.check()
      statsd?.flush()
    } catch (error) {
      // An error thrown in a timer would end the process.
      observers.error(error)
    }
  }, watchEveryMs)
  watch.unref()
  return {
    /** Scheme, host and port of its address. */
    url: server.url.origin,
    port: server.port!,
    /**
     * Serves for another `delayMs` while every response asks its client to close the connection. Then stops listening, and resolves once
     * the requests in flight are answered or `graceMs` have passed. Waits for writes whose clients have disconnected, which the server no
     * longer counts.
     */
    async stop(graceMs: number, delayMs = 0): Promise<void> {
      services.isStopping = true
      if (delayMs > 0) await Bun.sleep(delayMs)
      const isOver = server.stop(false).then(() => connections.locks.settled())
      await within(graceMs, isOver, () => new Error('Requests are in flight')).catch(() => server.stop(true))
      clearInterval(watch)
      await disconnect()
    },
    /** Applies new settings that need no restart. */
    reload(changed: Settings): void {
      applyReloadable(exposed, changed)
      log.level = changed.loggingLevel
      connections.transport.trust(changed.certificateCaBundle)
    },
    /** The metrics of this process. */
    families,
  }
}
