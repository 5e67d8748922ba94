import { describe, expect, it } from 'bun:test'
import { connect, signed, type SigningOptions, type SyncClient, type Token } from './sync-client.ts'

interface Signing extends SigningOptions {
  token?: Partial<Token>
}

function sign(sync: SyncClient, path: string, { token, method = 'GET', ...options }: Signing): string {
  const owner = { token: { ...sync.token, ...token }, nowMs: sync.nowMs }
  return signed(owner, method, path, options)[1].headers.Authorization
}

async function ask(sync: SyncClient, path: string, headers: Record<string, string>) {
  const response = await fetch(sync.token.api_endpoint + path, { headers })
  return { status: response.status, text: await response.text() }
}

describe('storage authentication', () => {
  it.each(['', 'Bearer x', 'Hawk gibberish'])(
    'fact 24: Authorization "%s" is 401 with body 0',
    async (Authorization) => {
      await using sync = await connect()

      const answer = await ask(sync, '/storage/tabs', { Authorization })

      expect([answer.status, answer.text]).toEqual([401, '0'])
    },
  )

  it('fact 32: a token of another user is 400', async () => {
    await using sync = await connect()
    const api_endpoint = `${sync.sandbox.storageUrl}/1.5/${sync.token.uid + 1}`

    const answer = await sync.send('GET', '/storage/tabs', { token: { ...sync.token, api_endpoint } })

    expect(answer).toMatchObject({ status: 400, text: '0' })
  })

  it('fact 46: info/configuration needs no signature', async () => {
    await using sync = await connect()

    expect((await ask(sync, '/info/configuration', {})).status).toBe(200)
  })

  const path = '/storage/tabs?full=1'
  const signings: [what: string, signing: (token: Token) => Signing, status: number][] = [
    ['what is asked', () => ({}), 200],
    ['another path', (token) => ({ signedUrl: `${token.api_endpoint}/storage/history?full=1` }), 401],
    ['another query', (token) => ({ signedUrl: `${token.api_endpoint}/storage/tabs?full=2` }), 401],
    ['another port', (token) => ({ signedUrl: `http://127.0.0.1:9/1.5/${token.uid}${path}` }), 401],
    [
      'another host',
      (token) => ({ signedUrl: token.api_endpoint.replace('127.0.0.1', 'localhost') + path }),
      401,
    ],
    ['another method', () => ({ method: 'PUT' }), 401],
    ['a wrong key', ({ key }) => ({ token: { key: (key.startsWith('A') ? 'B' : 'A') + key.slice(1) } }), 401],
    ['a tampered id', ({ id }) => ({ token: { id: `A${id.slice(1)}` } }), 401],
  ]
  it.each(signings)('facts 25, 27: a signature with %s', async (_, signing, status) => {
    await using sync = await connect()

    const answer = await ask(sync, path, { Authorization: sign(sync, path, signing(sync.token)) })

    expect([answer.status, answer.text]).toEqual([status, status === 200 ? '[]' : '0'])
  })

  it('fact 28: an expired token still opens info/collections, and nothing else', async () => {
    await using sync = await connect()

    sync.later(30 * 24 * 3600 * 1000)
    const paths = ['/info/collections', '/info/quota', '/storage/tabs']
    const answers = await Promise.all(paths.map((path) => sync.get(path)))

    expect(answers.map(({ status }) => status)).toEqual([200, 401, 401])
  })
})
