import { afterAll, afterEach, beforeAll, describe, expect, it } from 'bun:test'

import { startSandbox, type Sandbox } from '../support/sandbox.ts'
import { startFaultProxy, type Fault, type FaultProxy, type ProxiedRequest } from '../support/fault-proxy.ts'
import { serve, type Bridge } from '../support/executable.ts'

let sandbox: Sandbox
let tokens: FaultProxy
let storage: FaultProxy
let bridge: Bridge

beforeAll(async () => {
  sandbox = await startSandbox()
  tokens = await startFaultProxy({ target: sandbox.tokenServerUrl })
  storage = await startFaultProxy({ target: sandbox.storageUrl })
  sandbox.switches.nodeUrl = storage.url
  bridge = await serve({ token_server_url: tokens.url, record_tabs_put_enabled: 'true' })
})

afterEach(() => {
  tokens.plan(() => null)
  storage.plan(() => null)
})

afterAll(async () => {
  await bridge.stop()
  await Promise.all([tokens.stop(), storage.stop()])
  await sandbox.stop()
})

/** A new user and their credentials. */
function newcomer() {
  const user = sandbox.addUser(crypto.randomUUID())
  const headers = { Authorization: `Bearer ${user.bearerToken()}`, 'X-KeyID': user.keyId }
  const bucket = `/buckets/${user.clientState}`
  return {
    user,
    bucket,
    ask: (name: string, path: string, init: RequestInit = {}) =>
      fetch(`${bridge.url}/v1${path}`, {
        ...init,
        headers: { ...headers, 'Content-Type': 'application/json', 'X-Request-Id': name },
      }),
  }
}

const nameOf = ({ headers }: ProxiedRequest) => headers.get('X-Request-Id')

async function namesDuring(act: () => Promise<unknown>): Promise<{ token: unknown[]; storage: unknown[] }> {
  const known = [tokens.requests.length, storage.requests.length]
  await act()
  return {
    token: tokens.requests.slice(known[0]).map(nameOf),
    storage: storage.requests.slice(known[1]).map(nameOf),
  }
}

describe('X-Request-Id', () => {
  it('is sent to the token server and with every storage call', async () => {
    const { ask, bucket } = newcomer()
    const requests = [
      { method: 'PUT', path: `${bucket}/collections/tabs/records/b`, body: { data: { payload: 'x' } } },
      { path: `${bucket}/collections/tabs/records` },
    ]

    const read = await namesDuring(() => ask('the.read', `${bucket}/collections/tabs/records`))
    const put = await namesDuring(() =>
      ask('the-put', `${bucket}/collections/tabs/records/a`, {
        method: 'PUT',
        body: JSON.stringify({ data: { payload: 'x' } }),
      }),
    )
    const batch = await namesDuring(() =>
      ask('the_batch', '/batch', { method: 'POST', body: JSON.stringify({ requests }) }),
    )
    const root = await namesDuring(() => newcomer().ask('the-root', '/'))

    expect(read).toEqual({ token: ['the.read'], storage: ['the.read'] })
    expect([put.token, new Set(put.storage)]).toEqual([[], new Set(['the-put'])])
    expect(put.storage.length).toBeGreaterThan(1)
    expect([batch.token, new Set(batch.storage)]).toEqual([[], new Set(['the_batch'])])
    expect(root).toEqual({ token: ['the-root'], storage: [] })
  })

  it('is that of the request that calls the token server, for others that wait for the same call', async () => {
    const { ask, bucket } = newcomer()
    tokens.plan(() => ({ kind: 'hang' }))

    const names = await namesDuring(async () => {
      const first = ask('first', `${bucket}/collections/tabs/records`)
      const from = tokens.requests.length
      await tokens.waitFor(({ index }) => index >= from)
      const second = ask('second', `${bucket}/collections/tabs/records`)
      tokens.plan(() => null)
      tokens.release()
      await Promise.all([first, second])
    })

    expect(names.token).toEqual(['first'])
    expect(names.storage.toSorted()).toEqual(['first', 'second'])
  })
})

describe('the log line of a request', () => {
  it.each<[string, Fault | null, number, number | undefined]>([
    ['what the storage answered', null, 200, 200],
    ['an error of the storage', { kind: 'status', status: 503, headers: { 'Retry-After': '1' } }, 503, 503],
    ['a redirection', { kind: 'status', status: 302, headers: { Location: '/' } }, 503, 302],
    ['no status where there was no answer', { kind: 'reset-before' }, 503, undefined],
  ])('contains %s', async (_, fault, status, upstreamStatus) => {
    const { ask, bucket } = newcomer()
    const name = crypto.randomUUID()
    storage.plan(() => fault)

    await ask(name, `${bucket}/collections/tabs/records`).then((answer) => answer.text())
    const line = await lineOf(name)

    expect(line).toMatchObject({ event: 'request', route: 'records', status })
    expect(line.upstreamStatus).toBe(upstreamStatus)
    expect(line.upstreamCalls).toBeGreaterThan(0)
  })
})

async function lineOf(name: string): Promise<Record<string, unknown>> {
  const [line] = await bridge.line(new RegExp(`.*"requestId":"${name}".*`))
  return JSON.parse(line)
}
