import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'bun:test'

import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { createSeal } from '../../src/credentials/seal.ts'
import { createRedisServer, eventually, startRedisServer } from '../support/redis-server.ts'
import { secret, someIdentity, tokenServerUrl } from './identities.ts'
import { startCredentials } from './world.ts'

import type { CredentialStore } from '../../src/credentials/credential-store.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { World } from './world.ts'

let server: RedisServer
let store: CredentialStore
let world: World

function openStore(url: string): CredentialStore {
  return createRedisStore({ url, prefix: 'test:', random: Math.random, onTrouble: () => {} })
}

/** Obtains credentials for so many new identities, one after the other, and tells how long each took. */
async function obtainNew(count: number): Promise<number[]> {
  const took: number[] = []
  for (let number = 0; number < count; number++) {
    const startedAtMs = performance.now()
    await world.credentials.obtain(someIdentity({ assertion: crypto.randomUUID() }))
    took.push(performance.now() - startedAtMs)
  }
  return took
}

async function isInUse(): Promise<boolean> {
  const identity = someIdentity({ assertion: crypto.randomUUID() })
  await world.credentials.obtain(identity)
  const other = startCredentials({ store })
  await other.credentials.obtain(identity)
  return other.events.includes('hit-shared')
}

beforeAll(async () => {
  server = await startRedisServer()
})

afterAll(() => server.close())

beforeEach(async () => {
  store = openStore(server.url)
  world = startCredentials({ store })
  await eventually('the store is connected', () => store.ping())
})

afterEach(() => store.close())

describe('credentials over Redis', () => {
  it('are shared between processes', async () => {
    const other = startCredentials({ store })
    const fetched = await world.credentials.obtain(someIdentity())

    await eventually('they are in the store', async () => (await server.command('DBSIZE')) === 1)

    expect(await other.credentials.obtain(someIdentity())).toEqual(fetched)
    expect(other.exchanges).toEqual([])
  })

  it('are stored in a form that shows nothing', async () => {
    await server.command('FLUSHALL')
    await world.credentials.obtain(someIdentity({ assertion: 'an assertion' }))
    await eventually('they are in the store', async () => (await server.command('DBSIZE')) === 1)

    const [key] = (await server.command('KEYS', '*')) as string[]
    const value = String(await server.command('GET', key!))

    expect(key).toMatch(/^test:[\w-]{43}$/)
    expect(value).toMatch(/^v1\.[\w-]{100,400}$/)
    const bytes = Buffer.from(value.slice(3), 'base64url').toString('latin1')
    expect(key! + bytes).not.toMatch(/assertion|hawk|node\.example|0123456789abcdef/)
  })
})

describe('credentials over a Redis in trouble', () => {
  it('are obtained without delay while it is absent from the start', async () => {
    await using absent = createRedisServer()
    const away = openStore(absent.url)
    world = startCredentials({ store: away })

    const took = await obtainNew(20)

    expect(Math.max(...took)).toBeLessThan(90)
    await away.close()
  })

  it('are obtained without delay when it was killed, and it is in use soon after its return', async () => {
    await server.kill()
    const took = await obtainNew(20)
    expect(Math.max(...took)).toBeLessThan(90)

    await server.start()

    await eventually('it is in use', isInUse, 3000)
  })

  it('are obtained within 100 ms while it hangs, most without delay, and it is in use soon after', async () => {
    server.stop()
    const took = await obtainNew(30)
    server.cont()

    expect(Math.max(...took)).toBeLessThan(250)
    expect(took.filter((tookMs) => tookMs > 50).length).toBeLessThanOrEqual(3)
    await eventually('it is in use', isInUse, 3000)
  })

  it('are renewed within 100 ms while it hangs', async () => {
    const refused = await world.credentials.obtain(someIdentity())
    server.stop()

    const startedAtMs = performance.now()
    const renewed = await world.credentials.renew(someIdentity(), refused)

    expect(performance.now() - startedAtMs).toBeLessThan(250)
    expect(renewed.hawkId).toBe('hawk-2')
    server.cont()
  })

  it('are obtained by twenty at a time while it is killed and restarted under them', async () => {
    const asking = Promise.all(
      Array.from({ length: 20 }, async () => {
        const took = await obtainNew(50)
        return Math.max(...took)
      }),
    )
    await server.restart()

    expect(Math.max(...(await asking))).toBeLessThan(250)
    await eventually('it is in use', isInUse, 3000)
  })

  it('are obtained without delay while it is full', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await server.command('CONFIG', 'SET', 'maxmemory', '1')

    const took = await obtainNew(20)

    expect(Math.max(...took)).toBeLessThan(90)
    expect(world.exchanges).toHaveLength(20)
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    await eventually('it is in use', isInUse, 3000)
  })

  it('are obtained without delay while it is a replica without its master', async () => {
    await server.command('REPLICAOF', '127.0.0.1', '1')
    await server.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no')

    const took = await obtainNew(20)

    expect(Math.max(...took)).toBeLessThan(90)
    await server.command('REPLICAOF', 'NO', 'ONE')
    await eventually('it is in use', isInUse, 3000)
  })

  it('are exchanged once per identity when it loses everything under load', async () => {
    const identities = Array.from({ length: 50 }, (_, number) =>
      someIdentity({ assertion: `flushed ${number}` }),
    )
    await Promise.all(identities.map((identity) => world.credentials.obtain(identity)))
    await server.command('FLUSHALL')
    world.clock.advance(60_000)

    await Promise.all(
      Array.from({ length: 500 }, (_, number) => world.credentials.obtain(identities[number % 50]!)),
    )

    expect(world.exchanges).toHaveLength(100)
  })

  it('are exchanged when it holds rubbish under their key, which is replaced', async () => {
    const seal = createSeal({ secret, tokenServerUrl, randomBytes: (count) => new Uint8Array(count) })
    const rubbish: [string, ...string[]][] = [
      ['SET', 'KEY', 'garbage'],
      ['SET', 'KEY', '{"hawkId":"x","hawkKey":"y"}'],
      ['SET', 'KEY', ''],
      ['SET', 'KEY', 'x'.repeat(102_400)],
      ['SET', 'KEY', `v1.${'A'.repeat(8000)}`],
      ['SET', 'KEY', 'v1.\xff\x00\r\n'],
      ['LPUSH', 'KEY', 'a', 'b'],
      ['HSET', 'KEY', 'a', 'b'],
    ]

    for (const [number, [command, ...args]] of rubbish.entries()) {
      const identity = someIdentity({ assertion: `rubbish ${number}` })
      const key = `test:${seal.index(identity)}`
      await server.command(command, ...args.map((arg) => (arg === 'KEY' ? key : arg)))
      const took = await timed(() => world.credentials.obtain(identity))

      expect(took).toBeLessThan(100)
      expect(world.exchanges).toHaveLength(number + 1)
      await eventually('it is replaced', async () => {
        const other = startCredentials({ store })
        await other.credentials.obtain(identity)
        return other.events.includes('hit-shared')
      })
    }
  })

  it('are exchanged when it serves what belongs to another identity, or to another time', async () => {
    const seal = createSeal({ secret, tokenServerUrl, randomBytes: (count) => new Uint8Array(count) })
    const [alice, bob] = [someIdentity({ assertion: 'alice' }), someIdentity({ assertion: 'bob' })]
    await world.credentials.obtain(alice)
    await world.credentials.obtain(bob)
    await eventually('bob is stored', async () => (await store.get(seal.index(bob))) !== null)
    await server.command('COPY', `test:${seal.index(bob)}`, `test:${seal.index(alice)}`, 'REPLACE')
    await server.command('PERSIST', `test:${seal.index(bob)}`)

    const other = startCredentials({ store })
    await other.credentials.obtain(alice)
    other.clock.advance(300_000)
    await other.credentials.obtain(bob)

    expect(other.exchanges).toEqual([alice, bob])
    expect(other.events.filter((event) => event === 'rejected-entry')).toHaveLength(2)
  })
})

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAtMs = performance.now()
  await work()
  return performance.now() - startedAtMs
}
