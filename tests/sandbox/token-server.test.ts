import { createHmac, hkdfSync } from 'node:crypto'
import { describe, expect, it } from 'bun:test'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { beginning, connect, type Answer, type SyncClient, type Token } from './sync-client.ts'

const bearer = (user: SandboxUser, options = {}) => ({
  Authorization: `Bearer ${user.bearerToken(options)}`,
  'X-KeyID': user.keyId,
})

const browserId = (user: SandboxUser, options = {}) => ({
  Authorization: `BrowserID ${user.assertion(options)}`,
  'X-Client-State': user.clientState,
})

const fault = (answer: Answer) => {
  const { status, errors } = answer.json() as {
    status: string
    errors: { location: string; name: string; description: string }[]
  }
  return { http: answer.status, status, ...errors[0] }
}

describe('token server', () => {
  it.each([
    ['/1.0/sync/1.1', '1.1'],
    ['/1.0/calendar/1.5', 'application'],
  ])('fact 1: %s is 404 with status "error" and location "url"', async (path, name) => {
    await using sync = await connect()

    const answer = await sync.askToken(bearer(sync.user), path)
    const stranger = await sync.askToken({}, path)

    expect(fault(answer)).toMatchObject({ http: 404, status: 'error', location: 'url', name })
    expect(stranger.status).toBe(401)
  })

  it('fact 1: only GET is answered, and only below /1.0', async () => {
    await using sync = await connect()

    const posted = await sync.askToken(bearer(sync.user), '/1.0/sync/1.5', 'POST')
    const elsewhere = await sync.askToken(bearer(sync.user), '/2.0/sync/1.5')

    expect([posted.status, elsewhere.status]).toEqual([405, 404])
  })

  it.each([[{}], [{ Authorization: '' }], [{ Authorization: 'Bearer' }], [{ Authorization: 'Bearer a b' }]])(
    'fact 2: no or malformed Authorization %j is 401 "error"',
    async (headers) => {
      await using sync = await connect()

      const answer = await sync.askToken(headers as Record<string, string>)

      expect(fault(answer)).toMatchObject({
        http: 401,
        status: 'error',
        location: 'body',
        name: '',
        description: 'Unauthorized',
      })
    },
  )

  it('fact 3: an unsupported scheme is 401 "Unsupported"', async () => {
    await using sync = await connect()

    const basic = await sync.askToken({ Authorization: 'Basic YTpi' })
    sync.sandbox.switches.identityKinds = ['bearer']
    const assertion = await sync.askToken(browserId(sync.user))

    expect(fault(basic)).toMatchObject({ http: 401, status: 'error', description: 'Unsupported' })
    expect(fault(assertion)).toMatchObject({ http: 401, status: 'error', description: 'Unsupported' })
  })

  const badIdentities: [what: string, headers: (user: SandboxUser) => Record<string, string>][] = [
    ['a token with a broken signature', (user) => withLastCharacters(bearer(user), 'AAAAAAAA')],
    ['a token of another scope', (user) => bearer(user, { scope: 'profile' })],
    [
      'a token of two scopes',
      (user) => bearer(user, { scope: 'profile https://identity.mozilla.com/apps/oldsync' }),
    ],
    ['an expired token', (user) => bearer(user, { expiresInSeconds: -61 })],
    ['a token that is no JWT', (user) => ({ Authorization: 'Bearer opaque', 'X-KeyID': user.keyId })],
    ['an assertion with a broken signature', (user) => withLastCharacters(browserId(user), 'AAAAAAAA')],
    ['an assertion for somebody else', (user) => browserId(user, { audience: 'https://elsewhere.example' })],
    ['an assertion of another issuer', (user) => browserId(user, { issuer: 'elsewhere.example' })],
    ['an assertion without certificate', (user) => onlyAssertion(browserId(user))],
  ]
  it.each(badIdentities)('fact 4: %s is 401 invalid-credentials', async (_, headers) => {
    await using sync = await connect()

    const answer = await sync.askToken(headers(sync.user))

    expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-credentials', location: 'body' })
  })

  it('accepts a bearer token up to a minute after its expiry', async () => {
    await using sync = await connect()

    const answer = await sync.askToken(bearer(sync.user, { expiresInSeconds: -59 }))

    expect(answer.status).toBe(200)
  })

  it.each([[{ expiresInSeconds: -1 }], [{ certificateExpiresInSeconds: -1 }]])(
    'fact 5: an assertion with %j is 401 invalid-timestamp',
    async (options) => {
      await using sync = await connect()

      const answer = await sync.askToken(browserId(sync.user, options))

      expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-timestamp', location: 'body' })
    },
  )

  it('fact 5: an assertion expires without leeway', async () => {
    await using sync = await connect()
    const headers = browserId(sync.user, { expiresInSeconds: 60 })

    sync.later(59_999)
    const before = await sync.askToken(headers)
    sync.later(1)
    const after = await sync.askToken(headers)

    expect([before.status, after.status]).toEqual([200, 401])
  })

  it('fact 6: a bearer token without X-KeyID is 401 invalid-key-id', async () => {
    await using sync = await connect()

    const answer = await sync.askToken({ Authorization: bearer(sync.user).Authorization })

    expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-key-id', location: 'header' })
  })

  it.each([
    '',
    '1500000000000',
    'abc-gC5Fq7_WKaZSATt1Z_oIrQ',
    '15-a+b',
    '15-abcde',
    '15-gC5Fq7_WKaZSATt1Z_oIrQ==',
  ])('fact 7: X-KeyID "%s" is 401 invalid-credentials', async (keyId) => {
    await using sync = await connect()

    const answer = await sync.askToken({ ...bearer(sync.user), 'X-KeyID': keyId })

    expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-credentials' })
  })

  it('fact 8: X-Client-State has to agree with X-KeyID', async () => {
    await using sync = await connect()

    const agreeing = await sync.askToken({ ...bearer(sync.user), 'X-Client-State': sync.user.clientState })
    const other = await sync.askToken({ ...bearer(sync.user), 'X-Client-State': 'a'.repeat(32) })

    expect(agreeing.status).toBe(200)
    expect(fault(other)).toMatchObject({
      http: 401,
      status: 'invalid-client-state',
      location: 'body',
      name: '',
    })
  })

  it.each(['a b', 'ä', 'a'.repeat(33), 'a/b'])(
    'fact 9: X-Client-State "%s" is 400 in the header',
    async (state) => {
      await using sync = await connect()

      const answer = await sync.askToken({ ...browserId(sync.user), 'X-Client-State': state })

      expect(fault(answer)).toMatchObject({
        http: 400,
        status: 'error',
        location: 'header',
        name: 'X-Client-State',
      })
    },
  )

  it('fact 10: an older generation than seen is 401 invalid-generation', async () => {
    await using sync = await connect()

    await sync.askToken(bearer(sync.user, { generation: 1_600_000_000_000 }))
    const older = await sync.askToken(bearer(sync.user, { generation: 1_599_999_999_999 }))
    const unknown = await sync.askToken(bearer(sync.user, { generation: null }))

    expect(fault(older)).toMatchObject({ http: 401, status: 'invalid-generation', location: 'body' })
    expect(unknown.status).toBe(200)
  })

  const olderKeys: [what: string, headers: (user: SandboxUser) => Record<string, string>][] = [
    ['older', (user) => browserId(user, { keysChangedAt: 1_499_999_999_999 })],
    ['missing though seen', (user) => browserId(user, { keysChangedAt: null })],
    ['zero though seen', (user) => browserId(user, { keysChangedAt: 0 })],
    ['later than generation', (user) => browserId(user, { keysChangedAt: 1_500_000_000_001 })],
  ]
  it.each(olderKeys)('fact 11: keys_changed_at %s is 401 invalid-keysChangedAt', async (_, headers) => {
    await using sync = await connect()

    const answer = await sync.askToken(headers(sync.user))

    expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-keysChangedAt', location: 'body' })
  })

  it('fact 12: a client state that was replaced never comes back', async () => {
    await using sync = await connect()
    const renewed = sync.sandbox.addUser('ann', { keysChangedAt: 1_600_000_000_000 })
    await sync.signIn(renewed)

    const answer = await sync.askToken(
      browserId(sync.user, { generation: 1_700_000_000_000, keysChangedAt: 1_700_000_000_000 }),
    )

    expect(fault(answer)).toMatchObject({
      http: 401,
      status: 'invalid-client-state',
      location: 'header',
      name: 'X-Client-State',
    })
  })

  it.each([browserId, bearer])(
    'fact 13: a new client state with newer keys gets a new uid',
    async (identity) => {
      await using sync = await connect()
      const renewed = sync.sandbox.addUser('ann', { keysChangedAt: 1_600_000_000_000 })

      const answer = await sync.askToken(identity(renewed))

      const token = answer.json() as Token
      expect(answer.status).toBe(200)
      expect(token.uid).not.toBe(sync.token.uid)
      expect(token.uid).toBe(renewed.uid)
      expect(new URL(token.api_endpoint).origin).toBe(new URL(sync.token.api_endpoint).origin)
    },
  )

  it.each([{ generation: 1_500_000_000_000 }, { keysChangedAt: 1_500_000_000_000 }])(
    'fact 13: a new client state with old %j is 401 invalid-client-state',
    async (old) => {
      await using sync = await connect()
      const renewed = sync.sandbox.addUser('ann', { keysChangedAt: 1_600_000_000_000 })

      const answer = await sync.askToken(browserId(renewed, old))

      expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-client-state' })
    },
  )

  it('fact 14: no client state after there was one is 401 invalid-client-state', async () => {
    await using sync = await connect()

    const answer = await sync.askToken({ Authorization: browserId(sync.user).Authorization })

    expect(fault(answer)).toMatchObject({ http: 401, status: 'invalid-client-state', location: 'header' })
  })

  it.each([
    ['postgres', 403],
    ['python', 401],
  ] as const)('fact 15: in %s mode an unknown account is %d when none are taken', async (mode, status) => {
    await using sync = await connect({ mode })
    sync.sandbox.switches.newUsers = false
    const stranger = sync.sandbox.addUser('bob', { registered: false })

    const refused = await sync.askToken(browserId(stranger))
    const known = await sync.askToken(browserId(sync.user))
    sync.sandbox.switches.newUsers = true
    const admitted = await sync.askToken(browserId(stranger))

    expect(fault(refused)).toMatchObject({ http: status, status: 'new-users-disabled' })
    expect([known.status, admitted.status]).toEqual([200, 200])
    expect((admitted.json() as Token).uid).toBe(stranger.uid)
  })

  it.each([browserId, bearer])('fact 16: a token has all fields', async (identity) => {
    await using sync = await connect()

    const answer = await sync.askToken(identity(sync.user))

    expect(answer.json()).toEqual({
      id: expect.stringMatching(/^[A-Za-z0-9_-]{298,698}={0,2}$/),
      key: expect.stringMatching(/^[A-Za-z0-9_-]{43}=$/),
      uid: sync.user.uid,
      api_endpoint: `${sync.sandbox.storageUrl}/1.5/${sync.user.uid}`,
      duration: 3600,
      hashalg: 'sha256',
      hashed_fxa_uid: expect.stringMatching(/^[0-9a-f]{32}$/),
      node_type: 'postgres',
    })
  })

  it('fact 17: X-Timestamp is whole seconds, on errors only in Python mode', async () => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })

    const answers = [
      await rust.askToken(bearer(rust.user)),
      await rust.askToken({}),
      await python.askToken(bearer(python.user)),
      await python.askToken({}),
    ]

    const seconds = String(beginning / 1000)
    expect(answers.map(({ headers }) => headers.get('X-Timestamp'))).toEqual([
      seconds,
      null,
      seconds,
      seconds,
    ])
    expect(answers[3]?.headers.get('WWW-Authenticate')).toBe('BrowserID')
  })

  it.each([
    ['60', 60, 60],
    ['0', 0, 3600],
    ['3600', 3600, 3600],
    ['3601', 3600, 3600],
    ['-5', 3600, 3600],
    ['x', 3600, 3600],
  ])('fact 18: duration=%s gives %d s, %d s in Python mode', async (wanted, onRust, onPython) => {
    await using rust = await connect()
    await using python = await connect({ mode: 'python' })

    const tokens = [
      await rust.signIn(rust.user, `?duration=${wanted}`),
      await python.signIn(python.user, `?duration=${wanted}`),
    ]

    expect(tokens.map(({ duration }) => duration)).toEqual([onRust, onPython])
  })

  it('fact 19: the storage refuses a token once its duration is over', async () => {
    await using sync = await connect()
    const token = await sync.signIn(sync.user, '?duration=60')

    sync.later(59_000)
    const before = await sync.send('GET', '/storage/tabs', { token })
    sync.later(1000)
    const after = await sync.send('GET', '/storage/tabs', { token })

    expect([before.status, after.status]).toEqual([200, 401])
  })

  it('fact 20: the token id is signed with, and the key derived from, the shared secret', async () => {
    await using sync = await connect({ secret: 'Ted Koppel is a robot' })

    const { id, key } = sync.token

    const bytes = Buffer.from(id, 'base64url')
    const json = bytes.subarray(0, -32)
    const contents = JSON.parse(json.toString()) as Record<string, unknown>
    const salt = String(contents['salt'])
    const hkdf = (withSalt: string, info: string) =>
      Buffer.from(hkdfSync('sha256', 'Ted Koppel is a robot', withSalt, info, 32))
    const signingKey = hkdf('', 'services.mozilla.com/tokenlib/v1/signing')
    expect(id.length % 4).toBe(0)
    expect(createHmac('sha256', signingKey).update(json).digest()).toEqual(bytes.subarray(-32))
    expect(contents).toMatchObject({
      uid: sync.user.uid,
      node: sync.sandbox.storageUrl,
      expires: beginning / 1000 + 3600,
    })
    expect(salt).toMatch(/^[0-9a-f]{6}$/)
    const derived = hkdf(salt, `services.mozilla.com/tokenlib/v1/derive/${id}`)
    expect(key).toBe(`${derived.toString('base64url')}=`)
  })

  it('fact 22: a reassigned account gets another endpoint with nothing in it, and its tokens are void', async () => {
    await using sync = await connect()
    await sync.put('/storage/tabs/a', { payload: 'x' })

    sync.sandbox.reassign(sync.user)
    const old = await sync.get('/info/collections')
    const token = await sync.signIn(sync.user)
    const renewed = await sync.send('GET', '/info/collections', { token })

    expect(old.status).toBe(401)
    expect(token.api_endpoint).not.toBe(sync.token.api_endpoint)
    expect([renewed.status, renewed.text]).toEqual([200, '{}'])
  })

  it.each([
    ['the token server', (sync: SyncClient) => sync.sandbox.tokenServerUrl],
    ['the storage', (sync: SyncClient) => sync.sandbox.storageUrl],
  ])('fact 23: %s tells its health', async (_, url) => {
    await using sync = await connect()
    const status = async (path: string) => (await fetch(url(sync) + path, { redirect: 'manual' })).status

    const healthy = [await status('/__heartbeat__'), await status('/__lbheartbeat__')]
    sync.sandbox.switches.healthy = false
    const ill = [await status('/__heartbeat__'), await status('/__lbheartbeat__')]

    expect([healthy, ill]).toEqual([
      [200, 200],
      [503, 200],
    ])
    expect([await status('/__version__'), await status('/'), await status('/__other__')]).toEqual([
      200, 302, 404,
    ])
  })
})

function withLastCharacters(headers: Record<string, string>, end: string): Record<string, string> {
  return { ...headers, Authorization: (headers['Authorization'] ?? '').slice(0, -end.length) + end }
}

function onlyAssertion(headers: Record<string, string>): Record<string, string> {
  return { ...headers, Authorization: `BrowserID ${headers['Authorization']?.split('~')[1]}` }
}
