import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { createRedisServer, eventually, startRedisServer } from '../support/redis-server.ts'
import { startScriptedRedis } from './scripted-redis.ts'

import type { CredentialStore } from '../../src/credentials/credential-store.ts'
import type { RedisStoreOptions, RedisTrouble } from '../../src/credentials/redis-store.ts'
import type { RedisServer } from '../support/redis-server.ts'

interface Seen {
  trouble: RedisTrouble
  code: string | null
}

const open: CredentialStore[] = []

afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
})

function createStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const seen: Seen[] = []
  const store = createRedisStore({
    url,
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

/** How long it took until the promise was settled, and what its rejection said. */
async function outcomeOf(promise: Promise<unknown>): Promise<{ tookMs: number; message: string | null }> {
  const startedAtMs = performance.now()
  const message = await promise.then(
    () => null,
    (error: Error) => error.message,
  )
  return { tookMs: performance.now() - startedAtMs, message }
}

describe('createRedisStore with a server in order', () => {
  let server: RedisServer

  beforeAll(async () => {
    server = await startRedisServer({ args: ['--bind', '127.0.0.1', '::1'] })
  })

  afterAll(() => server.close())

  it('puts the prefix before every key and the time behind every value', async () => {
    const { store } = await connectStore(server.url, { prefix: 'sync-bridge:' })

    await store.set('key', 'value', 30_000)

    expect(await server.command('GET', 'sync-bridge:key')).toBe('value')
    expect(Number(await server.command('PTTL', 'sync-bridge:key'))).toBeWithin(20_000, 30_001)
  })

  it('reaches an IPv6 address', async () => {
    const { store } = await connectStore(server.url.replace('127.0.0.1', '[::1]'))

    await store.set('over-ipv6', 'value', 30_000)

    expect(await server.command('GET', 'test:over-ipv6')).toBe('value')
  })

  it('uses the database of the address', async () => {
    const { store } = await connectStore(`${server.url}/3`)

    await store.set('in-database-3', 'value', 30_000)

    expect(await server.command('GET', 'test:in-database-3')).toBeNull()
    expect(String(await server.command('INFO', 'keyspace'))).toContain('db3:keys=1')
  })

  it('keeps those waiting who come before it is connected', async () => {
    const { store, seen } = createStore(server.url)

    expect(await store.get('never-set')).toBeNull()
    expect(seen).toEqual([])
  })

  it('rejects what holds another type, and goes on', async () => {
    const { store, seen } = await connectStore(server.url)
    await server.command('LPUSH', 'test:list', 'x')

    await expect(store.get('list')).rejects.toThrow('Cannot use the credential cache: WRONGTYPE')

    expect(seen).toEqual([{ trouble: 'refused', code: 'WRONGTYPE' }])
    expect(await store.get('other')).toBeNull()
  })

  it('answers no ping and rejects everything after it was closed', async () => {
    const { store } = await connectStore(server.url)

    await store.close()
    await store.close()

    expect(await store.ping()).toBe(false)
    await expect(store.get('key')).rejects.toThrow('Cannot use the credential cache')
    await expect(store.set('key', 'value', 1000)).rejects.toThrow('Cannot use the credential cache')
    await expect(store.delete('key')).rejects.toThrow('Cannot use the credential cache')
  })

  it('rejects commands under way when it is closed', async () => {
    const { store } = await connectStore(server.url)

    const underWay = outcomeOf(store.get('key'))
    await store.close()

    expect((await underWay).message).toStartWith('Cannot use the credential cache')
  })

  it('is not fooled by a pause of its own process', async () => {
    const { store, seen } = await connectStore(server.url)

    const asked = Promise.all(['a', 'b', 'c', 'd'].map((key) => store.get(key)))
    await new Promise((resolve) => setImmediate(resolve))
    const startedAtMs = performance.now()
    while (performance.now() - startedAtMs < 150);

    expect(await asked).toEqual([null, null, null, null])
    expect(seen).toEqual([])
  })

  it('refuses an address that it can not read', () => {
    expect(() => createStore('garbage')).toThrow('Cannot read the address of the credential cache')
  })
})

describe('createRedisStore with a server that lets nobody in', () => {
  it('rejects at once, never shows the password, and comes in when the password is right', async () => {
    await using server = await startRedisServer({ args: ['--requirepass', 'right'], login: ':right@' })
    const { store, seen } = createStore(server.url.replace('right', 'hunter2'))
    await eventually('it was turned away', () => seen.length > 0)

    const { message } = await outcomeOf(store.get('key'))

    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'WRONGPASS' })
    expect(JSON.stringify([message, seen])).not.toContain('hunter2')
    await server.command('CONFIG', 'SET', 'requirepass', 'hunter2')
    await eventually('it is let in', () => store.ping(), 3000)
  })

  it('comes in as soon as there is room for one more connection', async () => {
    await using server = await startRedisServer({ args: ['--maxclients', '1'] })
    const holder = await connectStore(server.url)
    const { store, seen } = createStore(server.url)
    await eventually('it was turned away', () => seen.length > 1)

    expect(await store.ping()).toBe(false)
    await holder.store.close()

    await eventually('it is let in', () => store.ping(), 3000)
  })
})

describe('createRedisStore with a server that is away', () => {
  it('starts at once without it and finds it within 3 s', async () => {
    await using server = createRedisServer()
    const { store, seen } = createStore(server.url)
    const first = await outcomeOf(store.get('key'))
    const { tookMs, message } = await outcomeOf(store.get('key'))

    // The first command waits for the first attempt to connect, which also loads the client.
    expect(first.tookMs).toBeLessThan(1000)
    expect(tookMs).toBeLessThan(60)
    expect(message).toBe('Cannot use the credential cache: not connected')
    await eventually('it was missed', () => seen.length >= 3)
    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ECONNREFUSED' })
    await server.start()
    await eventually('it is in use', () => store.ping(), 3000)
  })

  it('is told of a crash at once and uses it again within 3 s of its return', async () => {
    await using server = await startRedisServer()
    const { store, seen } = await connectStore(server.url)

    await server.kill()
    await eventually('the crash was noticed', () => seen.length > 0, 500)
    const { tookMs } = await outcomeOf(store.get('key'))
    expect(tookMs).toBeLessThan(60)
    // Long enough for the delays between attempts to have grown.
    await eventually('several attempts failed', () => seen.length >= 5, 5000)
    await server.start()

    await eventually('it is in use', () => store.ping(), 3000)
    await store.set('key', 'value', 1000)
    expect(await store.get('key')).toBe('value')
  })
})

describe('createRedisStore with a server that hangs', () => {
  let server: RedisServer

  beforeAll(async () => {
    server = await startRedisServer()
  })

  afterAll(() => server.close())

  it('waits 100 ms three times, then not at all, and uses it again within 3 s of its waking', async () => {
    const { store, seen } = await connectStore(server.url)
    server.stop()

    const waits: number[] = []
    for (let request = 0; request < 10; request++) waits.push((await outcomeOf(store.get('key'))).tookMs)

    for (const tookMs of waits.slice(0, 3)) expect(tookMs).toBeWithin(90, 250)
    for (const tookMs of waits.slice(3)) expect(tookMs).toBeLessThan(60)
    expect(seen.map(({ trouble }) => trouble)).toEqual(['timeout', 'timeout', 'timeout', 'suspended'])
    server.cont()
    await eventually('it is in use', () => store.ping(), 3000)
  })

  it('lets nothing pile up: a thousand commands wait 100 ms together and are gone', async () => {
    const { store } = await connectStore(server.url)
    server.stop()

    const startedAtMs = performance.now()
    const outcomes = await Promise.all(
      Array.from({ length: 1000 }, (_, number) => outcomeOf(store.set(`key ${number}`, 'value', 1000))),
    )

    expect(performance.now() - startedAtMs).toBeLessThan(500)
    expect(outcomes.every(({ message }) => message !== null)).toBe(true)
    server.cont()
    await eventually('it is in use', () => store.ping(), 3000)
  })

  it('notices while nobody asks', async () => {
    const { store, seen } = await connectStore(server.url)
    server.stop()

    await eventually('the silence was noticed', () => seen.length > 0, 3000)

    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ETIMEDOUT' })
    expect((await outcomeOf(store.get('key'))).tookMs).toBeLessThan(60)
    server.cont()
    await eventually('it is in use', () => store.ping(), 3000)
  })

  it('takes the time that it is told to', async () => {
    const { store } = await connectStore(server.url, { commandTimeoutMs: 30 })
    server.stop()

    const { tookMs, message } = await outcomeOf(store.get('key'))

    expect(tookMs).toBeWithin(25, 90)
    expect(message).toBe('Cannot use the credential cache: no answer in time')
    server.cont()
  })
})

describe('createRedisStore with a server that is slow or silent', () => {
  it('lets nobody wait for long at the start when it does not even greet, and then nobody at all', async () => {
    using listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
    const { store, seen } = createStore(`redis://127.0.0.1:${listener.port}`)

    const outcomes = await Promise.all([outcomeOf(store.get('a')), outcomeOf(store.get('b'))])

    for (const { tookMs, message } of outcomes) {
      expect(tookMs).toBeWithin(450, 700)
      expect(message).toBe('Cannot use the credential cache: not connected')
    }
    expect((await outcomeOf(store.get('a'))).tookMs).toBeLessThan(60)
    await eventually('it was given up', () => seen.length > 0, 3000)
    expect(seen[0]).toEqual({ trouble: 'unreachable', code: 'ETIMEDOUT' })
  })

  it('leaves a server alone that connects quickly and answers slowly, until it has become faster', async () => {
    using server = startScriptedRedis()
    const { store, seen } = await connectStore(server.url)
    server.delayMs = 200
    for (let request = 0; request < 3; request++) await outcomeOf(store.get('key'))
    await eventually('it was probed in vain', () => server.acceptedConnections >= 3, 3000)
    server.commands.length = 0

    const waits: number[] = []
    await eventually('it was probed in vain once more', async () => {
      waits.push((await outcomeOf(store.get('key'))).tookMs)
      return server.acceptedConnections >= 4
    })

    expect(Math.max(...waits)).toBeLessThan(60)
    expect(server.commands).not.toContain('GET')
    expect(seen.filter(({ trouble }) => trouble === 'suspended')).toHaveLength(1)
    server.delayMs = 50
    await eventually('it is in use', () => store.ping(), 3000)
  })

  it('drops the connection on which three commands had no answer', async () => {
    using server = startScriptedRedis()
    const { store, seen } = await connectStore(server.url)
    server.delayMs = Infinity
    await eventually('there is one connection', () => server.openConnections === 1)

    await Promise.all([outcomeOf(store.get('a')), outcomeOf(store.get('b')), outcomeOf(store.get('c'))])

    expect(seen.at(-1)).toEqual({ trouble: 'suspended', code: null })
    await eventually(
      'there is a new one instead',
      () => {
        return server.acceptedConnections === 2 && server.openConnections === 1
      },
      400,
    )
  })

  it('counts only commands in a row', async () => {
    using server = startScriptedRedis()
    const { store, seen } = await connectStore(server.url)

    for (let round = 0; round < 2; round++) {
      server.delayMs = 130
      await Promise.all([outcomeOf(store.get('a')), outcomeOf(store.get('b'))])
      server.delayMs = 0
      await store.get('c')
    }

    expect(seen.map(({ trouble }) => trouble)).toEqual(['timeout', 'timeout', 'timeout', 'timeout'])
  })

  it('keeps an idle connection by asking for a sign of life', async () => {
    using server = startScriptedRedis()
    const { seen } = await connectStore(server.url)
    server.commands.length = 0

    await eventually('it was asked', () => server.commands.length > 0, 3000)

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
    const { store, seen } = await connectStore(server.url)
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
    const { store } = await connectStore(server.url)
    await store.set('key', 'value', 60_000)
    await server.command('REPLICAOF', '127.0.0.1', '1')
    const connections = Number(/total_connections_received:(\d+)/.exec(await statistics(server))![1])

    for (let write = 0; write < 3; write++) {
      await expect(store.set('other', 'value', 60_000)).rejects.toThrow('READONLY')
    }

    await eventually('it reads again', async () => (await store.get('key')) === 'value', 1000)
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
