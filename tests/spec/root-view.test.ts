import { describe, expect, it } from 'bun:test'
import { limits } from '../../src/load/limits.ts'
import { request, startTestBridge } from '../support/bridge.ts'
import { startHeldTokenServer } from '../system/held-token-server.ts'
import { openWorld } from './world.ts'

const { bridge, send } = await openWorld()
const sentClientState = () => bridge.sandbox.requests.token.entries.at(-1)!.headers.get('x-client-state')

describe('section 2: root view', () => {
  it('describes the service, member by member', async () => {
    const { body } = await request(`${bridge.url}/v1/`)

    expect(Object.keys(body).sort()).toEqual(
      (
        'capabilities cliquet_protocol_version http_api_version project_docs project_name ' +
        'project_version settings toolkit_protocol_version url'
      ).split(' '),
    )
    expect(body).toMatchObject({
      project_name: 'Sync Bridge',
      http_api_version: '1.5',
      toolkit_protocol_version: '2',
      cliquet_protocol_version: '2',
      url: `${bridge.url}/v1`,
      settings: { batch_max_requests: 25, readonly: false, 'cliquet.batch_max_requests': 25 },
    })
    expect(body.project_version).toMatch(/^\d+\.\d+\.\d+/)
  })

  it('describes its capabilities, and promises none that it lacks', async () => {
    const { body } = await request(`${bridge.url}/v1/`)

    const entries = Object.entries<Record<string, string>>(body.capabilities)
    expect(entries.length).toBeGreaterThan(0)
    for (const [, capability] of entries) {
      expect(capability).toEqual({ description: expect.any(String), url: expect.any(String) })
    }
    for (const name of ['permissions_endpoint', 'history', 'attachments', 'accounts']) {
      expect(body.capabilities).not.toHaveProperty(name)
    }
  })

  it('shows settings as they are configured', async () => {
    await using other = await startTestBridge({
      settings: {
        http_api_version: '1.10',
        project_name: 'Other',
        project_docs: 'https://docs.example/',
        batch_max_requests: '7',
        readonly: 'true',
        eos: '2099-12-31',
      },
    })

    const { body } = await request(`${other.url}/v1/`)

    expect(body).toMatchObject({
      http_api_version: '1.10',
      project_name: 'Other',
      project_docs: 'https://docs.example/',
      eos: '2099-12-31',
      settings: { batch_max_requests: 7, readonly: true, 'cliquet.batch_max_requests': 7 },
    })
  })

  it('names the user of an access token', async () => {
    const { status, body } = await bridge.ask('/v1/')

    expect(status).toBe(200)
    expect(body.user).toEqual({ id: String(bridge.user.uid) })
  })

  const { clientState, keyId } = bridge.user

  it.each([
    ['X-Client-State', clientState],
    ['X-KeyID', keyId],
  ] as const)('names the user of an assertion, with the client state of %s', async (name, value) => {
    const headers = { ...bridge.identityOf(bridge.user, 'BrowserID'), [name]: value }

    const { body } = await request(`${bridge.url}/v1/`, { headers })

    expect(body.user).toEqual({ id: String(bridge.user.uid) })
    expect(sentClientState()).toBe(clientState)
  })

  it('calls the token server without a client state if none is sent', async () => {
    const newcomer = bridge.sandbox.addUser('without-state', { registered: false })

    const { body } = await request(`${bridge.url}/v1/`, {
      headers: { Authorization: `BrowserID ${newcomer.assertion()}` },
    })

    expect(body.user).toEqual({ id: expect.any(String) })
    expect(sentClientState()).toBeNull()
  })

  it.each(['BrowserID nonsense', 'Basic dXNlcjpw', 'Bearer', 'Bearer abc'])(
    'names no user for the credentials "%s"',
    async (authorization) => {
      const { status, body } = await request(`${bridge.url}/v1/`, {
        headers: { Authorization: authorization, 'X-KeyID': bridge.user.keyId },
      })

      expect(status).toBe(200)
      expect(body).not.toHaveProperty('user')
    },
  )

  it('has no user if the token server is down', async () => {
    await using lonely = await startTestBridge({ tokenServerUrl: 'http://127.0.0.1:1' })

    const { status, body } = await lonely.ask('/v1/')

    expect(status).toBe(200)
    expect(body).not.toHaveProperty('user')
  })

  it.each([
    'X-Forwarded-Host: evil.example',
    'Forwarded: host=evil.example;proto=https',
    'X-Forwarded-Proto: https',
  ])('ignores "%s"', async (line) => {
    const { body } = await send('GET', '/v1/', { as: null, lines: [line] })

    expect(JSON.parse(body).url).toBe(`${bridge.url}/v1`)
  })

  it.each(['sync.example', 'sync.example:8443', '[::1]:80', 'a'])(
    'takes its address from Host: %s',
    async (host) => {
      const { body } = await send('GET', '/v1/', { as: null, lines: [`Host: ${host}`] })

      expect(JSON.parse(body).url).toBe(`http://${host}/v1`)
    },
  )
})

describe('root views with credentials', () => {
  it('are limited, and others get 503', async () => {
    await using tokenServer = await startHeldTokenServer()
    await using held = await startTestBridge({ tokenServerUrl: tokenServer.url })
    const ask = (index: number) =>
      request(`${held.url}/v1/`, {
        headers: { Authorization: `Bearer stranger-${index}`, 'X-KeyID': '1-ASNFZ4mrze8BI0VniavN7w' },
      })
    const first = Array.from({ length: limits.rootViews }, (_, index) => ask(index))
    await tokenServer.waiting(limits.rootViews)

    const refused = await Promise.all(Array.from({ length: 24 }, (_, index) => ask(100 + index)))
    const anonymous = await request(`${held.url}/v1/`)

    expect(refused.map(({ status }) => status)).toEqual(Array(24).fill(503))
    expect(refused[0]!.body).toMatchObject({ errno: 201 })
    expect(refused[0]!.headers.get('retry-after')).toBe('30')
    expect(anonymous.status).toBe(200)
    expect(held.logs.filter((line) => line.includes('"defect"'))).toEqual([])
    tokenServer.release()
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual(Array(limits.rootViews).fill(200))
    // The token server has answered, so there is room for new ones.
    const later = await Promise.all(Array.from({ length: limits.rootViews }, (_, index) => ask(200 + index)))
    expect(later.map(({ status }) => status)).toEqual(Array(limits.rootViews).fill(200))
  })

  it('are answered within request_timeout_seconds, without a user, and still count as calls of the token server', async () => {
    await using tokenServer = await startHeldTokenServer()
    await using held = await startTestBridge({
      tokenServerUrl: tokenServer.url,
      settings: { request_timeout_seconds: '0.2', upstream_timeout_seconds: '60' },
    })
    const ask = (index: number) =>
      request(`${held.url}/v1/`, {
        headers: { Authorization: `Bearer stranger-${index}`, 'X-KeyID': '1-ASNFZ4mrze8BI0VniavN7w' },
      })

    const late = await Promise.all(Array.from({ length: limits.rootViews }, (_, index) => ask(index)))
    const another = await ask(100)

    expect(late.map(({ status }) => status)).toEqual(Array(limits.rootViews).fill(200))
    expect(late.filter(({ body }) => 'user' in body)).toEqual([])
    expect(another.status).toBe(503)
  })
})
