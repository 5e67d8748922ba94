import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { eventually } from '../support/eventually.ts'
import { createRedisServer, startRedisServer } from '../support/redis-server.ts'
import { outcomeSoFar } from './outcome.ts'
import { startScriptedRedis } from './scripted-redis.ts'

import type { CredentialStore } from '../../src/credentials/shared-credentials.ts'
import type { RedisStoreOptions, RedisTrouble } from '../../src/credentials/redis-store.ts'
import type { RedisServer } from '../support/redis-server.ts'

interface Seen {
  trouble: RedisTrouble
  code: string | null
}

/** For tests that are not about time: a Redis that answers is waited for, however busy the machine is. */
const patient = { commandTimeoutMs: 10_000, connectTimeoutMs: 10_000 }

const open: CredentialStore[] = []

afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
})

function createStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const seen: Seen[] = []
  const store = createRedisStore({
    address: readRedisAddress(url)!,
    prefix: 'test:',
    random: () => 0.5,
    onTrouble: (trouble, code) => seen.push({ trouble, code }),
    ...changes,
  })
  open.push(store)
  return { store, seen }
}

async function connectStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const created = createStore(url, changes)
  await eventually('the store is connected', () => created.store.ping())
  return created
}

/** What the rejection of a promise says. */
async function messageOf(promise: Promise<unknown>): Promise<string | null> {
  return promise.then(
    () => null,
    (error: Error) => error.message,
  )
}

describe('createRedisStore with a server in order', () => {
  let server: RedisServer

  beforeAll(async () => {
    server = await startRedisServer({ args: ['--bind', '127.0.0.1', '::1'] })
  })

  afterAll(() => server.close())

  it('puts the prefix before every key and the time behind every value', async () => {
    const { store } = await connectStore(server.url, { ...patient, prefix: 'sync-bridge:' })

    await store.set('key', 'value', 30_000)

    expect(await server.command('GET', 'sync-bridge:key')).toBe('value')
    expect(Number(await server.command('PTTL', 'sync-bridge:key'))).toBeWithin(20_000, 30_001)
  })

  it('reaches an IPv6 address', async () => {
    const { store } = await connectStore(server.url.replace('127.0.0.1', '[::1]'), patient)

    await store.set('over-ipv6', 'value', 30_000)

    expect(await server.command('GET', 'test:over-ipv6')).toBe('value')
  })

  it('uses the database of the address', async () => {
    const { store } = await connectStore(`${server.url}/3`, patient)

    await store.set('in-database-3', 'value', 30_000)

    expect(await server.command('GET', 'test:in-database-3')).toBeNull()
    expect(String(await server.command('INFO', 'keyspace'))).toContain('db3:keys=1')
  })

  it('keeps those waiting who come before it is connected', async () => {
    const { store, seen } = createStore(server.url, patient)

    expect(await store.get('never-set')).toBeNull()
    expect(seen).toEqual([])
  })

  it('rejects what holds another type, and goes on', async () => {
    const { store, seen } = await connectStore(server.url, patient)
    await server.command('LPUSH', 'test:list', 'x')

    await expect(store.get('list')).rejects.toThrow('Cannot use the credential cache: WRONGTYPE')

    expect(seen).toEqual([{ trouble: 'refused', code: 'WRONGTYPE' }])
    expect(await store.get('other')).toBeNull()
  })

  it('answers no ping and rejects everything after it was closed', async () => {
    const { store } = await connectStore(server.url, patient)

    await store.close()
    await store.close()

    expect(await store.ping()).toBe(false)
    await expect(store.get('key')).rejects.toThrow('Cannot use the credential cache')
    await expect(store.set('key', 'value', 1000)).rejects.toThrow('Cannot use the credential cache')
    await expect(store.delete('key')).rejects.toThrow('Cannot use the credential cache')
  })

  it('rejects commands under way when it is closed', async () => {
    const { store } = await connectStore(server.url, patient)

    const underWay = messageOf(store.get('key'))
    await store.close()

    expect(await underWay).toStartWith('Cannot use the credential cache')
  })
})

describe('createRedisStore with a server that lets nobody in', () => {
  it('rejects at once, never shows the password, and comes in when the password is right', async () => {
    await using server = await startRedisServer({ args: ['--requirepass', 'right'], login: ':right@' })
    const { store, seen } = createStore(server.url.replace('right', 'hunter2'))
    await eventually('it was turned away', () => seen.length > 0)

    const message = await messageOf(store.get('key'))

    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'WRONGPASS' })
    expect(JSON.stringify([message, seen])).not.toContain('hunter2')
    await server.command('CONFIG', 'SET', 'requirepass', 'hunter2')
    await eventually('it is let in', () => store.ping())
  })

  it('comes in as soon as there is room for one more connection', async () => {
    await using server = await startRedisServer({ args: ['--maxclients', '1'] })
    const holder = await connectStore(server.url)
    const { store, seen } = createStore(server.url)
    await eventually('it was turned away', () => seen.length > 1)

    expect(await store.ping()).toBe(false)
    await holder.store.close()

    await eventually('it is let in', () => store.ping())
  })
})

describe('createRedisStore with a server that is away', () => {
  it('starts without it, lets nobody wait, and finds it when it comes', async () => {
    await using server = createRedisServer()
    const { store, seen } = createStore(server.url)
    await eventually('it was missed', () => seen.length > 0)
    const known = await outcomeSoFar(store.get('key'))
    await eventually('it was missed again', () => seen.length >= 3)
    await server.start()
    await eventually('it is in use', () => store.ping())

    expect(known).toBe('Cannot use the credential cache: not connected')
    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ECONNREFUSED' })
  })

  it('is told of a crash by the connection, and uses it again after its return', async () => {
    await using server = await startRedisServer()
    const { store, seen } = await connectStore(server.url, patient)

    await server.kill()
    await eventually('the crash was noticed', () => seen.length > 0)
    const known = await outcomeSoFar(store.get('key'))
    // Long enough for the delays between attempts to have grown.
    await eventually('several attempts failed', () => seen.length >= 5)
    await server.start()
    await eventually('it is in use', () => store.ping())
    await store.set('key', 'value', 60_000)

    // Silence, which takes longer to notice, would be ETIMEDOUT.
    expect(seen[0]!.trouble).toBe('unreachable')
    expect(seen[0]!.code).not.toBe('ETIMEDOUT')
    expect(known).toBe('Cannot use the credential cache: not connected')
    expect(await store.get('key')).toBe('value')
  })
})

describe('createRedisStore with a server that hangs', () => {
  let server: RedisServer

  beforeAll(async () => {
    server = await startRedisServer()
  })

  afterAll(() => server.close())

  it('gives up three commands, then asks nobody, and uses it again after its waking', async () => {
    const { store, seen } = await connectStore(server.url)
    server.stop()

    const given: (string | null)[] = []
    for (let request = 0; request < 3; request++) given.push(await messageOf(store.get('key')))
    const known = await outcomeSoFar(store.get('key'))
    server.cont()
    await eventually('it is in use', () => store.ping())

    expect(given).toEqual(
      Array.from({ length: 3 }, () => 'Cannot use the credential cache: no answer in time'),
    )
    expect(known).toBe('Cannot use the credential cache: not connected')
    expect(seen.slice(0, 4).map(({ trouble }) => trouble)).toEqual([
      'timeout',
      'timeout',
      'timeout',
      'suspended',
    ])
  })

  it('lets nothing pile up: of a thousand commands none is left', async () => {
    const { store } = await connectStore(server.url)
    server.stop()

    const messages = await Promise.all(
      Array.from({ length: 1000 }, (_, number) => messageOf(store.set(`key ${number}`, 'value', 60_000))),
    )
    server.cont()

    expect(messages).not.toContain(null)
    await eventually('it is in use', () => store.ping())
  })

  it('notices while nobody asks', async () => {
    const { store, seen } = await connectStore(server.url, patient)
    server.stop()

    await eventually('the silence was noticed', () => seen.length > 0)
    const known = await outcomeSoFar(store.get('key'))
    server.cont()
    await eventually('it is in use', () => store.ping())

    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ETIMEDOUT' })
    expect(known).toBe('Cannot use the credential cache: not connected')
  })

  it('takes the time that it is told to', async () => {
    const { store } = await connectStore(server.url, { ...patient, commandTimeoutMs: 600 })
    const { store: hasty } = await connectStore(server.url)
    server.stop()

    const order: string[] = []
    const asked = [
      store.get('key').catch(() => order.push('told')),
      hasty.get('key').catch(() => order.push('usual')),
    ]
    await Promise.all(asked)
    server.cont()

    expect(order).toEqual(['usual', 'told'])
  })
})

describe('createRedisStore with a server that is slow or silent', () => {
  it('lets nobody wait for long at the start when it does not even greet, and then nobody at all', async () => {
    using listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const { store, seen } = createStore(`redis://127.0.0.1:${listener.port}`)

    const messages = await Promise.all([messageOf(store.get('a')), messageOf(store.get('b'))])
    const known = await outcomeSoFar(store.get('a'))
    await eventually('it was given up', () => seen.length > 0)

    for (const message of [...messages, known]) {
      expect(message).toBe('Cannot use the credential cache: not connected')
    }
    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ETIMEDOUT' })
  })

  it('leaves a server alone that connects quickly and answers slowly, until it has become faster', async () => {
    using server = startScriptedRedis()
    const { store, seen } = await connectStore(server.url)
    // Ten times what a command may take.
    server.delayMs = 1000
    for (let request = 0; request < 3; request++) await messageOf(store.get('key'))
    await eventually('it was probed in vain', () => server.acceptedConnections >= 3)
    server.commands.length = 0

    const outcomes = new Set<string | null>()
    await eventually('it was probed in vain once more', async () => {
      outcomes.add(await outcomeSoFar(store.get('key')))
      return server.acceptedConnections >= 4
    })

    expect([...outcomes]).toEqual(['Cannot use the credential cache: not connected'])
    expect(server.commands).not.toContain('GET')
    expect(seen.filter(({ trouble }) => trouble === 'suspended')).toHaveLength(1)
    server.delayMs = 20
    await eventually('it is in use', () => store.ping())
  })

  it('drops the connection on which three commands had no answer', async () => {
    using server = startScriptedRedis()
    const { store, seen } = await connectStore(server.url)
    server.delayMs = Infinity
    await eventually('there is one connection', () => server.openConnections === 1)

    await Promise.all(['a', 'b', 'c'].map((key) => messageOf(store.get(key))))

    expect(seen.at(-1)).toEqual({ trouble: 'suspended', code: null })
    await eventually('there is a new one instead', () => {
      return server.acceptedConnections === 2 && server.openConnections === 1
    })
  })

  it('keeps an idle connection by asking for a sign of life', async () => {
    using server = startScriptedRedis()
    const { seen } = await connectStore(server.url, patient)
    server.commands.length = 0

    await eventually('it was asked', () => server.commands.length > 0)

    expect(server.commands).toEqual(['PING'])
    expect(server.acceptedConnections).toBe(1)
    expect(seen).toEqual([])
  })
})

describe('createRedisStore with a server that refuses writes', () => {
  let server: RedisServer

  beforeAll(async () => {
    server = await startRedisServer()
  })

  afterAll(() => server.close())

  it('rejects writes to a full server and goes on reading', async () => {
    const { store, seen } = await connectStore(server.url, patient)
    await store.set('key', 'value', 60_000)
    await server.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
    await server.command('CONFIG', 'SET', 'maxmemory', '1')

    await expect(store.set('other', 'value', 60_000)).rejects.toThrow('Cannot use the credential cache: OOM')

    expect(await store.get('key')).toBe('value')
    expect(seen).toEqual([{ trouble: 'refused', code: 'OOM' }])
    await server.command('CONFIG', 'SET', 'maxmemory', '0')
    await store.set('other', 'value', 60_000)
  })

  it('rejects writes to a replica, goes on reading, and connects anew after three', async () => {
    const { store } = await connectStore(server.url, patient)
    await store.set('key', 'value', 60_000)
    await server.command('REPLICAOF', '127.0.0.1', '1')
    const connections = Number(/total_connections_received:(\d+)/.exec(await statistics(server))![1])

    for (let write = 0; write < 3; write++) {
      await expect(store.set('other', 'value', 60_000)).rejects.toThrow('READONLY')
    }

    await eventually('it reads again', async () => (await store.get('key')) === 'value')
    // One for the statistics themselves, one anew.
    const after = Number(/total_connections_received:(\d+)/.exec(await statistics(server))![1])
    expect(after - connections).toBe(2)
    await server.command('REPLICAOF', 'NO', 'ONE')
    await store.set('other', 'value', 60_000)
  })
})

async function statistics(server: RedisServer): Promise<string> {
  return String(await server.command('INFO', 'stats'))
}
