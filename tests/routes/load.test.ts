import { describe, expect, it } from 'bun:test'

import { createLoadClock } from '../support/load-clock.ts'

import type { Visit } from '../../src/routes/load.ts'
import type { LoadClock } from '../support/load-clock.ts'

/** A request that comes in: its visit, or null when it is refused. */
function arrive(clock: LoadClock, user = 'somebody'): Visit | null {
  clock.inFlight += 1
  const { load } = clock
  if (load.isBusy() && load.refuses(user)) {
    clock.inFlight -= 1
    return null
  }
  return load.begin(user)
}

/** So many requests, each of a user of its own unless told otherwise; those that were admitted. */
function crowd(clock: LoadClock, count: number, user?: string): Visit[] {
  const visits = Array.from({ length: count }, (_, index) => arrive(clock, user ?? `user ${index}`))
  return visits.filter((visit) => visit !== null)
}

function leave(clock: LoadClock, visits: Visit[]): void {
  for (const visit of visits) {
    visit.end()
    clock.inFlight -= 1
  }
}

describe('Load', () => {
  it('admits as many as are configured, and the next one when one of them is answered', () => {
    const clock = createLoadClock()

    const visits = crowd(clock, 150)

    expect(visits).toHaveLength(100)
    expect(clock.refusals).toEqual({ limit: 50, lag: 0, user: 0 })
    leave(clock, visits.slice(0, 1))
    expect(crowd(clock, 2)).toHaveLength(1)
  })

  it('counts a request that goes on after its client has hung up', () => {
    const clock = createLoadClock()
    const visits = crowd(clock, 100)

    clock.inFlight = 0

    expect(arrive(clock)).toBeNull()
    visits[0]!.end()
    expect(arrive(clock)).not.toBeNull()
  })

  it('counts answers that are still being sent', () => {
    const clock = createLoadClock()
    for (const visit of crowd(clock, 100)) visit.end()

    expect(arrive(clock)).toBeNull()
    clock.inFlight -= 1
    expect(arrive(clock)).not.toBeNull()
  })

  it('does not count requests whose refusals wait', () => {
    const clock = createLoadClock()
    const visits = crowd(clock, 100)
    for (let count = 0; count < 150; count++) clock.load.refusalTurn()
    clock.inFlight += 50

    leave(clock, visits.slice(0, 1))

    expect(arrive(clock)).not.toBeNull()
  })

  describe('the weight of a batch', () => {
    it('is that of all its requests, until it ends', () => {
      const clock = createLoadClock()
      const batch = arrive(clock)!

      expect(batch.weigh(25)).toBe(true)

      const visits = crowd(clock, 100)
      expect(visits).toHaveLength(75)
      leave(clock, [batch])
      batch.end()
      expect(crowd(clock, 100)).toHaveLength(25)
    })

    it('is refused when that is too much, and then it is that of one', () => {
      const clock = createLoadClock()
      crowd(clock, 79)
      const batch = arrive(clock)!

      expect(batch.weigh(22)).toBe(false)

      expect(clock.refusals.limit).toBe(1)
      expect(crowd(clock, 100)).toHaveLength(20)
    })

    it('never keeps out a batch that is alone, however large', () => {
      const clock = createLoadClock({ maxRequests: 10 })

      expect(arrive(clock)!.weigh(1000)).toBe(true)
      expect(arrive(clock)).toBeNull()
    })

    it('of an empty batch is that of one', () => {
      const clock = createLoadClock()

      expect(arrive(clock)!.weigh(0)).toBe(true)

      expect(crowd(clock, 200)).toHaveLength(99)
    })
  })

  describe('one user', () => {
    it('may have everything while four fifths are not taken', () => {
      const clock = createLoadClock()

      expect(crowd(clock, 100, 'greedy')).toHaveLength(80)
      expect(clock.refusals).toEqual({ limit: 0, lag: 0, user: 20 })
    })

    it('leaves the last fifth to those who have less than their share', () => {
      const clock = createLoadClock()
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
      leave(clock, early.slice(0, 1))
      expect(arrive(clock, 'steady')).not.toBeNull()
    })

    it('has no limit when there is to be none', () => {
      const clock = createLoadClock({ maxRequestsOfUser: 0 })

      expect(crowd(clock, 200, 'greedy')).toHaveLength(100)
      expect(clock.refusals).toEqual({ limit: 100, lag: 0, user: 0 })
    })

    it('is forgotten when all that was under way has ended, however often that is said', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 50; round++) {
        const visits = crowd(clock, 60, `user ${round}`)
        leave(clock, visits)
        for (const visit of visits) visit.end()
      }

      expect(crowd(clock, 200)).toHaveLength(100)
    })
  })

  describe('backoffSeconds', () => {
    it('is 30 when four fifths were exceeded for five seconds, and 0 as soon as they are not', () => {
      const clock = createLoadClock()
      const visits = crowd(clock, 81)

      clock.pass(49)
      expect(clock.load.backoffSeconds).toBe(0)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(30)

      leave(clock, visits)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(30)
      clock.pass(1)
      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('stays 0 at four fifths', () => {
      const clock = createLoadClock()
      crowd(clock, 79)
      clock.load.isBusy()

      clock.pass(100)

      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('begins anew after a pause', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 5; round++) {
        const visits = crowd(clock, 100)
        clock.pass(40)
        leave(clock, visits)
        clock.pass(2)
      }

      expect(clock.load.backoffSeconds).toBe(0)
    })

    it('is 30 when each moment is short but they follow one another closely', () => {
      const clock = createLoadClock()
      for (let round = 0; round < 51; round++) {
        leave(clock, crowd(clock, 90))
        clock.pass(1)
      }

      expect(clock.load.backoffSeconds).toBe(30)
    })
  })

  describe('a late event loop', () => {
    it('admits less, and says why', () => {
      const clock = createLoadClock()

      clock.pass(4, 300)

      expect(clock.load.admitted).toBe(64)
      expect(crowd(clock, 100)).toHaveLength(64)
      expect(clock.refusals).toEqual({ limit: 0, lag: 36, user: 0 })
      expect(clock.lags).toEqual([300, 300, 300, 300])
    })

    it('is forgotten after five seconds on time', () => {
      const clock = createLoadClock({ maxRequests: 512 })
      clock.pass(20, 300)

      clock.pass(50)

      expect(clock.load.admitted).toBe(512)
    })
  })

  it('releases refusals that wait with each window, a quarter as many as have begun in it', async () => {
    const clock = createLoadClock({ maxRequests: 800 })
    const turns = Array.from({ length: 1000 }, () => clock.load.refusalTurn())
    let released = 0
    for (const turn of turns) void turn?.then(() => (released += 1))
    clock.inFlight += 900
    const visits = crowd(clock, 800)

    clock.pass(1)
    await Promise.resolve()
    expect(released).toBe(200)
    clock.pass(1)
    await Promise.resolve()
    expect(released).toBe(300)

    leave(clock, visits)
    clock.inFlight -= 300
    clock.pass(2)
    await Promise.resolve()
    expect(released).toBe(900)
  })
})
