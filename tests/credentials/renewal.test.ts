import { describe, expect, it } from 'bun:test'

import { errno, ServiceError, UpstreamError } from '../../src/domain/errors.ts'
import { nowMs, otherSecret, someCredentials, someIdentity } from './identities.ts'
import { startCredentials } from './world.ts'

const refusal = new ServiceError(401, errno.invalidCredentials, 'Refused')
const outage = new UpstreamError('timeout', 'No response')

describe('Credentials.renew', () => {
  it('forgets what was rejected and calls the token server again', async () => {
    const { credentials, exchanges } = startCredentials()
    const refused = await credentials.obtain(someIdentity())

    const renewed = await credentials.renew(someIdentity(), refused)

    expect(refused.hawkId).toBe('hawk-1')
    expect(renewed.hawkId).toBe('hawk-2')
    expect(await credentials.obtain(someIdentity())).toEqual(renewed)
    // Another request whose credentials the storage had rejected as well.
    expect(await credentials.renew(someIdentity(), refused)).toEqual(renewed)
    expect(exchanges).toHaveLength(2)
  })

  it('deletes them in the store too, whatever the exchange returns, under both secrets', async () => {
    const before = startCredentials({ store: 'memory', secret: otherSecret })
    await before.credentials.obtain(someIdentity())
    const { credentials, turns, writes } = startCredentials({
      store: before.store!,
      previousSecret: otherSecret,
      exchange: () => Promise.reject(refusal),
    })
    const refused = await credentials.obtain(someIdentity())
    await turns()

    await expect(credentials.renew(someIdentity(), refused)).rejects.toBe(refusal)
    await turns()

    const keys = [...before.writes, ...writes].map(({ key }) => key)
    expect(new Set(keys).size).toBe(2)
    for (const key of keys) expect(await before.store!.get(key)).toBeNull()
  })

  it('calls the token server once for all that were rejected at the same time, and for later requests meanwhile', async () => {
    const { credentials, exchanges } = startCredentials({ store: 'memory' })
    const refused = await credentials.obtain(someIdentity())

    const all = await Promise.all([
      ...Array.from({ length: 50 }, () => credentials.renew(someIdentity(), refused)),
      ...Array.from({ length: 50 }, () => credentials.obtain(someIdentity())),
    ])

    expect(exchanges).toHaveLength(2)
    expect(new Set(all.map(({ hawkId }) => hawkId))).toEqual(new Set(['hawk-2']))
  })

  it('calls it once even if the token server returns the same credentials again', async () => {
    const { credentials, exchanges } = startCredentials({ exchange: async () => someCredentials() })
    const refused = await credentials.obtain(someIdentity())

    await Promise.all(Array.from({ length: 50 }, () => credentials.renew(someIdentity(), refused)))

    expect(exchanges).toHaveLength(2)
  })

  it('returns what another process renewed meanwhile', async () => {
    const one = startCredentials({ store: 'memory', name: 'one' })
    const other = startCredentials({ store: one.store!, name: 'other' })
    const refused = await one.credentials.obtain(someIdentity())
    await other.credentials.obtain(someIdentity())
    const renewed = await other.credentials.renew(someIdentity(), refused)

    expect(await one.credentials.renew(someIdentity(), refused)).toEqual(renewed)
    expect(renewed.hawkId).toBe('other-1')
    expect(one.exchanges).toHaveLength(1)
  })

  it('does not accept the rejected credentials from a lookup in flight', async () => {
    const one = startCredentials({ store: 'memory', name: 'one' })
    const refused = await one.credentials.obtain(someIdentity())
    const other = startCredentials({ store: one.store!, name: 'other' })

    const [found, renewed] = await Promise.all([
      other.credentials.obtain(someIdentity()),
      other.credentials.renew(someIdentity(), refused),
    ])

    expect(found).toEqual(refused)
    expect(renewed.hawkId).toBe('other-1')
    expect(other.exchanges).toHaveLength(1)
  })

  it('uses newer ones that are being fetched, even if they expire too soon to be cached', async () => {
    const { credentials, exchanges } = startCredentials({
      exchange: async () => someCredentials({ expiresAtMs: nowMs + 10_000 }),
    })
    const refused = someCredentials({ hawkId: 'refused' })

    const [fetched, renewed] = await Promise.all([
      credentials.obtain(someIdentity()),
      credentials.renew(someIdentity(), refused),
    ])

    expect(renewed).toEqual(fetched)
    expect(exchanges).toHaveLength(1)
  })

  it.each([
    {
      name: 'forgets what was refused when the token server is out of order',
      error: outage,
      exchangesInAll: 3,
    },
    { name: 'remembers a refusal, so that a revoked user costs one call', error: refusal, exchangesInAll: 2 },
  ])('$name', async ({ error, exchangesInAll }) => {
    let fails = false
    const { clock, credentials, exchanges } = startCredentials({
      store: 'memory',
      exchange: async () => {
        if (fails) throw error
        return someCredentials()
      },
    })
    const refused = await credentials.obtain(someIdentity())
    fails = true

    await expect(credentials.renew(someIdentity(), refused)).rejects.toBe(error)
    await expect(credentials.obtain(someIdentity())).rejects.toBe(error)

    expect(exchanges).toHaveLength(exchangesInAll)
    clock.advance(5000)
    await expect(credentials.obtain(someIdentity())).rejects.toBe(error)
    expect(exchanges).toHaveLength(exchangesInAll + 1)
  })

  it('calls the token server if the store always fails', async () => {
    const { credentials } = startCredentials({ store: 'broken' })
    const refused = await credentials.obtain(someIdentity())

    expect(await credentials.renew(someIdentity(), refused)).toMatchObject({ hawkId: 'hawk-2' })
  })
})
