import { takeOver } from '../settings/settings.ts'

import type { Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'
import type { Host } from './host.ts'
import type { Notifier } from './linux.ts'
import type { OutputLog } from './output.ts'
import type { Child } from './processes.ts'

/** Reads the settings again from their sources; null when they are bad. `report` gets every problem and warning. */
export type RereadSettings = (report: (line: string) => void) => Settings | null

/** The context that a service is started in. */
export interface ServiceContext {
  settings: Settings
  host: Host
  output: OutputLog
  reread: RereadSettings
}

interface ChangeableService {
  port: number
  /** Applies new settings where that needs no new process. */
  reload(settings: Settings): void
}

/** A successor that does not listen within this time is given up. */
const successorTimeoutMs = 30_000

/** Changes a running service: by new settings, or by a new process. One change at a time. */
export class Changes {
  readonly #log: Log
  #isBusy = false
  #isAskedAgain = false
  readonly #takeover = Promise.withResolvers<void>()
  /** The successor that has taken over. */
  #takenOverBy: Child | null = null
  /** The successor that is starting. */
  #startingSuccessor: Child | null = null
  /** The effective settings. */
  #running: Settings

  constructor(
    private readonly context: ServiceContext,
    private readonly service: ChangeableService,
    private readonly notifier: Notifier,
  ) {
    this.#log = context.output.log
    this.#running = context.settings
  }

  /** Resolves once a successor has taken over. */
  get takenOver(): Promise<void> {
    return this.#takeover.promise
  }

  /**
   * Applies the settings file. Where settings or a new executable need a new process, and the service manager allows the
   * main process to change, a successor takes over.
   */
  async reload(): Promise<void> {
    await this.#alone(async () => {
      const settings = this.#reread()
      if (!settings) return
      const { processes, environment } = this.context.host
      const reloaded = { ...this.#running }
      const { changed, waiting } = takeOver(reloaded, settings)
      const isOutdated = waiting.length > 0 || processes?.hasNewExecutable()
      if (isOutdated && environment.NOTIFY_SOCKET && processes?.isReplaceable) return this.#startSuccessor()

      this.service.reload(settings)
      this.#running = reloaded
      if (waiting.length > 0) this.#log.warning('settings need a restart', { settings: waiting.join(', ') })
      this.#log.info('settings reloaded', { changed: changed.join(', ') })
    })
  }

  /** A successor takes over, with the present executable and settings. */
  async replace(): Promise<void> {
    await this.#alone(async () => {
      if (this.#reread()) await this.#startSuccessor()
    })
  }

  /** The service ends, so no successor takes over any more. */
  cancel(): void {
    this.#startingSuccessor?.signal('SIGKILL')
  }

  async #alone(change: () => Promise<void>): Promise<void> {
    if (this.#isBusy) {
      // The change in progress may have read the file before this request, so the file is read once more at the end.
      this.#isAskedAgain = true
      return this.#log.warning('a change is in progress already')
    }
    this.#isBusy = true
    this.notifier.reloading()
    try {
      await change()
    } catch (error) {
      // The message could quote what was read.
      const { name, code } = error as { name?: string; code?: unknown }
      this.#log.error('change failed', { reason: String(code ?? name) })
    } finally {
      this.notifier.ready()
      this.#isBusy = false
    }
    if (!this.#isAskedAgain) return
    this.#isAskedAgain = false
    if (this.#takenOverBy) this.#takenOverBy.signal('SIGHUP')
    else await this.reload()
  }

  /** Null when they are bad; the log tells why. */
  #reread(): Settings | null {
    const lines: string[] = []
    const settings = this.context.reread((line) => void lines.push(line))
    for (const line of lines) {
      if (settings) this.#log.warning('settings warning', { problem: line })
      else this.#log.error('settings refused', { problem: line })
    }
    if (!settings) this.#log.error('settings kept')
    return settings
  }

  async #startSuccessor(): Promise<void> {
    const { processes } = this.context.host
    const failed = (reason: string) => this.#log.error('takeover failed', { reason })
    if (!processes?.isReplaceable) return failed('the first process of a container can not be replaced')
    this.#log.info('starting a successor')
    const listening = Promise.withResolvers<null>()
    const environment = successorEnvironment(this.context, this.service.port)
    try {
      this.#startingSuccessor = processes.start('successor', environment, () => listening.resolve(null))
    } catch (error) {
      return failed(`it can not be started (${String((error as { code?: unknown }).code)})`)
    }
    const successor = this.#startingSuccessor
    const failure = await Promise.race([
      listening.promise,
      successor.exited.then((end) => `it ended with ${typeof end === 'number' ? `exit code ${end}` : end}`),
      Bun.sleep(successorTimeoutMs).then(() => `it did not listen within ${successorTimeoutMs / 1000} s`),
    ])
    this.#startingSuccessor = null
    if (failure !== null) {
      successor.signal('SIGKILL')
      return failed(failure)
    }
    this.notifier.handOver(successor.pid)
    this.#takenOverBy = successor
    this.#log.info('taken over', { pid: successor.pid })
    this.#takeover.resolve()
  }
}

function successorEnvironment({ settings, host }: ServiceContext, port: number) {
  // A free port that the system chose stays the same.
  return { ...host.environment, ...(settings.port === 0 && { SERVICE_PORT: String(port) }) }
}
