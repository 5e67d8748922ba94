import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'bun:test'

import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { Seal } from '../../src/credentials/seal.ts'
import { eventually } from '../support/eventually.ts'
import { createRedisServer, startRedisServer } from '../support/redis-server.ts'
import { secret, someIdentity, tokenServerUrl } from './identities.ts'
import { outcomeSoFar } from './outcome.ts'
import { startCredentials } from './world.ts'

import type { CredentialStore } from '../../src/credentials/shared-credentials.ts'
import type { RedisStoreOptions, RedisTrouble } from '../../src/credentials/redis-store.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { World } from './world.ts'

let server: RedisServer
let store: CredentialStore
let world: World
/** What the store has complained about. */
let troubles: RedisTrouble[]

/**
 * With a patience for commands that no busy machine exhausts: then a timeout in `troubles` tells that somebody has
 * waited for an answer that never came.
 */
const patience = { commandTimeoutMs: 10_000, connectTimeoutMs: 10_000 }

function openStore(url: string, changes: Partial<RedisStoreOptions> = patience): CredentialStore {
  return createRedisStore({
    address: readRedisAddress(url)!,
    prefix: 'test:',
    random: Math.random,
    onTrouble: (trouble) => troubles.push(trouble),
    ...changes,
  })
}

const obtainNew = () => world.credentials.obtain(someIdentity({ assertion: crypto.randomUUID() }))

/** Obtains credentials for so many new identities, one after the other; how many had to wait for anything outside. */
async function countWaiting(count: number): Promise<number> {
  let waiting = 0
  for (let number = 0; number < count; number++) {
    const obtained = obtainNew()
    if ((await outcomeSoFar(obtained)) === 'waits') waiting += 1
    await obtained
  }
  return waiting
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
  troubles = []
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
    await eventually('it was missed', () => troubles.length > 0)

    const waiting = await countWaiting(20)
    await away.close()

    expect(waiting).toBe(0)
  })

  it('are obtained without delay when it was killed, and it is in use after its return', async () => {
    await server.kill()
    await eventually('the loss was noticed', () => troubles.includes('unreachable'))

    const waiting = await countWaiting(20)
    await server.start()

    expect(waiting).toBe(0)
    await eventually('it is in use', isInUse)
  })

  it('are obtained while it hangs, most without delay, and it is in use afterwards', async () => {
    await using hanging = await startRedisServer()
    const hasty = openStore(hanging.url, {})
    await eventually('the store is connected', () => hasty.ping())
    world = startCredentials({ store: hasty })
    troubles = []
    hanging.stop()

    const waiting = await countWaiting(30)
    const known = [...troubles]
    hanging.cont()
    await eventually('it answers again', () => hasty.ping())
    await hasty.close()

    // Three commands in a row have to stay without an answer, and the last before may still have had one.
    expect(waiting).toBeWithin(1, 6)
    expect(known.slice(0, 4)).toEqual(['timeout', 'timeout', 'timeout', 'suspended'])
    expect(world.exchanges).toHaveLength(30)
  })

  it('are renewed after one command without an answer while it hangs', async () => {
    await using hanging = await startRedisServer()
    const hasty = openStore(hanging.url, {})
    await eventually('the store is connected', () => hasty.ping())
    world = startCredentials({ store: hasty })
    const refused = await world.credentials.obtain(someIdentity())
    await eventually('they are in the store', async () => (await hanging.command('DBSIZE')) === 1)
    troubles = []
    hanging.stop()

    const renewed = await world.credentials.renew(someIdentity(), refused)
    const known = [...troubles]
    await hasty.close()

    expect(renewed.hawkId).toBe('hawk-2')
    expect(known).toEqual(['timeout'])
  })

  it('are obtained by twenty at a time while it is killed and restarted under them', async () => {
    let obtained = 0
    const isBack = new AbortController()
    const asking = Promise.all(
      Array.from({ length: 20 }, async () => {
        for (; !isBack.signal.aborted; obtained++) {
          await obtainNew()
          await new Promise((resolve) => setImmediate(resolve))
        }
      }),
    )
    await server.restart()
    isBack.abort()
    await asking

    expect(obtained).toBeGreaterThan(20)
    expect(world.exchanges).toHaveLength(obtained)
    await eventually('it is in use', isInUse)
    expect(troubles).not.toContain('timeout')
  })

  it('are obtained without waiting in vain while it is full', async () => {
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await server.command('CONFIG', 'SET', 'maxmemory', '1')

    for (let number = 0; number < 20; number++) await obtainNew()

    expect(world.exchanges).toHaveLength(20)
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    await eventually('it is in use', isInUse)
    expect(new Set(troubles)).toEqual(new Set(['refused']))
  })

  it('are obtained without waiting in vain while it is a replica without its master', async () => {
    await server.command('REPLICAOF', '127.0.0.1', '1')
    await server.command('CONFIG', 'SET', 'replica-serve-stale-data', 'no')

    for (let number = 0; number < 20; number++) await obtainNew()

    expect(world.exchanges).toHaveLength(20)
    await server.command('REPLICAOF', 'NO', 'ONE')
    await eventually('it is in use', isInUse)
    expect(troubles).not.toContain('timeout')
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
    const seal = new Seal({ secret, tokenServerUrl, randomBytes: (count) => new Uint8Array(count) })
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
      await world.credentials.obtain(identity)

      expect(world.exchanges).toHaveLength(number + 1)
      await eventually('it is replaced', async () => {
        const other = startCredentials({ store })
        await other.credentials.obtain(identity)
        return other.events.includes('hit-shared')
      })
    }
    expect(troubles).not.toContain('timeout')
  })

  it('are exchanged when it serves what belongs to another identity, or to another time', async () => {
    const seal = new Seal({ secret, tokenServerUrl, randomBytes: (count) => new Uint8Array(count) })
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
