import { files, realProcesses } from './processes.ts'

import type { BunFile, FileSink } from 'bun'
import type { BridgeHost } from '../service/services.ts'
import type { Processes } from './processes.ts'

/** The operating system as a command sees it, so that tests can replace it. */
export interface Host extends BridgeHost {
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
  /** Calls the handler at every such signal too, which then no longer ends the process. */
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP' | 'SIGUSR2', handler: () => void): void
  /** This process among others; absent in a test without processes. */
  processes?: Processes
}

/** A stream that a command writes to. Writing never throws and never blocks, and a reader that has left is no error. */
export interface Output {
  /** `written` is called once the text has left the process, or with the error that kept it from leaving. */
  write(text: string, written?: (error?: Error | null) => void): void
  isTty: boolean
  /** Whether the journal of systemd reads it. */
  isJournal: boolean
}

/** The real operating system, and `drain`, which resolves once everything written has left the process. */
type ProcessHost = Host & { drain(timeoutMs: number): Promise<void> }

/** The real operating system: this process, its files and its signals. */
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
    monotonicNow: () => performance.now(),
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    onSignal: (name, handler) => void process.on(name, handler),
    processes: realProcesses(),
    async drain(timeoutMs) {
      await Promise.race([Promise.all([stdout.drained(), stderr.drained()]), Bun.sleep(timeoutMs)])
    },
  }
}

const maxFileBytes = 4 * 1024 * 1024

// The runtime's own process.stdout and process.stderr would double the time of a start.
function outputTo(
  file: BunFile,
  descriptor: 1 | 2,
  isTty: () => boolean,
): Output & { drained(): Promise<unknown> } {
  const pending = new Set<Promise<void>>()
  let sink: FileSink | null = null

  function send(text: string): Error | null | Promise<Error | null> {
    try {
      sink ??= file.writer()
      const steps = [sink.write(text), sink.flush()]
      // Numbers tell that the system has taken the text, as it does while its reader keeps up.
      return steps.some((step) => step instanceof Promise) ? Promise.all(steps).then(() => null, fail) : null
    } catch (error) {
      return fail(error)
    }
  }

  function fail(error: unknown): Error {
    // After an error a sink reports every later write as a success, so it is replaced.
    sink = null
    return error instanceof Error ? error : new Error('Cannot write')
  }

  return {
    get isTty() {
      return isTty()
    },
    get isJournal() {
      return isJournal(descriptor)
    },
    write(text, written) {
      const outcome = send(descriptor === 2 && isJournal(2) ? withPriorities(text) : text)
      if (!(outcome instanceof Promise)) return written?.(outcome)
      const sent = outcome.then((error) => {
        pending.delete(sent)
        written?.(error)
      })
      pending.add(sent)
    },
    drained: () => Promise.all(pending),
  }
}

// The variable alone is not enough: it stays set when an output is redirected away from the journal; see systemd.exec(5).
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

// Read in pieces, so that a device or a pipe without an end can't fill the memory.
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
