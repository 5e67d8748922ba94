import { describe, expect, it } from 'bun:test'
import { computeMac } from '../../src/sandbox/hawk.ts'
import {
  beginning,
  connect,
  signed,
  type SigningOptions,
  type SyncClient,
  type Token,
} from './sync-client.ts'

const dayMs = 24 * 3600 * 1000

interface Signing extends SigningOptions {
  token?: Partial<Token>
}

function sign(sync: SyncClient, path: string, { token, ...options }: Signing = {}): string {
  const { nowMs } = sync
  const [, { headers }] = signed(
    { token: { ...sync.token, ...token }, nowMs },
    options.method ?? 'GET',
    path,
    options,
  )
  return headers.Authorization
}

async function ask(sync: SyncClient, path: string, headers: Record<string, string>) {
  const response = await fetch(sync.token.api_endpoint + path, { headers })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

describe('computeMac', () => {
  const key = 'dSi3EoZyHwgDp-O9OG1jRHtmbGl2M1bwcWsi04C4F58='
  const request = { host: 'localhost', port: '5000', ts: '1569608439' }
  const target = '/storage/1.5/1/storage/col2'

  it.each([
    ['GET', target, 'h1Ch4vo=', 'UwDpC+DSrHCSTQSfMOWlueB6kM6gHb0Hsv8eU9ZcTVs='],
    [
      'POST',
      `${target}?batch=MTUzNjE5ODk3NjkyMQ==&commit=true`,
      '4Rj7c+0=',
      'E7j1UjN7//mh7pYXsgGi3n0KGR+sUPpuyogDVzJWaHg=',
    ],
  ])('agrees with the published vector for %s %s', (method, path, nonce, mac) => {
    expect(computeMac(key, { ...request, method, target: path, nonce })).toBe(mac)
  })
})

describe('storage authentication', () => {
  it.each([
    '',
    'Bearer x',
    'Hawk',
    'Hawk id="x"',
    'Hawk id="x", ts="a", nonce="b", mac="c"',
    'Hawk gibberish',
  ])('fact 24: Authorization "%s" is 401 with body 0', async (Authorization) => {
    await using sync = await connect()

    const answer = await ask(sync, '/storage/tabs', { Authorization })

    expect([answer.status, answer.text]).toEqual([401, '0'])
  })

  type Ask = (sync: SyncClient) => Promise<{ status: number; text: string }>
  const quirks: [what: string, ask: Ask, onPostgres: number, onPython: number][] = [
    [
      'fact 24: the scheme in lower case',
      (sync) =>
        ask(sync, '/storage/tabs', { Authorization: sign(sync, '/storage/tabs').replace('Hawk', 'hawk') }),
      401,
      200,
    ],
    [
      'fact 32: a token of another user',
      (sync) => {
        const api_endpoint = `${sync.sandbox.storageUrl}/1.5/${sync.token.uid + 1}`
        return sync.send('GET', '/storage/tabs', { token: { ...sync.token, api_endpoint } })
      },
      400,
      401,
    ],
    ['fact 46: an unsigned info/configuration', (sync) => ask(sync, '/info/configuration', {}), 200, 401],
  ]
  it.each(quirks)('%s', async (_, send, onPostgres, onPython) => {
    for (const [mode, status] of [
      ['postgres', onPostgres],
      ['python', onPython],
    ] as const) {
      await using sync = await connect({ mode })
      const answer = await send(sync)

      expect(answer).toMatchObject({ status, ...(status >= 400 && { text: '0' }) })
    }
  })

  const path = '/storage/tabs?full=1'
  const signings: [what: string, signing: (token: Token) => Signing, status: number][] = [
    ['what is asked', () => ({}), 200],
    ['another path', (token) => ({ signedUrl: `${token.api_endpoint}/storage/history?full=1` }), 401],
    ['another query', (token) => ({ signedUrl: `${token.api_endpoint}/storage/tabs?full=2` }), 401],
    ['no query', (token) => ({ signedUrl: `${token.api_endpoint}/storage/tabs` }), 401],
    ['another port', (token) => ({ signedUrl: `http://127.0.0.1:9/1.5/${token.uid}${path}` }), 401],
    [
      'another host',
      (token) => ({ signedUrl: token.api_endpoint.replace('127.0.0.1', 'localhost') + path }),
      401,
    ],
    ['another method', () => ({ method: 'PUT' }), 401],
    ['a wrong key', ({ key }) => ({ token: { key: (key.startsWith('A') ? 'B' : 'A') + key.slice(1) } }), 401],
    ['a tampered id', ({ id }) => ({ token: { id: `A${id.slice(1)}` } }), 401],
    ['an id without its padding', ({ id }) => ({ token: { id: `${id.replace(/=+$/, '')}` } }), 401],
    ['a short id', () => ({ token: { id: 'AAAA' } }), 401],
    ['a clock 300 days behind', () => ({ timestampMs: beginning - 300 * dayMs }), 200],
    ['a clock 300 days ahead', () => ({ timestampMs: beginning + 300 * dayMs }), 200],
    ['a clock a year behind', () => ({ timestampMs: beginning - 365 * dayMs }), 401],
    ['a clock a year ahead', () => ({ timestampMs: beginning + 365 * dayMs }), 401],
  ]
  it.each(signings)('facts 25, 27, 29: a signature with %s', async (_, signing, status) => {
    await using sync = await connect()
    sync.token = await paddedToken(sync)
    const Authorization = sign(sync, path, signing(sync.token))

    const answer = await ask(sync, path, { Authorization })

    expect([answer.status, answer.text]).toEqual([status, status === 200 ? '[]' : '0'])
  })

  const hosts: [headers: Record<string, string>, origin: string][] = [
    [{ Host: 'node.example' }, 'http://node.example'],
    [{ Host: 'NODE.example:8000' }, 'http://node.example:8000'],
    [{ 'X-Forwarded-Host': 'node.example', 'X-Forwarded-Proto': 'https' }, 'https://node.example'],
    [{ 'X-Forwarded-Host': 'node.example:8443', 'X-Forwarded-Proto': 'https' }, 'https://node.example:8443'],
    [{ Forwarded: 'for=192.0.2.1;host=node.example;proto=https' }, 'https://node.example:443'],
  ]
  it.each(hosts)('fact 26: with %j the signature is for %s', async (headers, origin) => {
    await using sync = await connect()
    const Authorization = sign(sync, '', { signedUrl: `${origin}/1.5/${sync.token.uid}/storage/tabs` })

    const answer = await ask(sync, '/storage/tabs', { ...headers, Authorization })

    expect(answer.status).toBe(200)
  })

  it('in Python mode a token is valid only for its node', async () => {
    await using sync = await connect({ mode: 'python' })
    const signedUrl = `http://node.example/1.5/${sync.token.uid}/storage/tabs`
    const Authorization = sign(sync, '', { signedUrl })

    const answer = await ask(sync, '/storage/tabs', { Host: 'node.example', Authorization })

    expect(answer.status).toBe(401)
  })

  it('facts 27, 30: a wrong MAC is 401; a nonce may be used again', async () => {
    await using sync = await connect()
    const Authorization = sign(sync, '/storage/tabs', { nonce: 'once' })
    const statuses = [Authorization, Authorization, Authorization.replace(/mac="...../, 'mac="AAAAA')].map(
      async (header) => (await ask(sync, '/storage/tabs', { Authorization: header })).status,
    )

    expect(await Promise.all(statuses)).toEqual([200, 200, 401])
  })

  it('fact 28: an expired token still opens info/collections, in Python mode for two hours', async () => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })

    rust.later(30 * dayMs)
    python.later(3 * 3600 * 1000 - 1000)
    const before = [await rust.get('/info/collections'), await python.get('/info/collections')]
    python.later(1000)
    const after = [
      await rust.get('/info/quota'),
      await rust.get('/storage/tabs'),
      await python.get('/info/collections'),
    ]

    expect([...before, ...after].map(({ status }) => status)).toEqual([200, 200, 401, 401, 401])
  })

  it('fact 31: hash and ext are part of the MAC, but the body is not checked', async () => {
    await using sync = await connect()
    const whole = sign(sync, '/storage/tabs', { hash: 'bm90IGEgaGFzaA==', ext: 'more' })
    const headers = [whole, whole.replace(/hash="[^"]*", /, ''), whole.replace(/ext="[^"]*", /, '')]

    const answers = headers.map((Authorization) => ask(sync, '/storage/tabs', { Authorization }))

    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 401, 401])
  })

  it.each([
    ['postgres', null],
    ['python', 'Hawk'],
  ] as const)('fact 33: in %s mode a 401 has WWW-Authenticate %s', async (mode, scheme) => {
    await using sync = await connect({ mode })

    const { headers } = await ask(sync, '/storage/tabs', {})

    expect([headers.get('X-Last-Modified'), headers.get('WWW-Authenticate')]).toEqual([null, scheme])
  })

  it('fact 34: percent-encoded ids are signed as sent and stored decoded', async () => {
    await using sync = await connect()

    await sync.put('/storage/passwords/%7Ba%20%2F%25%2C%7D', { payload: 'x' })
    const got = await sync.get('/storage/passwords/%7ba%20%2f%25%2c%7d')

    expect(got.json()).toMatchObject({ id: '{a /%,}' })
  })
})

// How much padding an id needs depends on the length of the node's name in it.
async function paddedToken(sync: SyncClient): Promise<Token> {
  for (const ending of ['', '/a', '/ab']) {
    sync.sandbox.switches.nodeUrl = sync.sandbox.storageUrl + ending
    const token = await sync.signIn(sync.user)
    if (token.id.endsWith('=')) return { ...token, api_endpoint: sync.token.api_endpoint }
  }
  throw new Error('Cannot make a token whose id needs padding')
}
