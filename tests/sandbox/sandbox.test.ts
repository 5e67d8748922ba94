import { describe, expect, it } from 'bun:test'
import { startSandbox } from '../support/sandbox.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { beginning, connect } from './sync-client.ts'

describe('startSandbox', () => {
  it('listens on two loopback ports', async () => {
    const sandbox = await startSandbox()

    const urls = [sandbox.tokenServerUrl, sandbox.storageUrl]
    await sandbox.stop()

    expect(urls.every((url) => /^http:\/\/127\.0\.0\.1:\d+$/.test(url))).toBe(true)
    expect(urls[0]).not.toBe(urls[1])
  })

  it('answers nothing once stopped', async () => {
    const sandbox = await startSandbox()

    await sandbox.stop()
    // Another process may have taken the port meanwhile, so that an answer alone proves nothing.
    await fetch(sandbox.storageUrl).catch(() => null)

    expect(sandbox.requests.storage.entries).toEqual([])
  })

  it('names the given node in tokens, so that a proxy may stand in front', async () => {
    await using sync = await connect()
    const proxy = await startFaultProxy({ target: sync.sandbox.storageUrl })
    sync.sandbox.switches.nodeUrl = proxy.url

    const token = await sync.signIn(sync.user)
    const answer = await sync.send('PUT', '/storage/tabs/a%20b', {
      token,
      body: '{}',
      headers: { 'Content-Type': 'application/json' },
    })
    await proxy.stop()

    expect(token.api_endpoint).toStartWith(proxy.url)
    expect(answer.status).toBe(200)
    expect(proxy.requests).toHaveLength(1)
  })

  it('delays every storage answer', async () => {
    await using sync = await connect({ latencyMs: 20 })
    const startedAt = performance.now()

    await sync.get('/storage/tabs')

    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19)
  })
})

describe('sandbox.requests', () => {
  it('lists what both servers were asked, with statuses', async () => {
    await using sync = await connect()
    await sync.get('/storage/tabs?full=1', { 'User-Agent': 'tester' })
    await sync.get('/storage/tabs/a')

    const { token, storage } = sync.sandbox.requests
    const summary = storage.entries.map(({ method, target, status }) => `${method} ${target} ${status}`)
    const agent = storage.entries[0]?.headers.get('User-Agent')
    storage.clear()

    expect(token.entries).toMatchObject([{ method: 'GET', target: '/1.0/sync/1.5', status: 200 }])
    const uid = sync.user.uid
    expect(summary).toEqual([`GET /1.5/${uid}/storage/tabs?full=1 200`, `GET /1.5/${uid}/storage/tabs/a 404`])
    expect(agent).toBe('tester')
    expect(storage.entries).toEqual([])
  })
})

describe('a failure inside the sandbox', () => {
  it('is answered 500 with body 0 and kept in the log', async () => {
    const { sandbox } = await connect()
    sandbox.requests.token.clear()
    const isBroken = { get: () => [][0]!, configurable: true }
    Object.defineProperty(sandbox.switches, 'identityKinds', isBroken)

    const response = await fetch(`${sandbox.tokenServerUrl}/1.0/sync/1.5`, {
      headers: { Authorization: 'Bearer x' },
    })
    const text = await response.text()
    const [entry] = sandbox.requests.token.entries
    await sandbox.stop()

    expect([response.status, text]).toEqual([500, '0'])
    expect(entry).toMatchObject({ status: 500, failure: expect.any(TypeError) })
  })
})

describe('sandbox.addUser', () => {
  it('gives the same name the same keys, and other keys to a later time of keys', async () => {
    await using sync = await connect()

    const same = sync.sandbox.addUser('ann')
    const renewed = sync.sandbox.addUser('ann', { keysChangedAt: 1_600_000_000_000 })
    const other = sync.sandbox.addUser('bob')

    expect([same.uid, same.clientState]).toEqual([sync.user.uid, sync.user.clientState])
    expect(renewed.email).toBe(same.email)
    expect(new Set([same.clientState, renewed.clientState, other.clientState]).size).toBe(3)
    expect([renewed.uid, other.uid]).toEqual([0, sync.user.uid + 1])
    expect(renewed.keyId).toStartWith('1600000000000-')
  })
})

describe('sandbox.write', () => {
  it('stores as another device would, and lets the next write through', async () => {
    await using sync = await connect()

    const first = sync.sandbox.write(sync.user, 'tabs', [{ id: 'a', payload: 'x', sortindex: 1 }])
    const second = sync.sandbox.write(sync.user, 'tabs', [{ id: 'a', payload: 'y' }, { id: 'b' }])
    const third = await sync.put('/storage/tabs/a', { payload: 'z' })
    const records = sync.sandbox.records(sync.user, 'tabs')

    expect([first, second]).toEqual([beginning, beginning + 10])
    expect(third.text).toBe(sync.stamp(20))
    expect(records).toEqual([
      { id: 'a', modified: beginning + 20, payload: 'z', sortindex: 1, expiry: null },
      { id: 'b', modified: beginning + 10, payload: '', sortindex: null, expiry: null },
    ])
    expect(sync.sandbox.nowMs()).toBe(beginning + 20)
  })
})

describe('sandbox.remove', () => {
  it('deletes records or a whole collection', async () => {
    await using sync = await connect()
    sync.sandbox.write(sync.user, 'tabs', [{ id: 'a' }, { id: 'b' }])

    const timestamp = sync.sandbox.remove(sync.user, 'tabs', ['a'])
    const left = await sync.get('/storage/tabs')
    sync.sandbox.remove(sync.user, 'tabs')
    const collections = await sync.get('/info/collections')

    expect(timestamp).toBe(beginning + 10)
    expect([left.text, left.modified]).toEqual(['["b"]', sync.stamp(10)])
    expect(collections.text).toBe('{}')
  })
})

describe('sandbox.seed', () => {
  it('adds records with distinct ids and rising timestamps that end now', async () => {
    await using sync = await connect()

    sync.sandbox.seed(sync.user, 'history', 1000, { payloadBytes: 300 })
    const records = sync.sandbox.records(sync.user, 'history')
    const times = records.map(({ modified }) => modified).toSorted((a, b) => a - b)

    expect(new Set(records.map(({ id }) => id)).size).toBe(1000)
    expect([times[0], times.at(-1)]).toEqual([beginning - 10_000, beginning - 10])
    expect(records.every(({ payload }) => payload.length === 300 && 'hmac' in JSON.parse(payload))).toBe(true)
  })

  it('may be repeated, and is followed by writes without conflict', async () => {
    await using sync = await connect()

    sync.sandbox.seed(sync.user, 'history', 50, { recordsPerTimestamp: 10 })
    sync.sandbox.seed(sync.user, 'history', 50, { recordsPerTimestamp: 10 })
    const answer = await sync.put('/storage/history/a', {})

    expect(answer.status).toBe(200)
    expect(sync.sandbox.records(sync.user, 'history')).toHaveLength(101)
  })
})

describe('sandbox.load', () => {
  it('keeps the chosen timestamps', async () => {
    await using sync = await connect()

    sync.sandbox.load(sync.user, 'tabs', [
      { id: 'a', payload: 'x', modified: 1_600_000_000_010, sortindex: 4, expiry: 1_800_000_000_000 },
      { id: 'b', payload: 'y', modified: 1_600_000_000_000 },
    ])
    const answer = await sync.get('/storage/tabs?full=1')

    expect(answer.json()).toEqual([
      { id: 'a', modified: 1_600_000_000.01, payload: 'x', sortindex: 4 },
      { id: 'b', modified: 1_600_000_000, payload: 'y' },
    ])
    expect(answer.modified).toBe('1600000000.01')
  })
})
