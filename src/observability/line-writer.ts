/** An output that may be slow. */
interface LineSink {
  /** Takes text. `written` is called once the text has left the process, or with the error that kept it from leaving. */
  write(text: string, written: (error?: Error | null) => void): void
}

interface LineWriter {
  /** Appends a line, given without its line break. Never blocks and never throws; a full queue drops the line. */
  write(line: string): void
  /** Resolves once the queue is empty; never, if the reader has stopped: race it with a timer. */
  flush(): Promise<void>
  /** Lines dropped so far, because the queue was full or the sink failed. */
  readonly dropped: number
}

interface LineWriterOptions {
  /** Bytes given to the sink at once at most; a longer line is given by itself. Without it there is no limit. */
  pieceBytes?: number
  /** Called after lines were dropped, once the queue is empty, with their number. May write a line about it. */
  onRecovered?: (dropped: number) => void
}

/** Bytes that may wait for a slow reader. */
const maxQueuedBytes = 1024 * 1024

/**
 * Writes lines to a sink that may be slow, stalled or gone, without ever blocking the caller. At most 1 MiB waits; then the
 * newest lines are dropped and counted. One text is in flight at a time, because what a stream has been given can be
 * neither counted nor taken back.
 */
export function createLineWriter(
  sink: LineSink,
  { pieceBytes = Infinity, onRecovered }: LineWriterOptions = {},
): LineWriter {
  let queue: string[] = []
  let queuedBytes = 0
  let bytesInFlight = 0
  let busy = false
  let dropped = 0
  let unreported = 0
  const waiting: (() => void)[] = []

  function drop(lines: number): void {
    dropped += lines
    unreported += lines
  }

  function pump(): void {
    busy = true
    const lines = takePiece()
    sink.write(`${lines.join('\n')}\n`, (error) => {
      bytesInFlight = 0
      if (error) drop(lines.length)
      // The dropped lines came after the queued ones, so their number is reported after these.
      else if (unreported > 0 && queue.length === 0) report()
      if (queue.length > 0) pump()
      else rest()
    })
  }

  function takePiece(): string[] {
    let count = 0
    bytesInFlight = 0
    while (count < queue.length) {
      const bytes = Buffer.byteLength(queue[count]!) + 1
      if (count > 0 && bytesInFlight + bytes > pieceBytes) break
      bytesInFlight += bytes
      count += 1
    }
    queuedBytes -= bytesInFlight
    const lines = count === queue.length ? queue : queue.slice(0, count)
    queue = count === queue.length ? [] : queue.slice(count)
    return lines
  }

  function report(): void {
    const lines = unreported
    unreported = 0
    onRecovered?.(lines)
  }

  function rest(): void {
    busy = false
    for (const resolve of waiting.splice(0)) resolve()
  }

  return {
    write(line) {
      const bytes = Buffer.byteLength(line) + 1
      if (bytesInFlight + queuedBytes + bytes > maxQueuedBytes) return drop(1)
      queue.push(line)
      queuedBytes += bytes
      if (!busy) pump()
    },
    flush() {
      const { promise, resolve } = Promise.withResolvers<void>()
      if (busy) waiting.push(resolve)
      else resolve()
      return promise
    },
    get dropped() {
      return dropped
    },
  }
}
