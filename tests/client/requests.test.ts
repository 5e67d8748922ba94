import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { checkAccount, type Account } from '../../src/client/account.ts'
import { ClientError } from '../../src/client/errors.ts'
import { Requests, type ClientOptions } from '../../src/client/requests.ts'
import { SyncClient } from '../../src/client/sync-client.ts'
import type { Accounts } from '../firefox/accounts.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { accountsOf, expiredAccount } from './world.ts'

const keyId = '1500000000000-ASNFZ4mrze8BI0VniavN7w'
const values: Partial<Account> = { bridgeUrl: 'https://bridge.example/sync/', token: 't', keyId }

/** Requests from a bridge that returns these responses in order. */
function askOf(answers: (Response | Error)[], options: ClientOptions = {}) {
  const asked: string[] = []
  const fetch = (url: string, init: RequestInit) => {
    asked.push(`${init.method} ${url}`)
    const answer = answers.shift()!
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer)
  }
  return { asked, requests: new Requests(checkAccount(values), { ...options, fetch }) }
}

const busy = (status: number, retryAfter: string) =>
  Response.json({ message: 'Too busy: try again later' }, { status, headers: { 'Retry-After': retryAfter } })
const errorOf = (asked: Promise<unknown>) =>
  asked.catch((error: ClientError) => error) as Promise<ClientError>

/** A response whose connection is lost after this text. */
function brokenBody(text: string): Response {
  const chunks = [new TextEncoder().encode(text)]
  return new Response(
    new ReadableStream({
      pull(controller) {
        const chunk = chunks.shift()
        if (chunk) controller.enqueue(chunk)
        else controller.error(new TypeError('terminated'))
      },
    }),
  )
}

describe('Requests', () => {
  it('uses the version prefix, whatever the address ends with', async () => {
    const { asked, requests } = askOf([Response.json({ data: [] }), Response.json({ data: [] })])

    await requests.ask('')
    await requests.ask('/batch', { method: 'POST', body: {} })

    expect(asked).toEqual([
      'GET https://bridge.example/sync/v1/',
      'POST https://bridge.example/sync/v1/batch',
    ])
  })

  it('renews each token that expires', async () => {
    const tokenEndpoint = 'https://accounts.example/v1/token'
    let [issued, accepted] = [0, 1]
    const fetch = async (url: string, { headers }: RequestInit) => {
      if (url === tokenEndpoint) return Response.json({ access_token: `token${(issued += 1)}` })
      const isAccepted = new Headers(headers).get('Authorization') === `Bearer token${accepted}`
      return isAccepted ? Response.json({ data: [] }) : new Response(null, { status: 401 })
    }
    const renewable = { ...values, refreshToken: 'r', clientId: 'c', tokenEndpoint }
    const requests = new Requests(checkAccount(renewable), { fetch })

    for (; accepted <= 3; accepted += 1) await requests.ask('/x')

    expect(issued).toBe(3)
  })

  it('rejects at once if it is aborted while a token is renewed', async () => {
    const stopping = new AbortController()
    const tokenEndpoint = 'https://accounts.example/v1/token'
    const fetch = (url: string) => {
      if (url !== tokenEndpoint) return Promise.resolve(new Response(null, { status: 401 }))
      setTimeout(() => stopping.abort(new Error('stopped')))
      return new Promise<never>(() => {})
    }
    const renewable = { ...values, refreshToken: 'r', clientId: 'c', tokenEndpoint }
    const requests = new Requests(checkAccount(renewable), { fetch })

    const { message } = await errorOf(requests.ask('', { signal: stopping.signal }))

    expect(message).toBe('stopped')
  })

  it('retries after the pause that a response requests', async () => {
    const told: string[] = []
    const onPause = (seconds: number, status: number) => told.push(`${status}: ${seconds} s`)
    const { requests } = askOf([busy(503, '0'), busy(429, '0'), Response.json({ data: [] })], { onPause })

    const { body } = await requests.ask('/x')

    expect(body).toEqual({ data: [] })
    expect(told).toEqual(['503: 0 s', '429: 0 s'])
  })

  it('remembers the pause that a success requests, which the next success does not end', async () => {
    const asking = (backoff: string) => Response.json({ data: [] }, { headers: { Backoff: backoff } })
    const { requests } = askOf([
      Response.json({ data: [] }),
      asking('30'),
      asking('10'),
      asking('soon'),
      Response.json({ data: [] }),
    ])

    await requests.ask('/x')
    const before = requests.backoffUntilMs - Date.now()
    for (let count = 0; count < 4; count += 1) await requests.ask('/x')

    expect(before).toBeLessThanOrEqual(0)
    expect(requests.backoffUntilMs - Date.now()).toBeWithin(25_000, 30_001)
  })

  it('does not pause for a clock that is set back', async () => {
    const { requests } = askOf([Response.json({ data: [] })])

    await requests.ask('/x')

    expect(requests.backoffUntilMs).toBe(0)
  })

  it.each([
    [undefined, 4],
    [0, 1],
  ])('gives up after the last retry: maxPauses %p', async (maxPauses, times) => {
    const { asked, requests } = askOf(
      Array.from({ length: 5 }, () => busy(503, '0')),
      { maxPauses },
    )

    const error = await errorOf(requests.ask('/x'))

    expect([error.name, error.message, error.status, error.field]).toEqual([
      'ClientError',
      'Too busy: try again later',
      503,
      null,
    ])
    expect(asked).toHaveLength(times)
  })

  it('tries the next ones once in an outage, until one succeeds', async () => {
    const { asked, requests } = askOf(
      [
        busy(503, '0'),
        busy(503, '0'),
        busy(503, '0'),
        Response.json({ data: [] }),
        busy(503, '0'),
        Response.json({ data: [] }),
      ],
      { maxPauses: 1 },
    )

    const outcomes: number[] = []
    for (const path of ['/a', '/b', '/c', '/d'])
      outcomes.push(
        await requests.ask(path).then(
          ({ status }) => status,
          ({ status }: ClientError) => status!,
        ),
      )

    expect(outcomes).toEqual([503, 503, 200, 200])
    expect(asked.map((line) => line.at(-1))).toEqual(['a', 'a', 'b', 'c', 'd', 'd'])
  })

  it('passes on what the function that sends requests knows', async () => {
    const { requests } = askOf([new ClientError('Wrong address')])

    expect((await errorOf(requests.ask('/x', { method: 'POST', body: {} }))).message).toBe('Wrong address')
  })

  it.each([
    ['61', 'Too busy. Try again in 61 s'],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 'Too busy: try again later'],
  ])('does not wait for %s', async (retryAfter, message) => {
    const { asked, requests } = askOf([busy(503, retryAfter)])

    expect((await errorOf(requests.ask('/x'))).message).toBe(message)
    expect(asked).toHaveLength(1)
  })

  it('ends a pause when the signal is aborted', async () => {
    const stopping = new AbortController()
    const { requests } = askOf([busy(503, '60')], { onPause: () => stopping.abort(new Error('Stopped')) })

    await expect(requests.ask('/x', { signal: stopping.signal })).rejects.toThrow('Stopped')
  })

  it('does not follow a redirect, which would lose the token', async () => {
    const target = 'http://localhost:1/v1/x'
    // A server, because the runtime follows redirects by default.
    using server = Bun.serve({ port: 0, fetch: () => Response.redirect(target, 308) })
    const requests = new Requests(checkAccount({ ...values, bridgeUrl: server.url.origin }), {})

    const { message } = await errorOf(requests.ask('/x'))

    expect(message).toBe('A proxy or another server returned 308: is this the address of the bridge?')
  })

  it('rejects with the reason of a signal that is aborted during the body', async () => {
    const stopping = new AbortController()
    const { requests } = askOf([brokenBody('{'), brokenBody('{')])
    const { parts } = await requests.stream('/x', { signal: stopping.signal })
    const asked = requests.ask('/x', { signal: stopping.signal })
    stopping.abort(new Error('Stopped'))

    await expect(asked).rejects.toThrow('Stopped')
    await expect(Array.fromAsync(parts)).rejects.toThrow('Stopped')
  })

  it.each([
    ['The response broke off', brokenBody('{"data": ['), {}],
    ['unexpected response: is this its address?', new Response('<html>'), {}],
    ['unexpected response: is this its address?', Response.json({ status: 'up' }), {}],
    ['unexpected response: is this its address?', Response.json({ data: null }), {}],
    [
      'A proxy or another server returned 502: is this the address of the bridge?',
      new Response('<html>', { status: 502 }),
      {},
    ],
    // HEAD has no body.
    ['The bridge returned 500.', new Response(null, { status: 500 }), { method: 'HEAD' }],
    ['No response from the bridge at https://bridge.example/sync/', new TypeError('refused'), {}],
    ['the write may have been applied', new TypeError('lost'), { method: 'POST', body: {} }],
    ['the write may have been applied', new Response('{"res'), { method: 'POST', body: {} }],
  ] as const)('explains: %s', async (words, answer, options) => {
    const { requests } = askOf([answer])

    expect((await errorOf(requests.ask('/batch', options))).message).toContain(words)
  })

  it('says that the address is missing', async () => {
    const fetch = () => Promise.reject(new TypeError('Failed to parse URL'))
    const requests = new Requests(checkAccount({ ...values, bridgeUrl: '' }), { fetch })

    expect((await errorOf(requests.ask('/x'))).message).toContain('set bridgeUrl')
  })

  it.each([
    [105, 'token'],
    [104, 'keyId'],
  ])('reports with a 401 the field that must change: errno %i, %s', async (errno, field) => {
    const { requests } = askOf([Response.json({ errno, message: 'No' }, { status: 401 })])

    expect(await errorOf(requests.ask('/x'))).toMatchObject({ field, errno, status: 401, message: 'No' })
  })
})

describe('the access token', () => {
  let bridge: TestBridge
  let accounts: Accounts
  beforeAll(async () => {
    bridge = await startTestBridge()
    accounts = accountsOf(bridge.user)
  })
  afterAll(() => Promise.all([bridge.stop(), accounts.stop()]))
  const renewals = () => accounts.requests.filter((asked) => asked === 'POST /v1/oauth/token').length

  it('is renewed once for all requests that are rejected together, or whose refusal arrives late', async () => {
    const told: string[] = []
    const late = Promise.withResolvers<void>()
    let count = 0
    const client = new SyncClient(expiredAccount(bridge, accounts), {
      onNewToken: (token) => void told.push(token),
      async fetch(url, init) {
        const isLate = count++ === 0
        const answer = await fetch(url, init)
        if (isLate) await late.promise
        return answer
      },
    })
    const before = renewals()

    const first = client.collections()
    await Promise.all([client.collections(), client.collections()])
    late.resolve()
    await first

    expect(renewals() - before).toBe(1)
    expect(told).toEqual([client.account.token])
  })
})
