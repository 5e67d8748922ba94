import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/eventually.ts'
import { createRedisServer, startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { serve } from '../support/executable.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const connections = 20
/** Some of each client, among them some of clients that were never there before. */
const requestsBetweenChanges = 300

let sandbox: Sandbox
let redis: RedisServer

beforeAll(async () => {
  sandbox = await startSandbox()
  redis = await startRedisServer()
})

afterAll(async () => {
  await redis.close()
  await sandbox.stop()
})

describe('serve with Redis as its cache', () => {
  it('answers every request while Redis is killed, stopped, flushed and restarted, and uses it again', async () => {
    const settings = {
      token_server_url: sandbox.tokenServerUrl,
      cache_backend: 'redis',
      cache_url: redis.url,
    }
    await using first = await serve(settings)
    await using second = await serve(settings)
    const load = startLoad(first.url)

    const changes = [
      () => redis.kill(),
      () => redis.start(),
      () => redis.stop(),
      () => redis.cont(),
      () => redis.command('FLUSHALL'),
      () => redis.restart(),
    ]
    await load.answered(requestsBetweenChanges)
    for (const change of changes) {
      await change()
      await load.answered(requestsBetweenChanges)
    }
    const { failures, users } = await load.stop()

    expect(failures).toEqual([])
    // One exchange for each who came, however many requests and however often the cache was lost.
    expect(exchanges()).toBeLessThanOrEqual(users)

    await eventually('the cache answers again', async () => (await keys()) >= 0)
    await eventually('new credentials are shared', async () => {
      const user = sandbox.addUser(`late ${crypto.randomUUID()}`)
      const known = await keys()
      await ask(first.url, user)
      await eventually('they are stored', async () => (await keys()) > known, 2000)
      const before = exchanges()
      const { status } = await ask(second.url, user)
      return status === 200 && exchanges() === before
    })
    expect([await first.stop(), await second.stop()]).toEqual([0, 0])
  }, 300_000)
})

describe('serve without Redis and token server', () => {
  it('listens all the same, says what is missing, and is well as soon as they are there', async () => {
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
    const user = late.addUser('somebody')
    const answer = await ask(bridge.url, user)
    let body: unknown
    await eventually('the heartbeat is well', async () => {
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

/** Many clients that ask all the time, and every now and then one who was never there before. */
function startLoad(url: string) {
  const failures: string[] = []
  const users = Array.from({ length: connections }, (_, index) => sandbox.addUser(`loaded ${index}`))
  let requests = 0
  const over = new AbortController()
  const loops = users.map(async (own, index) => {
    let user = own
    for (let turn = 0; !over.signal.aborted; turn += 1) {
      const { status } = await ask(url, user).catch((error: Error) => ({ status: error.message }))
      requests += 1
      if (status !== 200) failures.push(`${status}`)
      if (turn % 8 === index % 8) users.push((user = sandbox.addUser(`loaded ${index} ${turn}`)))
      await Bun.sleep(10)
    }
  })
  return {
    /** Resolves when so many further requests have been answered. */
    async answered(count: number) {
      const before = requests
      await eventually(`${count} more are answered`, () => requests >= before + count)
    },
    async stop() {
      over.abort()
      await Promise.all(loops)
      return { failures, users: users.length }
    },
  }
}

const tokens = new Map<SandboxUser, string>()

async function ask(url: string, user: SandboxUser): Promise<{ status: number }> {
  const token = tokens.get(user) ?? user.bearerToken()
  tokens.set(user, token)
  const response = await fetch(`${url}/v1/buckets/${user.clientState}/collections/tabs/records`, {
    headers: { Authorization: `Bearer ${token}`, 'X-KeyID': user.keyId },
  })
  await response.text()
  return { status: response.status }
}

function exchanges(): number {
  return sandbox.requests.token.entries.filter(({ target }) => target.includes('/1.0/sync/')).length
}

async function keys(): Promise<number> {
  return Number(await redis.command('DBSIZE'))
}
