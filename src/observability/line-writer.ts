/** Takes text; `written` tells when it has left the process, or why it could not. It may be called at once. */
export interface LineSink {
  write(text: string, written: (error?: Error | null) => void): void
}

export interface LineWriter {
  /** Appends a line, given without its line break. Never blocks and never throws; a full queue drops the line. */
  write(line: string): void
  /** Resolves once nothing waits any more. With a reader that has stopped reading that is never: race it with a timer. */
  flush(): Promise<void>
  /** Lines lost so far, because the queue was full or the sink refused them. */
  readonly dropped: number
}

export interface LineWriterOptions {
  /** Bytes that may wait for a slow reader. */
  maxQueuedBytes?: number
  /** Bytes that are given to the sink at once at most, but for a line that is longer; no limit when left out. */
  pieceBytes?: number
  /** Called at the first line lost after lines went well. */
  onDropping?: () => void
  /** Called when lines go well again and none waits, with the number of lines lost meanwhile; may write a line about it. */
  onRecovered?: (lost: number) => void
}

/**
 * Writes lines to a sink that may be slow, stalled or gone, without ever holding up the caller: at most
 * `maxQueuedBytes` wait, the newest lines are dropped, and the number of the dropped is kept. One text is under
 * way at a time, because what a stream has been given can be neither counted nor taken back.
 */
export function createLineWriter(sink: LineSink, options: LineWriterOptions = {}): LineWriter {
  const { maxQueuedBytes = 1024 * 1024, pieceBytes = Infinity, onDropping, onRecovered } = options
  let queue: string[] = []
  let queuedBytes = 0
  let bytesUnderWay = 0
  let busy = false
  let dropped = 0
  let unreported = 0
  const waiting: (() => void)[] = []

  function drop(lines: number): void {
    const first = unreported === 0
    dropped += lines
    unreported += lines
    if (first) onDropping?.()
  }

  function pump(): void {
    busy = true
    const lines = takePiece()
    sink.write(`${lines.join('\n')}\n`, (error) => {
      bytesUnderWay = 0
      if (error) drop(lines.length)
      // The dropped came after those that waited, so their number is told when these are out.
      else if (unreported > 0 && queue.length === 0) report()
      if (queue.length > 0) pump()
      else rest()
    })
  }

  function takePiece(): string[] {
    let count = 0
    bytesUnderWay = 0
    while (count < queue.length) {
      const bytes = Buffer.byteLength(queue[count]!) + 1
      if (count > 0 && bytesUnderWay + bytes > pieceBytes) break
      bytesUnderWay += bytes
      count += 1
    }
    queuedBytes -= bytesUnderWay
    const lines = count === queue.length ? queue : queue.slice(0, count)
    queue = count === queue.length ? [] : queue.slice(count)
    return lines
  }

  function report(): void {
    const lost = unreported
    unreported = 0
    onRecovered?.(lost)
  }

  function rest(): void {
    busy = false
    for (const resolve of waiting.splice(0)) resolve()
  }

  return {
    write(line) {
      const bytes = Buffer.byteLength(line) + 1
      if (bytesUnderWay + queuedBytes + bytes > maxQueuedBytes) return drop(1)
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
