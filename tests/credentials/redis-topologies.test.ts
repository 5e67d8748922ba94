import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { makeCertificates, type Certificates } from '../support/certificates.ts'
import { freePort } from '../support/free-port.ts'
import { startProgram, temporaryFolder } from '../support/processes.ts'
import { eventually } from '../support/eventually.ts'
import { sendCommand, startRedisServer, type RedisServer } from '../support/redis-server.ts'
import * as stores from './redis-stores.ts'
import { closeStores, isInUse, keepObtaining } from './redis-stores.ts'
import {
  isInSlotsOf,
  startCluster,
  startWatched,
  tlsArguments,
  type Cluster,
  type Watched,
} from './redis-topologies.ts'

import type { CredentialStore } from '../../src/credentials/credentials.ts'
import type { RedisStoreOptions } from '../../src/credentials/redis-store.ts'

afterEach(closeStores)

const createStore = (url: string, changes: Partial<RedisStoreOptions> = {}) =>
  stores.createStore(url, { ...stores.patient, ...changes })

async function connectStore(url: string, changes: Partial<RedisStoreOptions> = {}): Promise<CredentialStore> {
  return (await stores.connectStore(url, { ...stores.patient, ...changes })).store
}

describe('RedisStore with TLS', () => {
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

  it('trusts the authority of the address, also after a crash', async () => {
    const store = await connectStore(`${url}/2?cacert=${encodeURIComponent(certificates.caPem)}`)

    await store.set('key', 'value', 60_000)

    expect(await store.get('key')).toBe('value')
    expect(String(await server.command('INFO', 'keyspace'))).toContain('db2:keys=1')
    await server.restart()
    await eventually('it is in use', () => isInUse(store))
  })

  it('accepts no other server in its place', async () => {
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

const limitedUser = '//bridge:hunter2@'

async function allow(server: RedisServer, ...commands: string[]): Promise<void> {
  await server.command('ACL', 'SETUSER', 'bridge', 'on', '>hunter2', '~sync-bridge:*', ...commands)
}

/** The command timeout of production. */
const usual = { commandTimeoutMs: 100, connectTimeoutMs: 500 }

/** A sentinel whose vote failed waits some seconds before it tries again. */
const failoverMs = 60_000

/**
 * The number obtained during a failover if each waited for 100 ms. It takes hundreds of ms at least, of which each exchange needs a few.
 */
const obtainedIfEachWaited = 20

describe('RedisStore with a sentinel that has a password of its own', () => {
  let watched: Watched

  beforeAll(async () => {
    watched = await startWatched()
  })

  afterAll(() => watched[Symbol.asyncDispose]())

  it('uses the master, and the database of the address', async () => {
    const store = await connectStore(watched.urlOf('main/3'))

    expect(await isInUse(store)).toBe(true)

    expect(String(await watched.master.command('INFO', 'keyspace'))).toContain('db3:keys=8')
  })

  it('reports that there is no such master', async () => {
    const { store, seen } = createStore(watched.urlOf('other'))

    await eventually('two attempts failed', () => seen.length >= 2)

    expect(await store.ping()).toBe(false)
    expect(seen[0]).toBe('unreachable NOMASTER')
  })

  it('needs no sentinel while the master is healthy, and uses it again when it is back', async () => {
    const { store, seen } = createStore(watched.urlOf())
    await eventually('the store is connected', () => store.ping())

    watched.signalSentinel('SIGSTOP')
    await eventually('the timeout was detected', () => seen.length > 0)
    // The library looks for another sentinel once; requests meanwhile fail with that error.
    await eventually('the master is in use without them', () => isInUse(store))
    await watched.master.restart()
    watched.signalSentinel('SIGCONT')
    await eventually('the master is in use again', () => isInUse(store), failoverMs)
  }, 300_000)
})

describe('RedisStore with a sentinel that has TLS, and no password', () => {
  it('connects to the sentinel and to the master over TLS', async () => {
    using folder = temporaryFolder()
    await using watched = await startWatched(await makeCertificates(folder.path))

    const store = await connectStore(watched.urlOf())

    expect(await isInUse(store)).toBe(true)
  })
})

describe('RedisStore with a cluster', () => {
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

  it('uses TLS to every member', async () => {
    const store = await connectStore(`${cluster.tlsUrl}?cacert=${encodeURIComponent(certificates.caPem)}`)

    expect(await isInUse(store)).toBe(true)
    await store.delete('a')
    expect(await store.get('a')).toBeNull()
  })

  it('follows a slot that moves, also while it moves, with few commands', async () => {
    const prefix = 'sync-bridge:{one-slot}:'
    const commands = ['+get', '+set', '+del', '+ping', '+cluster|slots', '+asking']
    for (const node of cluster.nodes) await allow(node, ...commands)
    const store = await connectStore(cluster.url.replace('//', limitedUser), { prefix })
    const slot = String(await cluster.nodes[0]!.command('CLUSTER', 'KEYSLOT', prefix))
    const owner = Math.min(2, Math.floor(Number(slot) / 5461))
    const [from, to] = [cluster.nodes[owner]!, cluster.nodes[(owner + 1) % 3]!]
    const [fromId, toId] = await Promise.all([from, to].map((node) => node.command('CLUSTER', 'MYID')))
    await store.set('old', 'value', 60_000)

    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(fromId))
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(toId))
    await store.set('new', 'value', 60_000)
    expect(await store.get('old')).toBe('value')
    expect(await store.get('new')).toBe('value')
    const target = ['127.0.0.1', String(cluster.tlsPorts[(owner + 1) % 3])]
    await from.command('MIGRATE', ...target, '', '0', '1000', 'KEYS', `${prefix}old`)
    for (const node of [to, from]) await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', String(toId))

    expect(await store.get('old')).toBe('value')
    expect(await store.get('new')).toBe('value')
    expect(await to.command('GET', `${prefix}new`)).toBe('value')
  })

  it('loses only the keys of a member that hangs', async () => {
    const store = await connectStore(cluster.url, { prefix: 'hang:', commandTimeoutMs: 5000 })
    const load = keepObtaining(store)
    const keys = Array.from({ length: 12 }, (_, number) => `key ${number}`)
    for (const key of keys) await store.set(key, 'value', 60_000)

    cluster.nodes[1]!.stop()
    const answers = await Promise.allSettled(keys.map((key) => store.get(key)))
    cluster.nodes[1]!.cont()
    await eventually('all slots are in use', () => isInUse(store))
    await load.stop()

    const lost = keys.filter((_, index) => answers[index]!.status === 'rejected')
    const belong = await Promise.all(keys.map((key) => isInSlotsOf(cluster, 1, `hang:${key}`)))
    expect(lost).toEqual(keys.filter((_, index) => belong[index]))
    expect(lost.length).toBeWithin(1, keys.length)
  })

  it('uses the replica when its master dies or hangs, without errors', async () => {
    const [first, second] = [cluster.nodes[0]!, cluster.nodes[3]!]
    const store = await connectStore(cluster.url, usual)
    const load = keepObtaining(store)
    const obtainedUntilInUse = async () => {
      const before = load.obtained()
      await eventually('the loss was detected', async () => !(await store.ping()))
      await eventually('the other one is in use', () => isInUse(store), failoverMs)
      return load.obtained() - before
    }
    const roleOf = async (node: RedisServer) => String(await node.command('ROLE')).split(',')[0]

    await first.kill()
    const obtainedMeanwhile = [await obtainedUntilInUse()]
    const successor = await roleOf(second)
    await first.start()
    await eventually('the old master is a replica', async () =>
      String(await first.command('INFO', 'replication')).includes('master_link_status:up'),
    )
    second.stop()
    obtainedMeanwhile.push(await obtainedUntilInUse())
    second.cont()
    await load.stop()

    expect([successor, await roleOf(first)]).toEqual(['master', 'master'])
    for (const obtained of obtainedMeanwhile) expect(obtained).toBeGreaterThan(obtainedIfEachWaited)
    await eventually('all masters respond', () => store.ping())
  }, 300_000)

  it('connects to members that do not know their own host through the known host', async () => {
    const [port, busPort] = [String(freePort()), String(freePort())]
    const url = `redis://127.0.0.2:${port}`
    const where = ['--bind', '127.0.0.2', '--port', port, '--cluster-port', busPort, '--dir', folder.path]
    await using _ = await startProgram(
      ['redis-server', '--cluster-enabled', 'yes', ...where],
      async () => (await sendCommand(url, 'PING')) === 'PONG',
    )
    await sendCommand(url, 'CLUSTER', 'ADDSLOTSRANGE', '0', '16383')

    const store = await connectStore(url.replace('redis:', 'redis+cluster:'))

    await eventually('it is in use', () => isInUse(store))
  })

  it('starts at once without any member', async () => {
    const { store, seen } = createStore(`redis+cluster://127.0.0.1:${freePort()}`)

    await expect(store.get('key')).rejects.toThrow('Cannot use Redis: not connected')

    await eventually('two attempts failed', () => seen.length >= 2)
    expect(seen[0]).toBe('unreachable ECONNREFUSED')
  })
})
