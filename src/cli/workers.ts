import { countersOf, mergeFamilies } from '../observability/metric-families.ts'
import { originOf } from './listening.ts'
import { endOf, tell } from './processes.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { Settings } from '../settings/settings.ts'
import type { Child, FromChild, Processes, ToWorker } from './processes.ts'
import type { ServiceContext } from './reload.ts'

/** The time that workers get beyond that of their requests. */
const patienceMs = 2000
const firstPauseMs = 100
const longestPauseMs = 5000
/** A worker that lived for this time did not fail at its start. */
const soundLifeMs = 10_000
const metricsTimeoutMs = 500
/**
 * The number of unanswered pings after which a worker is given up. Pings are counted instead of seconds: after a pause of its
 * own the supervisor would find all workers silent.
 */
const pingsPerTimeout = 5

/** A place for one worker; a replacement takes the place of the worker that ended. */
interface Place {
  /** The worker; null between two of them. */
  worker: Child | null
  hasListened: boolean
  /** Since the last message of a worker here. */
  unansweredPings: number
  /** The worker's metrics as of its last answer. */
  families: MetricFamily[]
  /** Its next answer. */
  nextAnswer: PromiseWithResolvers<MetricFamily[]>
}

/**
 * Processes that share a port. A worker that dies is replaced, after a pause. So is one that answers no ping for
 * `worker_timeout_seconds`, because the kernel keeps routing connections to it.
 */
export class Workers {
  readonly url: string
  readonly workers: number
  readonly #places: Place[]
  /** For each place, the end of the last worker in it. */
  #vacated: Promise<void>[] = []
  readonly #started = Promise.withResolvers<number | null>()
  readonly #stopping = Promise.withResolvers<void>()
  #isStopping = false
  #isStarted = false
  /** The counters of workers that have ended. */
  #past: MetricFamily[] = []

  constructor(
    private readonly context: ServiceContext,
    private readonly processes: Processes,
    readonly port: number,
  ) {
    const { settings } = context
    this.url = originOf(settings.host, port)
    this.workers = settings.workers
    this.#places = Array.from({ length: settings.workers }, () => ({
      worker: null,
      hasListened: false,
      unansweredPings: 0,
      families: [],
      nextAnswer: Promise.withResolvers(),
    }))
  }

  /** Starts all of them. Resolves to null when they listen, or to the exit code of one that could not start. */
  start(): Promise<number | null> {
    this.#vacated = this.#places.map((place) => this.#keep(place))
    void this.#watch()
    return this.#started.promise
  }

  /** Whether every worker has sent a message within twice the timeout. */
  isResponsive(): boolean {
    return this.#places.every(({ unansweredPings }) => unansweredPings <= 2 * pingsPerTimeout)
  }

  /** Applies new settings where that needs no new process. */
  reload({ loggingLevel }: Settings): void {
    this.context.output.log.level = loggingLevel
    this.#tell({ kind: 'reload' })
  }

  /** Resolves once all have answered the requests in flight, and ended, or when they should have. */
  async stop(delayMs: number): Promise<void> {
    const withinMs = delayMs + this.context.settings.shutdownGraceSeconds * 1000 + patienceMs
    this.#beginStop()
    this.#tell({ kind: 'stop', delayMs })
    await Promise.race([Promise.all(this.#vacated), Bun.sleep(withinMs)])
  }

  /** Ends them without waiting for the requests in flight. */
  async abort(): Promise<void> {
    this.#beginStop()
    for (const { worker } of this.#places) worker?.kill('SIGKILL')
    await Promise.all(this.#vacated)
  }

  #beginStop(): void {
    this.#isStopping = true
    this.#stopping.resolve()
  }

  async #keep(place: Place): Promise<void> {
    const { host, output } = this.context
    let pauseMs = firstPauseMs
    while (!this.#isStopping) {
      const startedAtMs = host.monotonicNow()
      const end = await this.#runWorker(place)
      if (this.#isStopping) return
      if (!this.#isStarted && !place.hasListened && (end === 1 || end === 2)) {
        return this.#started.resolve(end)
      }
      if (host.monotonicNow() - startedAtMs >= soundLifeMs) pauseMs = firstPauseMs
      output.log.error('worker lost', { code: end, pauseMs })
      await this.#pause(pauseMs)
      pauseMs = Math.min(2 * pauseMs, longestPauseMs)
    }
  }

  /** Resolves to how the worker has ended. */
  async #runWorker(place: Place): Promise<number | string> {
    // Workers that each took a free port would not share it. The service manager hears from the supervisor alone.
    const none = { NOTIFY_SOCKET: undefined, WATCHDOG_USEC: undefined }
    const environment = { ...this.context.host.environment, SERVICE_PORT: String(this.port), ...none }
    place.hasListened = false
    try {
      const worker = this.processes.start('worker', environment, (message) => {
        if (place.worker === worker) this.#take(worker, place, message)
      })
      place.worker = worker
    } catch {
      return 1
    }
    const end = await endOf(place.worker)
    this.#past = mergeFamilies([this.#past, countersOf(place.families)])
    Object.assign(place, { worker: null, families: [] })
    return end
  }

  async #watch(): Promise<void> {
    const { settings, output } = this.context
    const silentSeconds = settings.workerTimeoutSeconds
    while (!this.#isStopping) {
      await this.#pause((silentSeconds * 1000) / pingsPerTimeout)
      for (const place of this.#places) {
        const isSilent = place.unansweredPings > 0 && place.unansweredPings % pingsPerTimeout === 0
        if (place.worker && isSilent) {
          output.log.error('worker hangs', { pid: place.worker.pid, silentSeconds })
          place.worker.kill('SIGKILL')
        }
        place.unansweredPings += 1
      }
      this.#tell({ kind: 'ping' })
    }
  }

  /** Resolves after the time, or when the workers are stopped. */
  async #pause(ms: number): Promise<void> {
    await Promise.race([Bun.sleep(ms), this.#stopping.promise])
  }

  #take(worker: Child, place: Place, message: FromChild): void {
    place.unansweredPings = 0
    switch (message.kind) {
      case 'pong':
        place.families = message.families
        place.nextAnswer.resolve(message.families)
        place.nextAnswer = Promise.withResolvers()
        return
      case 'listening':
        place.hasListened = true
        this.#isStarted ||= this.#places.every(({ worker, hasListened }) => worker && hasListened)
        if (this.#isStarted) this.#started.resolve(null)
        return
      case 'ask-metrics':
        return void this.families().then((families) => tell(worker, { kind: 'all-metrics', families }))
      default:
        return message satisfies never
    }
  }

  /** The metrics of all workers. A worker that does not answer in time counts with the counters of its last answer. */
  async families(): Promise<MetricFamily[]> {
    this.#tell({ kind: 'ping' })
    const answers = this.#places.map(async (place) => {
      const { worker, nextAnswer } = place
      const answer = worker && (await Promise.race([nextAnswer.promise, Bun.sleep(metricsTimeoutMs)]))
      return answer || countersOf(place.families)
    })
    return mergeFamilies([...(await Promise.all(answers)), this.#past])
  }

  #tell(message: ToWorker): void {
    for (const { worker } of this.#places) if (worker) tell(worker, message)
  }
}
