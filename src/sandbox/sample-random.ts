import { createHash } from 'node:crypto'

/** Random choices that are the same each time for the same seed. */
export interface SampleRandom {
  /** An integer from 0 up to, but not including, the bound. */
  below(bound: number): number
  pick<T>(choices: readonly T[]): T
  /** A record id like those of Firefox: twelve characters of base64url. */
  id(): string
  /** Returns `length` bytes, at most 64 and never all zero. */
  bytes(length: number): Buffer
  /** Returns that many bytes as hexadecimal digits. */
  hex(bytes: number): string
  /** A GUID in lower case, without braces. */
  guid(): string
}

/** Uses SHA-512 of the seed and a counter, so that it does not depend on the platform's generator. */
export function createRandom(seed: string): SampleRandom {
  let block = Buffer.alloc(0)
  let blocks = 0
  function draw(length: number): Buffer {
    if (block.length < length) {
      block = createHash('sha512').update(`${seed} ${blocks}`).digest()
      blocks += 1
    }
    const bytes = block.subarray(0, length)
    block = block.subarray(length)
    return bytes
  }
  const below = (bound: number) => draw(6).readUIntBE(0, 6) % bound
  return {
    below,
    pick(choices) {
      const choice = choices[below(choices.length)]
      if (choice === undefined) throw new RangeError('Cannot pick a choice: there is none')
      return choice
    },
    id: () => draw(9).toString('base64url'),
    bytes(length) {
      const bytes = Buffer.from(draw(length))
      bytes[0] = (bytes[0] ?? 0) | 1
      return bytes
    },
    hex: (bytes) => draw(bytes).toString('hex'),
    guid: () =>
      draw(16)
        .toString('hex')
        .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'),
  }
}
