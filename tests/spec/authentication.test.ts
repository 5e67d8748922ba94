import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'bun:test'
import { request, startTestBridge } from '../support/bridge.ts'
import type { TestBridge } from '../support/bridge.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import type { FaultProxy } from '../support/fault-proxy.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { expectError } from './expectations.ts'
import { rawRequest, sendRaw } from './raw-http.ts'

let bridge: TestBridge
let storage: FaultProxy
let made = 0
const records = '/collections/history/records'

beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['history'] })
  storage = await startFaultProxy({ target: bridge.sandbox.storageUrl })
  bridge.sandbox.switches.nodeUrl = storage.url
})

beforeEach(() => {
  storage.plan(() => null)
  bridge.sandbox.requests.token.clear()
})

afterAll(async () => {
  await bridge.stop()
  await storage.stop()
})

/** A user of whom nobody has heard yet, with one record of their own. */
function newcomer(): SandboxUser {
  const user = bridge.sandbox.addUser(`user-${made++}`)
  bridge.sandbox.write(user, 'history', [{ id: 'own', payload: user.name }])
  return user
}

const list = (user: SandboxUser, headers: Record<string, string>, bucket = user.clientState) =>
  request(`${bridge.url}/v1/buckets/${bucket}${records}`, { headers })

const exchanges = () => bridge.sandbox.requests.token.entries

describe('section 8: what clients send', () => {
  it.each(['BrowserID', 'browserid', 'BROWSERID'])('an assertion, scheme %s', async (scheme) => {
    const user = newcomer()

    const { status, body, headers } = await list(user, { Authorization: `${scheme} ${user.assertion()}` })

    expect([status, body.data[0].payload]).toEqual([200, user.name])
    expect(headers.get('alert')).toBeNull()
    expect(exchanges()).toHaveLength(1)
    expect(exchanges()[0]!.headers.get('authorization')).toStartWith('BrowserID ')
    expect(exchanges()[0]!.headers.get('x-client-state')).toBe(user.clientState)
  })

  it.each(['Bearer', 'bearer', 'BEARER'])('an access token with its key id, scheme %s', async (scheme) => {
    const user = newcomer()
    const token = user.bearerToken()

    const { status, body } = await list(user, { Authorization: `${scheme} ${token}`, 'X-KeyID': user.keyId })

    expect([status, body.data[0].payload]).toEqual([200, user.name])
    expect(exchanges()[0]!.headers.get('authorization')).toBe(`Bearer ${token}`)
    expect(exchanges()[0]!.headers.get('x-keyid')).toBe(user.keyId)
    expect(exchanges()[0]!.headers.get('x-client-state')).toBeNull()
  })

  it('an access token without a key id, or with that of another key: 401', async () => {
    const user = newcomer()
    const Authorization = `Bearer ${user.bearerToken()}`

    expectError(await list(user, { Authorization }), 401, 104)
    expectError(await list(user, { Authorization, 'X-KeyID': bridge.user.keyId }), 401, 104)
    expectError(await list(user, { Authorization, 'X-KeyID': 'nonsense' }), 401, 104)
    const legacy = '/v1/buckets/default/collections/history/records'
    const tooLong = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': `${user.keyId}A` }
    expectError(await bridge.ask(legacy, { as: null, headers: tooLong }), 401, 104)
    expect(exchanges()).toHaveLength(0)
  })

  it.each(['default', 'Firefox', 'x'.repeat(31), 'x'.repeat(33), '*'])(
    'the legacy form: bucket %s, and the client state in X-Client-State',
    async (bucket) => {
      const user = newcomer()
      const credentials = { Authorization: `BrowserID ${user.assertion()}` }

      const { status, body, headers } = await list(
        user,
        { ...credentials, 'X-Client-State': user.clientState },
        bucket,
      )

      expect([status, body.data[0].payload]).toEqual([200, user.name])
      expect(JSON.parse(headers.get('alert')!)).toMatchObject({ code: 'soft-eol' })
    },
  )

  it('the legacy form with an access token, whose key id tells the client state', async () => {
    const user = newcomer()
    const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }

    const answer = await list(user, headers, 'default')

    expect([answer.status, answer.body.data[0].payload]).toEqual([200, user.name])
    expect(JSON.parse(answer.headers.get('alert')!)).toMatchObject({ code: 'soft-eol' })
  })

  it('the legacy form without any client state: 401', async () => {
    const user = newcomer()

    const answer = await list(user, { Authorization: `BrowserID ${user.assertion()}` }, 'default')

    expectError(answer, 401, 104)
    expect(exchanges()).toHaveLength(0)
  })

  it('in a bucket of 32 characters X-Client-State does not count', async () => {
    const user = newcomer()

    const { status, headers } = await list(user, {
      Authorization: `BrowserID ${user.assertion()}`,
      'X-Client-State': bridge.user.clientState,
    })

    expect(status).toBe(200)
    expect(headers.get('alert')).toBeNull()
    expect(exchanges()[0]!.headers.get('x-client-state')).toBe(user.clientState)
  })

  it.each([
    ['no Authorization', []],
    ['an empty one', ['Authorization:']],
    ['a scheme only', ['Authorization: BrowserID']],
    ['a scheme and a blank', ['Authorization: BrowserID ']],
    ['an unknown scheme', ['Authorization: Hawk id="x"']],
    ['two headers', ['Authorization: BrowserID a', 'Authorization: BrowserID b']],
    ['a comma', ['Authorization: BrowserID a,b']],
    ['an inner blank', ['Authorization: BrowserID a b']],
    ['a tab', ['Authorization: BrowserID a\tb']],
    ['a byte above ASCII', ['Authorization: BrowserID a\u00e9b']],
    ['9 000 characters', [`Authorization: BrowserID ${'a'.repeat(9000)}`]],
    ['two client states', ['Authorization: BrowserID a', 'X-Client-State: a', 'X-Client-State: b']],
  ] as [string, string[]][])('%s: 401 without asking anybody', async (name, lines) => {
    const bucket = name === 'two client states' ? 'default' : bridge.user.clientState
    const target = `/v1/buckets/${bucket}${records}`

    const answer = await sendRaw(bridge.url, rawRequest('GET', target, { url: bridge.url, lines }))

    expectError({ ...answer, body: JSON.parse(answer.body) }, 401, 104)
    expect(answer.headers.get('www-authenticate')).toBe('BrowserID, Bearer')
    expect(exchanges()).toHaveLength(0)
  })

  it('a bucket of 32 characters that are not hex digits: 401 without asking anybody', async () => {
    bridge.sandbox.requests.token.clear()
    const headers = bridge.identityOf(bridge.user, 'BrowserID')

    const answer = await request(`${bridge.url}/v1/buckets/${'z'.repeat(32)}${records}`, { headers })

    expectError(answer, 401, 104)
    expect(bridge.sandbox.requests.token.entries).toEqual([])
  })

  it('a bucket of 32 characters that is no client state: 401', async () => {
    const headers = bridge.identityOf(bridge.user, 'BrowserID')

    expectError(
      await request(`${bridge.url}/v1/buckets/${'%2A'.repeat(32)}${records}`, { headers }),
      401,
      104,
    )
  })

  it.each(['1', '"x"', '{"exp":null}', '{"exp":1e999}', '[]', '\ud83d\ude00'])(
    'an assertion that holds %s: as the token server answers, asked once',
    async (claims) => {
      const part = Buffer.from(claims).toString('base64url')
      const headers = { Authorization: `BrowserID ${part}.${part}.${part}~${part}.${part}.${part}-${made++}` }

      expectError(await list(bridge.user, headers), 401, 105)
      expect(exchanges()).toHaveLength(1)
    },
  )
})

describe('section 8: one user is not another', () => {
  it('keeps two users apart', async () => {
    const [alice, bob] = [newcomer(), newcomer()]
    const credentials = [alice, bob].map((user) => ({ Authorization: `BrowserID ${user.assertion()}` }))

    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, turn) => list([alice, bob][turn % 2]!, credentials[turn % 2]!)),
    )
    const crossed = await list(bob, credentials[0]!)

    expect(answers.map(({ body }) => body.data[0].payload)).toEqual(
      answers.map((_, turn) => [alice, bob][turn % 2]!.name),
    )
    expect(crossed.status).toBe(401)
  })

  it('keeps two client states of one assertion apart', async () => {
    const bare = { generation: null, keysChangedAt: null }
    const user = bridge.sandbox.addUser(`states-${made++}`, { registered: false })
    const headers = { Authorization: `BrowserID ${user.assertion(bare)}` }
    const other = 'a'.repeat(32)

    const first = await list(user, headers)
    bridge.sandbox.write(user, 'history', [{ id: 'own', payload: 'of the first' }])
    const again = await list(user, headers)
    const second = await list(user, headers, other)

    expect([first.status, first.body.data]).toEqual([200, []])
    expect(again.body.data).toMatchObject([{ payload: 'of the first' }])
    expect(JSON.stringify(second.body)).not.toContain('of the first')
    expect(exchanges().map((entry) => entry.headers.get('x-client-state'))).toEqual([user.clientState, other])
  })
})

describe('section 8: the cache', () => {
  it('causes one token request for 200 concurrent requests with one new assertion', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }

    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, turn) =>
        request(
          turn % 2 ? `${bridge.url}/v1/` : `${bridge.url}/v1/buckets/${user.clientState}/collections/history`,
          { headers: { ...headers, 'X-Client-State': user.clientState } },
        ),
      ),
    )

    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(exchanges()).toHaveLength(1)
  })

  it('remembers credentials for the configured time and no longer', async () => {
    let nowMs = Date.now()
    const short = await startTestBridge({
      settings: { cache_credentials_ttl_seconds: '60' },
      now: () => nowMs,
      sandbox: { clock: () => nowMs },
    })
    const ask = async () => (await short.ask(records)).status

    const statuses = [await ask(), await ask()]
    nowMs += 59_000
    statuses.push(await ask())
    const before = short.sandbox.requests.token.entries.length
    nowMs += 2000
    statuses.push(await ask())
    const after = short.sandbox.requests.token.entries.length
    await short.stop()

    expect(statuses).toEqual([200, 200, 200, 200])
    expect([before, after]).toEqual([1, 2])
  })

  it('never outlives the assertion', async () => {
    let nowMs = Date.now()
    const brief = await startTestBridge({ now: () => nowMs, sandbox: { clock: () => nowMs } })
    const headers = { Authorization: `BrowserID ${brief.user.assertion({ expiresInSeconds: 30 })}` }
    const ask = async () => (await brief.ask(records, { headers, as: brief.user })).status

    const early = await ask()
    nowMs += 31_000
    const late = await ask()
    await brief.stop()

    expect([early, late]).toEqual([200, 401])
  })

  it('remembers a refusal for 5 s', async () => {
    const headers = { Authorization: `BrowserID refused-${made++}` }

    const answers = [await list(bridge.user, headers), await list(bridge.user, headers)]
    const together = await Promise.all(Array.from({ length: 10 }, () => list(bridge.user, headers)))

    for (const answer of [...answers, ...together]) expectError(answer, 401, 105)
    expect(exchanges()).toHaveLength(1)
  })

  it('does not remember that the token server was away', async () => {
    const token = await startFaultProxy({ target: bridge.sandbox.tokenServerUrl })
    const other = await startTestBridge({ tokenServerUrl: token.url })
    const user = newcomer()
    const ask = () =>
      other.ask(records, { as: user, headers: { Authorization: `BrowserID ${user.assertion()}` } })
    token.plan(() => ({ kind: 'status', status: 503 }))

    const away = await ask()
    token.plan(() => null)
    const back = await ask()
    await other.stop()
    await token.stop()

    expectError(away, 503, 201)
    expect([back.status, back.body.data[0].payload]).toEqual([200, user.name])
  })
})

describe('section 8: a storage that answers 401', () => {
  it('is asked once more with new credentials', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    await list(user, headers)
    let refusals = 1
    storage.plan(() => (refusals-- > 0 ? { kind: 'status', status: 401, body: '0' } : null))

    const { status, body } = await list(user, headers)

    expect([status, body.data[0].payload]).toEqual([200, user.name])
    expect(exchanges()).toHaveLength(2)
  })

  it('is believed when it says so again', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    storage.plan(() => ({ kind: 'status', status: 401, body: '0' }))
    const before = storage.requests.length

    expectError(await list(user, headers), 401, 105)
    expect(exchanges()).toHaveLength(2)
    expect(storage.requests.length - before).toBe(2)
  })

  it('because the user was moved: reads go on there, conditional writes are not repeated', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    const path = `${bridge.url}/v1/buckets/${user.clientState}${records}/own`
    const before = await request(path, { headers })
    const put = (condition: Record<string, string>) =>
      request(path, {
        method: 'PUT',
        headers: { ...headers, ...condition, 'Content-Type': 'application/json' },
        body: '{"data":{"payload":"new"}}',
      })
    // Moves between the read of a write and its commit, so that the commit is refused.
    storage.plan(({ method }) => {
      if (method === 'POST') bridge.sandbox.reassign(user)
      return null
    })

    const write = await put({ 'If-Match': before.headers.get('etag')! })
    storage.plan(() => null)
    const after = bridge.sandbox.records(user, 'history')
    const read = await list(user, headers)
    bridge.sandbox.reassign(user)
    const readAgain = await list(user, headers)
    bridge.sandbox.reassign(user)
    // The old node refuses already the read of this write; the new one knows no such record.
    const late = await put({ 'If-Match': before.headers.get('etag')! })

    expectError(write, 503, 201)
    expectError(late, 503, 201)
    expect(after).toEqual([])
    expect([read.status, read.body.data]).toEqual([200, []])
    expect([readAgain.status, readAgain.body.data]).toEqual([200, []])
  })
})
