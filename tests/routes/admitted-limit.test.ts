import { describe, expect, it } from 'bun:test'

import { AdmittedLimit } from '../../src/routes/admitted-limit.ts'

const late = 300
/** All of a late window on a processor. */
const busy = 400

function limitOf(maxRequests = 512, maxLagMs = 100): AdmittedLimit {
  return new AdmittedLimit({ maxRequests, maxLagMs })
}

function note(limit: AdmittedLimit, windows: number, lagMs: number, busyMs: number | null): number {
  for (let count = 0; count < windows; count++) limit.note(lagMs, busyMs)
  return limit.value
}

describe('AdmittedLimit', () => {
  it('is what was configured while the event loop is on time', () => {
    expect(note(limitOf(), 1000, 100, 200)).toBe(512)
  })

  it('takes a single stall, however long, for no overload', () => {
    const limit = limitOf()

    for (let count = 0; count < 20; count++) {
      limit.note(2000, 2100)
      limit.note(0, 10)
    }

    expect(limit.value).toBe(512)
    expect(limit.isLowered).toBe(false)
  })

  it('shrinks to seven tenths in each late window after the first, but not below 64', () => {
    const limit = limitOf()

    const values = Array.from({ length: 9 }, () => note(limit, 1, late, busy))

    expect(values).toEqual([512, 358, 250, 175, 122, 85, 64, 64, 64])
    expect(limit.isLowered).toBe(true)
  })

  it('is whole again after five seconds on time', () => {
    const limit = limitOf()
    note(limit, 20, late, busy)

    expect(note(limit, 48, 10, 100)).toBeLessThan(512)
    expect(note(limit, 2, 10, 100)).toBe(512)
  })

  it('does not shrink when others had the processor', () => {
    expect(note(limitOf(), 50, late, busy / 2 - 1)).toBe(512)
    expect(note(limitOf(), 50, late, null)).toBe(512)
  })

  it('does not shrink when the lag is no matter', () => {
    expect(note(limitOf(512, 0), 50, late, busy)).toBe(512)
  })

  it('does not rise above a small configured limit, nor fall below it', () => {
    const limit = limitOf(3)

    expect(note(limit, 50, late, busy)).toBe(3)
    expect(note(limit, 50, 0, 0)).toBe(3)
  })
})
