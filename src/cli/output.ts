import { fstatSync } from 'node:fs'
import { createLog, type Log } from '../observability/log.ts'
import type { Settings } from '../settings/settings.ts'

/** A stream that a command writes to. Writing never throws and never blocks. */
export interface Output {
  /** Resolves once the text has left the process, to null or to the error that kept it from leaving. */
  write(text: string): Promise<Error | null>
  isTty: boolean
  /** Whether the journal of systemd reads it. */
  isJournal: boolean
}

/** The standard output or the standard error of this process. `drained` resolves once everything written has left it. */
export function outputTo(stream: NodeJS.WriteStream & { fd: number }) {
  // Every write tells its own error; without a listener the first one would end the process.
  stream.on('error', () => {})
  const isJournal = isReadByJournal(stream.fd)
  const isForProblems = stream === process.stderr
  let last: Promise<Error | null> = Promise.resolve(null)
  return {
    isTty: stream.isTTY,
    isJournal,
    write(text: string) {
      const shown = isForProblems && isJournal ? withPriorities(text) : text
      last = new Promise((resolve) => stream.write(shown, (error) => resolve(error ?? null)))
      return last
    },
    drained: () => last,
  }
}

// The variable alone is not enough: it stays set when an output is redirected away from the journal; see systemd.exec(5).
function isReadByJournal(descriptor: number): boolean {
  const { JOURNAL_STREAM } = process.env
  if (!JOURNAL_STREAM) return false
  const { dev, ino } = fstatSync(descriptor)
  return JOURNAL_STREAM === `${dev}:${ino}`
}

// Commands write warnings and problems to stderr, and nothing else.
function withPriorities(text: string): string {
  return text.replaceAll(/^.+$/gm, (line) => `<${line.startsWith('warning: ') ? 4 : 3}>${line}`)
}

export type OutputLog = ReturnType<typeof createOutputLog>

/**
 * The log on an output; a reader that stalls or leaves never delays the service. `flush` resolves once all lines are out, or
 * after half a second; `dropped` tells how many were lost so far.
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

// The most that a pipe takes in one piece, so that lines of several processes are never mixed; see pipe(7), PIPE_BUF.
const pieceBytes = 4096
/** Bytes that may wait for a slow reader. */
const maxQueuedBytes = 1024 * 1024

/**
 * Writes lines to an output whose reader may be slow, stalled or gone, without ever blocking the caller. At most 1 MiB waits;
 * then the newest lines are dropped and counted. One text is in flight at a time, because what a stream has been given can be
 * neither counted nor taken back. `onRecovered` is called after lines were dropped, once the queue is empty, with their number. It
 * may write a line.
 */
export function createLineWriter(output: Pick<Output, 'write'>, onRecovered: (dropped: number) => void) {
  const queue: string[] = []
  /** Of the queue and of the text in flight. */
  let queuedBytes = 0
  let dropped = 0
  let reported = 0
  /** Ends when nothing is left to write. */
  let writing: Promise<void> | null = null

  async function writeAll(): Promise<void> {
    while (queue.length > 0) {
      let bytes = 0
      const over = queue.findIndex((line) => (bytes += Buffer.byteLength(line) + 1) > pieceBytes)
      const lines = queue.splice(0, over === -1 ? queue.length : Math.max(over, 1))
      const text = `${lines.join('\n')}\n`
      const error = await output.write(text)
      queuedBytes -= Buffer.byteLength(text)
      if (error) dropped += lines.length
      else if (queue.length === 0 && dropped > reported) {
        // The dropped lines came after the queued ones, so their number is reported after these.
        const lost = dropped - reported
        reported = dropped
        onRecovered(lost)
      }
    }
    writing = null
  }

  return {
    /** Appends a line, given without its line break. Never throws; a full queue drops the line. */
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
    /** Resolves once the queue is empty; never, if the reader has stopped: race it with a timer. */
    flush: async () => void (await writing),
    /** Lines dropped so far, because the queue was full or could not be written. */
    dropped: () => dropped,
  }
}
