import { describe, expect, it } from 'bun:test'
import { startSandbox } from '../support/sandbox.ts'
import { beginning, connect } from './sync-client.ts'

describe('startSandbox', () => {
  it('listens on two loopback ports, until it is stopped', async () => {
    const sandbox = await startSandbox()

    const urls = [sandbox.tokenServerUrl, sandbox.storageUrl]
    await sandbox.stop()
    // Another process may have taken the port meanwhile, so that an answer alone proves nothing.
    await fetch(sandbox.storageUrl).catch(() => null)

    expect(urls.every((url) => /^http:\/\/127\.0\.0\.1:\d+$/.test(url))).toBe(true)
    expect(urls[0]).not.toBe(urls[1])
    expect(sandbox.requests.storage.entries).toEqual([])
  })
})

describe('sandbox.requests', () => {
  it('keeps a failure inside the sandbox, which is answered 500 with body 0', async () => {
    await using sync = await connect()
    sync.sandbox.requests.token.clear()
    const isBroken = { get: () => [][0]!, configurable: true }
    Object.defineProperty(sync.sandbox.switches, 'identityKinds', isBroken)

    const answer = await sync.askToken({ Authorization: 'Bearer x' })

    expect([answer.status, answer.text]).toEqual([500, '0'])
    expect(sync.sandbox.requests.token.entries).toMatchObject([
      { status: 500, failure: expect.any(TypeError) },
    ])
  })
})

describe('a sandbox', () => {
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

  it('writes and removes as another device would, and lets the next write through', async () => {
    await using sync = await connect()

    const times = [
      sync.sandbox.write(sync.user, 'tabs', [{ id: 'a', payload: 'x', sortindex: 1 }]),
      sync.sandbox.write(sync.user, 'tabs', [{ id: 'a', payload: 'y' }, { id: 'b' }]),
      sync.sandbox.remove(sync.user, 'tabs', ['b']),
    ]
    const put = await sync.put('/storage/tabs/c', { payload: 'z' })
    const records = sync.sandbox.records(sync.user, 'tabs')
    sync.sandbox.remove(sync.user, 'tabs')
    const collections = await sync.get('/info/collections')

    expect(times).toEqual([0, 10, 20].map((ms) => beginning + ms))
    expect(put.text).toBe(sync.stamp(30))
    expect(records).toEqual([
      { id: 'a', modified: beginning + 10, payload: 'y', sortindex: 1, expiry: null },
      { id: 'c', modified: beginning + 30, payload: 'z', sortindex: null, expiry: null },
    ])
    expect([collections.text, sync.sandbox.nowMs()]).toEqual(['{}', beginning + 50])
  })

  it('is seeded with records of distinct ids and rising times that end now, more than once', async () => {
    await using sync = await connect()

    sync.sandbox.seed(sync.user, 'history', 1000, { payloadBytes: 300 })
    const records = sync.sandbox.records(sync.user, 'history')
    sync.sandbox.seed(sync.user, 'history', 50, { recordsPerTimestamp: 10 })
    const put = await sync.put('/storage/history/a', {})

    const times = records.map(({ modified }) => modified).toSorted((a, b) => a - b)
    expect(new Set(records.map(({ id }) => id)).size).toBe(1000)
    expect([times[0], times.at(-1)]).toEqual([beginning - 10_000, beginning - 10])
    expect(records.every(({ payload }) => payload.length === 300 && 'hmac' in JSON.parse(payload))).toBe(true)
    expect([put.status, sync.sandbox.records(sync.user, 'history').length]).toEqual([200, 1051])
  })

  it('loads records with the times that they had', async () => {
    await using sync = await connect()

    sync.sandbox.load(sync.user, 'tabs', [
      { id: 'a', payload: 'x', modified: 1_600_000_000_010, sortindex: 4, expiry: 1_800_000_000_000 },
      { id: 'b', payload: 'y', modified: 1_600_000_000_000 },
    ])
    const answer = await sync.get('/storage/tabs?full=1')

    expect([answer.modified, answer.json()]).toEqual([
      '1600000000.01',
      [
        { id: 'a', modified: 1_600_000_000.01, payload: 'x', sortindex: 4 },
        { id: 'b', modified: 1_600_000_000, payload: 'y' },
      ],
    ])
  })
})
