/** Random numbers that are the same for the same seed (mulberry32). */
export class Chance {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  /** An integer from 0 up to, but not including, `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  isTrue(probability: number): boolean {
    return this.next() < probability
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!
  }

  /** Several elements, at least one and at most `most`. */
  text(pieces: readonly string[], most: number): string {
    return Array.from({ length: 1 + this.below(most) }, () => this.of(pieces)).join('')
  }

  /** Up to `most` generated elements. */
  some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.below(most + 1) }, make)
  }
}
