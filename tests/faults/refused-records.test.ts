import { afterAll, beforeAll, expect, it } from 'bun:test'

import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

let bridge: FaultyBridge
let users = 0

beforeAll(async () => {
  bridge = await startFaultyBridge({ writable: ['tabs', 'forms', 'crypto'], sandbox: { mode: 'mysql' } })
})

afterAll(() => bridge.stop())

async function newUser(): Promise<SandboxUser> {
  const user = bridge.sandbox.addUser(`writer ${(users += 1)}`)
  await bridge.ask('', { as: user })
  return user
}

const put = (path: string, payload: string) => ({ method: 'PUT', path, body: { data: { payload } } })
const idsOf = (user: SandboxUser, name: string) => bridge.sandbox.records(user, name).map(({ id }) => id)

it("a payload that the storage's database can't store is a 503, with the whole batch", async () => {
  const user = await newUser()
  // MariaDB's columns hold Latin-1; for anything else the server returns 500 every time.
  const unstorable = put('tabs/records/c', '日本')
  const others = [put('tabs/records/b', 'fine'), put('forms/records/d', 'fine')]

  const alone = await bridge.ask(`/collections/${unstorable.path}`, { ...unstorable, as: user })
  const together = await bridge.batch(user, [...others, unstorable])
  const other = await bridge.batch(user, [put('tabs/records/e', 'ÿ')])

  expect([alone.status, together.status, other.statuses]).toEqual([503, 503, [200]])
  expect([idsOf(user, 'tabs'), idsOf(user, 'forms')]).toEqual([['e'], []])
})

it('an upload that the storage rejects with 400 is sent once, and fails all writes to its collection, deletions included, and no others', async () => {
  const user = await newUser()
  bridge.sandbox.write(user, 'crypto', [{ id: 'old', payload: 'x' }])
  // An IV of zeros, which the storage rejects in this collection, without naming the record.
  const zeroes = JSON.stringify({ ciphertext: 'x', IV: 'AAAAAAAAAAAAAAAAAAAAAA==', hmac: 'y' })
  bridge.planFor(user, () => null)

  const { statuses } = await bridge.batch(user, [
    put('tabs/records/a', 'fine'),
    put('crypto/records/keys', zeroes),
    put('crypto/records/b', 'fine'),
    { method: 'DELETE', path: 'crypto/records/old' },
    { path: 'crypto/records/old' },
  ])

  expect(statuses).toEqual([200, 400, 400, 400, 200])
  const uploads = bridge
    .callsOf(user)
    .filter(({ method, path }) => method === 'POST' && path.endsWith('/crypto'))
  expect(uploads).toHaveLength(1)
  expect([idsOf(user, 'tabs'), idsOf(user, 'crypto')]).toEqual([['a'], ['old']])
})

it('a record that no upload can hold is a 413 alone, next to another', async () => {
  const user = await newUser()
  // Twice as long as JSON.
  const quotes = '"'.repeat(1_400_000)

  const { statuses } = await bridge.batch(user, [
    put('tabs/records/a', quotes),
    put('tabs/records/b', 'fine'),
  ])

  expect(statuses).toEqual([413, 200])
  expect(idsOf(user, 'tabs')).toEqual(['b'])
})
