import { describe, expect, it } from 'bun:test'
import { returnListBuffer, takeListBuffer } from '../../src/load/list-buffers.ts'

describe('the buffers of lists', () => {
  it('are used again once they are returned, and not by two lists at a time', () => {
    const first = takeListBuffer(20_000)
    returnListBuffer(first.subarray(0, 100))
    returnListBuffer(first)

    const again = takeListBuffer(20_000)
    const other = takeListBuffer(10)

    expect(again.buffer).toBe(first.buffer)
    expect(other.buffer).not.toBe(again.buffer)
  })

  it('are never bytes of others, and never too short or long', () => {
    const foreign = new Uint8Array(200_000)
    const [short, long] = [takeListBuffer(10), takeListBuffer(1_000_000)]
    for (const bytes of [foreign, short, long]) returnListBuffer(bytes)

    const taken = takeListBuffer(150_000)

    expect([foreign, short, long].map(({ buffer }) => buffer)).not.toContain(taken.buffer)
  })
})
