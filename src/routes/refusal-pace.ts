/** How many refusals may always go out in one window. */
const leastPerWindow = 100
/** How many go out for each request that was admitted. */
const share = 0.25
/** How many wait at most; what comes on top goes out at once. */
const maxWaiting = 4096

/**
 * Refuses a quarter as many as are admitted, or a thousand a second, and lets the others wait: clients that ask again
 * as soon as they are refused can't take the time that the admitted requests need. HTTP knows no other way to slow down
 * somebody who sends than to answer later.
 */
export class RefusalPace {
  #left = leastPerWindow
  readonly #waiting: (() => void)[] = []

  /** Refusals that wait. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Null: refuse at once. Else a promise that resolves when it is time to. */
  turn(): Promise<void> | null {
    if (this.#left > 0) {
      this.#left -= 1
      return null
    }
    if (this.#waiting.length >= maxWaiting) return null
    return new Promise((resolve) => void this.#waiting.push(resolve))
  }

  /**
   * A new window begins, after one in which so many were admitted; infinitely many where there was room for all. Those
   * who have waited longest go first.
   */
  beginWindow(admitted: number): void {
    const turns = Math.max(leastPerWindow, Math.floor(share * admitted))
    const released = this.#waiting.splice(0, turns)
    this.#left = turns - released.length
    for (const release of released) release()
  }
}
