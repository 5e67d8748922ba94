import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { startTestBridge } from '../support/bridge.ts'
import { freePort } from '../support/free-port.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import {
  Canaries,
  echoOf,
  kinds,
  malformedOf,
  startCanaryWorld,
  sweepOf,
  type CanaryWorld,
} from './canaries.ts'
import { endAll, makeFolder, run, start } from '../support/executable.ts'
import type { Fault, ProxiedRequest } from '../support/fault-proxy.ts'

const redisPassword = `canary-redis-password-${crypto.randomUUID()}`
const secret = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex')
const previousSecret = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('hex')
const password = `canary-password-${crypto.randomUUID()}`

const canaries = new Canaries()
canaries.keep('cache secret', secret)
canaries.keep('previous cache secret', previousSecret)
canaries.keep('Redis password', redisPassword)
canaries.keep('password of another scheme', password)

let resets = 0
/** The behaviour of the token server and the storage; with `echo` they repeat everything they received. */
const faults: ((echo: string) => Fault | null)[] = [
  // Not at every call, because the commit of a batch is retried for many seconds.
  () => (resets++ % 5 === 4 ? null : { kind: 'reset-before' }),
  () => null,
  (echo) => ({ kind: 'status', status: 500, body: echo }),
  (echo) => ({ kind: 'status', status: 503, headers: { 'Retry-After': '60' }, body: echo }),
  (echo) => ({ kind: 'status', status: 401, headers: { 'WWW-Authenticate': echo }, body: echo }),
  (echo) => ({ kind: 'status', status: 400, headers: { 'Content-Type': 'application/json' }, body: echo }),
  (echo) => ({ kind: 'status', status: 404, headers: { 'X-Echo': echo }, body: echo }),
  () => ({ kind: 'status', status: 403, body: '14' }),
  (echo) => ({ kind: 'status', status: 412, body: echo }),
  (echo) => ({ kind: 'status', status: 302, headers: { Location: `/${encodeURIComponent(echo)}` } }),
  (echo) => ({ kind: 'status', status: 200, headers: { 'X-Last-Modified': echo }, body: echo }),
  (echo) => ({ kind: 'status', status: 200, headers: { 'Content-Type': 'text/html' }, body: `<p>${echo}` }),
  (echo) => ({ kind: 'status', status: 200, headers: { 'Content-Encoding': echo }, body: echo }),
  (echo) => ({
    kind: 'status',
    status: 429,
    headers: { 'Retry-After': echo, 'X-Weave-Backoff': echo },
    body: '',
  }),
  () => ({ kind: 'rewrite', body: (real) => real.slice(0, real.length / 2) }),
  () => ({ kind: 'rewrite', body: (real) => real.replace('"modified"', '"mod"') }),
  () => ({ kind: 'reset-after' }),
  () => ({ kind: 'garbage' }),
]

const hangs: typeof faults = [() => ({ kind: 'hang' }), () => ({ kind: 'hang-after' })]

let redis: RedisServer

beforeAll(async () => {
  redis = await startRedisServer({ args: ['--requirepass', redisPassword], login: `:${redisPassword}@` })
})

afterAll(() => redis.close())

afterAll(endAll)

const settings = () => ({
  cache_backend: 'redis',
  cache_url: redis.url,
  cache_hmac_secret: secret,
  cache_hmac_secret_previous: previousSecret,
  logging_level: 'debug',
  record_tabs_put_enabled: 'true',
  record_tabs_delete_enabled: 'true',
  record_forms_put_enabled: 'true',
})

/** Header values are one line. */
const echoed = (request: ProxiedRequest) =>
  echoOf(request)
    .replaceAll(/[^\x20-\x7e]/g, '?')
    .slice(0, 6000)

/** Records the Hawk credentials in every response of the token server. */
function watchTokens({ tokens }: CanaryWorld): void {
  tokens.plan(() => ({
    kind: 'rewrite',
    body(real) {
      const { id, key } = JSON.parse(real) as { id?: string; key?: string }
      if (id && key) {
        canaries.keep('Hawk id', id)
        canaries.keep('Hawk key', key)
      }
      return real
    },
  }))
}

/** Stops the bridge; returns everything that it has sent to anyone but the owners. */
async function allOutput(world: CanaryWorld): Promise<string> {
  for (const path of ['/__metrics__', '/v1/__metrics__']) await world.send(path, {}, world.foreignAnswers)
  await world.bridge.stop()
  await world.stop()
  return [...world.bridge.lines, world.bridge.errors(), ...world.foreignAnswers].join('\n')
}

// The executable, because everything that leaves its process is searched.
describe('a bridge that handles secrets', () => {
  it('reveals none, whatever happens upstream', async () => {
    const halves = [0, 1].map((parity) => faults.filter((_, index) => index % 2 === parity))
    // A busy machine responds late without hanging.
    const usual = { upstream_timeout_seconds: '5', request_timeout_seconds: '5' }
    const hasty = { upstream_timeout_seconds: '0.15', request_timeout_seconds: '0.5' }
    const worlds = await Promise.all([
      startCanaryWorld(canaries, { ...settings(), ...usual, logging_renderer: 'json' }),
      startCanaryWorld(canaries, { ...settings(), ...usual, logging_renderer: 'text' }),
      startCanaryWorld(canaries, { ...settings(), ...hasty, logging_renderer: 'json' }),
    ])
    const planned = [...halves, hangs]
    const provoke = async (world: CanaryWorld, fault: (echo: string) => Fault | null) => {
      const owner = world.newOwner()
      watchTokens(world)
      for (const parity of [0, 1]) {
        world.storage.plan((request) => (request.index % 2 === parity ? fault(echoed(request)) : null))
        await world.everyRequest(owner)
      }
      world.storage.plan(() => null)
      world.tokens.plan((request) => fault(echoed(request)))
      await world.everyRequest(world.newOwner())
    }

    await Promise.all(
      worlds.map(async (world, index) => {
        for (const fault of planned[index]!) await provoke(world, fault)
      }),
    )
    const said = await Promise.all(worlds.map(allOutput))

    const leaks = worlds.map(({ ownAnswers }, index) => [
      ...canaries.foundIn(said[index]!),
      ...canaries.foundInOwn(ownAnswers.join('\n')),
    ])
    expect(leaks).toEqual(worlds.map(() => []))
    const statuses = new Set(worlds.flatMap((world) => [...world.statuses]))
    expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 401, 404, 412, 503]))
    expect(said.join('').length).toBeGreaterThan(300_000)
    expect(new Set(canaries.kinds)).toEqual(new Set(kinds))
    expect(canaries.count).toBeGreaterThan(300)
  }, 300_000)

  it('reveals none at any route with any method', async () => {
    const received: string[] = []
    const statsd = await Bun.udpSocket({
      hostname: '127.0.0.1',
      socket: { data: (_, data) => void received.push(data.toString()) },
    })
    const world = await startCanaryWorld(canaries, {
      ...settings(),
      statsd_url: `udp://127.0.0.1:${statsd.port}`,
    })
    watchTokens(world)
    const owner = world.newOwner()

    for (const [path, init] of [...sweepOf(owner), ...malformedOf(owner, password)]) {
      await world.send(path, init, world.ownAnswers)
    }
    await world.everyRequest(owner)
    writeFileSync(join(world.cwd, 'bridge.ini'), badSettings())
    world.bridge.signal('SIGHUP')
    await world.bridge.line(/settings kept/)
    await eventually('everything is sent', () => received.some((line) => line.includes('response.405')))
    const said = [await allOutput(world), ...received].join('\n')
    statsd.close()

    expect(canaries.foundIn(said)).toEqual([])
    expect(canaries.foundInOwn(world.ownAnswers.join('\n'))).toEqual([])
    expect(said).toContain('settings refused')
    expect([...world.statuses]).toEqual(expect.arrayContaining([200, 204, 307, 400, 401, 404, 405, 412]))
  })

  it('reveals none if it loses Redis, or is rejected there', async () => {
    const own = await startRedisServer({
      args: ['--requirepass', redisPassword],
      login: `:${redisPassword}@`,
    })
    const world = await startCanaryWorld(canaries, { ...settings(), cache_url: own.url })
    watchTokens(world)
    await world.everyRequest(world.newOwner())

    await own.command('CONFIG', 'SET', 'requirepass', 'another')
    await own.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'no').catch(() => {})
    await world.everyRequest(world.newOwner())
    await own.kill()
    await world.everyRequest(world.newOwner())
    const said = await allOutput(world)
    await own.close()

    expect(said).toContain('redis error')
    expect(canaries.foundIn(said)).toEqual([])
    expect(canaries.foundInOwn(world.ownAnswers.join('\n'))).toEqual([])
  })

  it('reveals none if an unexpected error is thrown', async () => {
    let callsUntilDefect = Infinity
    const bridge = await startTestBridge({
      writable: ['tabs'],
      settings: { cache_hmac_secret: secret },
      now() {
        callsUntilDefect -= 1
        if (callsUntilDefect === 0) throw new TypeError(`a defect at ${Object.values(told).join(' ')}`)
        return Date.now()
      },
    })
    const told = bridge.identityOf(bridge.user)
    const payload = canaries.keep('payload', `canary-payload-${crypto.randomUUID()}`)
    canaries.keep('key id', bridge.user.keyId)
    canaries.keep('access token', told.Authorization!.slice('Bearer '.length))
    const answers: string[] = []

    for (let calls = 1; calls <= 12; calls += 1) {
      for (const [method, body] of [['GET'], ['PUT', { data: { payload } }]] as const) {
        callsUntilDefect = calls
        const path = '/collections/tabs/records/canary-record-of-a-defect'
        const { status, headers, text } = await bridge.ask(path, { method, body })
        if (status >= 500) answers.push(JSON.stringify([headers.toJSON(), text]))
      }
    }
    callsUntilDefect = Infinity
    await bridge.stop()
    canaries.keep('record id', 'canary-record-of-a-defect')

    expect(answers.length).toBeGreaterThan(3)
    expect(bridge.logs.filter((line) => line.includes('"event":"defect"')).length).toBeGreaterThan(3)
    expect(canaries.foundIn([...answers, ...bridge.logs].join('\n'))).toEqual([])
  })
})

/** Secrets in places where they are not expected. */
function badSettings(): string {
  return [
    `service.cache_hmac_secret = ${secret}zz`,
    `service.cache_hmac_secret_previous = ${previousSecret.slice(1)}`,
    `service.cache_hmac_secrte = ${secret}`,
    `service.cache_url = redis://:${redisPassword}@127.0.0.1:99999/0`,
    `service.token_server_url = https://user:${password}@127.0.0.1/`,
    `service.statsd_url = udp://${password}@127.0.0.1`,
    '',
  ].join('\n')
}

describe('the commands', () => {
  const environment = () => ({
    SERVICE_CACHE_HMAC_SECRET: secret,
    SERVICE_CACHE_HMAC_SECRET_PREVIOUS: previousSecret,
    SERVICE_CACHE_URL: redis.url,
    SERVICE_TOKEN_SERVER_URL: 'http://127.0.0.1:1',
  })

  it('print no secret of their settings, valid or not', async () => {
    const cwd = makeFolder({ 'bad.ini': badSettings(), 'half.ini': `service.cache_hmac_secret\n${secret}\n` })
    using taken = Bun.listen({ hostname: '127.0.0.1', port: freePort(), socket: { data() {} } })
    const commands: [number, string[], Record<string, string>?][] = [
      [2, ['check'], environment()],
      [2, ['check', '--config', 'bad.ini']],
      [2, ['check', '--config', 'half.ini']],
      [2, ['check'], { ...environment(), SERVICE_CACHE_URL: `redis://:${redisPassword}@:1:2` }],
      [2, ['serve', '--config', 'bad.ini']],
      [2, ['serve', '--config', 'half.ini']],
      [1, ['serve'], { ...environment(), SERVICE_PORT: String(taken.port) }],
      [0, ['--help'], environment()],
      [0, ['--version'], environment()],
      [0, ['systemd-unit'], environment()],
      [1, ['healthcheck', '--url', 'http://127.0.0.1:1'], environment()],
    ]

    const outcomes = await Promise.all(
      commands.map(([, args, variables]) => run(args, { cwd, environment: variables ?? {} })),
    )

    expect(outcomes.map(({ exitCode }) => exitCode)).toEqual(commands.map(([code]) => code))
    const leaks = outcomes.map(({ stdout, stderr }) => canaries.foundIn(stdout + stderr))
    expect(leaks).toEqual(commands.map(() => []))
    expect(outcomes[0]!.stdout).toContain('service.cache_hmac_secret_previous = ********')
    expect(outcomes[1]!.stderr).toContain('problems with the settings')
  })

  it('print no secret of the sandbox', async () => {
    const world = await startCanaryWorld(canaries, settings())
    const owner = world.newOwner()
    const sandbox = start(['sandbox', '--port', '0'])
    const [, url] = await sandbox.line(/a bridge to it at (http\S+)\.$/)
    await sandbox.line(/^ {2}http\S+\/docs#code=\S+$/)
    const announced = sandbox.lines.length

    for (const [path, init] of [...sweepOf(owner), ...malformedOf(owner, password)]) {
      await fetch(url + path, { redirect: 'manual', ...init }).then((answer) => answer.text())
    }
    const code = await sandbox.stop()
    await allOutput(world)

    expect(code).toBe(0)
    expect(canaries.foundIn([...sandbox.lines.slice(announced), sandbox.errors()].join('\n'))).toEqual([])
  })
})
