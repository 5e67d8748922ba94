import { describe, expect, it } from 'bun:test'
import { CircuitBreaker } from '../../src/upstream/circuit-breaker.ts'
import type { CallResult, GuardedRequest } from '../../src/upstream/circuit-breaker.ts'

/** A breaker whose open times are exact unless chance is to be tried. */
function start(random = 0.5) {
  const clock = { nowMs: 1000, random }
  const changes: string[] = []
  const breaker = new CircuitBreaker({
    now: () => clock.nowMs,
    random: () => clock.random,
    onChange: (change) => changes.push(change),
    usersToOpen: 3,
  })
  /** A call that ends when it is told so. */
  const begin = (callClass?: GuardedRequest['callClass']) => {
    const permit = breaker.acquire(requestOf(callClass))
    return { end: (result: CallResult, openMs?: number) => breaker.end(permit, result, openMs) }
  }
  const passes = (callClass?: GuardedRequest['callClass']) => breaker.admits(requestOf(callClass))
  const call = (result: CallResult, callClass?: GuardedRequest['callClass']) => {
    if (!passes(callClass)) return false
    begin(callClass).end(result)
    return true
  }
  const calls = (pattern: string) =>
    [...pattern].forEach((mark) => call(mark === 'f' ? 'failure' : mark === 'w' ? 'success' : 'ignored'))
  return { breaker, clock, changes, begin, call, calls, passes }
}

function requestOf(callClass?: GuardedRequest['callClass']): GuardedRequest {
  return { target: 'storage', url: new URL('http://node.example'), callClass }
}

function opened(random?: number) {
  const world = start(random)
  world.calls('fffff')
  return world
}

describe('CircuitBreaker, closed', () => {
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

describe('CircuitBreaker, open', () => {
  it('lets no work through for a second', () => {
    const { breaker, clock, call } = opened()

    expect(call('success')).toBe(false)
    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1000])
    clock.nowMs += 999
    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1])
    expect(call('success')).toBe(false)
  })

  it('stays open twice as long after each probe that fails, four seconds at most', () => {
    const { breaker, clock, call, changes } = opened()

    const openMs = Array.from({ length: 7 }, () => {
      clock.nowMs += breaker.openForMs
      call('failure')
      return breaker.openForMs
    })

    expect(openMs).toEqual([2000, 4000, 4000, 4000, 4000, 4000, 4000])
    expect(changes).toEqual(['opened'])
  })

  it('begins with a second again after it was closed', () => {
    const { breaker, clock, call, calls } = opened()
    clock.nowMs += 1000
    call('failure')
    clock.nowMs += 2000
    call('success')

    calls('fffff')

    expect(breaker.openForMs).toBe(1000)
  })

  it('leaves its times to chance, within a quarter, and never beyond four seconds', () => {
    const [short, long] = [opened(0), opened(0.9999)]

    expect(short.breaker.openForMs).toBe(750)
    expect(long.breaker.openForMs).toBeCloseTo(1250, 0)
    for (let probe = 0; probe < 6; probe += 1) {
      long.clock.nowMs += long.breaker.openForMs
      long.call('failure')
    }
    expect(long.breaker.openForMs).toBe(4000)
  })

  it('ignores calls that began before: they neither close it nor keep it open', () => {
    const { breaker, calls, changes, passes, begin } = start()
    const [slow, slower, slowest] = [begin(), begin(), begin()]
    calls('fffff')

    slow.end('success')
    expect(passes()).toBe(false)
    slower.end('failure')
    expect(breaker.openForMs).toBe(1000)
    slowest.end('failure')

    expect(changes).toEqual(['opened'])
  })
})

describe('CircuitBreaker, half-open', () => {
  it('lets one call through at a time, and all when that went well', () => {
    const { breaker, clock, call, changes, passes, begin } = opened()
    clock.nowMs += 1000

    expect([breaker.state, passes()]).toEqual(['half-open', true])
    const probe = begin()
    expect([breaker.state, call('success'), breaker.openForMs]).toEqual(['half-open', false, 0])
    probe.end('success')

    expect([breaker.state, call('success'), call('success')]).toEqual(['closed', true, true])
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('has forgotten the failures when it closes', () => {
    const { clock, call, calls, passes } = start()
    calls('fw'.repeat(7) + 'fffff')
    clock.nowMs += 1000
    call('success')

    calls('ffff')

    expect(passes()).toBe(true)
  })

  it('lets the next call tell when the probe could not', () => {
    const { clock, call, passes } = opened()
    clock.nowMs += 1000

    expect(call('ignored')).toBe(true)

    expect(passes()).toBe(true)
  })

  it('does not wait for ever for a probe', () => {
    const { breaker, clock, call, passes, begin } = opened()
    clock.nowMs += 1000
    const lost = begin()

    clock.nowMs += 29_999
    expect(passes()).toBe(false)
    clock.nowMs += 1
    expect(call('failure')).toBe(true)
    lost.end('failure')

    expect(breaker.openForMs).toBe(2000)
  })

  it('takes no failure for its own of a call that began before', () => {
    const { clock, calls, call, changes, begin } = start()
    const early = Array.from({ length: 5 }, () => begin())
    calls('fffff')
    const late = Array.from({ length: 5 }, () => begin('must-complete'))
    clock.nowMs += 1000
    call('success')

    for (const permit of [...early, ...late]) permit.end('failure')

    expect(changes).toEqual(['opened', 'closed'])
  })
})

describe('CircuitBreaker, for what settles', () => {
  it('is never closed to it, and closes when it goes well', () => {
    const { call, calls, changes, passes } = start()
    calls('fffff')

    expect(call('success', 'must-complete')).toBe(true)

    expect(passes()).toBe(true)
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('counts its failures, but makes no open time longer by them', () => {
    const { breaker, call } = start()

    for (let count = 0; count < 20; count += 1) call('failure', 'must-complete')

    expect([breaker.state, breaker.openForMs]).toEqual(['open', 1000])
  })

  it('takes it for the probe when one is due', () => {
    const { breaker, clock, passes, begin } = opened()
    clock.nowMs += 1000

    const settling = begin('must-complete')
    expect(passes()).toBe(false)
    settling.end('failure')

    expect(breaker.openForMs).toBe(2000)
  })
})

describe('CircuitBreaker, for a look', () => {
  it('lets the next call try before its time when the look went well', () => {
    const { breaker, call, changes } = opened()

    expect(call('success', 'probe')).toBe(true)

    expect(breaker.state).toBe('half-open')
    expect(changes).toEqual(['opened'])
    expect([call('failure'), breaker.openForMs]).toEqual([true, 2000])
  })

  it('learns nothing from it else', () => {
    const { breaker, call, clock, passes, begin } = start()

    for (let count = 0; count < 30; count += 1) call('failure', 'probe')
    expect(passes()).toBe(true)
    for (const result of ['failure', 'failure', 'failure', 'failure'] as const) call(result)
    call('success', 'probe')
    call('failure')

    expect(breaker.openForMs).toBe(1000)
    call('failure', 'probe')
    expect(breaker.openForMs).toBe(1000)
    clock.nowMs += 1000
    begin('probe')
    expect(passes()).toBe(true)
  })

  it('is closed to it while the target wants to be left alone', () => {
    const { breaker, call, clock, begin } = opened()
    const early = begin('probe')
    breaker.pause(60_000)

    early.end('success')
    expect([call('success', 'probe'), breaker.openForMs]).toEqual([false, 60_000])
    clock.nowMs += 60_000

    expect(call('success', 'probe')).toBe(true)
  })
})

describe('CircuitBreaker.pause', () => {
  it('opens at once, for so long', () => {
    const { breaker, changes, clock, call } = start()

    breaker.pause(120_000)
    breaker.pause(5000)

    expect([breaker.openForMs, changes]).toEqual([120_000, ['opened']])
    clock.nowMs += 119_999
    expect([call('success'), call('success', 'probe')]).toEqual([false, false])
    clock.nowMs += 1
    expect(call('success')).toBe(true)
    expect(changes).toEqual(['opened', 'closed'])
  })

  it('makes no later open time longer, however many calls were told', () => {
    const { breaker, clock, call, begin } = start()
    const permits = Array.from({ length: 5 }, () => begin())
    for (const permit of permits) {
      breaker.pause(10_000)
      permit.end('ignored')
    }
    clock.nowMs += 10_000

    call('failure')

    expect(breaker.openForMs).toBe(2000)
  })
})

describe('CircuitBreaker.end', () => {
  it('can make the open time longer that it brings about, and no other', () => {
    const { breaker, calls, begin } = start()

    begin().end('failure', 20_000)
    calls('fff')
    begin().end('failure', 20_000)

    expect(breaker.openForMs).toBe(20_000)
    begin('must-complete').end('failure', 30_000)
    expect(breaker.openForMs).toBe(20_000)
  })
})

describe('CircuitBreaker.isForgotten', () => {
  it('a minute after the last call, or after the next one was awaited', () => {
    const closed = start()
    closed.call('failure')
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
    const { breaker, clock, begin } = start()
    const permit = begin()
    clock.nowMs += 10 * 60_000

    expect(breaker.isForgotten).toBe(false)
    permit.end('ignored')
    clock.nowMs += 60_000

    expect(breaker.isForgotten).toBe(true)
  })
})
