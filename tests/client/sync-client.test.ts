import { afterAll, beforeAll, describe, expect, it } from 'bun:test'
import { decryptRecord } from '../../src/client/crypto.ts'
import { connect, SyncClient } from '../../src/client/sync-client.ts'
import { fillSampleData } from '../../src/sandbox/sample-data.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { accountAt, all } from './world.ts'

let bridge: TestBridge
beforeAll(async () => {
  bridge = await startTestBridge({ writable: ['bookmarks'] })
  fillSampleData(bridge.sandbox, bridge.user, { bookmarks: 20, history: 1 })
})
afterAll(() => bridge.stop())

describe('connect', () => {
  it('opens an account, whose collections have names and timestamps', async () => {
    const client = await connect(accountAt(bridge))

    const collections = await client.collections()

    const names = ['bookmarks', 'clients', 'crypto', 'forms', 'history', 'meta', 'passwords', 'prefs', 'tabs']
    expect(collections.map(({ name }) => name)).toEqual(names)
    expect(collections.every(({ lastModified }) => lastModified > 1_500_000_000_000)).toBe(true)
    expect(await client.info()).toEqual({ version: expect.stringMatching(/^\d+\.\d+/), maxRequests: 25 })
  })

  it('reports that the sync key is missing, or that the account has no keys yet', async () => {
    const keyless = { ...accountAt(bridge), syncKey: '' }
    const empty = accountAt(bridge, bridge.sandbox.addUser('empty'))

    await expect(connect(keyless)).rejects.toMatchObject({
      message: 'The sync key is missing: nothing can be decrypted.',
      field: 'syncKey',
    })
    await expect(connect(empty)).rejects.toThrow('This account has no keys yet')
  })
})

describe('a server that is not a bridge', () => {
  it('is reported as such, not as a wrong key', async () => {
    const fetch = () => Promise.resolve(Response.json({ name: 'other' }))
    const message = 'The bridge sent an unexpected response: is this its address?'

    await expect(connect(accountAt(bridge), { fetch })).rejects.toMatchObject({ message, field: null })
  })

  it('is not an account without keys if it returns 404 to everything', async () => {
    const fetch = () => Promise.resolve(new Response('<html>', { status: 404 }))
    const elsewhere = { ...accountAt(bridge), bridgeUrl: `${bridge.url}/v2` }

    await expect(connect(accountAt(bridge), { fetch })).rejects.toThrow('is this the address of the bridge?')
    await expect(connect(elsewhere)).rejects.toThrow('Unknown protocol version')
  })
})

describe('SyncClient', () => {
  it('fetches the keys once, and again after a failure or forgetKeys', async () => {
    const asked: string[] = []
    const client = new SyncClient(accountAt(bridge), {
      fetch(url, init) {
        asked.push(url)
        return asked.length === 1 ? Promise.reject(new TypeError('lost')) : fetch(url, init)
      },
    })

    await expect(client.keysOf('tabs')).rejects.toThrow('No response')
    for (const name of ['tabs', 'forms']) await client.keysOf(name)
    const before = asked.length
    client.forgetKeys()
    await client.keysOf('tabs')

    expect([before, asked.length]).toEqual([2, 3])
  })

  it('stops fetching the keys when the signal is aborted', async () => {
    const stopping = new AbortController()
    const asked: string[] = []
    const client = new SyncClient(accountAt(bridge), {
      fetch(url, init) {
        asked.push(url)
        stopping.abort(new Error('Stopped'))
        return fetch(url, init)
      },
    })

    const reading = all(client.collection('tabs').pages({ signal: stopping.signal }))

    await expect(reading).rejects.toThrow('Stopped')
    expect(asked).toEqual([expect.stringContaining('/crypto/records/keys')])
  })

  it('writes several records at once, and reports for each why it failed', async () => {
    const client = new SyncClient(accountAt(bridge))
    const put = async (id: string, headers?: Record<string, string>) =>
      ({
        method: 'PUT',
        collection: 'bookmarks',
        id,
        headers,
        data: { payload: await client.encrypt('bookmarks', { id, title: id }), sortindex: 7 },
      }) as const

    const responses = await client.transaction([
      await put('one'),
      await put('two', { 'If-Match': '"1"' }),
      { method: 'GET', collection: 'bookmarks', id: 'one' },
      { method: 'DELETE', collection: 'bookmarks', id: 'absent' },
    ])

    const stored = bridge.sandbox
      .records(bridge.user, 'bookmarks')
      .filter(({ id }) => ['one', 'two'].includes(id))
    expect(responses.map(({ status }) => status)).toEqual([200, 412, 200, 404])
    expect(stored.map(({ id, sortindex }) => [id, sortindex])).toEqual([['one', 7]])
    const { data } = responses[2]!.body
    expect(await decryptRecord(client.keysOf('bookmarks'), data!)).toEqual({ id: 'one', title: 'one' })
  })

  it.each<[string, (responses: (object | undefined)[]) => (object | undefined)[]]>([
    ['is missing', (responses) => responses.slice(1)],
    ['comes twice', ([first]) => [first, first]],
    ['is for another record', ([first, second]) => [second, first]],
    ['has another record', ([first, second]) => [{ ...first, body: { data: stored('two') } }, second]],
    ['has a status of another method', ([first, second]) => [{ ...first, status: 204 }, second]],
    ['has a status of a failed transaction', ([first, second]) => [{ ...first, status: 503 }, second]],
  ])('rejects a transaction if a response %s, because what was written is unknown', async (_, change) => {
    const path = (id: string) => `/v1/buckets/${bridge.user.clientState}/collections/forms/records/${id}`
    const responses = ['one', 'two'].map((id) => {
      return { status: 200, path: path(id), headers: {}, body: { data: stored(id) } }
    })
    const answering = (given: unknown[]) =>
      new SyncClient(accountAt(bridge), {
        fetch: () => Promise.resolve(Response.json({ responses: given })),
      }).transaction(
        ['one', 'two'].map((id) => ({ method: 'PUT', collection: 'forms', id, data: { payload: '{}' } })),
      )

    const right = await answering(responses)
    const wrong = answering(change(responses))

    expect(right).toEqual(responses)
    await expect(wrong).rejects.toMatchObject({
      message:
        'The bridge sent responses that do not match the requests: it is unknown what was written. Check before you repeat it.',
      mayBeApplied: true,
    })
  })

  it('rejects a transaction whose responses a proxy has lost', async () => {
    const client = new SyncClient(accountAt(bridge), {
      fetch: () => Promise.resolve(Response.json({ responses: [] }, { status: 504 })),
    })

    const written = client.transaction([{ method: 'DELETE', collection: 'bookmarks', id: 'one' }])

    await expect(written).rejects.toThrow('the write may have been applied')
  })

  it('shows no key and no token when it is logged', () => {
    const account = accountAt(bridge)
    const client = new SyncClient(account)

    const shown = Bun.inspect([client, client.collection('tabs')], { depth: 9 }) + JSON.stringify(client)

    expect(client.account.token).toBe(account.token!)
    expect(shown).not.toContain(account.token!)
    expect(shown).not.toContain(account.syncKey!)
  })

  it('requires no key for listing and counting', async () => {
    const client = new SyncClient({ ...accountAt(bridge), syncKey: '' })

    expect((await client.collections()).length).toBeGreaterThan(5)
    expect((await client.collection('history').count()).total).toBe(1)
  })
})

const stored = (id: string) => ({ id, last_modified: 1, payload: '{}' })
