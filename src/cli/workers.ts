import { countersOf, mergeFamilies } from '../observability/metric-families.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { FromChild, Parent, ToWorker, Child } from './processes.ts'

interface WorkersOptions {
  count: number
  /** Starts a worker. Throws when it can't be started. */
  start(take: (message: FromChild) => void): Child
  /** A clock in ms that never goes back. */
  now(): number
  delay(ms: number): Promise<void>
  /** A worker that answers no ping for this time is killed and replaced. */
  timeoutMs: number
  /** A worker was silent for `timeoutMs` and is killed. */
  onHang(pid: number): void
  /** A worker has ended without being asked to; another one is started after the pause. */
  onLoss(end: number | string, pauseMs: number): void
}

const firstPauseMs = 100
const longestPauseMs = 5000
/** A worker that lived for this time did not fail at its start. */
const soundLifeMs = 10_000
const metricsTimeoutMs = 500
/** The number of unanswered pings after which a worker is given up. */
const pingsPerTimeout = 5

/** A place for one worker; a replacement takes the place of the worker that ended. */
interface Place {
  /** The worker; null between two of them. */
  worker: Child | null
  hasListened: boolean
  unansweredPings: number
  /** When a worker here last sent a message. */
  seenAtMs: number
  /** The worker's metrics as of its last answer. */
  lastTold: MetricFamily[]
  /** Its next answer. */
  nextTold: PromiseWithResolvers<MetricFamily[]>
}

/**
 * Processes that share a port. A worker that dies is replaced. So is one that hangs, because the kernel keeps routing
 * connections to it.
 */
export class Workers {
  readonly #options: WorkersOptions
  readonly #places: Place[] = []
  /** For each place, the end of the last worker in it. */
  readonly #vacated: Promise<void>[] = []
  readonly #started = Promise.withResolvers<number | null>()
  readonly #stopping = Promise.withResolvers<void>()
  #isStopping = false
  #isStarted = false
  /** The counters of workers that have ended. */
  #past: MetricFamily[] = []

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /** Starts all of them. Resolves to null when they listen, or to the exit code of one that could not start. */
  start(): Promise<number | null> {
    for (let count = 0; count < this.#options.count; count++) {
      const place: Place = {
        worker: null,
        hasListened: false,
        unansweredPings: 0,
        seenAtMs: this.#options.now(),
        lastTold: [],
        nextTold: Promise.withResolvers(),
      }
      this.#places.push(place)
      this.#vacated.push(this.#keep(place))
    }
    void this.#watch()
    return this.#started.promise
  }

  /** Whether every worker has sent a message within twice the timeout. */
  get areResponsive(): boolean {
    const now = this.#options.now()
    return this.#places.every(({ seenAtMs }) => now - seenAtMs <= 2 * this.#options.timeoutMs)
  }

  reload(): void {
    this.#tell({ kind: 'reload' })
  }

  /** Resolves once all have answered the requests in flight, and ended. */
  async stop(delayMs: number): Promise<void> {
    this.#isStopping = true
    this.#stopping.resolve()
    this.#tell({ kind: 'stop', delayMs })
    await Promise.all(this.#vacated)
  }

  /** Called after `stop`: does not wait for the requests in flight. */
  abort(): void {
    this.#tell({ kind: 'abort' })
  }

  /** Ends workers that ignore `abort`. */
  kill(): void {
    for (const { worker } of this.#places) worker?.signal('SIGKILL')
  }

  async #keep(place: Place): Promise<void> {
    const { now, delay, onLoss } = this.#options
    let pauseMs = firstPauseMs
    while (!this.#isStopping) {
      const startedAtMs = now()
      const end = await this.#runWorker(place)
      if (this.#isStopping) return
      if (!this.#isStarted && !place.hasListened && (end === 1 || end === 2)) {
        return this.#started.resolve(end)
      }
      if (now() - startedAtMs >= soundLifeMs) pauseMs = firstPauseMs
      onLoss(end, pauseMs)
      await Promise.race([delay(pauseMs), this.#stopping.promise])
      pauseMs = Math.min(2 * pauseMs, longestPauseMs)
    }
  }

  /** Resolves to how the worker has ended. */
  async #runWorker(place: Place): Promise<number | string> {
    place.hasListened = false
    place.unansweredPings = 0
    try {
      const worker = this.#options.start((message) => {
        if (place.worker === worker) this.#take(place, message)
      })
      place.worker = worker
    } catch {
      return 1
    }
    const end = await place.worker.exited
    place.worker = null
    this.#past = mergeFamilies([this.#past, countersOf(place.lastTold)])
    place.lastTold = []
    return end
  }

  // Pings are counted instead of seconds: after a pause of its own the supervisor would find all workers silent.
  async #watch(): Promise<void> {
    const { delay, timeoutMs, onHang } = this.#options
    while (!this.#isStopping) {
      await Promise.race([delay(timeoutMs / pingsPerTimeout), this.#stopping.promise])
      for (const place of this.#places) {
        if (place.worker && place.unansweredPings === pingsPerTimeout) {
          onHang(place.worker.pid)
          place.worker.signal('SIGKILL')
        }
        place.unansweredPings += 1
      }
      this.#tell({ kind: 'ping' })
    }
  }

  #take(place: Place, message: FromChild): void {
    place.unansweredPings = 0
    place.seenAtMs = this.#options.now()
    switch (message.kind) {
      case 'pong':
        return
      case 'listening':
        place.hasListened = true
        this.#isStarted ||= this.#places.every(({ worker, hasListened }) => worker && hasListened)
        return this.#isStarted ? this.#started.resolve(null) : undefined
      case 'metrics':
        place.lastTold = message.families
        place.nextTold.resolve(message.families)
        place.nextTold = Promise.withResolvers()
        return
      case 'ask-metrics':
        return void this.families().then((families) => place.worker?.send({ kind: 'all-metrics', families }))
      default:
        return message satisfies never
    }
  }

  /** The metrics of all workers. A worker that does not answer in time counts with the counters of its last answer. */
  async families(): Promise<MetricFamily[]> {
    this.#tell({ kind: 'tell-metrics' })
    const answers = this.#places.map(async (place) => {
      const { worker, nextTold } = place
      const answer = worker && (await Promise.race([nextTold.promise, this.#options.delay(metricsTimeoutMs)]))
      return answer || countersOf(place.lastTold)
    })
    return mergeFamilies([...(await Promise.all(answers)), this.#past])
  }

  #tell(message: ToWorker): void {
    for (const { worker } of this.#places) worker?.send(message)
  }
}

const answerTimeoutMs = 1000

/**
 * The worker's side: answers the supervisor. The returned function asks for the metrics of all workers; it resolves to
 * the worker's own when the supervisor does not answer within a second.
 */
export function answerSupervisor(
  supervisor: Parent,
  ownFamilies: () => MetricFamily[],
  delay: (ms: number) => Promise<void>,
): () => Promise<MetricFamily[]> {
  let told = Promise.withResolvers<MetricFamily[]>()
  supervisor.onMessage((message) => {
    if (message.kind === 'ping') supervisor.send({ kind: 'pong' })
    if (message.kind === 'tell-metrics') supervisor.send({ kind: 'metrics', families: ownFamilies() })
    if (message.kind === 'all-metrics') {
      told.resolve(message.families)
      told = Promise.withResolvers()
    }
  })
  return async () => {
    supervisor.send({ kind: 'ask-metrics' })
    return (await Promise.race([told.promise, delay(answerTimeoutMs)])) || ownFamilies()
  }
}
