import { fstatSync, readFileSync } from 'node:fs'
import { createLog, type Log } from '../observability/log.ts'
import { ClientError } from '../client/errors.ts'
import type { Settings } from '../settings/settings.ts'

/** An output stream of a command. Writing never throws and never blocks. */
export interface Output {
  /** Resolves once the text has left the process: to null, or the error. */
  write(text: string): Promise<Error | null>
  isTty: boolean
  /** Whether the systemd journal reads it. */
  isJournal: boolean
}

/** Wraps stdout or stderr. `drained` resolves once everything written has left the process. */
export function outputTo(stream: NodeJS.WriteStream & { fd: number }) {
  // Each write reports its own error; without a listener, the first one would end the process.
  stream.on('error', () => {})
  const isJournal = isReadByJournal(stream.fd)
  const isForProblems = stream === process.stderr
  const closed = isClosed(stream.fd) ? Object.assign(new Error('it is closed'), { code: 'EBADF' }) : null
  let last: Promise<Error | null> = Promise.resolve(closed)
  return {
    isTty: stream.isTTY,
    isJournal,
    write(text: string) {
      if (closed) return last
      const shown = isForProblems && isJournal ? withPriorities(text) : text
      last = new Promise((resolve) => stream.write(shown, (error) => resolve(error ?? null)))
      return last
    },
    drained: () => last,
  }
}

/** Writes data to stdout; false if its reader has closed. Rejects with `ClientError` on other errors. */
export async function writeOut({ stdout }: { stdout: Output }, text: string): Promise<boolean> {
  const error: (Error & { code?: unknown }) | null = await stdout.write(text)
  if (error === null) return true
  if (error.code === 'EPIPE') return false
  throw new ClientError(`Cannot write to standard output: ${String(error.code ?? error.message)}`)
}

/** Characters that wait for a slow reader. */
const maxWaiting = 64 * 1024 * 1024

/**
 * Writes data to stdout, so that the source rarely waits for a slow reader: a storage ends a list that pauses for a minute. Beyond 64 million
 * waiting characters, the source waits.
 */
export function createOutputQueue(host: { stdout: Output }, max = maxWaiting) {
  let last: Promise<void> = Promise.resolve()
  let waiting = 0
  let hasReader = true
  return {
    /** Resolves to whether the reader still wants more. */
    async write(text: string): Promise<boolean> {
      waiting += text.length
      last = last.then(async () => {
        hasReader &&= await writeOut(host, text)
        waiting -= text.length
      })
      // Thrown by `finish`.
      last.catch(() => (hasReader = false))
      if (waiting > max) await last.catch(() => {})
      return hasReader
    },
    /** Resolves once everything is written, to whether the reader took it. Rejects with `ClientError`. */
    async finish(): Promise<boolean> {
      await last
      return hasReader
    },
  }
}

/** The same for all that a command does; returns its exit code. A closed reader is no failure. */
export async function print(host: { stdout: Output }, text: string): Promise<number> {
  await writeOut(host, text)
  return 0
}

/**
 * Whether a stream was closed when the program started (`>&-`): the runtime then opens /dev/null in its place, which would take everything.
 * Only such a descriptor has the flag that closes it in child programs. Only Linux says so.
 */
function isClosed(descriptor: number): boolean {
  try {
    const [, flags] =
      /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1')) ?? []
    return (parseInt(flags ?? '0', 8) & closeOnExec) !== 0
  } catch {
    return false
  }
}

/** O_CLOEXEC of Linux. */
const closeOnExec = 0o2000000

// The variable alone is not enough, because it stays set after a redirection; see systemd.exec(5).
function isReadByJournal(descriptor: number): boolean {
  const { JOURNAL_STREAM } = process.env
  if (!JOURNAL_STREAM) return false
  const { dev, ino } = fstatSync(descriptor)
  return JOURNAL_STREAM === `${dev}:${ino}`
}

// Commands write only warnings and problems to stderr.
function withPriorities(text: string): string {
  return text.replaceAll(/^.+$/gm, (line) => `<${line.startsWith('warning: ') ? 4 : 3}>${line}`)
}

export type OutputLog = ReturnType<typeof createOutputLog>

/**
 * The log on an output; a slow or closed reader never delays the service. `flush` resolves once all lines are written, or after half a
 * second; `dropped` returns the number of lost lines.
 */
export function createOutputLog(
  settings: Settings,
  host: { now(): number; environment: Record<string, string | undefined> },
  output: Output,
) {
  const writer = createLineWriter(output, (lines) => log.warning('log lines dropped', { lines }))
  const log: Log = createLog({
    renderer: settings.loggingRenderer,
    level: settings.loggingLevel,
    write: writer.write,
    now: host.now,
    // See no-color.org.
    colour: output.isTty && !host.environment.NO_COLOR,
    priorities: output.isJournal,
  })
  return { log, flush: () => Promise.race([writer.flush(), Bun.sleep(500)]), dropped: writer.dropped }
}

// The maximum of an atomic write to a pipe, so that lines of several processes never mix; see pipe(7), PIPE_BUF.
const pieceBytes = 4096
/** Bytes that may wait for a slow reader. */
const maxQueuedBytes = 1024 * 1024

/**
 * Writes lines to an output without ever blocking the caller. Queues at most 1 MiB for a slow reader; then drops and counts the newest
 * lines. Only one write is in flight, because data given to a stream can't be counted or taken back. After lines were dropped,
 * `onRecovered` is called with their number once the queue is empty; it may write a line.
 */
export function createLineWriter(output: Pick<Output, 'write'>, onRecovered: (dropped: number) => void) {
  const queue: string[] = []
  /** Of the queue and the write in flight. */
  let queuedBytes = 0
  let dropped = 0
  let reported = 0
  /** Whether the last write failed. */
  let hasFailed = false
  /** Resolves when the queue is empty. */
  let writing: Promise<void> | null = null

  async function writeAll(): Promise<void> {
    while (queue.length > 0) {
      let bytes = 0
      const over = queue.findIndex((line) => (bytes += Buffer.byteLength(line) + 1) > pieceBytes)
      const lines = queue.splice(0, over === -1 ? queue.length : Math.max(over, 1))
      const text = `${lines.join('\n')}\n`
      // A full disk may have taken the start of a line, which must not join this one.
      const error = await output.write(hasFailed ? `\n${text}` : text)
      hasFailed = error !== null
      queuedBytes -= Buffer.byteLength(text)
      if (error) dropped += lines.length
      else if (queue.length === 0 && dropped > reported) {
        // Dropped lines came after the queued ones, so their number is reported after these.
        const lost = dropped - reported
        reported = dropped
        onRecovered(lost)
      }
    }
    writing = null
  }

  return {
    /** Appends a line, given without a line break. Never throws; drops the line if the queue is full. */
    write(line: string): void {
      const bytes = Buffer.byteLength(line) + 1
      if (queuedBytes + bytes > maxQueuedBytes) {
        dropped += 1
        return
      }
      queue.push(line)
      queuedBytes += bytes
      writing ??= writeAll()
    },
    /** Resolves once the queue is empty; never if the reader has stalled, so race it with a timer. */
    flush: async () => void (await writing),
    /** The number of dropped lines. */
    dropped: () => dropped,
  }
}
