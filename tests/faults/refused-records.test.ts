import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** MariaDB's columns hold Latin-1; for anything else the server returns 500 every time. */
const unstorable = '日本'

let bridge: FaultyBridge
let user: SandboxUser
let users = 0

beforeAll(async () => {
  bridge = await startFaultyBridge({ writable: ['tabs', 'forms', 'crypto'], sandbox: { mode: 'mysql' } })
})

afterAll(() => bridge.stop())

async function newUser(): Promise<void> {
  user = bridge.sandbox.addUser(`writer ${(users += 1)}`)
  await bridge.ask('', { as: user })
}

const put = (path: string, payload: string) => ({
  method: 'PUT',
  path: `/buckets/${user.clientState}${path}`,
  body: { data: { payload } },
})

describe("a payload that the storage's database can't store", () => {
  it('is a 503, with the whole batch', async () => {
    await newUser()
    const { method, path, body } = put('/collections/tabs/records/a', unstorable)
    const requests = [
      put('/collections/tabs/records/b', 'fine'),
      put('/collections/tabs/records/c', unstorable),
      put('/collections/forms/records/d', 'fine'),
    ]

    const alone = await bridge.ask(`/v1${path}`, { method, as: user, body })
    const together = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })
    const other = await bridge.ask('/v1/batch', {
      method: 'POST',
      as: user,
      body: { requests: [put('/collections/tabs/records/e', 'ÿ')] },
    })

    expect([alone.status, together.status]).toEqual([503, 503])
    expect(other.body.responses[0].status).toBe(200)
    expect(bridge.sandbox.records(user, 'tabs').map(({ id }) => id)).toEqual(['e'])
    expect(bridge.sandbox.records(user, 'forms')).toEqual([])
  })
})

describe('an upload that the storage rejects', () => {
  // An IV of zeros, which the storage rejects in this collection, without naming the record.
  const zeroes = JSON.stringify({ ciphertext: 'x', IV: 'AAAAAAAAAAAAAAAAAAAAAA==', hmac: 'y' })

  it('with 400 is sent once, and fails all writes to its collection, deletions included, and no others', async () => {
    await newUser()
    bridge.sandbox.write(user, 'crypto', [{ id: 'old', payload: 'x' }])
    const requests = [
      put('/collections/tabs/records/a', 'fine'),
      put('/collections/crypto/records/keys', zeroes),
      put('/collections/crypto/records/b', 'fine'),
      { ...put('/collections/crypto/records/old', ''), method: 'DELETE', body: undefined },
      { path: `/buckets/${user.clientState}/collections/crypto/records/old` },
    ]
    bridge.planFor(user, () => null)

    const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(status).toBe(200)
    expect(body.responses.map((each: { status: number }) => each.status)).toEqual([200, 400, 400, 400, 200])
    const uploads = bridge
      .callsOf(user)
      .filter(({ method, path }) => method === 'POST' && path.endsWith('/crypto'))
    expect(uploads).toHaveLength(1)
    expect(bridge.sandbox.records(user, 'tabs').map(({ id }) => id)).toEqual(['a'])
    expect(bridge.sandbox.records(user, 'crypto').map(({ id }) => id)).toEqual(['old'])
  })
})

describe('a record that no upload can hold', () => {
  it('is a 413 alone, next to another', async () => {
    await newUser()
    // Twice as long as JSON.
    const quotes = '"'.repeat(1_400_000)
    const requests = [put('/collections/tabs/records/a', quotes), put('/collections/tabs/records/b', 'fine')]

    const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(status).toBe(200)
    expect(body.responses.map((each: { status: number }) => each.status)).toEqual([413, 200])
    expect(bridge.sandbox.records(user, 'tabs').map(({ id }) => id)).toEqual(['b'])
  })
})
