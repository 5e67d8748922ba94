import { describe, expect, it } from 'bun:test'
import { computeMac } from '../../src/sandbox/hawk.ts'
import { connect, hawk, type SyncClient, type Token } from './sync-client.ts'

const dayMs = 24 * 3600 * 1000

interface Signing {
  token?: Partial<Token>
  method?: string
  /** What is signed, when it isn't what is sent. */
  signedUrl?: string
  timestampMs?: number
  nonce?: string
  hash?: string
  ext?: string
}

function sign(sync: SyncClient, path: string, options: Signing = {}): string {
  const { id, key, api_endpoint: endpoint } = { ...sync.token, ...options.token }
  const { method = 'GET', signedUrl = endpoint + path, timestampMs = sync.nowMs, ...rest } = options
  const timestamp = Math.floor(timestampMs / 1000)
  const credentials = { id, key, algorithm: 'sha256' } as const
  return hawk.header(signedUrl, method, { ...rest, credentials, timestamp }).header
}

async function ask(sync: SyncClient, path: string, headers: Record<string, string>, method = 'GET') {
  const response = await fetch(sync.token.api_endpoint + path, { method, headers })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

describe('computeMac', () => {
  const key = 'dSi3EoZyHwgDp-O9OG1jRHtmbGl2M1bwcWsi04C4F58='
  const request = { host: 'localhost', port: '5000', ts: '1569608439' }

  it.each([
    ['GET', '/storage/1.5/1/storage/col2', 'h1Ch4vo=', 'UwDpC+DSrHCSTQSfMOWlueB6kM6gHb0Hsv8eU9ZcTVs='],
    [
      'POST',
      '/storage/1.5/1/storage/col2?batch=MTUzNjE5ODk3NjkyMQ==&commit=true',
      '4Rj7c+0=',
      'E7j1UjN7//mh7pYXsgGi3n0KGR+sUPpuyogDVzJWaHg=',
    ],
  ])('agrees with the published vector for %s %s', (method, target, nonce, mac) => {
    expect(computeMac(key, { ...request, method, target, nonce })).toBe(mac)
  })
})

describe('storage authentication', () => {
  it.each([
    [''],
    ['Bearer x'],
    ['Hawk'],
    ['Hawk id="x"'],
    ['Hawk id="x", ts="a", nonce="b", mac="c"'],
    ['Hawk gibberish'],
  ])('fact 24: Authorization "%s" is 401 with body 0', async (Authorization) => {
    await using sync = await connect()

    const answer = await ask(sync, '/storage/tabs', { Authorization })

    expect([answer.status, answer.text]).toEqual([401, '0'])
  })

  it('fact 24: the scheme is case-sensitive, except in Python mode', async () => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })
    const lower = (sync: SyncClient) => ({
      Authorization: sign(sync, '/storage/tabs').replace('Hawk', 'hawk'),
    })

    const statuses = [
      (await ask(rust, '/storage/tabs', lower(rust))).status,
      (await ask(python, '/storage/tabs', lower(python))).status,
    ]

    expect(statuses).toEqual([401, 200])
  })

  const tampered: [what: string, sync: (sync: SyncClient) => Signing][] = [
    ['another path', ({ token }) => ({ signedUrl: `${token.api_endpoint}/storage/history?full=1` })],
    ['another query', ({ token }) => ({ signedUrl: `${token.api_endpoint}/storage/tabs?full=2` })],
    ['no query', ({ token }) => ({ signedUrl: `${token.api_endpoint}/storage/tabs` })],
    [
      'another port',
      ({ token }) => ({ signedUrl: `http://127.0.0.1:9/1.5/${token.uid}/storage/tabs?full=1` }),
    ],
    [
      'another host',
      ({ token }) => ({
        signedUrl: `${token.api_endpoint}/storage/tabs?full=1`.replace('127.0.0.1', 'localhost'),
      }),
    ],
    ['another method', () => ({ method: 'PUT' })],
  ]
  it.each(tampered)('fact 25: a signature of %s is 401', async (_, signing) => {
    await using sync = await connect()

    const right = await ask(sync, '/storage/tabs?full=1', {
      Authorization: sign(sync, '/storage/tabs?full=1'),
    })
    const wrong = await ask(sync, '/storage/tabs?full=1', {
      Authorization: sign(sync, '/storage/tabs?full=1', signing(sync)),
    })

    expect([right.status, wrong.status]).toEqual([200, 401])
  })

  it.each([
    [{ Host: 'node.example' }, 'http://node.example'],
    [{ Host: 'NODE.example:8000' }, 'http://node.example:8000'],
    [{ 'X-Forwarded-Host': 'node.example', 'X-Forwarded-Proto': 'https' }, 'https://node.example'],
    [{ 'X-Forwarded-Host': 'node.example:8443', 'X-Forwarded-Proto': 'https' }, 'https://node.example:8443'],
    [{ Forwarded: 'for=192.0.2.1;host=node.example;proto=https' }, 'https://node.example:443'],
  ])('fact 26: with %j the signature is for %s', async (headers, origin) => {
    await using sync = await connect()
    const path = `/1.5/${sync.token.uid}/storage/tabs`

    const answer = await ask(sync, '/storage/tabs', {
      ...headers,
      Authorization: sign(sync, '', { signedUrl: origin + path }),
    } as Record<string, string>)

    expect(answer.status).toBe(200)
  })

  const forged: [what: string, token: (token: Token) => Partial<Token>][] = [
    ['a wrong key', ({ key }) => ({ key: (key.startsWith('A') ? 'B' : 'A') + key.slice(1) })],
    ['a tampered id', ({ id }) => ({ id: `A${id.slice(1)}` })],
    ['an id without its padding', ({ id }) => ({ id: `${id.replace(/=+$/, '')}` })],
    ['a short id', () => ({ id: 'AAAA' })],
  ]
  it.each(forged)('fact 27: %s is 401', async (_, token) => {
    await using sync = await connect()
    sync.token = await paddedToken(sync)
    const headers = { Authorization: sign(sync, '/storage/tabs', { token: token(sync.token) }) }

    const answer = await ask(sync, '/storage/tabs', headers)

    expect([answer.status, answer.text]).toEqual([401, '0'])
  })

  it('fact 27: a wrong MAC is 401', async () => {
    await using sync = await connect()
    const Authorization = sign(sync, '/storage/tabs').replace(/mac="...../, 'mac="AAAAA')

    const answer = await ask(sync, '/storage/tabs', { Authorization })

    expect(answer.status).toBe(401)
  })

  it('fact 28: an expired token still opens info/collections', async () => {
    await using sync = await connect()

    sync.later(30 * dayMs)
    const statuses = [
      (await sync.get('/info/collections')).status,
      (await sync.get('/info/quota')).status,
      (await sync.get('/storage/tabs')).status,
    ]

    expect(statuses).toEqual([200, 401, 401])
  })

  it('fact 28: in Python mode it does for two hours', async () => {
    await using sync = await connect({ mode: 'python' })

    sync.later(3 * 3600 * 1000 - 1000)
    const before = await sync.get('/info/collections')
    sync.later(1000)
    const after = await sync.get('/info/collections')

    expect([before.status, after.status]).toEqual([200, 401])
  })

  it.each([
    [-300, 200],
    [300, 200],
    [-365, 401],
    [365, 401],
  ])('fact 29: a signature made %d days off is %d', async (days, status) => {
    await using sync = await connect()
    const headers = { Authorization: sign(sync, '/storage/tabs', { timestampMs: sync.nowMs + days * dayMs }) }

    const answer = await ask(sync, '/storage/tabs', headers)

    expect(answer.status).toBe(status)
  })

  it('fact 30: a nonce may be used again', async () => {
    await using sync = await connect()
    const headers = { Authorization: sign(sync, '/storage/tabs', { nonce: 'once' }) }

    const statuses = [
      (await ask(sync, '/storage/tabs', headers)).status,
      (await ask(sync, '/storage/tabs', headers)).status,
    ]

    expect(statuses).toEqual([200, 200])
  })

  it('fact 31: hash and ext are part of the MAC, but the body is not looked at', async () => {
    await using sync = await connect()
    const Authorization = sign(sync, '/storage/tabs', { hash: 'bm90IGEgaGFzaA==', ext: 'more' })

    const whole = await ask(sync, '/storage/tabs', { Authorization })
    const withoutHash = await ask(sync, '/storage/tabs', {
      Authorization: Authorization.replace(/hash="[^"]*", /, ''),
    })
    const withoutExt = await ask(sync, '/storage/tabs', {
      Authorization: Authorization.replace(/ext="[^"]*", /, ''),
    })

    expect([whole.status, withoutHash.status, withoutExt.status]).toEqual([200, 401, 401])
  })

  it.each([
    ['postgres', 400, '0'],
    ['python', 401, '0'],
  ] as const)('fact 32: in %s mode a token of another user is %d', async (mode, status, text) => {
    await using sync = await connect({ mode })
    const token = { ...sync.token, api_endpoint: `${sync.sandbox.storageUrl}/1.5/${sync.token.uid + 1}` }

    const answer = await sync.send('GET', '/storage/tabs', { token })

    expect([answer.status, answer.text]).toEqual([status, text])
  })

  it('in Python mode a token is good only for the node it names', async () => {
    await using sync = await connect({ mode: 'python' })
    const headers = {
      Host: 'node.example',
      Authorization: sign(sync, '', { signedUrl: `http://node.example/1.5/${sync.token.uid}/storage/tabs` }),
    }

    const answer = await ask(sync, '/storage/tabs', headers)

    expect(answer.status).toBe(401)
  })

  it('fact 33: 401 has no X-Last-Modified, and WWW-Authenticate only in Python mode', async () => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })

    const answers = [await ask(rust, '/storage/tabs', {}), await ask(python, '/storage/tabs', {})]

    expect(answers.map(({ headers }) => headers.get('X-Last-Modified'))).toEqual([null, null])
    expect(answers.map(({ headers }) => headers.get('WWW-Authenticate'))).toEqual([null, 'Hawk'])
  })

  it('fact 34: percent-encoded ids are signed as sent and stored decoded', async () => {
    await using sync = await connect()

    const put = await sync.put('/storage/passwords/%7Ba%20%2F%25%2C%7D', { payload: 'x' })
    const got = await sync.get('/storage/passwords/%7ba%20%2f%25%2c%7d')

    expect(put.status).toBe(200)
    expect(got.json()).toMatchObject({ id: '{a /%,}' })
    expect(sync.sandbox.records(sync.user, 'passwords').map(({ id }) => id)).toEqual(['{a /%,}'])
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
