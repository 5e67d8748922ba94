import { countersOf, mergeFamilies } from '../observability/metric-families.ts'

import type { MetricFamily } from '../observability/metric-families.ts'

/** What a supervisor tells a worker. `question` tells answers apart. */
export type ToWorker =
  | { kind: 'reload' }
  /** Answer what is under way, and end. */
  | { kind: 'stop' }
  /** End at once. */
  | { kind: 'abort' }
  | { kind: 'tell-metrics'; question: number }
  | { kind: 'all-metrics'; question: number; families: MetricFamily[] }

/** What a worker tells its supervisor. */
export type FromWorker =
  | { kind: 'listening'; url: string; port: number }
  | { kind: 'metrics'; question: number; families: MetricFamily[] }
  | { kind: 'ask-metrics'; question: number }

/** A process that was started. */
export interface WorkerProcess {
  /** Does nothing once the process is gone. */
  send(message: ToWorker): void
  kill(): void
  /** Its exit code; null when a signal ended it. */
  exited: Promise<number | null>
}

export interface WorkersOptions {
  count: number
  /** Starts a worker that is to listen on `port`; null: on that of the settings. Throws when it can't be started. */
  start(port: number | null, take: (message: FromWorker) => void): WorkerProcess
  /** A clock in ms that never goes back. */
  now(): number
  delay(ms: number): Promise<void>
  /** A worker has ended although nobody asked it to; another one is started after the pause. */
  onLoss(code: number | null, pauseMs: number): void
}

/** All workers listen at `url`, or one could not be started and that is the exit code of the whole. */
export type StartOutcome = { url: string } | { exitCode: number }

const firstPauseMs = 100
const longestPauseMs = 5000
/** A worker that lived so long did not fail at its start. */
const soundLifeMs = 10_000
const metricsTimeoutMs = 500

interface Member {
  process: WorkerProcess
  hasListened: boolean
  /** Its figures when they were last asked for. */
  lastTold: MetricFamily[]
}

/** Processes that share a port. One that dies is replaced; all are told what the supervisor is told. */
export class Workers {
  readonly #options: WorkersOptions
  readonly #members = new Set<Member>()
  readonly #places: Promise<void>[] = []
  readonly #started = Promise.withResolvers<StartOutcome>()
  readonly #stopping = Promise.withResolvers<void>()
  readonly #questions = new Map<number, (member: Member, families: MetricFamily[]) => void>()
  #isStopping = false
  #isStarted = false
  #address: { url: string; port: number } | null = null
  #lastQuestion = 0
  /** What workers that are gone have counted. */
  #past: MetricFamily[] = []

  constructor(options: WorkersOptions) {
    this.#options = options
  }

  /**
   * Starts one worker, and when it listens the others, so that a port that is taken is told once and a free one is found
   * once.
   */
  start(): Promise<StartOutcome> {
    this.#places.push(this.#keepPlace())
    return this.#started.promise
  }

  reload(): void {
    this.#tell({ kind: 'reload' })
  }

  /** Resolves once all have answered what they had under way, and ended. */
  async stop(): Promise<void> {
    this.#isStopping = true
    this.#stopping.resolve()
    this.#tell({ kind: 'stop' })
    await Promise.all(this.#places)
  }

  /** After `stop`: does not wait for what is under way. */
  abort(): void {
    this.#tell({ kind: 'abort' })
  }

  /** Ends those that do not even abort. */
  kill(): void {
    for (const { process } of this.#members) process.kill()
  }

  async #keepPlace(): Promise<void> {
    let pauseMs = firstPauseMs
    while (!this.#isStopping) {
      const startedAtMs = this.#options.now()
      const { code, hasListened } = await this.#runWorker()
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

  async #runWorker(): Promise<{ code: number | null; hasListened: boolean }> {
    let member: Member
    try {
      const process = this.#options.start(this.#address?.port ?? null, (message) =>
        this.#take(member, message),
      )
      member = { process, hasListened: false, lastTold: [] }
    } catch {
      return { code: 1, hasListened: false }
    }
    this.#members.add(member)
    const code = await member.process.exited
    this.#members.delete(member)
    this.#past = mergeFamilies([this.#past, countersOf(member.lastTold)])
    return { code, hasListened: member.hasListened }
  }

  #take(member: Member, message: FromWorker): void {
    switch (message.kind) {
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
      while (this.#places.length < this.#options.count) this.#places.push(this.#keepPlace())
    }
    const listening = [...this.#members].filter((one) => one.hasListened).length
    if (listening < this.#options.count) return
    this.#isStarted = true
    this.#started.resolve({ url })
  }

  /** The figures of all; who does not answer in time counts with what lasts of its last answer. */
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
