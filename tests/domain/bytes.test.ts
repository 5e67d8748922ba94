import { describe, expect, it } from 'bun:test'
import { freeMemory, joinBytes } from '../../src/domain/bytes.ts'

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
