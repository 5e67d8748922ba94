import { describe, expect, it } from 'bun:test'
import { createLoadClock, type LoadClock } from './load-clock.ts'
import type { Release } from '../../src/load/admission.ts'

/** A request, or a batch of so many, that comes in: its permit, or null when it is rejected. */
function arrive({ load }: LoadClock, user = 'somebody', requests = 1): Release | null {
  if (!load.isFull) return load.acquire(user, requests)
  load.refuse()
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

describe('Admission', () => {
  describe('a batch', () => {
    it('weighs as much as all its requests, until it ends', () => {
      const clock = createLoadClock()
      const batch = arrive(clock, 'somebody', 25)!

      const permits = crowd(clock, 100)
      expect(permits).toHaveLength(75)
      leave([batch, batch])
      expect(crowd(clock, 100)).toHaveLength(25)
    })

    it('is never kept out while it is alone, however large', () => {
      const clock = createLoadClock({ maxRequests: 10 })

      expect(arrive(clock, 'somebody', 1000)).not.toBeNull()
      expect(arrive(clock, 'somebody')).toBeNull()
    })

    it('weighs as much as one request when it is empty', () => {
      const clock = createLoadClock()

      expect(arrive(clock, 'somebody', 0)).not.toBeNull()

      expect(crowd(clock, 200)).toHaveLength(99)
    })
  })

  describe('one user', () => {
    it('may have everything while alone, and keeps nobody out who comes then', () => {
      const clock = createLoadClock()
      const all = crowd(clock, 200, 'only')

      expect(all).toHaveLength(100)
      expect(arrive(clock, 'newcomer')).not.toBeNull()
      leave(all.slice(0, 10))
      expect(arrive(clock, 'only')).toBeNull()
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
      crowd(clock, 1, 'another')

      expect(crowd(clock, 200, 'greedy')).toHaveLength(99)
    })

    it('is forgotten when all that was in flight has ended', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 50; round++) leave(crowd(clock, 60, `user ${round}`))

      expect(crowd(clock, 200)).toHaveLength(100)
    })
  })

  describe('root views', () => {
    it('ask for two credentials at a time, each with as many requests as there are', () => {
      const { load, rejections } = createLoadClock()
      const first = load.acquireRootView('first')!
      load.acquireRootView('second')

      expect(load.acquireRootView('third')).toBeNull()
      const again = load.acquireRootView('first')
      first()
      // A second time does nothing.
      first()
      expect(load.acquireRootView('third')).toBeNull()
      again!()

      expect(load.acquireRootView('third')).not.toBeNull()
      expect(rejections).toEqual(['root-view', 'root-view'])
    })
  })

  describe('backoffSeconds', () => {
    it('stays 0 at four fifths, and where moments of load are apart', () => {
      const clock = createLoadClock()
      const permits = crowd(clock, 80)
      clock.pass(100)
      expect(clock.load.backoffSeconds).toBe(0)
      leave(permits)

      for (let round = 0; round < 5; round++) {
        const all = crowd(clock, 100)
        clock.pass(40)
        leave(all)
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
    it('admits less, but never less than 64, and says why', () => {
      const clock = createLoadClock()

      clock.pass(10, 300)

      expect(crowd(clock, 100)).toHaveLength(64)
      expect(clock.rejections).toEqual(Array(36).fill('lag'))
      expect(clock.lags).toEqual(Array(10).fill(300))
    })

    it('is forgotten after five seconds on time', () => {
      const clock = createLoadClock({ maxRequests: 512 })
      clock.pass(20, 300)
      expect(clock.load.limit).toBe(64)

      clock.pass(50)

      expect(clock.load.limit).toBe(512)
    })

    it('is none after a single stall, however long', () => {
      const clock = createLoadClock({ maxRequests: 512 })

      for (let count = 0; count < 20; count++) {
        clock.pass(1, 2000)
        clock.pass(1)
      }

      expect(clock.load.limit).toBe(512)
    })

    it('is not ours when others had the processor', () => {
      const clock = createLoadClock({ maxRequests: 512, cpuMs: () => 0 })

      clock.pass(50, 300)

      expect(clock.load.limit).toBe(512)
    })

    it('does not matter where no limit is configured, nor to a small one', () => {
      for (const options of [
        { maxRequests: 512, maxLagMs: 0 },
        { maxRequests: 3, maxLagMs: 100 },
      ]) {
        const clock = createLoadClock(options)
        clock.pass(50, 300)
        expect(clock.load.limit).toBe(options.maxRequests)
      }
    })
  })

  describe('memory', () => {
    /** An admission whose process holds so many MiB, and how often garbage was collected. */
    function withMemory(frees = 0) {
      const memory = { mebibytes: 100, collections: 0 }
      const clock = createLoadClock({
        residentBytes: () => memory.mebibytes * 1024 * 1024,
        collectGarbage() {
          memory.collections += 1
          memory.mebibytes -= frees
        },
      })
      return { clock, memory }
    }

    it('is collected when it has grown, and not again before it grows more', () => {
      const { clock, memory } = withMemory(20)

      clock.pass(10)
      expect(memory.collections).toBe(0)
      memory.mebibytes = 200
      clock.pass(10)
      expect(memory).toEqual({ mebibytes: 180, collections: 1 })
      memory.mebibytes = 240
      clock.pass(10)
      expect(memory.collections).toBe(1)
      memory.mebibytes = 260
      clock.pass(10)

      expect(memory).toEqual({ mebibytes: 240, collections: 2 })
      expect(arrive(clock)).not.toBeNull()
    })

    it('that runs short keeps newcomers out until there is more of it', () => {
      const { clock, memory } = withMemory()
      memory.mebibytes = 390
      clock.pass(1)

      expect(arrive(clock)).toBeNull()
      expect(clock.rejections).toEqual(['memory'])
      memory.mebibytes = 300
      clock.pass(1)
      expect(arrive(clock)).not.toBeNull()
    })
  })
})
