import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startSandbox } from '../../src/sandbox/sandbox.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { endAll, iniText, makeFolder, run, serve } from './process.ts'
import type { Sandbox } from '../../src/sandbox/sandbox.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import type { Fault, FaultProxy } from '../support/fault-proxy.ts'
import type { RedisServer } from '../support/redis-server.ts'

const redisPassword = 'canary-redis-password'
const cacheSecret = 'c4'.repeat(32)
const payload = 'canary-payload-8d1f'
const recordId = 'canaryRecord1'

const faults: (Fault | null)[] = [
  null,
  { kind: 'status', status: 500, body: payload },
  { kind: 'status', status: 503, headers: { 'Retry-After': '60' }, body: payload },
  { kind: 'status', status: 401, body: payload },
  { kind: 'status', status: 400, body: payload },
  { kind: 'status', status: 403, body: '14' },
  { kind: 'status', status: 412, body: payload },
  { kind: 'status', status: 302, headers: { Location: `/${payload}` } },
  { kind: 'status', status: 200, headers: { 'X-Last-Modified': payload }, body: payload },
  {
    kind: 'status',
    status: 200,
    headers: { 'X-Weave-Alert': payload, 'X-Weave-Backoff': payload },
    body: '[]',
  },
  { kind: 'rewrite', body: (real) => real.slice(0, real.length / 2) },
  { kind: 'rewrite', body: (real) => real.replace('"modified"', '"mod"') },
  { kind: 'reset-before' },
  { kind: 'reset-after' },
  { kind: 'garbage' },
  { kind: 'hang' },
  { kind: 'hang-after' },
]

let sandbox: Sandbox
let redis: RedisServer
let tokenProxy: FaultProxy
let storageProxy: FaultProxy

beforeAll(async () => {
  sandbox = await startSandbox()
  redis = await startRedisServer({ args: ['--requirepass', redisPassword], login: `:${redisPassword}@` })
  tokenProxy = await startFaultProxy({ target: sandbox.tokenServerUrl })
  storageProxy = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storageProxy.url
})

afterAll(async () => {
  await redis.close()
  await tokenProxy.stop()
  await storageProxy.stop()
  await sandbox.stop()
})

afterAll(endAll)

describe('what the executable prints', () => {
  it('holds no secret at level debug, whatever succeeds and fails', async () => {
    const settings = {
      token_server_url: tokenProxy.url,
      cache_backend: 'redis',
      cache_url: redis.url,
      cache_hmac_secret: cacheSecret,
      logging_level: 'debug',
      upstream_timeout_seconds: '0.15',
      request_timeout_seconds: '0.5',
      record_tabs_put_enabled: 'true',
      record_tabs_delete_enabled: 'true',
      record_forms_put_enabled: 'true',
    }
    const secrets = new Set([redisPassword, cacheSecret, payload, recordId])
    // The log cuts long values, so the beginning of a secret is looked for.
    const keepSecret = (...values: string[]) => values.forEach((value) => secrets.add(value.slice(0, 24)))
    const seen = new Set<number>()
    const bridge = await serve(settings)
    const note = (status: number | null) => seen.add(status ?? 0)

    // Every token answer on its way tells us the Hawk credentials.
    const watchTokens = () =>
      tokenProxy.plan(() => ({
        kind: 'rewrite',
        body(real) {
          const { id, key } = JSON.parse(real) as { id?: string; key?: string }
          if (id && key) keepSecret(id, key)
          return real
        },
      }))

    await Promise.all(
      faults.map(async (fault, index) => {
        const user = userOf(`owner ${index}`, keepSecret)
        watchTokens()
        await everyRequest(bridge.url, user).then((statuses) => statuses.forEach(note))
        storageProxy.plan((request) => (request.index % 2 === 0 ? fault : null))
        for (const status of await everyRequest(bridge.url, user)) note(status)
      }),
    )
    storageProxy.plan(() => null)

    // A token server that asks for a pause is left alone, so that comes last.
    for (const fault of faults.toSorted((a, b) => pauseOf(a) - pauseOf(b))) {
      tokenProxy.plan(() => fault)
      for (const status of await everyRequest(bridge.url, userOf(`refused ${Math.random()}`, keepSecret)))
        note(status)
    }
    await redis.kill()
    watchTokens()
    const last = userOf('last', keepSecret)
    for (const status of await everyRequest(bridge.url, last)) note(status)
    for (const status of await malformed(bridge.url, last)) note(status)
    bridge.signal('SIGTERM')
    const code = await bridge.exited
    const cwd = makeFolder({ 'bridge.ini': iniText(settings) })
    const checked = await run(['check', '--config', 'bridge.ini'], { cwd })
    const output = [...bridge.lines, bridge.errors(), checked.stdout, checked.stderr].join('\n')

    expect(code).toBe(0)
    expect([...seen].sort()).toEqual(expect.arrayContaining([200, 400, 401, 412, 503]))
    expect(bridge.lines.length).toBeGreaterThan(500)
    expect(output).toContain('cache_hmac_secret')
    expect(secrets.size).toBeGreaterThan(100)
    expect([...secrets].filter((secret) => output.includes(secret))).toEqual([])
  }, 60_000)
})

function pauseOf(fault: Fault | null): number {
  return fault?.kind === 'status' ? Number(fault.headers?.['Retry-After'] ?? 0) : 0
}

interface Known {
  user: SandboxUser
  bearer: Record<string, string>
  browserId: Record<string, string>
}

/** A user with something stored, all of whose secrets are canaries. */
function userOf(name: string, keepSecret: (...values: string[]) => void): Known {
  const user = sandbox.addUser(name)
  sandbox.write(user, 'tabs', [{ id: recordId, payload }])
  const [token, assertion] = [user.bearerToken(), user.assertion()]
  const parts = [...token.split('.'), ...assertion.split(/[.~]/)].filter((part) => part.length > 24)
  keepSecret(user.clientState, user.keyId, token, assertion, ...parts)
  return {
    user,
    bearer: { Authorization: `Bearer ${token}`, 'X-KeyID': user.keyId },
    browserId: { Authorization: `BrowserID ${assertion}` },
  }
}

async function everyRequest(url: string, { user, bearer, browserId }: Known): Promise<(number | null)[]> {
  const tabs = `/v1/buckets/${user.clientState}/collections/tabs`
  const record = `${tabs}/records/${recordId}`
  const body = JSON.stringify({ data: { payload } })
  const requests = ['tabs', 'forms'].map((collection) => ({
    method: 'PUT',
    path: `/buckets/${user.clientState}/collections/${collection}/records/${recordId}`,
    body: { data: { payload } },
  }))
  const steps: [string, string, Record<string, string>?, string?][] = [
    ['GET', '/v1/', bearer],
    ['GET', `${tabs}/records`, bearer],
    ['GET', `${tabs}/records?in_ids=${recordId}&_since=${payload}`, bearer],
    ['GET', `${tabs}/records`, browserId],
    ['GET', record, bearer],
    ['PUT', record, bearer, body],
    ['PUT', record, { ...bearer, 'If-Match': '"1000"' }, body],
    ['DELETE', record, { ...bearer, 'If-Match': '"1000"' }],
    ['POST', '/v1/batch', bearer, JSON.stringify({ requests })],
  ]
  const statuses: (number | null)[] = []
  for (const [method, path, headers = {}, sent] of steps) {
    const type: Record<string, string> = sent === undefined ? {} : { 'Content-Type': 'application/json' }
    const init = { method, headers: { ...headers, ...type }, ...(sent !== undefined && { body: sent }) }
    const response = await fetch(url + path, init).catch(() => null)
    await response?.text().catch(() => null)
    statuses.push(response?.status ?? null)
  }
  return statuses
}

/** Requests with secrets where none belong. */
async function malformed(url: string, { user, bearer }: Known): Promise<number[]> {
  const tabs = `/v1/buckets/${user.clientState}/collections/tabs/records`
  const json = { ...bearer, 'Content-Type': 'application/json' }
  const wrong: [string, RequestInit][] = [
    [`/v1/${payload}/${user.clientState}`, {}],
    [`/${payload}`, {}],
    [`/v2/${payload}`, {}],
    [`${tabs}?_token=${payload}`, { headers: bearer }],
    [`${tabs}/${payload}%00`, { headers: bearer }],
    [`${tabs}/x`, { headers: { ...bearer, 'If-Match': payload } }],
    [`${tabs}/x`, { headers: { Authorization: `Basic ${payload}` } }],
    [`${tabs}/x`, { headers: { Authorization: `Bearer ${payload}`, 'X-KeyID': payload } }],
    [`${tabs}/x`, { headers: { ...bearer, Origin: `https://${payload}.example` } }],
    [`${tabs}/x`, { method: 'PUT', headers: json, body: `{"data":{"payload":"${payload}"` }],
    [`${tabs}/x`, { method: 'PUT', headers: json, body: `{"data":{"${payload}":1}}` }],
    [`${tabs}/x`, { method: 'PUT', headers: json, body: `{"data":{"payload":["${payload}"]}}` }],
    ['/v1/batch', { method: 'POST', headers: json, body: `{"requests":[{"path":"${payload}"}]}` }],
    ['/v1/batch', { method: 'POST', headers: json, body: `{"requests":"${payload}"}` }],
  ]
  const statuses: number[] = []
  for (const [path, init] of wrong) {
    const response = await fetch(url + path, { redirect: 'manual', ...init })
    await response.text()
    statuses.push(response.status)
  }
  return statuses
}
