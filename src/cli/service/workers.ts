import { setTimeout as sleep } from 'node:timers/promises'
import { countersOf, mergeFamilies, type MetricFamily } from '../../observability/metric-families.ts'
import { originOf } from './listening.ts'
import { endOf, sendTo, type FromWorker, type Processes, type ToWorker } from './processes.ts'
import type { RunningService, ServiceContext } from './reload.ts'

/** Extra time for workers after their requests have ended. */
const patienceMs = 2000
/** Pause before a worker is replaced, which may fail at its start each time. */
const restartPauseMs = 500
const metricsTimeoutMs = 500
/**
 * A worker is killed after this many unanswered pings. Counts pings and not seconds, because after a pause of the supervisor all workers
 * would seem silent.
 */
const pingsPerTimeout = 5

/** A slot for one worker; a replacement reuses the slot. */
interface Place {
  /** The worker; null until its replacement starts. */
  worker: Bun.Subprocess | null
  hasListened: boolean
  /** Pings since the last message of the worker. */
  unansweredPings: number
  /** The metrics of the worker's last reply. */
  families: MetricFamily[]
  nextResponse: PromiseWithResolvers<MetricFamily[]>
}

/**
 * Starts workers that share a port. Replaces a worker that ends, after a pause, and one that answers no ping for `worker_timeout_seconds`,
 * because the kernel keeps routing connections to it. `started` resolves to null when all listen, or to the exit code of one that could not
 * start.
 */
export function startWorkers({ settings, host, output }: ServiceContext, processes: Processes, port: number) {
  const { log } = output
  const { workers, workerTimeoutSeconds: silentSeconds, shutdownGraceSeconds } = settings
  const places = Array.from({ length: workers }, (): Place => {
    const nextResponse = Promise.withResolvers<MetricFamily[]>()
    return { worker: null, hasListened: false, unansweredPings: 0, families: [], nextResponse }
  })
  const started = Promise.withResolvers<number | null>()
  const stopping = new AbortController()
  const { signal } = stopping
  let isStarted = false
  // Passes the port, because with port 0 each worker would take its own.
  let inForce = { ...settings, port }
  /** The counters of ended workers. */
  let past: MetricFamily[] = []

  async function keep(place: Place): Promise<void> {
    while (!signal.aborted) {
      const end = await runWorker(place)
      if (signal.aborted) return
      const hasFailed = end === 1 || end === 2 || end === null
      if (!isStarted && !place.hasListened && hasFailed) return started.resolve(end ?? 1)
      // Without its supervisor, only SIGTERM stops a worker gracefully.
      if (end !== null) log.error('worker lost', { code: end === 0 ? 'SIGTERM' : end })
      await pause(restartPauseMs)
    }
  }

  /** Resolves to the exit code or signal of the worker; null if it can't be started, which is logged. */
  async function runWorker(place: Place): Promise<number | string | null> {
    // Only the supervisor notifies the service manager.
    const none = { NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined }
    const environment = { ...host.environment, ...none }
    place.hasListened = false
    try {
      const worker = processes.startWorker(environment, (message) => {
        if (place.worker === worker) take(worker, place, message)
      })
      place.worker = worker
    } catch (error) {
      const reason = `cannot start it (${String((error as { code?: unknown }).code)})`
      log.error('worker lost', { code: null, reason })
      return null
    }
    const end = await endOf(place.worker)
    past = mergeFamilies([past, countersOf(place.families)])
    Object.assign(place, { worker: null, unansweredPings: 0, families: [] })
    return end
  }

  async function watch(): Promise<void> {
    while (!signal.aborted) {
      await pause((silentSeconds * 1000) / pingsPerTimeout)
      for (const place of places) {
        const isSilent = place.unansweredPings > 0 && place.unansweredPings % pingsPerTimeout === 0
        if (place.worker && isSilent) {
          log.error('worker hangs', { pid: place.worker.pid, silentSeconds })
          place.worker.kill('SIGKILL')
        }
        place.unansweredPings += 1
      }
      broadcast({ kind: 'ping' })
    }
  }

  /** Resolves after the time, or when the workers stop. */
  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {})

  function take(worker: Bun.Subprocess, place: Place, message: FromWorker): void {
    place.unansweredPings = 0
    switch (message.kind) {
      case 'pong':
        place.families = message.families
        place.nextResponse.resolve(message.families)
        place.nextResponse = Promise.withResolvers()
        return
      case 'listening':
        place.hasListened = true
        isStarted ||= places.every((each) => each.worker && each.hasListened)
        if (isStarted) started.resolve(null)
        return
      case 'ask-metrics':
        return void families().then((all) => sendTo(worker, { kind: 'all-metrics', families: all }))
      case 'ask-settings':
        return sendTo(worker, { kind: 'settings', settings: inForce })
      default:
        return message satisfies never
    }
  }

  /** A worker that does not reply in time contributes the counters of its last reply. */
  async function families(): Promise<MetricFamily[]> {
    broadcast({ kind: 'ping' })
    // What is known now, because a worker that ends meanwhile would be counted twice.
    const ended = past
    const answers = places.map(async ({ worker, nextResponse, families: last }) => {
      const answer = worker && (await Promise.race([nextResponse.promise, Bun.sleep(metricsTimeoutMs)]))
      return answer || countersOf(last)
    })
    return mergeFamilies([...(await Promise.all(answers)), ended])
  }

  function broadcast(message: ToWorker): void {
    for (const { worker } of places) if (worker) sendTo(worker, message)
  }

  const vacated = Promise.all(places.map(keep))
  void watch()
  const service: RunningService = {
    url: originOf(settings.host, port),
    port,
    workers,
    families,
    reload(reloaded) {
      log.level = reloaded.loggingLevel
      inForce = { ...reloaded, port }
      broadcast({ kind: 'settings', settings: inForce })
    },
    async stop(delayMs) {
      stopping.abort()
      broadcast({ kind: 'stop', delayMs })
      await Promise.race([vacated, Bun.sleep(delayMs + shutdownGraceSeconds * 1000 + patienceMs)])
    },
    async abort() {
      stopping.abort()
      for (const { worker } of places) worker?.kill('SIGKILL')
      await vacated
    },
  }
  return { service, started: started.promise }
}
