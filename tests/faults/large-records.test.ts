import { afterAll, beforeAll, describe, expect, it } from 'bun:test'

import { eventually } from '../support/eventually.ts'
import { startFaultyBridge, type FaultyBridge, type SubRequest } from './faulty-bridge.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

const megabyte = 'x'.repeat(1_000_000)
const ids = Array.from({ length: 20 }, (_, index) => `large${index}`)

let bridge: FaultyBridge
let users = 0

beforeAll(async () => {
  // No call may time out on a busy machine, because that would free its memory.
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

    const { statuses } = await bridge.batch(user, deletes)

    expect(statuses).toEqual(ids.map(() => 204))
    expect(bridge.sandbox.records(user, 'tabs')).toEqual([])
    expect(bridge.callsOf(user).map(({ method }) => method)).toEqual(['GET', 'GET', 'DELETE'])
  })

  it.each([
    ['deletions', deletes, 204],
    ['puts', puts, 200],
  ])('evaluates conditions without their payloads: %s', async (_, requests, status) => {
    const { user, at } = await newUser()

    const met = await bridge.batch(user, withHeaders(requests, { 'If-Match': `"${at}"` }))

    expect(met.statuses).toEqual(ids.map(() => status))
  })

  it('shows the stored record with a 412, for as many as fit', async () => {
    const { user, at } = await newUser()

    const { statuses, bodies } = await bridge.batch(user, withHeaders(puts, { 'If-Match': `"${at - 10}"` }))

    expect(statuses.toSorted()).toEqual(some(412).toSorted())
    expect(bodies[statuses.indexOf(412)]!.details!.existing!.payload).toBe(megabyte)
    expect(bridge.sandbox.records(user, 'tabs').every(({ modified }) => modified === at)).toBe(true)
  })

  it.each([
    ['reads', ids.map((id) => ({ path: pathOf(id) }))],
    ['changes of a sortindex', changes],
  ])('answers as many as fit, and the others with 413: %s', async (_, requests) => {
    const { user } = await newUser()

    const { status, statuses } = await bridge.batch(user, requests)

    expect(status).toBe(200)
    expect(statuses.toSorted()).toEqual(some(200))
    const changed = bridge.sandbox.records(user, 'tabs').filter(({ sortindex }) => sortindex === 1)
    expect(changed.length).toBe(requests === changes ? fitting : 0)
  })

  it('deletes any number of them as the last step of several', async () => {
    const { user } = await newUser()

    const { statuses } = await bridge.batch(user, [other, ...deletes.slice(1)])

    expect(statuses).toEqual([200, ...deletes.slice(1).map(() => 204)])
    expect(bridge.sandbox.records(user, 'tabs')).toHaveLength(1)
  })

  it.each([
    ['deletions', deletes, 204],
    ['puts', puts, 200],
  ])('rejects what an undo could not restore, and writes the rest: %s', async (_, requests, status) => {
    const { user } = await newUser()
    bridge.sandbox.write(user, 'forms', [{ id: 'a', payload: 'old' }])

    const answer = await bridge.batch(user, [
      ...requests.slice(1),
      { method: 'DELETE', path: 'forms/records/a' },
    ])

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

    const { status } = await bridge.batch(user, [
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

    const { statuses } = await bridge.batch(user, [
      { method: 'HEAD', path: 'tabs/records' },
      other,
      { method: 'HEAD', path: 'tabs/records?_since=10' },
    ])

    expect(statuses).toEqual([200, 200, 200])
  })
})

const payload = 'x'.repeat(1_900_000)

/** A user with six records of 1.9 MB, whom the bridge knows already. */
async function newHolder(name: string): Promise<SandboxUser> {
  const user = bridge.sandbox.addUser(name)
  const large = Array.from({ length: 6 }, (_, each) => ({ id: `large${each}`, payload }))
  bridge.sandbox.write(user, 'large', large)
  await bridge.ask('', { as: user })
  return user
}

describe('a batch of writes and reads, while other batches hold the memory for responses', () => {
  it('is rejected before anything is written, or applied', async () => {
    const held = Promise.withResolvers<null>()
    const holders = await Promise.all(Array.from({ length: 7 }, (_, each) => newHolder(`holder ${each}`)))
    let waiting = 0
    const holding = holders.map(async (user) => {
      bridge.planFor(user, ({ path }) => {
        if (!path.endsWith('/other')) return null
        waiting += 1
        return held.promise
      })
      // The first list is held while the second one waits.
      return (await bridge.batch(user, [{ path: 'large/records' }, { path: 'other/records' }])).status
    })
    await eventually('all hold their first list', () => waiting === holders.length)
    const writer = await newHolder('writer')

    const statuses: number[] = []
    const contradictions: string[] = []
    for (const reads of [0, 3, 6]) {
      const id = `written${reads}`
      const write = { method: 'PUT', path: `tabs/records/${id}`, body: { data: { payload: id } } }
      const asked = Array.from({ length: reads }, (_, each) => ({ path: `large/records/large${each}` }))
      const { status } = await bridge.batch(writer, [write, ...asked])
      statuses.push(status)
      const isWritten = bridge.sandbox.records(writer, 'tabs').some((record) => record.id === id)
      if (isWritten !== (status === 200)) contradictions.push(`${reads} reads: ${status}, ${isWritten}`)
    }
    held.resolve(null)

    expect(contradictions).toEqual([])
    expect([...new Set(statuses)]).toEqual([200, 503])
    expect(await Promise.all(holding)).toEqual(holders.map(() => 200))
  })
})
