import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { startFaultyBridge, type FaultyBridge } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const megabyte = 'x'.repeat(1_000_000)
const ids = Array.from({ length: 20 }, (_, index) => `large${index}`)

let bridge: FaultyBridge
let users = 0

beforeAll(async () => {
  // No call may time out on a busy machine.
  const patience = { upstream_timeout_seconds: '100', request_timeout_seconds: '100' }
  bridge = await startFaultyBridge({ writable: ['tabs', 'forms'], settings: patience })
})

afterAll(() => bridge.stop())

/** A user with 20 records of 1 MB, whose calls are counted. */
async function newUser(): Promise<{ user: SandboxUser; at: number }> {
  const user = bridge.sandbox.addUser(`large ${(users += 1)}`)
  const at = bridge.sandbox.write(
    user,
    'tabs',
    ids.map((id) => ({ id, payload: megabyte })),
  )
  await bridge.ask('', { as: user })
  bridge.planFor(user, () => null)
  return { user, at }
}

interface SubRequest {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: object
}

async function batch(user: SandboxUser, requests: SubRequest[]) {
  const collections = `/v1/buckets/${user.clientState}/collections/`
  const body = { requests: requests.map((request) => ({ ...request, path: collections + request.path })) }
  const answer = await bridge.ask('/v1/batch', { method: 'POST', body, as: user })
  const responses: { status: number; body: { details?: { existing?: { payload: string } } } }[] =
    answer.body.responses ?? []
  return { status: answer.status, statuses: responses.map(({ status }) => status), responses }
}

const pathOf = (id: string) => `tabs/records/${id}`
const deletes = ids.map((id) => ({ method: 'DELETE', path: pathOf(id) }))
const changes = ids.map((id) => ({ method: 'PUT', path: pathOf(id), body: { data: { sortindex: 1 } } }))
const puts = ids.map((id) => ({ method: 'PUT', path: pathOf(id), body: { data: { payload: 'new' } } }))
const withHeaders = (requests: SubRequest[], headers: Record<string, string>) =>
  requests.map((request) => ({ ...request, headers }))
const other = { method: 'PUT', path: 'forms/records/a', body: { data: { payload: 'new' } } }

/** How many records of 1 MB a batch can hold. */
const fitting = 16
/** That many succeed, in the order in which the storage sends them. */
const some = (status: number, count = ids.length) =>
  Array.from({ length: count }, (_, index) => (index < fitting ? status : 413))

describe('a batch over records of 1 MB, with nothing else running', () => {
  it('deletes any number in one collection, in two calls', async () => {
    const { user } = await newUser()

    const { statuses } = await batch(user, deletes)

    expect(statuses).toEqual(ids.map(() => 204))
    expect(bridge.sandbox.records(user, 'tabs')).toEqual([])
    expect(bridge.callsOf(user).map(({ method }) => method)).toEqual(['GET', 'GET', 'DELETE'])
  })

  it.each([
    ['deletions', deletes, 204],
    ['puts', puts, 200],
  ])('evaluates conditions without their payloads: %s', async (_, requests, status) => {
    const { user, at } = await newUser()

    const met = await batch(user, withHeaders(requests, { 'If-Match': `"${at}"` }))

    expect(met.statuses).toEqual(ids.map(() => status))
  })

  it('shows the stored record with a 412, for as many as fit', async () => {
    const { user, at } = await newUser()

    const { statuses, responses } = await batch(user, withHeaders(puts, { 'If-Match': `"${at - 10}"` }))

    expect(statuses.toSorted()).toEqual(some(412).toSorted())
    const { body } = responses.find(({ status }) => status === 412)!
    expect(body.details!.existing!.payload).toBe(megabyte)
    expect(bridge.sandbox.records(user, 'tabs').every(({ modified }) => modified === at)).toBe(true)
  })

  it.each([
    ['reads', ids.map((id) => ({ path: pathOf(id) }))],
    ['changes of a sortindex', changes],
  ])('answers as many as fit, and the others with 413: %s', async (_, requests) => {
    const { user } = await newUser()

    const { status, statuses } = await batch(user, requests)

    expect(status).toBe(200)
    expect(statuses.toSorted()).toEqual(some(200))
    const changed = bridge.sandbox.records(user, 'tabs').filter(({ sortindex }) => sortindex === 1)
    expect(changed.length).toBe(requests === changes ? fitting : 0)
  })

  it('deletes any number of them as the last step of several', async () => {
    const { user } = await newUser()

    const { statuses } = await batch(user, [other, ...deletes.slice(1)])

    expect(statuses).toEqual([200, ...deletes.slice(1).map(() => 204)])
    expect(bridge.sandbox.records(user, 'tabs')).toHaveLength(1)
  })

  it.each([
    ['deletions', deletes, 204],
    ['puts', puts, 200],
  ])('rejects what an undo could not restore, and writes the rest: %s', async (_, requests, status) => {
    const { user } = await newUser()
    bridge.sandbox.write(user, 'forms', [{ id: 'a', payload: 'old' }])

    const answer = await batch(user, [...requests.slice(1), { method: 'DELETE', path: 'forms/records/a' }])

    expect(answer.status).toBe(200)
    expect(answer.statuses.at(-1)).toBe(204)
    expect(answer.statuses.slice(0, -1).toSorted()).toEqual(some(status, ids.length - 1))
    expect(bridge.sandbox.records(user, 'forms')).toEqual([])
    const left = bridge.sandbox.records(user, 'tabs').filter(({ payload }) => payload === megabyte)
    expect(left).toHaveLength(ids.length - fitting)
  })

  it('restores what it had deleted or overwritten if a later step fails', async () => {
    const { user } = await newUser()
    const before = bridge.sandbox.records(user, 'tabs').map(({ id, payload }) => [id, payload.length])
    bridge.planFor(user, ({ method, path }) =>
      method === 'DELETE' && path.endsWith('/forms') ? { kind: 'status', status: 500, body: '0' } : null,
    )
    bridge.sandbox.write(user, 'forms', [{ id: 'a', payload: 'old' }])

    const { status } = await batch(user, [
      ...deletes.slice(0, 8),
      ...puts.slice(8, 12),
      { method: 'DELETE', path: 'forms/records/a' },
    ])

    expect(status).toBe(503)
    const after = bridge.sandbox.records(user, 'tabs').map(({ id, payload }) => [id, payload.length])
    expect(new Set(after.map(String))).toEqual(new Set(before.map(String)))
  })
})

describe('a list of 20 MB in a batch', () => {
  it('is counted by HEAD without its payloads', async () => {
    const { user } = await newUser()

    const { statuses } = await batch(user, [
      { method: 'HEAD', path: 'tabs/records' },
      other,
      { method: 'HEAD', path: 'tabs/records?_since=10' },
    ])

    expect(statuses).toEqual([200, 200, 200])
  })
})
