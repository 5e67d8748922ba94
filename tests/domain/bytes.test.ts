import { describe, expect, it } from 'bun:test'
import { freeMemory, joinBytes, returnListBuffer, takeListBuffer } from '../../src/domain/bytes.ts'

describe('joinBytes', () => {
  it('joins all pieces in order, and frees the memory of large ones', () => {
    const [small, large] = [new Uint8Array(2).fill(98), new Uint8Array(10_000).fill(99)]

    const whole = joinBytes(['{"ä":"', small, '', large, '\u{1f600}"}'])

    expect(new TextDecoder().decode(whole)).toBe(`{"ä":"bb${'c'.repeat(10_000)}\u{1f600}"}`)
    expect([small.length, large.length]).toEqual([2, 0])
    expect(joinBytes([]).length).toBe(0)
  })
})

describe('freeMemory', () => {
  it('keeps the memory that other bytes share', () => {
    const buffer = new ArrayBuffer(10_000)

    freeMemory(new Uint8Array(buffer, 0, 9000))

    expect(buffer.byteLength).toBe(10_000)
  })
})

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
