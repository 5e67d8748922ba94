import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { hasNoIpv6 } from '../support/machine.ts'
import { createRedisServer, startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { someIdentity } from './identities.ts'
import * as stores from './redis-stores.ts'
import { closeStores, connectStore, createStore, isInUse, keepObtaining, patient } from './redis-stores.ts'
import { outcomeSoFar, startCredentials } from './world.ts'

let server: RedisServer

beforeAll(async () => {
  // An address with a hyphen may be absent.
  server = await startRedisServer({ args: ['--bind', '127.0.0.1', '-::1'] })
})

afterEach(closeStores)
afterAll(() => server.close())

/** The error of a rejected promise. */
async function messageOf(promise: Promise<unknown>): Promise<string | null> {
  return promise.then(
    () => null,
    (error: Error) => error.message,
  )
}

const notConnected = 'Cannot use Redis: not connected'
const noAnswer = 'Cannot use Redis: timed out'

describe('RedisStore with a healthy server', () => {
  const addresses: (readonly [kind: string, database: number, rewrite: (url: string) => string])[] = [
    ['TCP', 0, (url) => url],
    ['a database', 3, (url) => `${url}/3`],
    ...(hasNoIpv6 ? [] : [['IPv6', 0, (url: string) => url.replace('127.0.0.1', '[::1]')] as const]),
  ]

  async function keepsValues(at: RedisServer, database = 0, url = at.url) {
    await at.command('FLUSHALL')
    const { store } = await connectStore(url, { ...patient, prefix: 'sync-bridge:' })

    await store.set('key', 'añ\r\n', 600_000)
    await store.set('Key', 'another', 600_000)
    await store.delete('Key')

    expect([await store.get('key'), await store.get('Key')]).toEqual(['añ\r\n', null])
    expect(String(await at.command('INFO', 'keyspace'))).toContain(`db${database}:keys=1`)
    expect(await at.command('GET', 'sync-bridge:key')).toBe(database === 0 ? 'añ\r\n' : null)
    const leftMs = Number(await at.command('PTTL', 'sync-bridge:key'))
    if (database === 0) expect(leftMs).toBeWithin(300_000, 600_001)
  }

  it.each(addresses)('adds the prefix to every key and the TTL to every value: %s', (_, database, rewrite) =>
    keepsValues(server, database, rewrite(server.url)),
  )

  it('does so over a unix socket', async () => {
    await using local = await startRedisServer({ unixSocket: true })

    await keepsValues(local)
  })

  it('makes commands wait until it is connected', async () => {
    const { store, seen } = createStore(server.url, patient)

    expect(await store.get('never-set')).toBeNull()
    expect(seen).toEqual([])
  })
})

describe('RedisStore with a server that rejects every login', () => {
  it('rejects at once, never shows the password, and connects once the password is valid', async () => {
    await using locked = await startRedisServer({ args: ['--requirepass', 'right'], login: ':right@' })
    const { store, seen } = createStore(locked.url.replace('right', 'hunter2'))
    await eventually('the login was rejected', () => seen.length > 0)

    const message = await messageOf(store.get('key'))

    expect(seen[0]).toBe('unreachable WRONGPASS')
    expect(JSON.stringify([message, seen])).not.toContain('hunter2')
    await locked.command('CONFIG', 'SET', 'requirepass', 'hunter2')
    await eventually('the login is accepted', () => store.ping())
  })
})

describe('RedisStore with a server that is down', () => {
  it('starts without it, without delays, and connects when it comes up', async () => {
    await using absent = createRedisServer()
    const { store, seen } = createStore(absent.url)
    const load = keepObtaining(store)
    await eventually('it was unreachable', () => seen.length > 0)
    const known = await outcomeSoFar(store.get('key'))
    await eventually('it was unreachable again', () => seen.length >= 3)
    await absent.start()
    await eventually('it is in use', () => isInUse(store))
    await load.stop()

    expect(known).toBe(notConnected)
    expect(seen[0]).toBe('unreachable ECONNREFUSED')
  })
})

describe('RedisStore with a server that hangs', () => {
  /** A command times out before the silence of the connection is noticed, which takes 1.5 s. */
  const hasty = { commandTimeoutMs: 1000, connectTimeoutMs: 10_000 }
  let hanging: RedisServer

  beforeAll(async () => {
    hanging = await startRedisServer()
  })

  afterEach(() => hanging.cont())
  afterAll(() => hanging.close())

  it('times out one command, then rejects at once, and uses the server again when it recovers', async () => {
    const { store, seen } = await connectStore(hanging.url, hasty)
    hanging.stop()

    const first = await messageOf(store.get('key'))
    const later = new Set<string | null>()
    // However much is requested.
    const load = keepObtaining(store)
    await eventually('the connection was given up', async () => {
      later.add(await outcomeSoFar(store.get('key')))
      return seen.includes('unreachable ETIMEDOUT')
    })
    const whileHanging = [...seen]
    hanging.cont()
    await eventually('it is in use', () => isInUse(store))
    await load.stop()

    expect(first).toBe(noAnswer)
    expect([...later]).not.toContain('waits')
    expect(whileHanging.filter((trouble) => trouble.startsWith('timeout'))).toHaveLength(1)
  })

  it('uses the response of a server that was only slow', async () => {
    const { store, seen } = await connectStore(hanging.url, hasty)
    hanging.stop()

    const first = await messageOf(store.get('key'))
    hanging.cont()
    await eventually('it is in use', () => isInUse(store))

    expect(first).toBe(noAnswer)
    expect(seen).toEqual(['timeout null'])
  })

  it('detects it without a request', async () => {
    const { store, seen } = await connectStore(hanging.url, patient)
    hanging.stop()

    await eventually('the timeout was detected', () => seen.length > 0)
    const known = await outcomeSoFar(store.get('key'))
    hanging.cont()
    await eventually('it is in use', () => store.ping())

    expect(seen[0]).toBe('unreachable ETIMEDOUT')
    expect(known).toBe(notConnected)
  })

  it('costs a renewal one command without a response', async () => {
    const { store, seen } = await connectStore(hanging.url, hasty)
    const { credentials } = startCredentials({ store })
    const refused = await credentials.obtain(someIdentity())
    await eventually('they are in the store', async () => Number(await hanging.command('DBSIZE')) > 0)
    hanging.stop()

    const renewed = await credentials.renew(someIdentity(), refused)

    expect(renewed.hawkId).toBe('hawk-2')
    expect(seen).toEqual(['timeout null'])
  })

  it('delays only the first commands, and briefly, if it accepts connections and never responds', async () => {
    hanging.stop()
    const { store, seen } = createStore(hanging.url)

    const messages = await Promise.all([messageOf(store.get('a')), messageOf(store.get('b'))])
    const known = await outcomeSoFar(store.get('a'))
    await eventually('it was given up', () => seen.length > 0)
    hanging.cont()

    expect([...messages, known]).toEqual([notConnected, notConnected, notConnected])
    expect(seen[0]).toBe('unreachable ETIMEDOUT')
    await eventually('it is in use', () => store.ping())
  })
})

describe('RedisStore with a server that rejects commands', () => {
  it('rejects writes to a full server and continues to read', async () => {
    const { store, seen } = await connectStore(server.url, patient)
    await store.set('key', 'value', 60_000)
    await server.command('CONFIG', 'SET', 'maxmemory', '1', 'maxmemory-policy', 'noeviction')
    const load = keepObtaining(store)

    await expect(store.set('other', 'value', 60_000)).rejects.toThrow('Cannot use Redis: OOM')

    expect(await store.get('key')).toBe('value')
    expect(new Set(seen)).toEqual(new Set(['refused OOM']))
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    await store.set('other', 'value', 60_000)
    await load.stop()
  })

  it('continues to read from a replica, and uses the master when the address leads there', async () => {
    await using master = await startRedisServer()
    using address = stores.startRelay(server.url)
    const { store } = await connectStore(address.url, patient)
    await store.set('key', 'value', 60_000)

    await server.command('REPLICAOF', '127.0.0.1', '1')
    await expect(store.set('other', 'value', 60_000)).rejects.toThrow('READONLY')
    const read = await store.get('key')
    address.port = Number(new URL(master.url).port)
    await eventually('it is in use', () => isInUse(store))
    await server.command('REPLICAOF', 'NO', 'ONE')

    expect(read).toBe('value')
    expect(await master.command('GET', 'test:a')).toBe('value of a')
  })
})

describe('RedisStore with a server whose replies are not for their commands', () => {
  it.each([':5', '*1\r\n:5', '#t'])(
    'rejects %j in place of a text, so that credentials are obtained, and connects anew',
    async (reply) => {
      let connections = 0
      using server = Bun.listen({
        hostname: '127.0.0.1',
        port: 0,
        socket: {
          open: () => void connections++,
          data(socket, chunk) {
            for (const _ of chunk.toString().matchAll(/^\*\d+\r$/gm)) socket.write(`${reply}\r\n`)
          },
        },
      })
      const { store } = await connectStore(`redis://127.0.0.1:${server.port}/0`, patient)
      const load = keepObtaining(store)

      const message = await messageOf(store.get('key'))
      await eventually('it has connected anew', () => connections > 1 && load.obtained() > 3)
      await load.stop()

      expect(message).toBe('Cannot use Redis: connection lost')
    },
  )
})
