import { afterEach, describe, expect, it } from 'bun:test'
import { createIdentity, toEndpoint } from '../../src/domain/credentials.ts'
import { TokenServer } from '../../src/upstream/token-server.ts'
import { startSandbox, type SandboxOptions } from '../support/sandbox.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { cleanUp, failureOf, newUpstream, onCleanUp } from './rig.ts'
import type { UserOptions } from '../../src/sandbox/sandbox-user.ts'

afterEach(cleanUp)

async function start(options: SandboxOptions & { suffix?: string; user?: UserOptions } = {}) {
  const clock = { nowMs: 1_700_000_000_000 }
  const now = () => clock.nowMs
  const sandbox = await startSandbox({ clock: now, ...options })
  const proxy = await startFaultProxy({ target: sandbox.tokenServerUrl })
  onCleanUp(
    () => sandbox.stop(),
    () => proxy.stop(),
  )
  const user = sandbox.addUser('somebody', options.user)
  const { send } = newUpstream({ now })
  const url = proxy.url + (options.suffix ?? '')
  const tokenServer = new TokenServer({ url, send, timeoutMs: 20_000, now, monotonicNow: now })
  const identity = createIdentity({
    scheme: 'BrowserID',
    assertion: user.assertion(),
    clientState: user.clientState,
  })
  return { sandbox, proxy, user, clock, tokenServer, identity }
}

describe('exchange', () => {
  it('returns the credentials of the user', async () => {
    const { proxy, sandbox, user, tokenServer, identity, clock } = await start()

    const credentials = await tokenServer.exchange(identity)

    expect(credentials).toEqual({
      hawkId: expect.any(String),
      hawkKey: expect.any(String),
      endpoint: toEndpoint(new URL(`${sandbox.storageUrl}/1.5/${user.uid}`)),
      uid: user.uid,
      expiresAtMs: clock.nowMs + 3_600_000,
    })
    expect(proxy.requests.map(({ target }) => target)).toEqual(['/1.0/sync/1.5'])
  })

  it('keeps a path in front of it', async () => {
    const { proxy, tokenServer, identity } = await start({ suffix: '/tokens' })

    await failureOf(tokenServer.exchange(identity))

    expect(proxy.requests[0]!.target).toBe('/tokens/1.0/sync/1.5')
  })

  it('sends the assertion and the client state, and nothing else', async () => {
    const { proxy, tokenServer, identity } = await start()

    await tokenServer.exchange(identity)

    expect(proxy.requests[0]!.headers.toJSON()).toEqual({
      accept: 'application/json',
      'accept-encoding': 'identity',
      authorization: `BrowserID ${identity.assertion}`,
      connection: 'keep-alive',
      host: new URL(proxy.url).host,
      'user-agent': 'sync-bridge',
      'x-client-state': identity.clientState,
    })
  })

  it('counts the lifetime of credentials from before the request', async () => {
    const { proxy, tokenServer, identity, clock } = await start({ tokenDurationSeconds: 60 })
    proxy.plan(() => {
      clock.nowMs += 5000
      return null
    })

    const { expiresAtMs } = await tokenServer.exchange(identity)

    expect(expiresAtMs).toBe(1_700_000_060_000)
  })

  it('reports that an assertion only fails because of the clock', async () => {
    const { tokenServer, identity, user } = await start()
    const assertion = user.assertion({ expiresInSeconds: -10 })

    const failure = await failureOf(tokenServer.exchange({ ...identity, assertion }))

    expect(failure).toMatchObject({ status: 401, errno: 105, extras: { cause: 'invalid-timestamp' } })
    expect((failure as Error).message).toContain('expired')
  })

  it('suspects the settings if it gets a page with 401', async () => {
    const { proxy, tokenServer, identity } = await start()
    const headers = { 'Content-Type': 'text/html' }
    proxy.plan(() => ({ kind: 'status', status: 401, headers, body: '<h1>The login of a proxy</h1>' }))

    const failure = await failureOf(tokenServer.exchange(identity))

    expect(failure).toMatchObject({ name: 'UpstreamError', failure: 'bad-response', status: 401 })
  })

  it('retries once if a response breaks off or is not JSON', async () => {
    const { proxy, tokenServer, identity } = await start()
    proxy.plan(({ index }) =>
      index === 0
        ? { kind: 'truncate', afterBytes: 30 }
        : index === 2
          ? { kind: 'rewrite', body: '{"id":' }
          : null,
    )

    expect(await tokenServer.exchange(identity)).toBeDefined()
    expect(await tokenServer.exchange(identity)).toBeDefined()

    proxy.plan(() => ({ kind: 'rewrite', body: 'not JSON' }))
    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({ failure: 'bad-response' })
    expect(proxy.requests).toHaveLength(6)
  })

  it('has one deadline, also if the first response is not JSON', async () => {
    const { proxy, identity, clock } = await start()
    proxy.plan(() => {
      clock.nowMs += 15_000
      return { kind: 'rewrite', body: 'not JSON' }
    })
    const allowedMs: number[] = []
    const impatient = new TokenServer({
      url: proxy.url,
      send: (request) => {
        allowedMs.push(request.timeoutMs)
        return newUpstream({ now: () => clock.nowMs }).send(request)
      },
      timeoutMs: 20_000,
      now: () => clock.nowMs,
      monotonicNow: () => clock.nowMs,
    })

    await failureOf(impatient.exchange(identity))
    proxy.plan(() => {
      clock.nowMs += 20_000
      return { kind: 'rewrite', body: 'not JSON' }
    })
    await failureOf(impatient.exchange(identity))

    expect(allowedMs).toEqual([20_000, 5000, 20_000])
  })

  it('reads at most 64 KiB of a response', async () => {
    const { proxy, tokenServer, identity } = await start()
    proxy.plan(() => ({ kind: 'rewrite', body: (real) => real + ' '.repeat(70_000) }))

    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({ failure: 'bad-response' })
  })

  const node = 'http://node.example.com'
  const unusable: Record<string, unknown[]> = {
    id: [undefined, '', 7, 'a"b', 'a\nb'],
    key: [undefined, '', 'käse'],
    uid: ['101', 1.5, -1, undefined],
    duration: ['3600', 0, -1, 1e300, null],
    hashalg: ['sha1'],
    api_endpoint: [
      undefined,
      ...'nowhere file:///etc/passwd ftp://node.example.com/1.5/UID'.split(' '),
      ...'http://somebody@node.example.com/1.5/UID http://:password@node.example.com/1.5/UID'.split(' '),
      ...['/1.5/UID?x=1', '/1.5/UID?', '/1.5/UID#x', '/1.5/7', '/1.5/1UID', '/1.5/UID/../8', ''].map(
        (path) => node + path,
      ),
    ],
  }
  const cases = Object.entries(unusable).flatMap(([name, values]) =>
    values.map((value): [string, unknown] => [name, value]),
  )
  it.each(cases)('rejects a response whose %s is %j', async (name, value) => {
    const { proxy, tokenServer, identity, user } = await start()
    const changed = typeof value === 'string' ? value.replace('UID', String(user.uid)) : value
    proxy.plan(() => ({
      kind: 'rewrite',
      body: (real) => JSON.stringify({ ...JSON.parse(real), [name]: changed }),
    }))

    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({ failure: 'bad-response' })
  })

  it('accepts an https address, and drops its trailing slash', async () => {
    const { proxy, tokenServer, identity, user } = await start()
    const api_endpoint = `https://NODE.example.com:443/sync/1.5/${user.uid}/`
    proxy.plan(() => ({
      kind: 'rewrite',
      body: (real) => JSON.stringify({ ...JSON.parse(real), api_endpoint }),
    }))

    const { endpoint } = await tokenServer.exchange(identity)

    expect(endpoint.href).toBe(`https://node.example.com/sync/1.5/${user.uid}`)
  })

  it('accepts no unencrypted address from a token server with https', async () => {
    const value = { id: 'a', key: 'b', uid: 7, duration: 60, api_endpoint: 'http://node.example.com/1.5/7' }
    const bytes = Buffer.from(JSON.stringify(value))
    const now = () => 0
    const tokenServer = new TokenServer({
      url: 'https://token.example.com',
      send: async () => ({ status: 200, headers: new Headers(), bytes, stream: null }),
      timeoutMs: 1,
      now,
      monotonicNow: now,
    })
    const identity = createIdentity({ scheme: 'BrowserID', assertion: 'a', clientState: 'b' })

    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({ failure: 'bad-response' })
  })
})

describe('a pause that the token server asks for', () => {
  const madeUp = (name: number) =>
    createIdentity({ scheme: 'Bearer', assertion: `made up ${name}`, clientState: String(name) })

  it('with 429 is for its identity alone, even if that was accepted before, and if many get it', async () => {
    const { proxy, tokenServer, identity, user, clock } = await start()
    await tokenServer.exchange(identity)
    const other = createIdentity({ ...identity, assertion: user.assertion({ expiresInSeconds: 999 }) })
    const isOther = (request: { headers: Headers }) =>
      request.headers.get('authorization') === `BrowserID ${other.assertion}`
    proxy.plan((request) =>
      isOther(request) ? null : { kind: 'status', status: 429, headers: { 'Retry-After': '300' } },
    )
    const asked = [identity, ...Array.from({ length: 20 }, (_, name) => madeUp(name))]

    for (const each of asked)
      expect(await failureOf(tokenServer.exchange(each))).toMatchObject({
        status: 429,
        errno: 117,
        extras: { retryAfterSeconds: 300 },
      })

    expect((await tokenServer.exchange(other)).uid).toBe(user.uid)
    const before = proxy.requests.length
    clock.nowMs += 299_000
    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({
      status: 429,
      extras: { retryAfterSeconds: 1 },
    })
    expect(proxy.requests.length).toBe(before)
    clock.nowMs += 1000
    proxy.plan(() => null)
    expect((await tokenServer.exchange(identity)).uid).toBe(user.uid)
  })

  it('with 429 lasts five minutes at most', async () => {
    const { proxy, tokenServer, identity, clock } = await start()
    proxy.plan(() => ({ kind: 'status', status: 429, headers: { 'Retry-After': '86400' } }))
    await failureOf(tokenServer.exchange(identity))
    proxy.plan(() => null)

    clock.nowMs += 299_000
    expect(await failureOf(tokenServer.exchange(identity))).toMatchObject({
      extras: { retryAfterSeconds: 1 },
    })
    clock.nowMs += 1000
    expect((await tokenServer.exchange(identity)).uid).toBeGreaterThan(0)
  })

  it.each([
    ['30', 30],
    ['60', 60],
    ['61', 60],
    ['86400', 60],
  ])('with 503 is for all, as long as it says and 60 s at most: %s', async (asked, seconds) => {
    const { proxy, tokenServer, identity, clock } = await start()
    proxy.plan(() => ({ kind: 'status', status: 503, headers: { 'Retry-After': asked } }))
    await failureOf(tokenServer.exchange(madeUp(1)))
    const before = proxy.requests.length
    proxy.plan(() => null)

    clock.nowMs += (seconds - 1) * 1000
    const failure = await failureOf(tokenServer.exchange(identity))

    expect(failure).toMatchObject({ failure: 'refused', retryAfterSeconds: 1, applied: 'no' })
    expect(proxy.requests.length).toBe(before)
    clock.nowMs += 1000
    expect((await tokenServer.exchange(identity)).uid).toBeGreaterThan(0)
  })

  it.each([
    [500, { 'Retry-After': '30' }],
    [503, {}],
    [429, {}],
  ])('is none with %i %j', async (status, headers) => {
    const { proxy, tokenServer, identity } = await start()
    proxy.plan(() => ({ kind: 'status', status, headers: headers as Record<string, string> }))
    await failureOf(tokenServer.exchange(identity))
    proxy.plan(() => null)

    expect((await tokenServer.exchange(identity)).uid).toBeGreaterThan(0)
  })

  it('is passed on to clients as a Backoff, for the identity that got it', async () => {
    const { proxy, tokenServer, identity, clock } = await start()
    proxy.plan(() => ({ kind: 'rewrite', headers: { 'X-Backoff': '20' } }))
    await tokenServer.exchange(identity)

    expect([tokenServer.backoffSeconds(identity), tokenServer.backoffSeconds(madeUp(1))]).toEqual([20, null])
    clock.nowMs += 20_000
    expect(tokenServer.backoffSeconds(identity)).toBeNull()
  })
})
