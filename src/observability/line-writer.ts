/** An output that may be slow. */
interface LineSink {
  /** Takes text. `written` is called once the text has left the process, or with the error that kept it from leaving. */
  write(text: string, written: (error?: Error | null) => void): void
}

interface LineWriterOptions {
  /** Bytes given to the sink at once at most; a longer line is given by itself. */
  pieceBytes: number
  /** Called after lines were dropped, once the queue is empty, with their number. May write a line about it. */
  onRecovered(dropped: number): void
}

/** Bytes that may wait for a slow reader. */
const maxQueuedBytes = 1024 * 1024

/**
 * Writes lines to a sink that may be slow, stalled or gone, without ever blocking the caller. At most 1 MiB waits; then the
 * newest lines are dropped and counted. One text is in flight at a time, because what a stream has been given can be
 * neither counted nor taken back.
 */
export class LineWriter {
  /** Lines dropped so far, because the queue was full or the sink failed. */
  dropped = 0
  readonly #sink: LineSink
  readonly #options: LineWriterOptions
  #queue: string[] = []
  /** Of the queue and of the text in flight. */
  #bytes = 0
  #unreported = 0
  #isWriting = false
  /** Resolved when nothing is left to write; null while nobody waits for that. */
  #emptied: PromiseWithResolvers<void> | null = null

  constructor(sink: LineSink, options: LineWriterOptions) {
    this.#sink = sink
    this.#options = options
  }

  /** Appends a line, given without its line break. Never blocks and never throws; a full queue drops the line. */
  write(line: string): void {
    const bytes = Buffer.byteLength(line) + 1
    if (this.#bytes + bytes > maxQueuedBytes) return this.#drop(1)
    this.#queue.push(line)
    this.#bytes += bytes
    if (!this.#isWriting) this.#writePiece()
  }

  /** Resolves once the queue is empty; never, if the reader has stopped: race it with a timer. */
  async flush(): Promise<void> {
    if (this.#isWriting) await (this.#emptied ??= Promise.withResolvers()).promise
  }

  #writePiece(): void {
    this.#isWriting = true
    const { lines, bytes } = this.#takePiece()
    this.#sink.write(`${lines.join('\n')}\n`, (error) => {
      this.#bytes -= bytes
      if (error) this.#drop(lines.length)
      // The dropped lines came after the queued ones, so their number is reported after these.
      else if (this.#unreported > 0 && this.#queue.length === 0) this.#report()
      if (this.#queue.length > 0) return this.#writePiece()
      this.#isWriting = false
      this.#emptied?.resolve()
      this.#emptied = null
    })
  }

  #takePiece(): { lines: string[]; bytes: number } {
    let count = 0
    let bytes = 0
    while (count < this.#queue.length) {
      const added = Buffer.byteLength(this.#queue[count]!) + 1
      if (count > 0 && bytes + added > this.#options.pieceBytes) break
      bytes += added
      count += 1
    }
    const lines = this.#queue
    this.#queue = lines.splice(count)
    return { lines, bytes }
  }

  #drop(lines: number): void {
    this.dropped += lines
    this.#unreported += lines
  }

  #report(): void {
    const lines = this.#unreported
    this.#unreported = 0
    this.#options.onRecovered(lines)
  }
}
