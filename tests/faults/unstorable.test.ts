import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startFaultyBridge, statusFaults, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

/** MariaDB's columns hold Latin-1; for anything else the server answers 500, again and again. */
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

const namesThePayload = { errno: 109, details: [{ location: 'body', name: 'data.payload' }] }

describe('a payload that the storage can not hold', () => {
  it('is refused for good, and is nothing that stops the user', async () => {
    await newUser()

    const { method, path, body } = put('/collections/tabs/records/a', unstorable)
    const refused = [1, 2, 3].map(() => bridge.ask(`/v1${path}`, { method, as: user, body }))
    const statuses = (await Promise.all(refused)).map((answer) => [answer.status, answer.body])
    const other = await bridge.ask('/collections/tabs/records/b', {
      method,
      as: user,
      body: { data: { payload: 'ÿ' } },
    })

    for (const answer of statuses) expect(answer).toMatchObject([400, namesThePayload])
    expect(other.status).toBe(200)
    expect(bridge.sandbox.records(user, 'tabs').map(({ id }) => id)).toEqual(['b'])
  })

  it('is refused for its own sub-requests of a batch over two collections', async () => {
    await newUser()
    const requests = [
      put('/collections/tabs/records/a', 'fine'),
      put('/collections/tabs/records/b', unstorable),
      put('/collections/forms/records/c', 'fine'),
      put('/collections/forms/records/d', 'fine'),
      put('/collections/forms/records/e', unstorable),
    ]

    const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(status).toBe(200)
    const responses: { status: number; body: unknown }[] = body.responses
    expect(responses.map((each) => each.status)).toEqual([200, 400, 200, 200, 400])
    for (const place of [1, 4]) expect(responses[place]!.body).toMatchObject(namesThePayload)
    const stored = ['tabs', 'forms'].map((name) => bridge.sandbox.records(user, name).map(({ id }) => id))
    expect(stored).toEqual([['a'], ['c', 'd']])
  })

  it('is found though a part of the search collides with another one', async () => {
    await newUser()
    let staged = 0
    bridge.planFor(user, ({ query }) =>
      query.has('batch') && (staged += 1) === 3 ? statusFaults.conflict : null,
    )
    const requests = ['a', 'b', 'c'].map((id) =>
      put(`/collections/tabs/records/${id}`, id === 'b' ? unstorable : 'fine'),
    )

    const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(status).toBe(200)
    const responses: { status: number }[] = body.responses
    expect(responses.map((each) => each.status)).toEqual([200, 400, 200])
    expect(staged).toBeGreaterThan(3)
  })

  it.each([
    ['crypto', 'tabs'],
    ['tabs', 'crypto'],
    ['crypto', 'crypto'],
  ])('is refused alone where the storage refuses the upload with 400: %s and %s', async (first, second) => {
    await newUser()
    // Never encrypted, which the storage notices in this collection.
    const zeroes = JSON.stringify({ ciphertext: 'x', IV: 'AAAAAAAAAAAAAAAAAAAAAA==', hmac: 'y' })
    const requests = [
      put(`/collections/${first}/records/a`, 'fine'),
      put('/collections/crypto/records/keys', zeroes),
      put(`/collections/${second}/records/b`, 'fine'),
    ]

    const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

    expect(status).toBe(200)
    expect(body.responses.map((each: { status: number }) => each.status)).toEqual([200, 400, 200])
    const stored = [first, second].flatMap((name) => bridge.sandbox.records(user, name).map(({ id }) => id))
    expect(new Set(stored)).toEqual(new Set(['a', 'b']))
  })

  it.each([['tabs'], ['forms']])(
    'is a 413 alone where its text is too long, beside another of %s',
    async (name) => {
      await newUser()
      // Twice as long when printed.
      const quotes = '"'.repeat(1_400_000)
      const requests = [
        put('/collections/tabs/records/a', quotes),
        put(`/collections/${name}/records/b`, 'fine'),
      ]

      const { status, body } = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })

      expect(status).toBe(200)
      expect(body.responses.map((each: { status: number }) => each.status)).toEqual([413, 200])
      expect(bridge.sandbox.records(user, name).map(({ id }) => id)).toEqual(['b'])
    },
  )

  it('is not blamed for a storage that fails at everything', async () => {
    await newUser()
    bridge.planFor(user, ({ method }) =>
      method === 'GET' ? null : { kind: 'status', status: 500, body: '0' },
    )
    const { path, ...init } = put('/collections/tabs/records/a', unstorable)

    expect((await bridge.ask(`/v1${path}`, { ...init, as: user })).status).toBe(503)
  })
})
