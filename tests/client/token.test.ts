import { describe, expect, it, spyOn } from 'bun:test'
import { checkAccount } from '../../src/client/account.ts'
import type { ClientError } from '../../src/client/errors.ts'
import { renewToken, revokeRefreshToken } from '../../src/client/token.ts'

const account = checkAccount({
  token: 't',
  keyId: '1500000000000-ASNFZ4mrze8BI0VniavN7w',
  refreshToken: 'r',
  tokenEndpoint: 'https://accounts.example/v1/oauth/token',
  clientId: 'c',
})
const revoked = 'The refresh token was revoked, or the password was changed'

async function outcome(answer: Response | Error, act: typeof renewToken | typeof revokeRefreshToken) {
  const asked: { url: string; body: object; redirect?: string }[] = []
  const fetch = (url: string, { body, redirect }: RequestInit) => {
    asked.push({ url, body: JSON.parse(String(body)), redirect })
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)
  }
  const said = await act(account, fetch).catch((error: ClientError) => `${error.name}: ${error.message}`)
  return { said, asked }
}

/** A text that arrives byte by byte. */
const inBytes = (text: string) =>
  new ReadableStream({
    start(controller) {
      for (const byte of Buffer.from(text)) controller.enqueue(Uint8Array.of(byte))
      controller.close()
    },
  })

describe('renewToken', () => {
  it('requests a lifetime of an hour, and follows no redirect', async () => {
    const { said, asked } = await outcome(Response.json({ access_token: 'a.b-c' }), renewToken)

    const scope = 'https://identity.mozilla.com/apps/oldsync'
    expect(said).toBe('a.b-c')
    expect(asked).toEqual([
      {
        url: account.tokenEndpoint,
        body: { grant_type: 'refresh_token', client_id: 'c', refresh_token: 'r', scope, ttl: 3600 },
        redirect: 'error',
      },
    ])
  })

  it.each([
    [revoked, Response.json({ errno: 110 }, { status: 401 })],
    [revoked, Response.json({ errno: 108 }, { status: 400 })],
    ['requires a check that only browsers pass (406). Try again later', new Response(null, { status: 406 })],
    ['the account server returned 406 No', Response.json({ message: 'No' }, { status: 406 })],
    ['the account server returned 429 Too many', Response.json({ message: 'Too many' }, { status: 429 })],
    ['the account server returned 200', Response.json({ access_token: 'a b; echo' })],
    ['the account server returned 400 «é»', new Response(inBytes('{"message":"«é»"}'), { status: 400 })],
    ['no response from https://accounts.example', new TypeError('refused')],
    ['no response from https://accounts.example', new Response('x'.repeat(65_537))],
  ])('explains: %s', async (words, answer) => {
    const { said } = await outcome(answer, renewToken)

    expect(said).toStartWith('ClientError: ')
    expect(said).toContain(words)
  })
})

describe('the account server', () => {
  it('can neither hang the client nor fill its memory', async () => {
    const deadline = new AbortController()
    using timeout = spyOn(AbortSignal, 'timeout').mockReturnValue(deadline.signal)
    let sent = 0
    const pull = (controller: ReadableStreamDefaultController) => {
      sent += 1000
      controller.enqueue(new Uint8Array(1000))
    }
    const hung = (_: string, { signal }: RequestInit) =>
      new Promise<Response>((_, reject) => signal!.addEventListener('abort', () => reject(new Error('late'))))
    const silent = renewToken(account, hung).catch(({ message }: Error) => message)

    const endless = outcome(new Response(new ReadableStream({ pull })), renewToken)
    const { said } = await endless
    deadline.abort()

    const noAnswer = 'Cannot renew the access token: no response from https://accounts.example'
    expect(said).toBe(`ClientError: ${noAnswer}`)
    expect(sent).toBeLessThan(100_000)
    expect(await silent).toBe(noAnswer)
    expect(timeout).toHaveBeenCalledWith(20_000)
  })

  it.each(['http://accounts.example/token', 'http://127.0.0.1.example/token', 'accounts.example'])(
    'is not sent a token in plain text: %s',
    async (tokenEndpoint) => {
      const fetch = () => Promise.reject(new Error('It was sent'))

      const said = await renewToken({ ...account, tokenEndpoint }, fetch).catch(({ message }) => message)

      expect(said).toBe(
        'Cannot renew the access token: TOKEN_ENDPOINT must begin with https://, unless it is on this machine',
      )
    },
  )
})

describe('revokeRefreshToken', () => {
  it('revokes the token, and accepts that it is invalid already', async () => {
    const ended = await outcome(Response.json({}), revokeRefreshToken)
    const unknown = await outcome(Response.json({ errno: 110 }, { status: 401 }), revokeRefreshToken)
    const failed = await outcome(Response.json({}, { status: 500 }), revokeRefreshToken)

    const url = 'https://accounts.example/v1/oauth/destroy'
    expect(ended.asked).toEqual([{ url, body: { client_id: 'c', token: 'r' }, redirect: 'error' }])
    expect([ended.said, unknown.said]).toEqual([undefined, undefined])
    expect(failed.said).toContain('Cannot revoke the refresh token: the account server returned 500')
  })
})
