/** Makes texts of pieces, each time the same ones for the same seed, so that a test that failed fails again. */
export class RandomTexts {
  #state: number

  constructor(
    private readonly pieces: readonly string[],
    seed: number,
  ) {
    this.#state = seed
  }

  /** A whole number from 0 to below the given one. */
  below(end: number): number {
    // mulberry32
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % end
  }

  /** So many pieces, one after the other, at least one and at most `most`. */
  next(most: number): string {
    return Array.from(
      { length: 1 + this.below(most) },
      () => this.pieces[this.below(this.pieces.length)]!,
    ).join('')
  }
}
