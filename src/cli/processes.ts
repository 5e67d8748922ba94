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
    startWorker,
    startSuccessor,
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
  | { kind: 'listening'; pid: number }
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

/** Starts a worker; throws when that is impossible. */
function startWorker(environment: Environment, take: (message: FromChild) => void): Bun.Subprocess {
  return Bun.spawn(ownCommand(), {
    env: { ...environment, [roleMark]: 'worker' },
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: take,
  })
}

/** A process that takes over and outlives this one. */
export interface Successor {
  /** Resolves to its id once it listens. */
  listening: Promise<number>
  /** Resolves to its exit code, or to the name of a signal, if it ends before `release`. */
  ended: Promise<number | string>
  /** Leaves it to the first process of the system; resolves when that is done. */
  release(): Promise<void>
  kill(): void
}

/**
 * Starts a successor; throws when that is impossible. A shell between it and this process makes it an orphan once the shell is
 * killed: systemd takes it for a process of its own then, and notices its end.
 */
function startSuccessor(environment: Environment): Successor {
  const listening = Promise.withResolvers<number>()
  const shell = Bun.spawn(['/bin/sh', '-c', '"$@" & wait $!', 'sh', ...ownCommand()], {
    env: { ...environment, [roleMark]: 'successor' },
    stdio: ['ignore', 'inherit', 'inherit'],
    // A process group of its own can be killed as a whole.
    detached: true,
    ipc: (message: FromChild) => void (message.kind === 'listening' && listening.resolve(message.pid)),
  })
  shell.unref()
  return {
    listening: listening.promise,
    ended: endOf(shell),
    async release() {
      shell.kill('SIGKILL')
      await shell.exited
    },
    kill: () => signal(-shell.pid, 'SIGKILL'),
  }
}

type Environment = Record<string, string | undefined>

/** The executable that now has this one's name, with the same arguments. */
function ownCommand(): string[] {
  return [process.execPath, ...ownArguments()]
}

/** Does nothing once the process, or the process group with a minus, is gone. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has just ended.
  }
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
