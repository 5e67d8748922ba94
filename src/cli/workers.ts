import { countersOf, mergeFamilies } from '../observability/metric-families.ts'

import type { MetricFamily } from '../observability/metric-families.ts'
import type { FromWorker, Supervisor, ToWorker, WorkerProcess } from './processes.ts'

interface WorkersOptions {
  count: number
  /** Starts a worker that is to listen on `port`; null: on that of the settings. Throws when it can't be started. */
  start(port: number | null, take: (message: FromWorker) => void): WorkerProcess
  /** A clock in ms that never goes back. */
  now(): number
  delay(ms: number): Promise<void>
  /** A worker that answers no ping for this time is killed and replaced. */
  timeoutMs: number
  /** A worker was silent for `timeoutMs` and is killed. */
  onHang(pid: number): void
  /** A worker has ended without being asked to; another one is started after the pause. */
  onLoss(code: number | null, pauseMs: number): void
}

/** All workers listen at `url`, or one could not start and the exit code is that of the whole. */
type StartOutcome = { url: string; port: number } | { exitCode: number }

const firstPauseMs = 100
const longestPauseMs = 5000
/** A worker that lived for this time did not fail at its start. */
const soundLifeMs = 10_000
const metricsTimeoutMs = 500
/** The number of unanswered pings after which a worker is given up. */
const pingsPerTimeout = 5

interface Member {
  process: WorkerProcess
  place: Place
  hasListened: boolean
  unansweredPings: number
  /** Its metrics as of its last answer. */
  lastTold: MetricFamily[]
}

/** One place for a worker; a replacement takes the place of the worker that ended. */
interface Place {
  /** When a worker here last gave a sign of life. */
  seenAtMs: number
  vacated: Promise<void>
}

/**
 * Processes that share a port. A worker that dies is replaced. So is one that hangs, because the system goes on to give
 * it its share of the connections.
 */
export class Workers {
  readonly #options: WorkersOptions
  readonly #members = new Set<Member>()
  readonly #places: Place[] = []
  readonly #started = Promise.withResolvers<StartOutcome>()
  readonly #stopping = Promise.withResolvers<void>()
  readonly #questions = new Map<number, (member: Member, families: MetricFamily[]) => void>()
  #isStopping = false
  #isStarted = false
  #address: { url: string; port: number } | null = null
  #lastQuestion = 0
  /** The counters of workers that have ended. */
  #past: MetricFamily[] = []

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /**
   * Starts one worker, and the others when it listens, so that a port in use is reported once and a free port is chosen
   * once.
   */
  start(): Promise<StartOutcome> {
    this.#addPlace()
    void this.#watch()
    return this.#started.promise
  }

  /** Whether every worker has given a sign of life within twice the timeout. */
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
    await Promise.all(this.#places.map(({ vacated }) => vacated))
  }

  /** Called after `stop`: does not wait for the requests in flight. */
  abort(): void {
    this.#tell({ kind: 'abort' })
  }

  /** Ends workers that ignore `abort`. */
  kill(): void {
    for (const { process } of this.#members) process.kill()
  }

  #addPlace(): void {
    const place: Place = { seenAtMs: this.#options.now(), vacated: Promise.resolve() }
    this.#places.push(place)
    place.vacated = this.#keep(place)
  }

  async #keep(place: Place): Promise<void> {
    let pauseMs = firstPauseMs
    while (!this.#isStopping) {
      const startedAtMs = this.#options.now()
      const { code, hasListened } = await this.#runWorker(place)
      if (this.#isStopping) return
      if (!this.#isStarted && !hasListened && (code === 1 || code === 2)) {
        this.#started.resolve({ exitCode: code })
        return
      }
      if (this.#options.now() - startedAtMs >= soundLifeMs) pauseMs = firstPauseMs
      this.#options.onLoss(code, pauseMs)
      await Promise.race([this.#options.delay(pauseMs), this.#stopping.promise])
      pauseMs = Math.min(2 * pauseMs, longestPauseMs)
    }
  }

  async #runWorker(place: Place): Promise<{ code: number | null; hasListened: boolean }> {
    let member: Member
    try {
      const process = this.#options.start(this.#address?.port ?? null, (message) =>
        this.#take(member, message),
      )
      member = { process, place, hasListened: false, unansweredPings: 0, lastTold: [] }
    } catch {
      return { code: 1, hasListened: false }
    }
    this.#members.add(member)
    const code = await member.process.exited
    this.#members.delete(member)
    this.#past = mergeFamilies([this.#past, countersOf(member.lastTold)])
    return { code, hasListened: member.hasListened }
  }

  // Pings are counted instead of seconds: after a pause of its own the supervisor would find all workers silent.
  async #watch(): Promise<void> {
    while (!this.#isStopping) {
      await Promise.race([
        this.#options.delay(this.#options.timeoutMs / pingsPerTimeout),
        this.#stopping.promise,
      ])
      for (const member of this.#members) {
        if (member.unansweredPings === pingsPerTimeout) this.#giveUp(member)
        member.unansweredPings += 1
      }
      this.#tell({ kind: 'ping' })
    }
  }

  #giveUp({ process }: Member): void {
    this.#options.onHang(process.pid)
    process.kill()
  }

  #take(member: Member, message: FromWorker): void {
    member.unansweredPings = 0
    member.place.seenAtMs = this.#options.now()
    switch (message.kind) {
      case 'pong':
        return
      case 'listening':
        return this.#noteListening(member, message)
      case 'metrics':
        member.lastTold = message.families
        return this.#questions.get(message.question)?.(member, message.families)
      case 'ask-metrics':
        return void this.families().then((families) =>
          member.process.send({ kind: 'all-metrics', question: message.question, families }),
        )
      default:
        return message satisfies never
    }
  }

  #noteListening(member: Member, { url, port }: { url: string; port: number }): void {
    member.hasListened = true
    if (this.#isStarted) return
    if (!this.#address) {
      this.#address = { url, port }
      while (this.#places.length < this.#options.count) this.#addPlace()
    }
    const listening = [...this.#members].filter((one) => one.hasListened).length
    if (listening < this.#options.count) return
    this.#isStarted = true
    this.#started.resolve({ url, port })
  }

  /** The metrics of all workers. A worker that does not answer in time counts with the counters of its last answer. */
  async families(): Promise<MetricFamily[]> {
    const question = ++this.#lastQuestion
    const answers = new Map<Member, MetricFamily[]>()
    const complete = Promise.withResolvers<void>()
    this.#questions.set(question, (member, families) => {
      answers.set(member, families)
      if (answers.size >= this.#members.size) complete.resolve()
    })
    this.#tell({ kind: 'tell-metrics', question })
    await Promise.race([complete.promise, this.#options.delay(metricsTimeoutMs)])
    this.#questions.delete(question)
    const silent = [...this.#members].filter((member) => !answers.has(member))
    return mergeFamilies([
      ...answers.values(),
      ...silent.map(({ lastTold }) => countersOf(lastTold)),
      this.#past,
    ])
  }

  #tell(message: ToWorker): void {
    for (const { process } of this.#members) process.send(message)
  }
}

const answerTimeoutMs = 1000

/**
 * The worker's side: answers the supervisor. The returned function asks for the metrics of all workers; it resolves to
 * the worker's own when the supervisor does not answer within a second.
 */
export function answerSupervisor(
  supervisor: Supervisor,
  ownFamilies: () => MetricFamily[],
  delay: (ms: number) => Promise<void>,
): () => Promise<MetricFamily[]> {
  const waiting = new Map<number, (families: MetricFamily[]) => void>()
  let lastQuestion = 0
  supervisor.onMessage((message) => {
    if (message.kind === 'ping') supervisor.send({ kind: 'pong' })
    if (message.kind === 'tell-metrics') {
      supervisor.send({ kind: 'metrics', question: message.question, families: ownFamilies() })
    }
    if (message.kind === 'all-metrics') waiting.get(message.question)?.(message.families)
  })
  return async () => {
    const question = ++lastQuestion
    const { promise, resolve } = Promise.withResolvers<MetricFamily[]>()
    waiting.set(question, resolve)
    supervisor.send({ kind: 'ask-metrics', question })
    const families = await Promise.race([promise, delay(answerTimeoutMs).then(ownFamilies)])
    waiting.delete(question)
    return families
  }
}
