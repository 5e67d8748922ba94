import { runUntilStopped } from './lifecycle.ts'
import { listenForMetrics } from './metrics-listener.ts'
import { Workers } from './workers.ts'

import type { Host } from './host.ts'
import type { Processes } from './processes.ts'
import type { LifecycleSignals, ServiceContext } from './lifecycle.ts'

/** Beyond what a worker grants its requests. */
const patienceMs = 2000
const abortMs = 500

/**
 * Runs the service in several processes that share a port, and none of it in this one. The exit code is that of `serve`;
 * that of a worker which could not start in the beginning.
 */
export async function supervise(
  context: ServiceContext,
  processes: Processes,
  signals: LifecycleSignals,
): Promise<number> {
  const { settings, host } = context
  const { log } = context.output
  const timeoutMs = settings.workerTimeoutSeconds * 1000
  const workers = new Workers({
    count: settings.workers,
    start: (port, take) => processes.startWorker(workerEnvironment(host.environment, port), take),
    now: () => performance.now(),
    delay: Bun.sleep,
    timeoutMs,
    onHang: (pid) => log.error('worker hangs', { pid, silentSeconds: settings.workerTimeoutSeconds }),
    onLoss: (code, pauseMs) => log.error('worker lost', { code, pauseMs }),
  })

  const outcome = await Promise.race([workers.start(), signals.stop.then(() => ({ exitCode: 0 }))])
  const giveUp = async (code: number) => {
    await Promise.race([workers.stop(0), Bun.sleep(patienceMs)])
    workers.kill()
    return code
  }
  if ('exitCode' in outcome) return giveUp(outcome.exitCode)
  const metrics = await listenForMetrics(settings, host, () => workers.families())
  if (metrics === 'failed') return giveUp(1)
  const service = {
    ...outcome,
    workers: settings.workers,
    isResponsive: () => workers.areResponsive,
    reload(changed: ServiceContext['settings']) {
      log.level = changed.loggingLevel
      workers.reload()
    },
    async stop(delayMs: number) {
      void metrics?.stop()
      const latestMs = delayMs + settings.shutdownGraceSeconds * 1000 + patienceMs
      await Promise.race([workers.stop(delayMs), Bun.sleep(latestMs)])
    },
    async abort() {
      workers.abort()
      await Promise.race([workers.stop(0), Bun.sleep(abortMs)])
      workers.kill()
    },
  }
  return runUntilStopped(context, service, signals)
}

function workerEnvironment(
  environment: Host['environment'],
  port: number | null,
): Record<string, string | undefined> {
  const own = port === null ? {} : { SERVICE_PORT: String(port) }
  // The service manager hears from the supervisor alone.
  return { ...environment, ...own, NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined }
}
