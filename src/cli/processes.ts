import type * as Files from 'node:fs'
import type { MetricFamily } from '../observability/metric-families.ts'
import type { ProcessUsage } from '../observability/metrics.ts'

export type Processes = ReturnType<typeof realProcesses>

/** This process and those that it starts or was started by. */
export function realProcesses() {
  const role = process.send && process.env[roleMark]
  // Removed, because processes that this one starts have roles of their own.
  delete process.env[roleMark]
  return {
    /** The supervisor of this worker; null for a process without one. */
    supervisor: role === 'worker' ? supervisor : null,
    /** The process that this one takes over from. */
    predecessor: role === 'successor' ? predecessor : null,
    /** Whether the operating system spreads the connections of a port over all processes of a user that listen on it. */
    canSharePorts: process.platform === 'linux',
    /** Whether another process can replace this one; a container ends with its first process. */
    isReplaceable: process.pid !== 1,
    startWorker,
    startSuccessor,
    hasNewExecutable,
    maxFileDescriptors,
    usage,
    cpuMs,
    residentBytes: () => process.memoryUsage.rss(),
    unsentBytes,
  }
}

/** Set in the environment of a process that this one starts, to the role of the new process. */
const roleMark = 'SYNC_BRIDGE_ROLE'

/** The messages of a supervisor to a worker. `question` pairs questions with answers. */
export type ToWorker =
  /** Give a sign of life. */
  | { kind: 'ping' }
  | { kind: 'reload' }
  /**
   * Answer the requests in flight, and end; before that, go on for `delayMs` while clients are asked to close
   * connections.
   */
  | { kind: 'stop'; delayMs: number }
  /** End at once. */
  | { kind: 'abort' }
  | { kind: 'tell-metrics'; question: number }
  | { kind: 'all-metrics'; question: number; families: MetricFamily[] }

/** The messages of a worker to its supervisor. */
export type FromWorker =
  | { kind: 'pong' }
  | { kind: 'listening'; url: string; port: number }
  | { kind: 'metrics'; question: number; families: MetricFamily[] }
  | { kind: 'ask-metrics'; question: number }

/** A process that was started. */
export interface WorkerProcess {
  pid: number
  /** Does nothing once the process is gone. */
  send(message: ToWorker): void
  kill(): void
  /** Its exit code; null when a signal ended it. */
  exited: Promise<number | null>
}

export type Supervisor = typeof supervisor

const supervisor = {
  /** Does nothing when the supervisor is gone. */
  send(message: FromWorker): void {
    if (process.connected) process.send?.(message)
  },
  onMessage: (handler: (message: ToWorker) => void): void => void process.on('message', handler),
  onLoss: (handler: () => void): void => void process.on('disconnect', handler),
}

const predecessor = {
  /** Reports that this process listens. */
  announce(url: string): void {
    if (!process.connected) return
    process.send?.({ url })
    process.disconnect?.()
  },
}

function startRelative(
  role: 'worker' | 'successor',
  environment: Record<string, string | undefined>,
  take: (message: never) => void,
) {
  // From source the runtime is the executable, and the program its first argument.
  const args = process.argv.slice(Bun.isStandaloneExecutable ? 2 : 1)
  return Bun.spawn([process.execPath, ...args], {
    env: { ...environment, [roleMark]: role },
    stdio: ['ignore', 'inherit', 'inherit'],
    ipc: take,
  })
}

/** A new process that is to take over. */
export interface Successor {
  pid: number
  /** Resolves to where it listens, or to the reason why it never will. */
  started: Promise<{ url: string } | { failure: string }>
  /** Makes it read its settings again. */
  reload(): void
  kill(): void
}

/** Starts the executable that now has this one's name, with the same arguments, to take over. */
function startSuccessor(environment: Record<string, string | undefined>): Successor {
  const started = Promise.withResolvers<{ url: string } | { failure: string }>()
  let child: ReturnType<typeof startRelative>
  try {
    child = startRelative('successor', environment, ({ url }: { url: string }) => started.resolve({ url }))
  } catch (error) {
    const { code } = error as { code?: unknown }
    return {
      pid: 0,
      started: Promise.resolve({ failure: `it can not be started (${String(code)})` }),
      reload() {},
      kill() {},
    }
  }
  void child.exited.then(() =>
    started.resolve({ failure: `it ended with ${child.signalCode ?? `exit code ${child.exitCode}`}` }),
  )
  // It outlives this process.
  child.unref()
  return {
    pid: child.pid,
    started: started.promise,
    reload: () => child.kill('SIGHUP'),
    kill: () => child.kill('SIGKILL'),
  }
}

/** Whether the executable was replaced since this process began: the new one has another inode. */
function hasNewExecutable(): boolean {
  try {
    const { ino, dev } = files().statSync(process.execPath)
    const running = files().statSync('/proc/self/exe')
    return ino !== running.ino || dev !== running.dev
  } catch {
    return false
  }
}

/** Runs this program once more, with the same arguments, as a worker. Throws when that is impossible. */
function startWorker(
  environment: Record<string, string | undefined>,
  take: (message: FromWorker) => void,
): WorkerProcess {
  const child = startRelative('worker', environment, take)
  return {
    pid: child.pid,
    send(message) {
      try {
        child.send(message)
      } catch {
        // It has just ended, as `exited` tells.
      }
    },
    kill: () => child.kill('SIGKILL'),
    exited: child.exited.then((code) => (child.signalCode === null ? code : null)),
  }
}

const startedAtSeconds = Math.round(Date.now() - performance.now()) / 1000

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

function usage(): ProcessUsage {
  const { rss, heapUsed } = process.memoryUsage()
  return { cpuSeconds: cpuMs() / 1000, residentBytes: rss, heapBytes: heapUsed, startedAtSeconds }
}

/** The most files and sockets that this process may have open; null where that is not known. Every start asks, so node:fs is not loaded. */
async function maxFileDescriptors(): Promise<number | null> {
  try {
    const limits = await Bun.file('/proc/self/limits').text()
    const [, soft] = /^Max open files +(\d+)/m.exec(limits) ?? []
    return soft === undefined ? null : Number(soft)
  } catch {
    return null
  }
}

// See proc(5), "/proc/net/tcp": an address ends in the port, and the length of the send queue precedes a colon.
function unsentBytes(localPort: number): ReadonlyMap<number, number> | null {
  const unsent = new Map<number, number>()
  try {
    for (const table of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
      for (const line of files().readFileSync(table, 'latin1').split('\n')) {
        const [, local, remote, , queues] = line.trim().split(/ +/)
        if (local === undefined || parseInt(local.slice(-4), 16) !== localPort) continue
        const port = parseInt(remote!.slice(-4), 16)
        unsent.set(port, (unsent.get(port) ?? 0) + parseInt(queues!, 16))
      }
    }
    return unsent
  } catch {
    return null
  }
}

/** Loaded at the first use, because loading takes some ms. */
export function files(): typeof Files {
  return require('node:fs') as typeof Files
}
