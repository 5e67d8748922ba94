import type { Host } from '../host.ts'

const everyMs = 200

/** A progress line on a terminal; nothing if stderr is not a terminal. */
export class Progress {
  #shownAtMs = -Infinity
  #isShown = false

  constructor(private readonly host: Host) {}

  /** Replaces the line, a few times a second at most. */
  show(text: string): void {
    const { stderr, monotonicNow } = this.host
    if (!stderr.isTty || monotonicNow() - this.#shownAtMs < everyMs) return
    this.#shownAtMs = monotonicNow()
    this.#isShown = true
    stderr.write(`\r\u001b[K${text}`)
  }

  /** Removes the line before other output. */
  clear(): void {
    if (this.#isShown) this.host.stderr.write('\r\u001b[K')
    this.#isShown = false
  }
}
