import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { readRedisAddress } from '../../src/credentials/redis-address.ts'
import { createRedisStore } from '../../src/credentials/redis-store.ts'
import { makeCertificates } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { someIdentity } from './identities.ts'
import { isInSlotsOf, startCluster, startWatched, tlsArguments } from './redis-topologies.ts'
import { startCredentials } from './world.ts'

import type { CredentialStore } from '../../src/credentials/shared-credentials.ts'
import type { RedisStoreOptions } from '../../src/credentials/redis-store.ts'
import type { Certificates } from '../support/certificates.ts'
import type { RedisServer } from '../support/redis-server.ts'
import type { Cluster, Watched } from './redis-topologies.ts'

const open: CredentialStore[] = []

afterEach(async () => {
  for (const store of open.splice(0)) await store.close()
})

/** For tests that are not about time: members that answer are waited for, however busy the machine is. */
const patience = { commandTimeoutMs: 10_000, connectTimeoutMs: 10_000 }

function createStore(url: string, changes: Partial<RedisStoreOptions> = {}) {
  const seen: string[] = []
  const store = createRedisStore({
    address: readRedisAddress(url)!,
    prefix: 'test:',
    random: Math.random,
    onTrouble: (trouble, code) => seen.push(`${trouble} ${code}`),
    ...patience,
    ...changes,
  })
  open.push(store)
  return { store, seen }
}

async function connectStore(url: string, changes: Partial<RedisStoreOptions> = {}): Promise<CredentialStore> {
  const { store } = createStore(url, changes)
  await eventually('the store is connected', () => store.ping())
  return store
}

/** Obtains credentials for new identities all the time; tells how many have been, and rejects after the first error. */
function keepObtaining(store: CredentialStore): { obtained(): number; stop(): Promise<void> } {
  const world = startCredentials({ store })
  let obtained = 0
  const stopping = new AbortController()
  const done = (async () => {
    while (!stopping.signal.aborted) {
      await world.credentials.obtain(someIdentity({ assertion: crypto.randomUUID() }))
      obtained += 1
      await Bun.sleep(2)
    }
  })()
  return {
    obtained: () => obtained,
    async stop() {
      stopping.abort()
      await done
    },
  }
}

/** Whether every one of some keys, in slots of every part of a cluster, can be written and read. */
async function isInUse(store: CredentialStore): Promise<boolean> {
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const key of keys) await store.set(key, `value of ${key}`, 60_000)
  const values = await Promise.all(keys.map((key) => store.get(key)))
  return values.every((value, index) => value === `value of ${keys[index]}`)
}

describe('createRedisStore with TLS', () => {
  const folder = temporaryFolder()
  let certificates: Certificates
  let server: RedisServer
  let url: string

  beforeAll(async () => {
    certificates = await makeCertificates(folder.path)
    const port = freePort()
    server = await startRedisServer({ args: tlsArguments(certificates, port) })
    url = `rediss://127.0.0.1:${port}`
  })

  afterAll(async () => {
    await server.close()
    folder[Symbol.dispose]()
  })

  it('trusts the authority of the address', async () => {
    const store = await connectStore(`${url}/2?cacert=${encodeURIComponent(certificates.caPem)}`)

    await store.set('key', 'value', 60_000)

    expect(await store.get('key')).toBe('value')
    expect(String(await server.command('INFO', 'keyspace'))).toContain('db2:keys=1')
  })

  it('comes back after a crash', async () => {
    const store = await connectStore(`${url}?cacert=${encodeURIComponent(certificates.caPem)}`)

    await server.restart()

    await eventually('it is in use', () => isInUse(store))
  })

  it('lets nobody else in the place of the server', async () => {
    using strangers = temporaryFolder()
    const others = await makeCertificates(strangers.path)
    using named = temporaryFolder()
    const elsewhere = await makeCertificates(named.path, 'DNS:cache.example.org')
    const port = freePort()
    await using impostor = await startRedisServer({ args: tlsArguments(elsewhere, port) })
    const attempts = [
      createStore(url),
      createStore(`${url}?cacert=${encodeURIComponent(others.caPem)}`),
      createStore(`rediss://127.0.0.1:${port}?cacert=${encodeURIComponent(elsewhere.caPem)}`),
    ]

    for (const { store, seen } of attempts) {
      await eventually('two attempts failed', () => seen.length >= 2)
      expect(await store.ping()).toBe(false)
      expect(seen[0]).toMatch(/^unreachable (UNABLE_TO|SELF_SIGNED|ERR_TLS_CERT)\w+$/)
    }
    expect(await impostor.command('PING')).toBe('PONG')
  })
})

describe('createRedisStore with a user who may do little', () => {
  it('needs GET, SET, DEL and PING', async () => {
    await using server = await startRedisServer()
    await allow(server, '+get', '+set', '+del', '+ping')
    const { store, seen } = createStore(server.url.replace('//', limitedUser), { prefix: 'sync-bridge:' })
    await eventually('the store is connected', () => store.ping())

    expect(await isInUse(store)).toBe(true)
    await store.delete('a')

    expect(await store.get('a')).toBeNull()
    expect(seen).toEqual([])
  })

  it('needs SELECT for another database', async () => {
    await using server = await startRedisServer()
    await allow(server, '+get', '+set', '+del', '+ping', '+select')
    const store = await connectStore(`${server.url.replace('//', limitedUser)}/2`, { prefix: 'sync-bridge:' })

    expect(await isInUse(store)).toBe(true)
  })
})

const limitedUser = '//bridge:hunter2@'

async function allow(server: RedisServer, ...commands: string[]): Promise<void> {
  await server.command('ACL', 'SETUSER', 'bridge', 'on', '>hunter2', '~sync-bridge:*', ...commands)
}

/** The patience for commands that is meant for use. */
const usual = { commandTimeoutMs: 100, connectTimeoutMs: 500 }

/** A sentinel that could not have its way lets some seconds pass before it tries again. */
const failoverMs = 60_000

/**
 * How many would be obtained during a failover if each of them waited for 100 ms. It takes hundreds of ms at least, of
 * which nobody needs more than a few for one.
 */
const farTooFew = 20

describe('createRedisStore with Sentinel', () => {
  let watched: Watched

  beforeAll(async () => {
    watched = await startWatched()
  })

  afterAll(() => watched[Symbol.asyncDispose]())

  it('uses the master', async () => {
    const store = await connectStore(watched.url)

    expect(await isInUse(store)).toBe(true)

    expect(String(await watched.master.command('GET', 'test:a'))).toBe('value of a')
  })

  it('uses the database of the address', async () => {
    const store = await connectStore(`${watched.url}/3`)

    await store.set('key', 'value', 60_000)

    expect(String(await watched.master.command('INFO', 'keyspace'))).toContain('db3:keys=1')
  })

  it('says so when there is no such master', async () => {
    const { store, seen } = createStore(watched.url.replace('/main', '/other'))

    await eventually('two attempts failed', () => seen.length >= 2)

    expect(await store.ping()).toBe(false)
    expect(seen[0]).toBe('unreachable NOMASTER')
  })

  it('moves to the new master when the old one dies or hangs, and nobody notices', async () => {
    const store = await connectStore(watched.url, usual)
    const load = keepObtaining(store)

    await watched.master.kill()
    const afterTheDeath = load.obtained()
    await eventually('the replica is in use', () => isInUse(store), failoverMs)
    const obtainedMeanwhile = [load.obtained() - afterTheDeath]
    expect(await watched.replica.command('GET', 'test:a')).toBe('value of a')
    await watched.master.start()
    await eventually('the old master is a replica', async () =>
      String(await watched.master.command('INFO', 'replication')).includes('master_link_status:up'),
    )
    watched.replica.stop()
    const afterTheSilence = load.obtained()
    await eventually('the first is in use again', () => isInUse(store), failoverMs)
    obtainedMeanwhile.push(load.obtained() - afterTheSilence)
    watched.replica.cont()
    await load.stop()

    expect(await watched.master.command('GET', 'test:a')).toBe('value of a')
    for (const obtained of obtainedMeanwhile) expect(obtained).toBeGreaterThan(farTooFew)
  }, 120_000)
})

describe('createRedisStore with Sentinel and TLS', () => {
  it('asks the sentinel and the master by TLS', async () => {
    using folder = temporaryFolder()
    const certificates = await makeCertificates(folder.path)
    await using watched = await startWatched(certificates)

    const store = await connectStore(`${watched.url}?cacert=${encodeURIComponent(certificates.caPem)}`)

    expect(await isInUse(store)).toBe(true)
  })
})

describe('createRedisStore with a cluster', () => {
  const folder = temporaryFolder()
  let certificates: Certificates
  let cluster: Cluster

  beforeAll(async () => {
    certificates = await makeCertificates(folder.path)
    cluster = await startCluster(certificates)
  })

  afterAll(async () => {
    await cluster[Symbol.asyncDispose]()
    folder[Symbol.dispose]()
  })

  it('keeps those waiting who come before it is connected', async () => {
    const { store, seen } = createStore(cluster.url)

    expect(await Promise.all(['a', 'b', 'c', 'd', 'e'].map((key) => store.get(key)))).not.toContain(undefined)
    expect(await store.ping()).toBe(true)
    expect(seen).toEqual([])
  })

  it('spreads the keys over all masters', async () => {
    const store = await connectStore(cluster.url, { prefix: 'spread:' })

    for (let key = 0; key < 30; key++) await store.set(`key ${key}`, 'value', 60_000)

    const sizes = await Promise.all(cluster.nodes.slice(0, 3).map((node) => node.command('DBSIZE')))
    for (const size of sizes) expect(Number(size)).toBeWithin(3, 25)
    expect(await store.get('key 29')).toBe('value')
  })

  it('uses TLS to every member', async () => {
    const store = await connectStore(`${cluster.tlsUrl}?cacert=${encodeURIComponent(certificates.caPem)}`)

    expect(await isInUse(store)).toBe(true)
    await store.delete('a')
    expect(await store.get('a')).toBeNull()
  })

  it('needs few commands of its members', async () => {
    for (const node of cluster.nodes) {
      await allow(node, '+get', '+set', '+del', '+ping', '+cluster|slots', '+asking')
    }
    const store = await connectStore(cluster.url.replace('//', limitedUser), { prefix: 'sync-bridge:' })

    expect(await isInUse(store)).toBe(true)
  })

  it('follows a slot that moves, also while it moves', async () => {
    for (const node of cluster.nodes) {
      await node.command(
        'ACL',
        'SETUSER',
        'mover',
        'on',
        '>p',
        '~*',
        '+get',
        '+set',
        '+cluster|slots',
        '+asking',
        '+ping',
      )
    }
    const store = await connectStore(cluster.url.replace('//', '//mover:p@'), { prefix: '{one-slot}:' })
    const slot = String(await cluster.nodes[0]!.command('CLUSTER', 'KEYSLOT', '{one-slot}:x'))
    const owner = Math.min(2, Math.floor(Number(slot) / 5461))
    const [from, to] = [cluster.nodes[owner]!, cluster.nodes[(owner + 1) % 3]!]
    const [fromId, toId] = await Promise.all([from, to].map((node) => node.command('CLUSTER', 'MYID')))
    await store.set('old', 'value', 60_000)

    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId))
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId))
    await store.set('new', 'value', 60_000)
    expect(await store.get('old')).toBe('value')
    expect(await store.get('new')).toBe('value')
    const keys = ['{one-slot}:old']
    await from.command(
      'MIGRATE',
      '127.0.0.1',
      String(cluster.tlsPorts[(owner + 1) % 3]),
      '',
      '0',
      '1000',
      'KEYS',
      ...keys,
    )
    for (const node of [to, from]) await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId))

    expect(await store.get('old')).toBe('value')
    expect(await store.get('new')).toBe('value')
    expect(await to.command('GET', '{one-slot}:new')).toBe('value')
  })

  it('loses only what a member that hangs would know', async () => {
    const store = await connectStore(cluster.url, { prefix: 'hang:', commandTimeoutMs: 1000 })
    const load = keepObtaining(store)
    const keys = Array.from({ length: 12 }, (_, number) => `key ${number}`)
    for (const key of keys) await store.set(key, 'value', 60_000)

    cluster.nodes[1]!.stop()
    const answers = await Promise.allSettled(keys.map((key) => store.get(key)))
    cluster.nodes[1]!.cont()
    await eventually('all slots are in use', () => isInUse(store))
    await load.stop()

    const lost = keys.filter((_, index) => answers[index]!.status === 'rejected')
    expect(lost).toEqual(keys.filter((key) => isInSlotsOf(1, `hang:${key}`)))
    expect(lost.length).toBeWithin(1, keys.length)
  })

  it('uses the replica when its master dies, and nobody notices', async () => {
    const store = await connectStore(cluster.url, usual)
    const load = keepObtaining(store)

    await cluster.nodes[0]!.kill()
    const afterTheDeath = load.obtained()
    await eventually('the rest is in use meanwhile', async () => !(await store.ping()))
    await eventually('all slots are in use', () => isInUse(store), failoverMs)
    const obtainedMeanwhile = load.obtained() - afterTheDeath
    await load.stop()

    expect(await store.ping()).toBe(true)
    expect(String(await cluster.nodes[3]!.command('ROLE'))).toStartWith('master')
    expect(obtainedMeanwhile).toBeGreaterThan(farTooFew)
  }, 120_000)

  it('starts at once without any member', async () => {
    const { store, seen } = createStore(`redis+cluster://127.0.0.1:${freePort()}`)

    await expect(store.get('key')).rejects.toThrow('Cannot use the credential cache: not connected')

    await eventually('two attempts failed', () => seen.length >= 2)
    expect(seen[0]).toBe('unreachable ECONNREFUSED')
  })
})
