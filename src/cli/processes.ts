import { readFileSync, statSync } from 'node:fs'
import type { MetricFamily } from '../observability/metric-families.ts'

export type Processes = ReturnType<typeof realProcesses>

/** This process and those that it starts or was started by. */
export function realProcesses() {
  const role = process.send && process.env[roleMark]
  // Removed, because processes that this one starts have roles of their own.
  delete process.env[roleMark]
  return {
    /** The supervisor of this worker; null for a process without one. */
    supervisor: role === 'worker' ? parent : null,
    /** The process that this one takes over from. */
    predecessor: role === 'successor' ? parent : null,
    /** Whether the operating system spreads the connections of a port over all processes of a user that listen on it. */
    canSharePorts: process.platform === 'linux',
    /** Whether another process can replace this one; a container ends with its first process. */
    isReplaceable: process.pid !== 1,
    start,
    hasNewExecutable,
    maxFileDescriptors,
  }
}

/** Set in the environment of a process that this one starts, to the role of the new process. */
const roleMark = 'SYNC_BRIDGE_ROLE'

/** The messages of a supervisor to a worker. */
export type ToWorker =
  /** Answer with a pong. */
  | { kind: 'ping' }
  | { kind: 'reload' }
  /** Go on for `delayMs`, then answer the requests in flight, and end. */
  | { kind: 'stop'; delayMs: number }
  | { kind: 'all-metrics'; families: MetricFamily[] }

/** The messages of a worker to its supervisor. A successor says to its predecessor that it listens, and nothing else. */
export type FromChild =
  | { kind: 'listening' }
  /** It is alive, and this is what it has counted. */
  | { kind: 'pong'; families: MetricFamily[] }
  | { kind: 'ask-metrics' }

/** The process that started this one. */
export type Parent = typeof parent

const parent = {
  /** Does nothing when it is gone. */
  send(message: FromChild): void {
    if (process.connected) process.send?.(message)
  },
  onMessage: (handler: (message: ToWorker) => void): void => void process.on('message', handler),
  onLoss: (handler: () => void): void => void process.on('disconnect', handler),
  /** Has nothing more to say. */
  leave: (): void => void (process.connected && process.disconnect?.()),
}

/**
 * Starts the executable that now has this one's name, with the same arguments: to be a worker, or to take over and to outlive
 * this process. Throws when that is impossible.
 */
function start(
  role: 'worker' | 'successor',
  environment: Record<string, string | undefined>,
  take: (message: FromChild) => void,
): Bun.Subprocess {
  const child = Bun.spawn([process.execPath, ...ownArguments()], {
    env: { ...environment, [roleMark]: role },
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: take,
  })
  if (role === 'successor') child.unref()
  return child
}

/** What this program was started with: from source the runtime is the executable, and the program its first argument. */
function ownArguments(): string[] {
  return process.argv.slice(Bun.isStandaloneExecutable ? 2 : 1)
}

/** Does nothing once the process is gone. */
export function tell(child: Bun.Subprocess, message: ToWorker): void {
  try {
    child.send(message)
  } catch {
    // It has just ended, as `endOf` tells.
  }
}

/** Resolves to its exit code, or to the name of the signal that ended it. */
export async function endOf(child: Bun.Subprocess): Promise<number | string> {
  const code = await child.exited
  return child.signalCode ?? code
}

/** Whether the executable was replaced since this process began: the new one has another inode. */
function hasNewExecutable(): boolean {
  try {
    const { ino, dev } = statSync(process.execPath)
    const running = statSync('/proc/self/exe')
    return ino !== running.ino || dev !== running.dev
  } catch {
    return false
  }
}

/** The most files and sockets that this process may have open; null where that is not known. */
function maxFileDescriptors(): number | null {
  return Number(/^Max open files +(\d+)/m.exec(kernelText('/proc/self/limits'))?.[1]) || null
}

/** What the kernel tells in a file; nothing on other systems than Linux. */
function kernelText(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
