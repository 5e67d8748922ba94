import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readSync, statSync } from 'node:fs'

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
  onSignal(name: 'SIGTERM' | 'SIGINT' | 'SIGHUP', handler: () => void): () => void
}

/** A stream that a command writes to. Writing never throws, never blocks, and a reader that is gone is no error. */
export interface Output {
  /** `written` is called once the text has left the process, or with the error that kept it from leaving. */
  write(text: string, written?: (error?: Error | null) => void): void
  isTty: boolean
}

/** The real world, and a way to leave it: `drain` resolves once what was written has left the process. */
export type ProcessHost = Host & { drain(timeoutMs: number): Promise<void> }

/** The real world: this process, its files and its signals. */
export function processHost(): ProcessHost {
  const stdout = outputTo(process.stdout)
  const stderr = outputTo(process.stderr)
  return {
    stdout,
    stderr,
    environment: process.env,
    readFile,
    isPublic: (path) => (statSync(path).mode & 0o004) !== 0,
    executablePath: process.execPath,
    standalone: Bun.isStandaloneExecutable,
    cwd: process.cwd(),
    now: () => Date.now(),
    randomBytes: (length) => new Uint8Array(randomBytes(length)),
    onSignal(name, handler) {
      process.on(name, handler)
      return () => process.off(name, handler)
    },
    async drain(timeoutMs) {
      await Promise.race([Promise.all([stdout.drained(), stderr.drained()]), Bun.sleep(timeoutMs)])
    },
  }
}

const maxFileBytes = 4 * 1024 * 1024

function outputTo(stream: NodeJS.WriteStream): Output & { drained(): Promise<unknown> } {
  const pending = new Set<Promise<void>>()
  // Without a handler a reader that goes away ends the process.
  stream.on('error', () => {})
  return {
    isTty: stream.isTTY === true,
    write(text, written) {
      const { promise, resolve } = Promise.withResolvers<void>()
      pending.add(promise)
      stream.write(text, (error) => {
        pending.delete(promise)
        resolve()
        written?.(error)
      })
    },
    drained: () => Promise.all(pending),
  }
}

// Read piece by piece, so that a device or a pipe without an end can't fill the memory.
function readFile(path: string): string {
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
