import { describe, expect, it } from 'bun:test'

import { reconnectDelayMs } from '../../src/credentials/redis-connection.ts'

describe('reconnectDelayMs', () => {
  it('doubles from 50 ms to 2 s and stays there for ever', () => {
    const delays = [0, 1, 2, 3, 4, 5, 6, 7, 1000, 1e6].map((failures) => reconnectDelayMs(failures, 0))

    expect(delays).toEqual([50, 100, 200, 400, 800, 1600, 2000, 2000, 2000, 2000])
  })

  it('is shortened by up to a quarter', () => {
    expect(reconnectDelayMs(1000, 0.5)).toBe(1750)
    expect(reconnectDelayMs(0, 1)).toBe(37.5)
  })
})
