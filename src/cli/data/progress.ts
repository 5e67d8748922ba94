import type { Host } from '../host.ts'

const everyMs = 200

/** A line on a terminal that says how far a command is; nothing where the standard error is none. */
export class Progress {
  #shownAtMs = -Infinity
  #isShown = false

  constructor(private readonly host: Host) {}

  /** Shows a line in the place of the last one, a few times a second at most. */
  show(text: string): void {
    const { stderr, monotonicNow } = this.host
    if (!stderr.isTty || monotonicNow() - this.#shownAtMs < everyMs) return
    this.#shownAtMs = monotonicNow()
    this.#isShown = true
    stderr.write(`\r\u001b[K${text}`)
  }

  /** Removes the line, before anything else is written. */
  clear(): void {
    if (this.#isShown) this.host.stderr.write('\r\u001b[K')
    this.#isShown = false
  }
}
