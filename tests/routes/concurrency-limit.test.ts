import { describe, expect, it } from 'bun:test'

import { AdaptiveConcurrencyLimit, RejectionThrottle } from '../../src/routes/concurrency-limit.ts'

const late = 300
/** All of a late window on a processor. */
const busy = 400

function limitOf(maxRequests = 512, maxLagMs = 100): AdaptiveConcurrencyLimit {
  return new AdaptiveConcurrencyLimit({ maxRequests, maxLagMs })
}

function note(
  limit: AdaptiveConcurrencyLimit,
  windows: number,
  lagMs: number,
  busyMs: number | null,
): number {
  for (let count = 0; count < windows; count++) limit.note(lagMs, busyMs)
  return limit.value
}

describe('AdaptiveConcurrencyLimit', () => {
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

/** So many turns asked for: how many of them were given at once, and in what order the others came. */
function ask(throttle: RejectionThrottle, turns: number) {
  const released: number[] = []
  let atOnce = 0
  for (let index = 0; index < turns; index++) {
    const turn = throttle.turn()
    if (turn === null) atOnce += 1
    else void turn.then(() => released.push(index))
  }
  return { atOnce, released }
}

describe('RejectionThrottle', () => {
  it('lets 100 rejections go at once, and the next ones in the following windows, in their order', async () => {
    const throttle = new RejectionThrottle()

    const { atOnce, released } = ask(throttle, 250)

    expect(atOnce).toBe(100)
    throttle.beginWindow(0)
    await Promise.resolve()
    expect(released).toEqual(Array.from({ length: 100 }, (_, index) => 100 + index))
    expect(ask(throttle, 1)).toMatchObject({ atOnce: 0 })
    throttle.beginWindow(0)
    await Promise.resolve()
    expect(released).toHaveLength(150)
  })

  it('gives what those who waited have left to those who come', () => {
    const throttle = new RejectionThrottle()
    ask(throttle, 130)

    throttle.beginWindow(0)

    expect(ask(throttle, 300).atOnce).toBe(70)
  })

  it('lets a quarter as many go as were admitted, when that is more', () => {
    const throttle = new RejectionThrottle()

    throttle.beginWindow(803)

    expect(ask(throttle, 1000).atOnce).toBe(200)
  })

  it('saves nothing for later', () => {
    const throttle = new RejectionThrottle()

    for (let count = 0; count < 10; count++) throttle.beginWindow(0)

    expect(ask(throttle, 300).atOnce).toBe(100)
  })

  it('keeps 4096 waiting at most', () => {
    const throttle = new RejectionThrottle()

    expect(ask(throttle, 5000).atOnce).toBe(5000 - 4096)
  })
})
