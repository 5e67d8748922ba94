import { describe, expect, it } from 'bun:test'

import { AdaptiveConcurrencyLimit, RejectionThrottle } from '../../src/routes/load-shedding.ts'
import { createLoadClock } from '../support/load-clock.ts'

import type { Release } from '../../src/routes/load-shedding.ts'
import type { LoadClock } from '../support/load-clock.ts'

/** A request, or a batch of so many, that comes in: its permit, or null when it is rejected. */
function arrive({ load }: LoadClock, user = 'somebody', requests = 1): Release | null {
  if (!load.isFull) return load.acquire(user, requests)
  void load.reject()
  return null
}

/** So many requests, each of a user of its own unless told otherwise; the permits of those that were admitted. */
function crowd(clock: LoadClock, count: number, user?: string): Release[] {
  const permits = Array.from({ length: count }, (_, index) => arrive(clock, user ?? `user ${index}`))
  return permits.filter((permit) => permit !== null)
}

function leave(permits: Release[]): void {
  for (const release of permits) release()
}

describe('LoadShedder', () => {
  it('admits as many as are configured, and the next one when one of them is answered', () => {
    const clock = createLoadClock()

    const permits = crowd(clock, 150)

    expect(permits).toHaveLength(100)
    expect(clock.rejections).toMatchObject({ limit: 50, lag: 0, user: 0 })
    leave(permits.slice(0, 1))
    expect(crowd(clock, 2)).toHaveLength(1)
  })

  it('takes a permit that is released twice for one', () => {
    const clock = createLoadClock()
    const [first] = crowd(clock, 100)

    leave([first!, first!])

    expect(crowd(clock, 2)).toHaveLength(1)
  })

  it('rejects whoever gets no permit although there seemed to be room before', () => {
    const { load, rejections } = createLoadClock()
    const admitted = Array.from({ length: 150 }, (_, index) => load.acquire(`user ${index}`))

    expect(admitted.filter((permit) => permit !== null)).toHaveLength(100)
    expect(rejections.limit).toBe(50)
  })

  describe('a batch', () => {
    it('weighs as much as all its requests, until it ends', () => {
      const clock = createLoadClock()
      const batch = arrive(clock, 'somebody', 25)!

      const permits = crowd(clock, 100)
      expect(permits).toHaveLength(75)
      leave([batch, batch])
      expect(crowd(clock, 100)).toHaveLength(25)
    })

    it('is rejected when that is too much, and then it weighs nothing', () => {
      const clock = createLoadClock()
      crowd(clock, 79)

      expect(arrive(clock, 'somebody', 22)).toBeNull()

      expect(clock.rejections.limit).toBe(1)
      expect(crowd(clock, 100)).toHaveLength(21)
    })

    it('is never kept out while it is alone, however large', () => {
      const clock = createLoadClock({ maxRequests: 10 })

      expect(arrive(clock, 'somebody', 1000)).not.toBeNull()
      expect(arrive(clock)).toBeNull()
    })

    it('weighs as much as one request when it is empty', () => {
      const clock = createLoadClock()

      expect(arrive(clock, 'somebody', 0)).not.toBeNull()

      expect(crowd(clock, 200)).toHaveLength(99)
    })
  })

  describe('one user', () => {
    /** Another user has been there shortly before. */
    const passBy = (clock: LoadClock) => leave(crowd(clock, 1, 'a passer-by'))

    it('may have everything while there is no other', () => {
      const clock = createLoadClock()

      expect(crowd(clock, 100, 'only')).toHaveLength(100)
      expect(clock.rejections).toMatchObject({ limit: 0, lag: 0, user: 0 })
    })

    it('gets a share as soon as another was turned away, and everything again after a minute alone', () => {
      const clock = createLoadClock()
      const all = crowd(clock, 100, 'only')

      expect(arrive(clock, 'newcomer')).toBeNull()
      leave(all.slice(0, 10))
      expect(arrive(clock, 'only')).toBeNull()
      expect(arrive(clock, 'newcomer')).not.toBeNull()
      clock.pass(700)
      leave(all)
      expect(crowd(clock, 100, 'only')).toHaveLength(79)
      clock.pass(700)
      expect(crowd(clock, 19, 'only')).toHaveLength(19)
    })

    it('may have everything while four fifths are not taken', () => {
      const clock = createLoadClock()
      passBy(clock)

      expect(crowd(clock, 100, 'greedy')).toHaveLength(80)
      expect(clock.rejections).toMatchObject({ limit: 0, lag: 0, user: 20 })
    })

    it('leaves the last fifth to those who have less than their share', () => {
      const clock = createLoadClock()
      passBy(clock)
      crowd(clock, 100, 'greedy')

      expect(crowd(clock, 50, 'another')).toHaveLength(8)
      expect(arrive(clock, 'third')).not.toBeNull()
    })

    it('is counted right from the moment on that it gets crowded', () => {
      const clock = createLoadClock()
      const early = crowd(clock, 7, 'steady')
      crowd(clock, 80)

      expect(arrive(clock, 'steady')).not.toBeNull()
      expect(arrive(clock, 'steady')).toBeNull()
      leave(early.slice(0, 1))
      expect(arrive(clock, 'steady')).not.toBeNull()
    })

    it('has no limit when there is to be none', () => {
      const clock = createLoadClock({ maxRequestsOfUser: 0 })

      expect(crowd(clock, 200, 'greedy')).toHaveLength(100)
      expect(clock.rejections).toMatchObject({ limit: 100, lag: 0, user: 0 })
    })

    it('is forgotten when all that was under way has ended, however often that is said', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 50; round++) {
        const permits = crowd(clock, 60, `user ${round}`)
        leave(permits)
        for (const release of permits) release()
      }

      expect(crowd(clock, 200)).toHaveLength(100)
    })
  })

  describe('backoffSeconds', () => {
    it('is 30 when four fifths were exceeded for five seconds, and 0 as soon as they are not', () => {
      const clock = createLoadClock()
      const permits = crowd(clock, 81)

      clock.pass(49)
      expect(clock.load.backoffSeconds).toBe(0)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(30)

      leave(permits)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(30)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('stays 0 at four fifths', () => {
      const clock = createLoadClock()
      crowd(clock, 79)
      clock.pass(100)

      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('begins anew after a pause', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 5; round++) {
        const permits = crowd(clock, 100)
        clock.pass(40)
        leave(permits)
        clock.pass(2)
      }

      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('is 30 when each moment is short but they follow one another closely', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 51; round++) {
        leave(crowd(clock, 90))
        clock.pass(1)
      }

      expect(clock.load.backoffSeconds).toBe(30)
    })
  })

  describe('a late event loop', () => {
    it('admits less, and says why', () => {
      const clock = createLoadClock()

      clock.pass(4, 300)

      expect(clock.load.limit).toBe(64)
      expect(crowd(clock, 100)).toHaveLength(64)
      expect(clock.rejections).toMatchObject({ limit: 0, lag: 36, user: 0 })
      expect(clock.lags).toEqual([300, 300, 300, 300])
    })

    it('is forgotten after five seconds on time', () => {
      const clock = createLoadClock({ maxRequests: 512 })
      clock.pass(20, 300)

      clock.pass(50)

      expect(clock.load.limit).toBe(512)
    })
  })

  describe('memory', () => {
    const mebibyte = 1024 * 1024

    /** A shedder whose process holds so many MiB, and how often garbage was collected. */
    function withMemory(options: { maxRequests?: number; frees?: number } = {}) {
      const memory = { mebibytes: 100, collections: 0 }
      const { frees = 0, ...load } = options
      const clock = createLoadClock({
        ...load,
        residentBytes: () => memory.mebibytes * mebibyte,
        collectGarbage() {
          memory.collections += 1
          memory.mebibytes -= frees
        },
      })
      return { clock, memory }
    }

    it('is collected when it has grown, and not again before it grows more', () => {
      const { clock, memory } = withMemory({ frees: 20 })

      clock.pass(10)
      expect(memory.collections).toBe(0)
      memory.mebibytes = 200
      clock.pass(10)
      expect(memory).toEqual({ mebibytes: 180, collections: 1 })
      memory.mebibytes = 230
      clock.pass(10)

      expect(memory).toEqual({ mebibytes: 210, collections: 2 })
      expect(arrive(clock)).not.toBeNull()
    })

    it('that runs short keeps newcomers out until there is more of it', () => {
      const { clock, memory } = withMemory()
      memory.mebibytes = 390
      clock.pass(1)

      expect(arrive(clock)).toBeNull()
      expect(clock.rejections.memory).toBe(1)
      memory.mebibytes = 300
      clock.pass(1)
      expect(arrive(clock)).not.toBeNull()
    })

    it('may be more for those who admit more', () => {
      const { clock, memory } = withMemory({ maxRequests: 1024 })
      memory.mebibytes = 700
      clock.pass(1)

      expect(arrive(clock)).not.toBeNull()
    })
  })

  it('releases rejections that wait with each window, a quarter as many as have begun in it', async () => {
    const clock = createLoadClock({ maxRequests: 800 })
    const turns = Array.from({ length: 1000 }, () => clock.load.reject())
    let released = 0
    for (const turn of turns) void turn?.then(() => (released += 1))
    const permits = crowd(clock, 800)

    clock.pass(1)
    await Promise.resolve()
    expect(released).toBe(200)
    clock.pass(1)
    await Promise.resolve()
    expect(released).toBe(300)

    leave(permits)
    clock.pass(2)
    await Promise.resolve()
    expect(released).toBe(900)
  })
})

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
