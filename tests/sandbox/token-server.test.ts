import { describe, expect, it } from 'bun:test'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'
import { connect, type Answer, type SyncClient, type Token } from './sync-client.ts'

type Headers = Record<string, string>

const bearer = (user: SandboxUser, options = {}): Headers => ({
  Authorization: `Bearer ${user.bearerToken(options)}`,
  'X-KeyID': user.keyId,
})

const browserId = (user: SandboxUser, options = {}): Headers => ({
  Authorization: `BrowserID ${user.assertion(options)}`,
  'X-Client-State': user.clientState,
})

const broken = (headers: Headers): Headers => ({
  ...headers,
  Authorization: `${headers['Authorization']!.slice(0, -8)}AAAAAAAA`,
})

/** The contents of an error: status, `status`, and location, name and description of its only entry. */
function fault(answer: Answer): unknown[] {
  const { status, errors } = answer.json() as { status: string; errors: Record<string, string>[] }
  const [{ location, name, description } = {}] = errors
  return [answer.status, status, location, name, description]
}

/** The user's account with newer keys. */
const renewed = ({ sandbox }: SyncClient) => sandbox.addUser('ann', { keysChangedAt: 1_600_000_000_000 })

const unauthorized = [401, 'error', 'body', '', 'Unauthorized']
const unsupported = [401, 'error', 'body', '', 'Unsupported']
const noCredentials = [401, 'invalid-credentials', 'body']
const tooLate = [401, 'invalid-timestamp', 'body']
const oldKeys = [401, 'invalid-keysChangedAt', 'body']
const badState = [401, 'invalid-client-state']
const stateHeader = [...badState, 'header', 'X-Client-State']
const stateSyntax = [400, 'error', 'header', 'X-Client-State']

/** Identities with overridden options, and overridden headers; undefined: missing. */
type Identity = [identity: typeof bearer, options: object, headers: Record<string, string | undefined>]
const refusals: [fact: string, ...Identity, error: unknown[]][] = [
  ['2', bearer, {}, { Authorization: undefined }, unauthorized],
  ['2', bearer, {}, { Authorization: 'Bearer a b' }, unauthorized],
  ['3', bearer, {}, { Authorization: 'Basic YTpi' }, unsupported],
  ['4', bearer, { breaks: true }, {}, noCredentials],
  ['4', bearer, { scope: 'profile' }, {}, noCredentials],
  ['4', bearer, { expiresInSeconds: -61 }, {}, noCredentials],
  ['4', browserId, { breaks: true }, {}, noCredentials],
  ['4', browserId, { audience: 'https://elsewhere.example' }, {}, noCredentials],
  ['4', browserId, { issuer: 'elsewhere.example' }, {}, noCredentials],
  ['5', browserId, { expiresInSeconds: -1 }, {}, tooLate],
  ['5', browserId, { certificateExpiresInSeconds: -1 }, {}, tooLate],
  ['6', bearer, {}, { 'X-KeyID': undefined }, [401, 'invalid-key-id', 'header']],
  ['7', bearer, {}, { 'X-KeyID': '1500000000000' }, noCredentials],
  ['7', bearer, {}, { 'X-KeyID': '15-gC5Fq7_WKaZSATt1Z_oIrQ==' }, noCredentials],
  ['8', bearer, {}, { 'X-Client-State': 'a'.repeat(32) }, [...badState, 'body', '']],
  ['9', browserId, {}, { 'X-Client-State': 'a/b' }, stateSyntax],
  ['9', browserId, {}, { 'X-Client-State': 'a'.repeat(33) }, stateSyntax],
  ['11', browserId, { keysChangedAt: 1_499_999_999_999 }, {}, oldKeys],
  ['11', browserId, { keysChangedAt: 1_500_000_000_001 }, {}, oldKeys],
  ['13', browserId, { isRenewed: true, generation: 1_500_000_000_000 }, {}, badState],
  ['13', browserId, { isRenewed: true, keysChangedAt: 1_500_000_000_000 }, {}, badState],
  ['14', browserId, {}, { 'X-Client-State': undefined }, stateHeader],
]

describe('token server', () => {
  it.each(refusals)(
    'fact %s: rejects %p with %j and headers %j',
    async (_, identity, options, headers, error) => {
      await using sync = await connect()
      const { breaks, isRenewed, ...rest } = options as { breaks?: boolean; isRenewed?: boolean }
      const right = identity(isRenewed ? renewed(sync) : sync.user, rest)
      const given = Object.entries({ ...(breaks ? broken(right) : right), ...headers })

      const answer = await sync.askToken(
        Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Headers,
      )

      expect(fault(answer).slice(0, error.length)).toEqual(error)
    },
  )

  it('fact 1: only serves GET, below /1.0, and without a trailing slash', async () => {
    await using sync = await connect()
    const headers = bearer(sync.user)

    const posted = await sync.askToken(headers, '/1.0/sync/1.5', 'POST')
    const elsewhere = await sync.askToken(headers, '/2.0/sync/1.5')
    const slash = await sync.askToken(headers, '/1.0/sync/1.5/')

    expect([posted.status, elsewhere.status, slash.status, slash.text]).toEqual([405, 404, 404, ''])
  })

  it('facts 4, 5: a token may be a minute late, an assertion not at all', async () => {
    await using sync = await connect()
    const assertion = browserId(sync.user, { expiresInSeconds: 60 })
    const token = bearer(sync.user, { expiresInSeconds: 1 })

    sync.later(59_999)
    const before = [await sync.askToken(token), await sync.askToken(assertion)]
    sync.later(1)
    const after = await sync.askToken(assertion)

    expect([...before, after].map(({ status }) => status)).toEqual([200, 200, 401])
  })

  it('fact 10: an older generation than seen is 401 invalid-generation', async () => {
    await using sync = await connect()

    await sync.askToken(bearer(sync.user, { generation: 1_600_000_000_000 }))
    const older = await sync.askToken(bearer(sync.user, { generation: 1_599_999_999_999 }))
    const unknown = await sync.askToken(bearer(sync.user, { generation: null }))

    expect(fault(older).slice(0, 3)).toEqual([401, 'invalid-generation', 'body'])
    expect(unknown.status).toBe(200)
  })

  it('fact 12: a client state that was replaced never comes back', async () => {
    await using sync = await connect()
    await sync.signIn(renewed(sync))

    const newer = { generation: 1_700_000_000_000, keysChangedAt: 1_700_000_000_000 }
    const answer = await sync.askToken(browserId(sync.user, newer))

    expect(fault(answer).slice(0, 4)).toEqual(stateHeader)
  })

  it.each([browserId, bearer])(
    'fact 13: a new client state with newer keys gets a new uid',
    async (identity) => {
      await using sync = await connect()
      const user = renewed(sync)

      const answer = await sync.askToken(identity(user))

      const { uid, api_endpoint } = answer.json() as Token
      expect([answer.status, uid]).toEqual([200, user.uid])
      expect(uid).not.toBe(sync.token.uid)
      expect(new URL(api_endpoint).origin).toBe(new URL(sync.token.api_endpoint).origin)
    },
  )

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
})
