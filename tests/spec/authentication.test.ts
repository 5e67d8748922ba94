import { beforeEach, describe, expect, it } from 'bun:test'
import { request, startTestBridge } from '../support/bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { expectError, putOf } from './expectations.ts'
import { openWorld, parsed } from './world.ts'

const { bridge, storage, send } = await openWorld({ writable: ['history'] })
let made = 0
const records = '/collections/history/records'

beforeEach(() => bridge.sandbox.requests.token.clear())

/** A new user with one record. */
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
      const sent = { Authorization: `BrowserID ${user.assertion()}`, 'X-Client-State': user.clientState }

      const { status, body, headers } = await list(user, sent, bucket)

      expect([status, body.data[0].payload]).toEqual([200, user.name])
      expect(JSON.parse(headers.get('alert')!)).toMatchObject({ code: 'soft-eol' })
      // Several users share this URL.
      expect(headers.get('cache-control')).toBe('no-cache, no-store')
      expectError(await list(user, { ...sent, 'X-Client-State': 'another' }, bucket), 401, 105)
    },
  )

  it('the legacy form with an access token, whose key id contains the client state', async () => {
    const user = newcomer()
    const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }

    const answer = await list(user, headers, 'default')

    expect([answer.status, answer.body.data[0].payload]).toEqual([200, user.name])
    expect(JSON.parse(answer.headers.get('alert')!)).toMatchObject({ code: 'soft-eol' })
    expectError(await list(user, { ...headers, 'X-KeyID': bridge.user.keyId }, 'default'), 401, 105)
  })

  it('the legacy form without any client state: 401', async () => {
    const user = newcomer()

    const answer = await list(user, { Authorization: `BrowserID ${user.assertion()}` }, 'default')
    const malformed = await list(user, { Authorization: 'nonsense' }, 'default')

    for (const refused of [answer, malformed]) {
      expectError(refused, 401, 104)
      expect(refused.headers.get('cache-control')).toBe('no-cache, no-store')
    }
    expect(exchanges()).toHaveLength(0)
  })

  it('in a bucket of 32 characters, X-Client-State is ignored', async () => {
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
    ['an unknown scheme', ['Authorization: Hawk id="x"']],
    ['two headers', ['Authorization: BrowserID a', 'Authorization: BrowserID b']],
    ['a comma', ['Authorization: BrowserID a,b']],
    ['an inner space', ['Authorization: BrowserID a b']],
    ['a byte above ASCII', ['Authorization: BrowserID a\u00e9b']],
    ['9 000 characters', [`Authorization: BrowserID ${'a'.repeat(9000)}`]],
    ['two client states', ['Authorization: BrowserID a', 'X-Client-State: a', 'X-Client-State: b']],
  ] as [string, string[]][])('%s: 401 without any upstream call', async (name, lines) => {
    const bucket = name === 'two client states' ? 'default' : bridge.user.clientState
    const target = `/v1/buckets/${bucket}${records}`

    const answer = await send('GET', target, { as: null, lines })

    expectError(parsed(answer), 401, 104)
    expect(answer.headers.get('www-authenticate')).toBe('BrowserID, Bearer')
    expect(exchanges()).toHaveLength(0)
  })

  it.each(['z', '%2A'])('a bucket of 32 times "%s": 401 without any upstream call', async (character) => {
    const headers = bridge.identityOf(bridge.user, 'BrowserID')

    expectError(await list(bridge.user, headers, character.repeat(32)), 401, 104)
    expect(exchanges()).toEqual([])
  })

  it.each(['1', '"x"', '{"exp":null}', '{"exp":1e999}', '[]', '\ud83d\ude00'])(
    "an assertion that contains %s: the token server's response, after one call",
    async (claims) => {
      const part = Buffer.from(claims).toString('base64url')
      const headers = { Authorization: `BrowserID ${part}.${part}.${part}~${part}.${part}.${part}-${made++}` }

      expectError(await list(bridge.user, headers), 401, 105)
      expect(exchanges()).toHaveLength(1)
    },
  )
})

describe('section 8: separate users', () => {
  it('two users have separate data', async () => {
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

  it('two client states of one assertion have separate data', async () => {
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
  it('causes one token request for 120 concurrent requests with one new assertion', async () => {
    const user = newcomer()
    const { clientState } = user
    const headers = { Authorization: `BrowserID ${user.assertion()}`, 'X-Client-State': clientState }

    const paths = ['/v1/', `/v1/buckets/${clientState}/collections/history`]
    const answers = await Promise.all(
      Array.from({ length: 120 }, (_, turn) => bridge.ask(paths[turn % 2]!, { as: null, headers })),
    )

    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    expect(exchanges()).toHaveLength(1)
  })

  it('keeps credentials for the configured time and no longer', async () => {
    let nowMs = Date.now()
    await using short = await startTestBridge({
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

    expect(statuses).toEqual([200, 200, 200, 200])
    expect([before, after]).toEqual([1, 2])
  })

  it('never outlives the assertion', async () => {
    let nowMs = Date.now()
    await using brief = await startTestBridge({ now: () => nowMs, sandbox: { clock: () => nowMs } })
    const headers = { Authorization: `BrowserID ${brief.user.assertion({ expiresInSeconds: 30 })}` }
    const ask = async () => (await brief.ask(records, { headers, as: brief.user })).status

    const early = await ask()
    nowMs += 31_000
    const late = await ask()

    expect([early, late]).toEqual([200, 401])
  })

  it('keeps a refusal for 5 s', async () => {
    const headers = { Authorization: `BrowserID refused-${made++}` }

    const answers = [await list(bridge.user, headers), await list(bridge.user, headers)]
    const together = await Promise.all(Array.from({ length: 10 }, () => list(bridge.user, headers)))

    for (const answer of [...answers, ...together]) expectError(answer, 401, 105)
    expect(exchanges()).toHaveLength(1)
  })
})

describe('section 8: a storage that returns 401', () => {
  it('gets one retry with new credentials', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    await list(user, headers)
    let refusals = 1
    storage.plan(() => (refusals-- > 0 ? { kind: 'status', status: 401, body: '0' } : null))

    const { status, body } = await list(user, headers)

    expect([status, body.data[0].payload]).toEqual([200, user.name])
    expect(exchanges()).toHaveLength(2)
  })

  it('passes a second 401 on to the client', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    storage.plan(() => ({ kind: 'status', status: 401, body: '0' }))
    const before = storage.requests.length

    const answer = await list(user, headers)

    expectError(answer, 401, 105)
    expect(answer.headers.get('www-authenticate')).toBe('BrowserID, Bearer')
    expect(exchanges()).toHaveLength(2)
    expect(storage.requests.length - before).toBe(2)
  })

  it('because the user was moved: reads continue there, conditional writes are not repeated', async () => {
    const user = newcomer()
    const headers = { Authorization: `BrowserID ${user.assertion()}` }
    const path = `/v1/buckets/${user.clientState}${records}/own`
    const before = await bridge.ask(path, { headers, as: null })
    const condition = { ...headers, 'If-Match': before.headers.get('etag')! }
    const put = () => bridge.ask(path, { ...putOf({ payload: 'new' }, condition), as: null })
    // Moves the user between the read of a write and its commit, so that the commit is rejected.
    storage.plan(({ method }) => {
      if (method === 'POST') bridge.sandbox.reassign(user)
      return null
    })

    const write = await put()
    storage.plan(() => null)
    const after = bridge.sandbox.records(user, 'history')
    const read = await list(user, headers)
    bridge.sandbox.reassign(user)
    const readAgain = await list(user, headers)
    bridge.sandbox.reassign(user)
    // The old node rejects the read of this write; the new one has no such record.
    const late = await put()

    expectError(write, 503, 201)
    expectError(late, 503, 201)
    expect(after).toEqual([])
    expect([read.status, read.body.data]).toEqual([200, []])
    expect([readAgain.status, readAgain.body.data]).toEqual([200, []])
  })
})
