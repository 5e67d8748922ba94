import { describe, expect, it } from 'bun:test'
import { Breaker } from '../../src/upstream/breaker.ts'
import type { Purpose, Verdict } from '../../src/upstream/breaker.ts'

/** A breaker whose open times are exact unless chance is to be tried. */
function start(random = 0.5) {
  const clock = { nowMs: 1000, random }
  const changes: string[] = []
  const breaker = new Breaker({
    now: () => clock.nowMs,
    random: () => clock.random,
    onChange: (change) => changes.push(change),
  })
  const call = (verdict: Verdict, purpose: Purpose = 'work') => {
    const passage = breaker.enter(purpose)
    passage?.end(verdict)
    return passage !== null
  }
  const calls = (pattern: string) =>
    [...pattern].forEach((mark) => call(mark === 'f' ? 'failed' : mark === 'w' ? 'well' : 'unclear'))
  const passes = () => breaker.admits('work')
  return { breaker, clock, changes, call, calls, passes }
}

function opened(random?: number) {
  const world = start(random)
  world.calls('fffff')
  return world
}

describe('Breaker, closed', () => {
  it('opens at the fifth failure in a row', () => {
    const { calls, changes, passes } = start()

    calls('ffff')
    expect(passes()).toBe(true)
    calls('f')

    expect(passes()).toBe(false)
    expect(changes).toEqual(['opened'])
  })

  it('forgets a row of failures at the first call that goes well', () => {
    const { calls, changes } = start()

    calls('ffffwffffw')

    expect(changes).toEqual([])
  })

  it('takes an unclear end for nothing, neither a failure nor the end of a row', () => {
    const { calls, passes } = start()

    calls('uuuuuuffuffu')
    expect(passes()).toBe(true)
    calls('f')

    expect(passes()).toBe(false)
  })

  it('opens when half of twenty calls failed, and not before there are so many', () => {
    const { calls, passes } = start()

    calls('fw'.repeat(9) + 'f')
    expect(passes()).toBe(true)
    calls('f')

    expect(passes()).toBe(false)
  })

  it('does not open at a call that went well', () => {
    const { calls, passes } = start()

    calls('fw'.repeat(10))
    expect(passes()).toBe(true)
    calls('f')

    expect(passes()).toBe(false)
  })

  it('stays closed while fewer than half fail', () => {
    const { calls, changes } = start()

    calls('w' + 'wf'.repeat(50))

    expect(changes).toEqual([])
  })

  it('looks back no further than ten seconds', () => {
    const { calls, changes, clock } = start()

    calls('wf'.repeat(9))
    clock.nowMs += 10_000
    calls('wf'.repeat(9))

    expect(changes).toEqual([])
  })

  it('looks back five seconds at least', () => {
    const { calls, changes, clock } = start()

    calls('w')
    clock.nowMs += 4999
    calls('wf'.repeat(9))
    clock.nowMs += 4999
    calls('f')

    expect(changes).toEqual(['opened'])
  })
})

describe('Breaker, open', () => {
  it('lets no work through for a second', () => {
    const { breaker, clock, call } = opened()

    expect(call('well')).toBe(false)
    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1000])
    clock.nowMs += 999
    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1])
    expect(call('well')).toBe(false)
  })

  it('stays open twice as long after each probe that fails, four seconds at most', () => {
    const { breaker, clock, call, changes } = opened()

    const openMs = Array.from({ length: 7 }, () => {
      clock.nowMs += breaker.openForMs
      call('failed')
      return breaker.openForMs
    })

    expect(openMs).toEqual([2000, 4000, 4000, 4000, 4000, 4000, 4000])
    expect(changes).toEqual(['opened'])
  })

  it('begins with a second again after it was closed', () => {
    const { breaker, clock, call, calls } = opened()
    clock.nowMs += 1000
    call('failed')
    clock.nowMs += 2000
    call('well')

    calls('fffff')

    expect(breaker.openForMs).toBe(1000)
  })

  it('leaves its times to chance, within a quarter, and never beyond four seconds', () => {
    const [short, long] = [opened(0), opened(0.9999)]

    expect(short.breaker.openForMs).toBe(750)
    expect(long.breaker.openForMs).toBeCloseTo(1250, 0)
    for (let probe = 0; probe < 6; probe += 1) {
      long.clock.nowMs += long.breaker.openForMs
      long.call('failed')
    }
    expect(long.breaker.openForMs).toBe(4000)
  })

  it('ignores calls that began before: they neither close it nor keep it open', () => {
    const { breaker, calls, changes, passes } = start()
    const [slow, slower, slowest] = [1, 2, 3].map(() => breaker.enter('work')!)
    calls('fffff')

    slow!.end('well')
    expect(passes()).toBe(false)
    slower!.end('failed')
    expect(breaker.openForMs).toBe(1000)
    expect(breaker.stillAdmits(slowest!)).toBe(false)
    slowest!.end('failed')

    expect(changes).toEqual(['opened'])
  })
})

describe('Breaker, half-open', () => {
  it('lets one call through at a time, and all when that went well', () => {
    const { breaker, clock, call, changes, passes } = opened()
    clock.nowMs += 1000

    expect([breaker.state, passes()]).toEqual(['half-open', true])
    const probe = breaker.enter('work')!
    expect([breaker.state, call('well'), breaker.openForMs]).toEqual(['half-open', false, 0])
    expect(breaker.stillAdmits(probe)).toBe(true)
    probe.end('well')

    expect([breaker.state, call('well'), call('well')]).toEqual(['closed', true, true])
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('has forgotten the failures when it closes', () => {
    const { clock, call, calls, passes } = start()
    calls('fw'.repeat(7) + 'fffff')
    clock.nowMs += 1000
    call('well')

    calls('ffff')

    expect(passes()).toBe(true)
  })

  it('lets the next call tell when the probe could not', () => {
    const { clock, call, passes } = opened()
    clock.nowMs += 1000

    expect(call('unclear')).toBe(true)

    expect(passes()).toBe(true)
  })

  it('does not wait for ever for a probe', () => {
    const { breaker, clock, call, passes } = opened()
    clock.nowMs += 1000
    const lost = breaker.enter('work')!

    clock.nowMs += 29_999
    expect(passes()).toBe(false)
    clock.nowMs += 1
    expect(call('failed')).toBe(true)
    lost.end('failed')

    expect(breaker.openForMs).toBe(2000)
  })

  it('takes no failure for its own of a call that began before', () => {
    const { breaker, clock, calls, call, changes } = start()
    const early = Array.from({ length: 5 }, () => breaker.enter('work')!)
    calls('fffff')
    const late = Array.from({ length: 5 }, () => breaker.enter('settling')!)
    clock.nowMs += 1000
    call('well')

    for (const passage of [...early, ...late]) passage.end('failed')

    expect(changes).toEqual(['opened', 'closed'])
  })
})

describe('Breaker, for what settles', () => {
  it('is never closed to it, and closes when it goes well', () => {
    const { breaker, call, calls, changes, passes } = start()
    const early = breaker.enter('settling')!
    calls('fffff')

    expect(breaker.stillAdmits(early)).toBe(true)
    expect(call('well', 'settling')).toBe(true)

    expect(passes()).toBe(true)
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('counts its failures, but makes no open time longer by them', () => {
    const { breaker, call } = start()

    for (let count = 0; count < 20; count += 1) call('failed', 'settling')

    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1000])
  })

  it('takes it for the probe when one is due', () => {
    const { breaker, clock, passes } = opened()
    clock.nowMs += 1000

    const settling = breaker.enter('settling')!
    expect(passes()).toBe(false)
    settling.end('failed')

    expect(breaker.openForMs).toBe(2000)
  })
})

describe('Breaker, for a look', () => {
  it('lets the next call try before its time when the look went well', () => {
    const { breaker, call, changes } = opened()

    expect(call('well', 'look')).toBe(true)

    expect(breaker.state).toBe('half-open')
    expect(changes).toEqual(['opened'])
    expect([call('failed'), breaker.openForMs]).toEqual([true, 2000])
  })

  it('learns nothing from it else', () => {
    const { breaker, call, clock, passes } = start()

    for (let count = 0; count < 30; count += 1) call('failed', 'look')
    expect(passes()).toBe(true)
    for (const verdict of ['failed', 'failed', 'failed', 'failed'] as const) call(verdict)
    call('well', 'look')
    call('failed')

    expect(breaker.openForMs).toBe(1000)
    call('failed', 'look')
    expect(breaker.openForMs).toBe(1000)
    clock.nowMs += 1000
    breaker.enter('look')
    expect(passes()).toBe(true)
  })

  it('is closed to it while the target wants to be left alone', () => {
    const { breaker, call, clock } = opened()
    const early = breaker.enter('look')!
    breaker.pause(60_000)

    early.end('well')
    expect([call('well', 'look'), breaker.openForMs]).toEqual([false, 60_000])
    clock.nowMs += 60_000

    expect(call('well', 'look')).toBe(true)
  })
})

describe('Breaker.pause', () => {
  it('opens at once, for so long', () => {
    const { breaker, changes, clock, call } = start()

    breaker.pause(120_000)
    breaker.pause(5000)

    expect([breaker.openForMs, changes]).toEqual([120_000, ['opened']])
    clock.nowMs += 119_999
    expect([call('well'), call('well', 'look')]).toEqual([false, false])
    clock.nowMs += 1
    expect(call('well')).toBe(true)
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('makes no later open time longer, however many calls were told', () => {
    const { breaker, clock, call } = start()
    const passages = Array.from({ length: 5 }, () => breaker.enter('work')!)
    for (const passage of passages) {
      breaker.pause(10_000)
      passage.end('unclear')
    }
    clock.nowMs += 10_000

    call('failed')

    expect(breaker.openForMs).toBe(2000)
  })
})

describe('Passage.end', () => {
  it('counts once', () => {
    const { breaker, calls, passes } = start()
    const passage = breaker.enter('work')!

    passage.end('failed')
    passage.end('well')
    passage.end('failed')
    calls('fff')
    expect(passes()).toBe(true)
    calls('f')

    expect(passes()).toBe(false)
  })

  it('can make the open time longer that it brings about, and no other', () => {
    const { breaker, calls } = start()

    breaker.enter('work')!.end('failed', 20_000)
    calls('fff')
    breaker.enter('work')!.end('failed', 20_000)

    expect(breaker.openForMs).toBe(20_000)
    breaker.enter('settling')!.end('failed', 30_000)
    expect(breaker.openForMs).toBe(20_000)
  })
})

describe('Breaker.isForgotten', () => {
  it('a minute after the last call, or after the next one was awaited', () => {
    const closed = start()
    closed.call('failed')
    const open = opened()
    for (const { clock } of [closed, open]) clock.nowMs += 59_999

    expect([closed.breaker.isForgotten, open.breaker.isForgotten]).toEqual([false, false])
    closed.clock.nowMs += 1
    open.clock.nowMs += 1000
    expect([closed.breaker.isForgotten, open.breaker.isForgotten]).toEqual([true, false])
    open.clock.nowMs += 1
    expect(open.breaker.isForgotten).toBe(true)
  })

  it('never while a call is under way', () => {
    const { breaker, clock } = start()
    const passage = breaker.enter('work')!
    clock.nowMs += 10 * 60_000

    expect(breaker.isForgotten).toBe(false)
    passage.end('unclear')
    passage.end('unclear')
    clock.nowMs += 60_000

    expect(breaker.isForgotten).toBe(true)
  })
})
