import { describe, expect, it } from 'bun:test'
import * as fc from 'fast-check'

import { Seal } from '../../src/credentials/seal.ts'
import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import {
  identities,
  isSameIdentity,
  nowMs,
  otherSecret,
  secret,
  signedPart,
  someCredentials,
  someIdentity,
  tokenServerUrl,
} from './identities.ts'
import { startCredentials } from './world.ts'

const refusal = new ServiceError(401, errno.invalidCredentials, 'Refused')
const outage = new UpstreamError('timeout', 'No response')

describe('Credentials.obtain', () => {
  it('reports and counts the source, and passes the request id to the token server', async () => {
    const requestIds: string[] = []
    const exchange = async (_: unknown, requestId: string) => {
      requestIds.push(requestId)
      return someCredentials()
    }
    const one = startCredentials({ store: 'memory', exchange })
    const other = startCredentials({ store: one.store!, exchange })

    const all = [
      ...(await Promise.all([one.obtain(someIdentity(), 'first'), one.obtain(someIdentity(), 'second')])),
      await one.obtain(someIdentity(), 'third'),
      await other.obtain(someIdentity(), 'fourth'),
    ]

    expect(all.map(({ source }) => source)).toEqual(['exchange', 'exchange', 'memory', 'cache'])
    expect(requestIds).toEqual(['first'])
    expect(one.events).toEqual(['joined', 'exchange', 'hit-local'])
  })

  it('never gives an identity the credentials of another, together or in sequence', async () => {
    const { credentials } = startCredentials({
      store: 'memory',
      exchange: async (identity) => someCredentials({ hawkKey: JSON.stringify(identity) }),
    })

    await fc.assert(
      fc.asyncProperty(fc.array(identities, { minLength: 2, maxLength: 20 }), async (asking) => {
        const answers = await Promise.all(asking.map((identity) => credentials.obtain(identity)))
        answers.push(...(await Promise.all(asking.map((identity) => credentials.obtain(identity)))))
        for (const [at, { hawkKey }] of answers.entries()) {
          expect(isSameIdentity(JSON.parse(hawkKey), asking[at % asking.length]!)).toBe(true)
        }
      }),
      { numRuns: 500 },
    )
  })
})

describe('a lookup that ends at once because of a defect', () => {
  it('delays no request', async () => {
    let isBroken = true
    const { credentials } = startCredentials({
      exchange() {
        if (isBroken) throw new TypeError('a defect')
        return Promise.resolve(someCredentials())
      },
    })

    await expect(credentials.obtain(someIdentity())).rejects.toThrow('a defect')
    isBroken = false

    expect(await credentials.obtain(someIdentity())).toEqual(someCredentials())
  })
})

describe('the lifetime of cached credentials', () => {
  const ending = signedPart({ exp: nowMs + 40_000 })
  const exchange = async () => someCredentials({ expiresAtMs: nowMs + 60_000 })

  it.each([
    { ends: 'with the configured time', options: { ttlSeconds: 300 }, lifeMs: 300_000 },
    { ends: 'with the assertion', assertion: ending, lifeMs: 40_000 },
    { ends: '10 s before the storage refuses them', options: { exchange }, lifeMs: 50_000 },
    { ends: 'no later when the wall clock is set back', setBackMs: 3_600_000, lifeMs: 300_000 },
  ])('ends $ends', async ({ options = {}, assertion = 'any', setBackMs = 0, lifeMs }) => {
    const { credentials, exchanges, clock } = startCredentials(options)
    await credentials.obtain(someIdentity({ assertion }))
    clock.setWall(nowMs - setBackMs)

    clock.advance(lifeMs - 1)
    await credentials.obtain(someIdentity({ assertion }))
    expect(exchanges).toHaveLength(1)
    clock.advance(1)
    await credentials.obtain(someIdentity({ assertion }))
    expect(exchanges).toHaveLength(2)
  })

  it('does not begin if nothing of it is left, in this process or in the store', async () => {
    const lives = [
      { identity: someIdentity({ assertion: signedPart({ exp: nowMs }) }), expiresAtMs: nowMs + 3_600_000 },
      { identity: someIdentity(), expiresAtMs: nowMs + 10_000 },
      { identity: someIdentity(), expiresAtMs: nowMs - 1 },
      { identity: someIdentity(), expiresAtMs: Number.NaN },
    ]

    for (const { identity, expiresAtMs } of lives) {
      const { credentials, exchanges, writes } = startCredentials({
        store: 'memory',
        exchange: async () => someCredentials({ expiresAtMs }),
      })

      expect(await credentials.obtain(identity)).toMatchObject({ hawkId: 'hawk-id' })
      await credentials.obtain(identity)

      expect(exchanges).toHaveLength(2)
      expect(writes).toEqual([])
    }
  })

  it('ends when the wall clock passes the expiry, even if the monotonic clock stood still', async () => {
    const { credentials, exchanges, clock } = startCredentials()
    await credentials.obtain(someIdentity())

    clock.setWall(nowMs + 300_000)
    await credentials.obtain(someIdentity())

    expect(exchanges).toHaveLength(2)
  })

  it.each([
    ['10 000 identities', 10_000, undefined],
    ['1000 refusals', 1000, refuse],
  ])('is limited to %s in this process', async (_, most, exchange) => {
    const { credentials, exchanges } = startCredentials(exchange && { exchange })
    const obtain = (number: number) =>
      credentials.obtain(someIdentity({ assertion: `assertion ${number}` })).catch(() => {})
    for (let number = 0; number <= most; number++) await obtain(number)

    await obtain(most)
    expect(exchanges).toHaveLength(most + 1)
    await obtain(0)
    expect(exchanges).toHaveLength(most + 2)
  })
})

describe('credentials in a shared store', () => {
  it('are kept there until they expire', async () => {
    const { credentials, writes } = startCredentials({ store: 'memory' })

    await credentials.obtain(someIdentity({ assertion: signedPart({ exp: nowMs + 40_000 }) }))

    expect(writes.map(({ ttlMs }) => ttlMs)).toEqual([40_000])
  })

  it('are looked up again after 60 s, so that what others deleted is deleted here', async () => {
    const { credentials, exchanges, clock, store, writes, events } = startCredentials({ store: 'memory' })
    await credentials.obtain(someIdentity())

    clock.advance(59_999)
    await credentials.obtain(someIdentity())
    clock.advance(1)
    await credentials.obtain(someIdentity())
    expect(events).toEqual(['exchange', 'hit-local', 'hit-shared'])
    await store!.delete(writes[0]!.key)
    clock.advance(60_000)
    await credentials.obtain(someIdentity())
    expect(exchanges).toHaveLength(2)
  })

  it('expire at the sealed time, even if the store keeps them', async () => {
    const { credentials, exchanges, clock, store, writes, events } = startCredentials({ store: 'memory' })
    await credentials.obtain(someIdentity())
    const { key, value } = writes[0]!
    await store!.set(key, value, 1e9)

    clock.advance(300_000)
    await credentials.obtain(someIdentity())

    expect(exchanges).toHaveLength(2)
    // If clocks differ, another bridge may still use it: the store has not been tampered with.
    expect(events).toEqual(['exchange', 'exchange'])
  })

  it("can't be opened under the key of another identity, and are deleted there", async () => {
    const world = startCredentials({ store: 'memory' })
    const [alice, bob] = [someIdentity({ assertion: 'alice' }), someIdentity({ assertion: 'bob' })]
    await world.credentials.obtain(alice)
    await world.credentials.obtain(bob)
    const [ofAlice, ofBob] = [world.writes[0]!, world.writes[1]!]
    await world.store!.set(ofAlice.key, ofBob.value, 300_000)
    await world.store!.set(ofBob.key, ofAlice.value, 300_000)
    const gate = Promise.withResolvers<never>()
    const other = startCredentials({ store: world.store!, exchange: () => gate.promise })

    const waiting = [other.credentials.obtain(alice), other.credentials.obtain(bob)]
    await world.turns()

    expect(other.events.toSorted()).toEqual(['exchange', 'exchange', 'rejected-entry', 'rejected-entry'])
    expect(await world.store!.get(ofAlice.key)).toBeNull()
    expect(await world.store!.get(ofBob.key)).toBeNull()
    gate.reject(outage)
    await Promise.allSettled(waiting)
  })

  it('are a miss if we did not write them', async () => {
    for (const value of ['', '{"hawkId":"x"}', 'v3.', 'v3.AAAA', 'x'.repeat(102_400)]) {
      const { credentials, exchanges, store, writes, events } = startCredentials({ store: 'memory' })
      const seal = new Seal({ secret, tokenServerUrl, randomBytes: (count) => new Uint8Array(count) })
      await store!.set(seal.index(someIdentity()), value, 300_000)
      writes.length = 0

      expect(await credentials.obtain(someIdentity())).toMatchObject({ hawkId: 'hawk-1' })

      expect(exchanges).toHaveLength(1)
      expect(events).toEqual(['rejected-entry', 'exchange'])
      expect(writes).toHaveLength(1)
    }
  })

  it('are optional: a store that always fails costs one exchange', async () => {
    const { credentials, exchanges, events, turns } = startCredentials({ store: 'broken' })

    await credentials.obtain(someIdentity())
    await credentials.obtain(someIdentity())
    await turns()

    expect(exchanges).toHaveLength(1)
    expect(events).toEqual(['store-error', 'exchange', 'store-error', 'hit-local'])
  })

  it('are written in the background', async () => {
    const { credentials } = startCredentials({ store: 'never-writes' })

    expect(await credentials.obtain(someIdentity())).toMatchObject({ hawkId: 'hawk-1' })
  })

  it('are still found after the secret was changed, and sealed again', async () => {
    const before = startCredentials({ store: 'memory', secret: otherSecret })
    const fetched = await before.credentials.obtain(someIdentity())
    before.clock.advance(100_000)
    const during = startCredentials({ store: before.store!, previousSecret: otherSecret })
    during.clock.advance(100_000)

    expect(await during.credentials.obtain(someIdentity())).toEqual(fetched)
    const after = startCredentials({ store: before.store! })
    expect(await after.credentials.obtain(someIdentity())).toEqual(fetched)

    expect(during.events).toEqual(['hit-shared'])
    expect(after.events).toEqual(['hit-shared'])
    expect(before.writes.map(({ ttlMs }) => ttlMs)).toEqual([300_000, 200_000])
  })
})

describe('a rejected identity', () => {
  it.each([
    ['the token server fails', outage],
    ['its response is invalid', new UpstreamError('bad-response', 'No JSON', { status: 401 })],
    ['it returns anything but 401', new ServiceError(403, errno.forbidden, 'No')],
    ['this process fails', new Error('defect')],
    [
      'the refusal was about a clock',
      new ServiceError(401, errno.invalidCredentials, 'Refused', { cause: 'invalid-timestamp' }),
    ],
  ])('is not cached if %s: the token server is called again at once', async (_, error) => {
    const { credentials, exchanges } = startCredentials({ exchange: () => Promise.reject(error) })

    await expect(credentials.obtain(someIdentity())).rejects.toBe(error)
    await expect(credentials.obtain(someIdentity())).rejects.toBe(error)

    expect(exchanges).toHaveLength(2)
  })
})

async function refuse(): Promise<never> {
  throw refusal
}
