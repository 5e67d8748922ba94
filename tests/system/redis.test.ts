import { describe, expect, it } from 'bun:test'

import { newClients, startLoad, startNodes, Client } from '../operate/nodes.ts'
import { eventually } from '../support/eventually.ts'
import { iniText, makeFolder, run, serve } from '../support/executable.ts'
import { freePort } from '../support/free-port.ts'
import { createRedisServer, startRedisServer } from '../support/redis-server.ts'
import { startSandbox } from '../support/sandbox.ts'

/** Some requests of each client. */
const requestsBetweenChanges = 300

// The executable and Redis, because they are started, killed and frozen in any order.
describe('serve with Redis as its cache', () => {
  it('answers every request while Redis is killed, stopped, flushed and restarted, and uses it again', async () => {
    await using nodes = await startNodes()
    const { redis, sandbox } = nodes
    const [first, second] = nodes.nodes.map(({ url }) => url) as [string, string]
    const changes = [
      () => Promise.resolve(),
      () => redis.kill(),
      () => redis.start(),
      () => redis.stop(),
      () => redis.cont(),
      () => redis.command('FLUSHALL'),
      () => redis.restart(),
    ]
    const load = startLoad(newClients(20, first, sandbox))
    const ofNewcomers: number[] = []

    for (const change of changes) {
      await change()
      const before = load.requests()
      for (let newcomer = 0; newcomer < 5; newcomer += 1) ofNewcomers.push((await someoneNew(first)).status)
      await eventually('more are answered', () => load.requests() >= before + requestsBetweenChanges)
    }
    const { failures } = await load.stop()

    expect(failures).toEqual([])
    expect(ofNewcomers).toEqual(Array(5 * changes.length).fill(200))
    // One exchange for each new user, however many requests and however often the cache was lost.
    expect(nodes.exchanges()).toBeLessThanOrEqual(20 + ofNewcomers.length)

    await eventually('new credentials are shared', async () => {
      const keys = async () => Number(await redis.command('DBSIZE'))
      const known = await keys()
      const { client } = await someoneNew(first)
      await eventually('they are stored', async () => (await keys()) > known, 2000)
      const before = nodes.exchanges()
      const { status } = await client(second).ask('GET', '')
      return status === 200 && nodes.exchanges() === before
    })

    async function someoneNew(origin: string) {
      const user = sandbox.addUser(crypto.randomUUID())
      const token = user.bearerToken()
      const client = (url: string) => new Client(url, user, undefined, token)
      const { status } = await client(origin).ask('GET', '')
      return { status, client }
    }
  }, 300_000)
})

describe('serve without Redis and token server', () => {
  it('listens anyway, reports what is missing, and is healthy as soon as they are up', async () => {
    const tokenPort = freePort()
    await using absent = createRedisServer()
    const bridge = await serve({
      token_server_url: `http://127.0.0.1:${tokenPort}`,
      cache_backend: 'redis',
      cache_url: absent.url,
    })

    const alive = await fetch(`${bridge.url}/__lbheartbeat__`)
    const ill = await fetch(`${bridge.url}/__heartbeat__`)
    const illBody = await ill.json()
    await using late = await startSandbox({ tokenPort })
    await absent.start()
    const answer = await new Client(bridge.url, late.addUser('somebody')).ask('GET', '')
    let body: unknown
    await eventually('the heartbeat succeeds', async () => {
      const well = await fetch(`${bridge.url}/__heartbeat__`)
      body = await well.json()
      return well.status === 200
    })
    const code = await bridge.stop()

    expect([alive.status, await alive.text()]).toEqual([200, ''])
    expect([ill.status, illBody]).toEqual([503, { storage: false, cache: false, permission: true }])
    expect(Number(ill.headers.get('Retry-After'))).toBeGreaterThanOrEqual(1)
    expect(answer.status).toBe(200)
    expect(body).toEqual({ storage: true, cache: true, permission: true })
    expect(code).toBe(0)
  }, 300_000)
})

describe('check', () => {
  it('reports a member of a cluster that is named as a single server', async () => {
    // Without one, its bus would take a port that the system may have assigned.
    const bus = ['--cluster-port', String(freePort())]
    const partial = ['--cluster-enabled', 'yes', ...bus, '--cluster-require-full-coverage', 'no']
    await using member = await startRedisServer({ args: partial })
    await member.command('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383')
    await eventually('it takes the keys of its slots', async () => {
      return (await member.command('SET', 'foo', '1').catch(String)) === 'OK'
    })
    const settings = { token_server_url: 'http://127.0.0.1:1', cache_backend: 'redis', cache_url: member.url }
    const cwd = makeFolder({ 'bridge.ini': iniText(settings) })

    const { stderr } = await run(['check', '--config', 'bridge.ini'], { cwd })

    expect(stderr).toContain('cache: refuses commands (')
    expect(stderr).toContain('write redis+cluster:// for a cluster')
  })
})
