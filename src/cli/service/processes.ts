import { readFileSync, statSync } from 'node:fs'
import type { MetricFamily } from '../../observability/metric-families.ts'
import type { Settings } from '../../settings/settings.ts'

export type Processes = ReturnType<typeof realProcesses>

/** This process, its parent and its children. */
export function realProcesses() {
  const role = process.send && process.env[roleMark]
  // Removed, because child processes have their own roles.
  delete process.env[roleMark]
  return {
    /** The supervisor of this worker; null if this process is not a worker. */
    supervisor: role === 'worker' ? parent : null,
    startWorker,
    hasNewExecutable,
    maxFileDescriptors,
  }
}

/** Environment variable with the role of a child process. */
const roleMark = 'SYNC_BRIDGE_ROLE'

/** Messages from the supervisor to a worker. */
export type ToWorker =
  /** Reply with a pong. */
  | { kind: 'ping' }
  /** The settings in force, after a reload or because the worker has asked. */
  | { kind: 'settings'; settings: Settings }
  /** Keep serving for `delayMs`, then stop gracefully. */
  | { kind: 'stop'; delayMs: number }
  | { kind: 'all-metrics'; families: MetricFamily[] }

/** Messages from a worker to its supervisor. */
export type FromWorker =
  | { kind: 'listening' }
  /** The reply to a ping, with the worker's metrics. */
  | { kind: 'pong'; families: MetricFamily[] }
  | { kind: 'ask-metrics' }
  | { kind: 'ask-settings' }

/** The process that started this one. */
export type Parent = typeof parent

const parent = {
  /** No effect if the process has ended. */
  send(message: FromWorker): void {
    if (process.connected) process.send?.(message)
  },
  onMessage: (handler: (message: ToWorker) => unknown): void => void process.on('message', handler),
  onLoss: (handler: () => void): void => void process.on('disconnect', handler),
  /** The settings in force, which the file may no longer contain. Null if the supervisor has ended. */
  askSettings(): Promise<Settings | null> {
    const answer = Promise.withResolvers<Settings | null>()
    parent.onMessage((message) => message.kind === 'settings' && answer.resolve(message.settings))
    parent.onLoss(() => answer.resolve(null))
    parent.send({ kind: 'ask-settings' })
    return answer.promise
  },
}

/** Starts a worker; throws if that fails. */
function startWorker(environment: Environment, take: (message: FromWorker) => void): Bun.Subprocess {
  return Bun.spawn(ownCommand(), {
    env: { ...environment, [roleMark]: 'worker' },
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: take,
  })
}

type Environment = Record<string, string | undefined>

/** The command to start the current executable file with the same arguments; when run from source, the first one is the program. */
function ownCommand(): string[] {
  return [process.execPath, ...process.argv.slice(Bun.isStandaloneExecutable ? 2 : 1)]
}

/** Sends a message to a child; no effect if it has ended. */
export function sendTo(child: Bun.Subprocess, message: ToWorker): void {
  try {
    child.send(message)
  } catch {
    // The process has just ended; `endOf` reports that.
  }
}

/** Resolves to the exit code, or the signal that ended the process. */
export async function endOf(child: Bun.Subprocess): Promise<number | string> {
  const code = await child.exited
  return child.signalCode ?? code
}

/** Whether the executable file was replaced since this process started; a new one has another inode. */
function hasNewExecutable(): boolean {
  try {
    const { ino, dev } = statSync(process.execPath)
    const running = statSync('/proc/self/exe')
    return ino !== running.ino || dev !== running.dev
  } catch {
    return false
  }
}

/** Maximum open files and sockets of this process; null if unknown, as on systems other than Linux. */
function maxFileDescriptors(): number | null {
  try {
    const limits = readFileSync('/proc/self/limits', 'latin1')
    return Number(/^Max open files +(\d+)/m.exec(limits)?.[1]) || null
  } catch {
    return null
  }
}
