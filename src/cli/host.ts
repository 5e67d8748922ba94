import { edenGC } from 'bun:jsc'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { fetchSlotsOf } from './service/runtime-environment.ts'
import { outputTo, type Output } from './output.ts'
import { realProcesses, type Processes } from './service/processes.ts'
import type { BridgeHost } from '../service/services.ts'

/** The operating system, as commands use it; tests replace it. */
export interface Host extends BridgeHost {
  stdin: Input
  stdout: Output
  stderr: Output
  environment: Record<string, string | undefined>
  /** Reads a file of at most 4 MiB; throws an error with the `code` of the operating system. */
  readFile(path: string): string
  /** Who may read a file besides its owner; null: no one. */
  otherReaders(path: string): 'every user' | 'its group' | null
  /** Path of this executable; of the runtime if run from source. */
  executablePath: string
  /** Whether this is the built executable. */
  standalone: boolean
  cwd: string
  /** Variables that added trusted certificates before this program started, which can't be undone. */
  trusting?: string[]
  /** The variables of proxies that were removed from the environment. */
  proxies?: Record<string, string | undefined>
  /** Handles a signal, which then no longer ends the process. */
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP', handler: () => void): void
  /** Related processes; absent in tests without processes. */
  processes?: Processes
}

/** Standard input. */
interface Input {
  readonly isTty: boolean
  /** Reads it to its end. */
  chunks(): AsyncIterable<Uint8Array>
}

/** The real operating system: this process, its files and its signals. */
export function processHost() {
  const stdout = outputTo(process.stdout)
  const stderr = outputTo(process.stderr)
  const host: Host = {
    stdin,
    stdout,
    stderr,
    environment: process.env,
    readFile,
    otherReaders(path) {
      const { mode } = statSync(path)
      return mode & 0o004 ? 'every user' : mode & 0o040 ? 'its group' : null
    },
    executablePath: process.execPath,
    standalone: Bun.isStandaloneExecutable,
    cwd: process.cwd(),
    now: () => Date.now(),
    monotonicNow: () => performance.now(),
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    onSignal: (name, handler) => void process.on(name, handler),
    fetchSlots: fetchSlotsOf(process.env),
    cpuMs() {
      const { user, system } = process.cpuUsage()
      return (user + system) / 1000
    },
    residentBytes: lastKnown(() => process.memoryUsage.rss()),
    heapBytes: lastKnown(() => process.memoryUsage().heapUsed),
    processes: realProcesses(),
  }
  /** Resolves once everything written has left the process, or after the timeout. */
  const drain = async (timeoutMs: number) => {
    await Promise.race([Promise.all([stdout.drained(), stderr.drained()]), Bun.sleep(timeoutMs)])
  }
  return { ...host, drain }
}

/**
 * Collects recent garbage, in a few milliseconds. The runtime would wait until there is as much garbage as data, which doubles the memory
 * of a large export.
 */
export function collectYoungGarbage(): void {
  edenGC()
}

const stdin: Input = {
  // The runtime opens it when it is first accessed.
  get isTty() {
    return process.stdin.isTTY
  },
  chunks: () => Bun.stdin.stream(),
}

/** The last known value: the runtime reads it from a file, which fails if the process has too many files open. */
function lastKnown(read: () => number): () => number {
  let known = 0
  return () => {
    try {
      known = read()
    } catch {
      // Keeps the last value until a file can be opened again.
    }
    return known
  }
}

const maxFileBytes = 4 * 1024 * 1024
// Linux refuses to read /proc/sys into a 4 MB buffer at once.
const readBytes = 65_536

// Reads into a buffer of fixed size, so that an endless device or pipe can't fill the memory.
function readFile(path: string): string {
  const file = openSync(path, 'r')
  try {
    const buffer = Buffer.alloc(maxFileBytes + 1)
    let length = 0
    for (let read = -1; read !== 0; length += read) {
      read = readSync(file, buffer, length, Math.min(readBytes, buffer.length - length), null)
    }
    if (length <= maxFileBytes) return buffer.toString('utf8', 0, length)
    throw Object.assign(new Error(`Cannot read "${path}": too large`), { code: 'EFBIG' })
  } finally {
    closeSync(file)
  }
}
