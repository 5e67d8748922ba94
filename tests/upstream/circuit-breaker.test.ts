import { describe, expect, it } from 'bun:test'
import { ServiceError, UpstreamError, type UpstreamFailure } from '../../src/domain/errors.ts'
import {
  Breakers,
  type BreakerEvent,
  type GuardedCall,
  type GuardedRequest,
} from '../../src/upstream/circuit-breaker.ts'

/** Breakers with a controlled clock. */
function start() {
  let nowMs = 1000
  const events: BreakerEvent[] = []
  const breakers = new Breakers({ now: () => nowMs, random: () => 0.5, observe: (it) => events.push(it) })
  const requestOf = (user: string, more: Partial<GuardedRequest> = {}): GuardedRequest => ({
    target: 'storage',
    method: 'GET',
    url: { href: 'https://node/1.5/1', origin: 'https://node', host: 'node' },
    user,
    ...more,
  })
  const refusal = (user: string, more?: Partial<GuardedRequest>) => {
    const request = requestOf(user, more)
    return breakers.circuitOf(request).refusal(request)
  }
  const begin = (user: string, more?: Partial<GuardedRequest>) => {
    const request = requestOf(user, more)
    return breakers.circuitOf(request).begin(request)
  }
  return {
    breakers,
    events,
    pass: (ms: number) => void (nowMs += ms),
    refusal,
    isRefused: (user: string, more?: Partial<GuardedRequest>) => refusal(user, more) !== null,
    begin,
    fails(user: string, failure: UpstreamFailure = 'unreachable') {
      const call = begin(user)
      nowMs += 1000
      end(call, new UpstreamError(failure, ''))
    },
    answers(user: string) {
      end(begin(user), null)
      nowMs += 1
    },
  }
}

function end(call: GuardedCall, error: unknown): void {
  call.circuit.end(call, error)
}

const three = ['a', 'b', 'c']

describe('a circuit', () => {
  it.each(['unreachable', 'connection-lost', 'timeout'] as const)(
    'opens when three users fail without a success in between: %s',
    (failure) => {
      const { fails, isRefused, events, refusal } = start()

      fails('a', failure)
      fails('b', failure)
      for (let times = 0; times < 10; times += 1) fails('b', failure)
      expect(isRefused('a')).toBe(false)
      fails('c', failure)

      expect(three.map((user) => isRefused(user))).toEqual([true, true, true])
      expect(refusal('a')).toMatchObject({ retryAfterSeconds: 1, applied: 'no' })
      expect(events).toEqual([{ target: 'storage', host: 'node', change: 'opened' }])
    },
  )

  it.each<[string, unknown]>([
    ['an answer that can not be used', new UpstreamError('bad-response', '')],
    ['a client that disconnected', new UpstreamError('abandoned', '')],
    ['a call that was never made', new UpstreamError('overload', '')],
    ['a refusal of ours', new ServiceError(400, 109, '')],
  ])('never opens because of %s', (_, error) => {
    const { begin, isRefused } = start()

    for (const user of [...three, ...three, 'd', 'e']) end(begin(user), error)

    expect(isRefused('a')).toBe(false)
  })

  it('does not count a timeout caused by a short deadline', () => {
    const { begin, isRefused, pass } = start()
    const calls = [...three, 'd'].map((user) => begin(user))
    pass(899)

    for (const call of calls) end(call, new UpstreamError('timeout', ''))

    expect(isRefused('a')).toBe(false)
  })

  it('does not count calls that began before others succeeded, even if they end together', () => {
    const { begin, isRefused, pass, answers } = start()
    const hanging = [...three, 'd', 'e'].map((user) => begin(user))
    pass(19_000)
    answers('healthy')
    pass(1000)

    for (const call of hanging) end(call, new UpstreamError('timeout', ''))

    expect(isRefused('a')).toBe(false)
  })

  it('counts a lost connection once, however many users were on it', () => {
    const { begin, isRefused, pass } = start()
    const calls = [...three, 'd', 'e'].map((user) => begin(user))
    pass(10)

    for (const call of calls) end(call, new UpstreamError('connection-lost', ''))

    expect(isRefused('a')).toBe(false)
  })

  it('lets a user whose last call did not fail try at once, one call at a time, and closes on success', () => {
    const { fails, begin, isRefused, events } = start()
    three.forEach((user) => fails(user))

    expect(isRefused('healthy')).toBe(false)
    const trial = begin('healthy')
    expect([isRefused('healthy'), isRefused('another')]).toEqual([true, true])
    end(trial, null)

    expect([...three, 'another'].map((user) => isRefused(user))).toEqual([false, false, false, false])
    expect(events.map(({ change }) => change)).toEqual(['opened', 'closed'])
  })

  it('lets no user try at once whose last call failed, even if that was not counted', () => {
    const { begin, fails, isRefused, pass } = start()
    const together = ['x', 'y', 'z'].map((user) => begin(user))
    pass(1)
    for (const call of together) end(call, new UpstreamError('connection-lost', ''))
    for (const user of ['a', 'b']) fails(user)

    expect(['y', 'z'].map((user) => isRefused(user))).toEqual([true, true])
    expect(isRefused('new')).toBe(false)
  })

  it('lets a healthy user try while the trial of a failed user hangs, which does not keep it open', () => {
    const { fails, begin, isRefused, pass } = start()
    three.forEach((user) => fails(user))
    pass(1000)

    const hanging = begin('a')
    expect([isRefused('b'), isRefused('healthy')]).toEqual([true, false])
    const trial = begin('healthy')
    pass(1000)
    end(hanging, new UpstreamError('timeout', ''))
    expect(isRefused('another')).toBe(true)
    end(trial, null)

    expect(['healthy', ...three].map((user) => isRefused(user))).toEqual([false, false, false, false])
  })

  it('does not count users again who failed while others succeeded, until they succeed', () => {
    const { fails, answers, isRefused, pass } = start()
    for (let round = 0; round < 20; round += 1) {
      three.forEach((user) => fails(user, 'connection-lost'))
      expect(isRefused('healthy')).toBe(false)
      answers('healthy')
      pass(10)
    }

    expect(isRefused('a')).toBe(false)
    three.forEach((user) => answers(user))
    pass(10)
    three.forEach((user) => fails(user))
    expect(isRefused('a')).toBe(true)
  })

  it('does not count users again whose connection was counted already, if others succeeded afterwards', () => {
    const { begin, pass, answers, fails, isRefused } = start()
    const calls = [...three, 'd', 'e', 'f'].map((user) => begin(user))

    pass(1)
    for (const call of calls) end(call, new UpstreamError('connection-lost', ''))
    answers('healthy')
    for (const user of ['d', 'e', 'f']) fails(user, 'connection-lost')

    expect(isRefused('healthy')).toBe(false)
    expect(isRefused('d')).toBe(false)
  })

  it('stays open twice as long after each failed trial, up to 4 s', () => {
    const { fails, isRefused, pass } = start()
    three.forEach((user) => fails(user))

    const openMs: number[] = []
    for (let round = 0; round < 4; round += 1) {
      let ms = 0
      while (isRefused('a')) {
        pass(100)
        ms += 100
      }
      openMs.push(ms)
      fails('a')
    }

    expect(openMs).toEqual([1000, 2000, 4000, 4000])
  })

  it('lets another call try if a trial has got no response for 4 s', () => {
    const { fails, begin, isRefused, pass } = start()
    three.forEach((user) => fails(user))
    begin('healthy')

    pass(3999)
    expect(isRefused('a')).toBe(true)
    pass(1)
    expect(isRefused('a')).toBe(false)
  })

  it("stops neither calls that complete a commit nor health checks, and the latter don't close it", () => {
    const { fails, begin, isRefused } = start()
    three.forEach((user) => fails(user))

    expect(isRefused('a', { callClass: 'must-complete' })).toBe(false)
    expect(isRefused('a', { callClass: 'probe' })).toBe(false)
    end(begin('health', { callClass: 'probe' }), null)
    expect(isRefused('a')).toBe(true)
    end(begin('a', { callClass: 'must-complete' }), null)
    expect(isRefused('a')).toBe(false)
  })

  it('is separate for each host and kind, and is counted by its state', () => {
    const { breakers, fails, isRefused, pass } = start()
    const other = { url: { href: 'https://other/1.5/1', origin: 'https://other', host: 'other' } }
    three.forEach((user) => fails(user))

    expect(isRefused('a', other)).toBe(false)
    expect(isRefused('a', { target: 'token' })).toBe(false)
    expect(breakers.counts()).toContainEqual({ target: 'storage', open: 1, halfOpen: 0 })
    pass(1000)
    expect(breakers.counts()).toContainEqual({ target: 'storage', open: 0, halfOpen: 1 })
  })
})
