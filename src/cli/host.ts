import { describeAddressError } from './listen-error.ts'

import type * as Files from 'node:fs'
import type { ListeningAddress } from './listen-error.ts'
import type { BunFile, FileSink } from 'bun'
import type { MetricFamily } from '../observability/metric-families.ts'
import type { ProcessUsage } from '../observability/metrics.ts'

/** The world as a command sees it, so that tests can hand it another one. */
export interface Host {
  stdout: Output
  stderr: Output
  environment: Record<string, string | undefined>
  /** The text of a file, at most 4 MiB; throws an error with the `code` of the operating system. */
  readFile(path: string): string
  /** Whether users other than the file's owner and group may read it. */
  isPublic(path: string): boolean
  /** File name of this executable; of the runtime when it runs from source. */
  executablePath: string
  /** Whether this is the built executable. */
  standalone: boolean
  cwd: string
  /** Wall clock, ms since 1970. */
  now(): number
  randomBytes(length: number): Uint8Array
  /** Calls the handler at every such signal, in place of the usual end of the process; the answer removes it again. */
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'SIGUSR2', handler: () => void): () => void
  /** What there is to this process among others; absent in a world without processes. */
  processes?: Processes
}

/** This process and its relatives. */
export interface Processes {
  /** The process that this one works for; null when it is on its own. */
  supervisor: Supervisor | null
  /** The process that this one takes over from. */
  predecessor: Predecessor | null
  /** Whether the operating system deals the connections of a port to all processes of a user that listen on it. */
  canSharePorts: boolean
  /** Why nobody could listen here without sharing the port, with the remedy; null: it is free. */
  addressProblem(address: ListeningAddress): Promise<string | null>
  /** Runs this program once more, with the same arguments, as a worker. Throws when that is impossible. */
  startWorker(
    environment: Record<string, string | undefined>,
    take: (message: FromWorker) => void,
  ): WorkerProcess
  /** Runs the executable that now has this one's name, with the same arguments, to take over. */
  startSuccessor(environment: Record<string, string | undefined>): Successor
  /** Whether the executable was replaced since this process began. */
  hasNewExecutable(): boolean
  usage(): ProcessUsage
  /** Processor time that this process has used so far, in ms. */
  cpuMs(): number
  /** Memory that this process holds. */
  residentBytes(): number
  /** Bytes sent by a local port that are not acknowledged, by the port that they go to; null where nobody knows. */
  unsentBytes(localPort: number): ReadonlyMap<number, number> | null
}

/** The process that a worker works for. */
/** What a supervisor tells a worker. `question` tells answers apart. */
export type ToWorker =
  /** Give a sign of life. */
  | { kind: 'ping' }
  | { kind: 'reload' }
  /** Answer the requests in flight, and end; before that, go on for `delayMs` while clients are sent away. */
  | { kind: 'stop'; delayMs: number }
  /** End at once. */
  | { kind: 'abort' }
  | { kind: 'tell-metrics'; question: number }
  | { kind: 'all-metrics'; question: number; families: MetricFamily[] }

/** What a worker tells its supervisor. */
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

export interface Supervisor {
  /** Does nothing when the supervisor is gone. */
  send(message: FromWorker): void
  onMessage(handler: (message: ToWorker) => void): void
  /** Calls the handler when the supervisor is gone. */
  onLoss(handler: () => void): void
}

/** The process that this one takes over from. */
export interface Predecessor {
  /** Tells it that this process listens now. */
  announce(url: string): void
}

/** A process that is to take over. */
export interface Successor {
  pid: number
  /** Where it listens, or why it never will. */
  started: Promise<{ url: string } | { failure: string }>
  kill(): void
}

/** A stream that a command writes to. Writing never throws, never blocks, and a reader that is gone is no error. */
export interface Output {
  /** `written` is called once the text has left the process, or with the error that kept it from leaving. */
  write(text: string, written?: (error?: Error | null) => void): void
  isTty: boolean
  /** Whether the journal of systemd reads it. */
  isJournal: boolean
}

/** The real world, and a way to leave it: `drain` resolves once what was written has left the process. */
export type ProcessHost = Host & { drain(timeoutMs: number): Promise<void> }

/** The real world: this process, its files and its signals. */
export function processHost(): ProcessHost {
  const stdout = outputTo(Bun.stdout, 1, () => process.stdout.isTTY)
  const stderr = outputTo(Bun.stderr, 2, () => process.stderr.isTTY)
  return {
    stdout,
    stderr,
    environment: process.env,
    readFile,
    isPublic: (path) => (files().statSync(path).mode & 0o004) !== 0,
    executablePath: process.execPath,
    standalone: Bun.isStandaloneExecutable,
    cwd: process.cwd(),
    now: () => Date.now(),
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    onSignal(name, handler) {
      process.on(name, handler)
      return () => process.off(name, handler)
    },
    processes: {
      ...relatives(),
      canSharePorts: process.platform === 'linux',
      addressProblem,
      startWorker,
      startSuccessor,
      hasNewExecutable,
      usage,
      cpuMs,
      residentBytes: () => process.memoryUsage.rss(),
      unsentBytes,
    },
    async drain(timeoutMs) {
      await Promise.race([Promise.all([stdout.drained(), stderr.drained()]), Bun.sleep(timeoutMs)])
    },
  }
}

/** Set in the environment of a process that another one has started, to what it is for that one. */
const roleMark = 'SYNC_BRIDGE_ROLE'

function relatives(): Pick<Processes, 'supervisor' | 'predecessor'> {
  const role = process.send && process.env[roleMark]
  // What this process starts has a role of its own.
  delete process.env[roleMark]
  return {
    supervisor: role === 'worker' ? supervisor : null,
    predecessor: role === 'successor' ? predecessor : null,
  }
}

const supervisor: Supervisor = {
  send(message) {
    if (process.connected) process.send?.(message)
  },
  onMessage: (handler) => void process.on('message', handler),
  onLoss: (handler) => void process.on('disconnect', handler),
}

const predecessor: Predecessor = {
  announce(url) {
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
      kill() {},
    }
  }
  void child.exited.then(() =>
    started.resolve({ failure: `it ended with ${child.signalCode ?? `exit code ${child.exitCode}`}` }),
  )
  // It outlives this process.
  child.unref()
  return { pid: child.pid, started: started.promise, kill: () => child.kill('SIGKILL') }
}

// A file that takes the place of a running executable is another file.
function hasNewExecutable(): boolean {
  try {
    const { ino, dev } = files().statSync(process.execPath)
    const running = files().statSync('/proc/self/exe')
    return ino !== running.ino || dev !== running.dev
  } catch {
    return false
  }
}

async function addressProblem(address: ListeningAddress): Promise<string | null> {
  const { hostname, port } = address
  try {
    Bun.listen({ hostname, port, socket: { data() {} } }).stop(true)
    return null
  } catch (error) {
    return describeAddressError(error, address)
  }
}

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

// See proc(5), "/proc/net/tcp": addresses end in the port, and the length of the queue to send precedes a colon.
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

const maxFileBytes = 4 * 1024 * 1024

// The runtime's own streams, process.stdout and process.stderr, would double the time that a start takes.
function outputTo(
  file: BunFile,
  descriptor: 1 | 2,
  isTty: () => boolean,
): Output & { drained(): Promise<unknown> } {
  const pending = new Set<Promise<void>>()
  let sink: FileSink | null = null

  async function send(text: string): Promise<Error | null> {
    try {
      sink ??= file.writer()
      await Promise.all([sink.write(text), sink.flush()])
      return null
    } catch (error) {
      // A sink that has failed once would call everything after it a success.
      sink = null
      return error instanceof Error ? error : new Error('Cannot write')
    }
  }

  return {
    get isTty() {
      return isTty()
    },
    get isJournal() {
      return isJournal(descriptor)
    },
    write(text, written) {
      const sent = send(descriptor === 2 && isJournal(2) ? withPriorities(text) : text).then((error) => {
        pending.delete(sent)
        written?.(error)
      })
      pending.add(sent)
    },
    drained: () => Promise.all(pending),
  }
}

// The variable alone says too little: an output that was redirected is no longer the journal's; see systemd.exec(5).
function isJournal(descriptor: number): boolean {
  const { JOURNAL_STREAM } = process.env
  if (!JOURNAL_STREAM) return false
  const { dev, ino } = files().fstatSync(descriptor)
  return JOURNAL_STREAM === `${dev}:${ino}`
}

// Commands write warnings and problems to stderr, and nothing else.
function withPriorities(text: string): string {
  return text.replaceAll(/^.+$/gm, (line) => `<${line.startsWith('warning: ') ? 4 : 3}>${line}`)
}

// Who is configured by the environment alone does without it.
function files(): typeof Files {
  return require('node:fs') as typeof Files
}

// Read piece by piece, so that a device or a pipe without an end can't fill the memory.
function readFile(path: string): string {
  const { openSync, readSync, closeSync } = files()
  const file = openSync(path, 'r')
  try {
    const pieces: Uint8Array[] = []
    for (let bytes = 0; bytes <= maxFileBytes;) {
      const piece = new Uint8Array(64 * 1024)
      const length = readSync(file, piece)
      if (length === 0) return Buffer.concat(pieces).toString('utf8')
      bytes += length
      pieces.push(piece.subarray(0, length))
    }
    throw Object.assign(new Error(`Cannot read "${path}": larger than ${maxFileBytes} bytes`), {
      code: 'EFBIG',
    })
  } finally {
    closeSync(file)
  }
}
