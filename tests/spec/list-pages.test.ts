import { describe, expect, it } from 'bun:test'
import { request, type Answer } from '../support/bridge.ts'
import { expectError } from './expectations.ts'
import { openWorld, statuses } from './world.ts'
import type { SandboxUser } from '../../src/sandbox/sandbox-user.ts'

// Pages that the bridge cuts itself: of more ids than the storage takes at once, and of a list after a write in the same batch.

const { bridge } = await openWorld({ writable: ['history'] })
const path = '/collections/history/records'
let users = 0

/** A user with these records, written one after the other. */
function userWith(ids: string[], payload = 'x'): SandboxUser {
  const user = bridge.sandbox.addUser(`pages${users++}`)
  for (const id of ids) bridge.sandbox.write(user, 'history', [{ id, payload }])
  return user
}

const manyIds = Array.from({ length: 150 }, (_, index) => `id${String(index).padStart(3, '0')}`)
const idsOf = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id)
const next = (link: string, user: SandboxUser) => request(link, { headers: bridge.identityOf(user) })

/** Runs a batch, and returns the response to the last request. */
async function lastOf(user: SandboxUser, requests: object[]) {
  const answer = await bridge.ask('/v1/batch', { method: 'POST', as: user, body: { requests } })
  expect(answer.status).toBe(200)
  return { all: answer, last: answer.body.responses.at(-1) }
}

const putOf = (user: SandboxUser, id: string, sortindex?: number) => ({
  method: 'PUT',
  path: `/buckets/${user.clientState}${path}/${id}`,
  body: { data: { payload: 'new', sortindex } },
})
const listOf = (user: SandboxUser, query: string) => ({
  path: `/buckets/${user.clientState}${path}?${query}`,
})

function expectStartAgain(answer: Answer): void {
  expectError(answer, 400, 109, '_token in querystring')
  expect(answer.body.message).toContain('start again from the first page')
}

describe('section 3: pages of more ids than the storage takes', () => {
  const query = `${path}?in_ids=${manyIds.join(',')}&_limit=50`

  it.each(['newest', 'oldest', 'index'])(
    'yield each record once while nothing changes, sorted by %s',
    async (sort) => {
      const user = userWith(manyIds)
      const seen: string[] = []
      let page = await bridge.ask(`${query}&_sort=${sort}`, { as: user })
      for (;;) {
        expect(page.status).toBe(200)
        seen.push(...idsOf(page.body))
        const link = page.headers.get('next-page')
        if (link === null) break
        page = await next(link, user)
      }

      expect(seen).toHaveLength(150)
      expect(seen.toSorted()).toEqual(manyIds)
    },
  )

  it.each([
    ['deleted', (user: SandboxUser) => bridge.sandbox.remove(user, 'history', ['id149'])],
    [
      'changed',
      (user: SandboxUser) => bridge.sandbox.write(user, 'history', [{ id: 'id000', payload: 'y' }]),
    ],
    ['added', (user: SandboxUser) => bridge.sandbox.write(user, 'history', [{ id: 'other', payload: 'y' }])],
  ])('are 400 once a record was %s, and lose none', async (_, change) => {
    const user = userWith(manyIds)
    const first = await bridge.ask(query, { as: user })
    const link = first.headers.get('next-page')!
    change(user)

    const alone = await next(link, user)
    const head = await request(link, { method: 'HEAD', headers: bridge.identityOf(user) })
    const target = link.slice(link.indexOf('/v1'))
    const { last } = await lastOf(user, [{ path: target }])

    expect(first.status).toBe(200)
    expectStartAgain(alone)
    expect(head.status).toBe(400)
    expectStartAgain({ ...last, headers: new Headers(last.headers) })
  })
})

describe('section 3: pages of a list after a write in the same batch', () => {
  it.each([
    ['_limit=3', ['z', 'h', 'g', 'f', 'e', 'd', 'c', 'b', 'a']],
    ['_limit=3&exclude_id=h,g', ['z', 'f', 'e', 'd', 'c', 'b', 'a']],
    ['_limit=2&not_id=z,a,c', ['h', 'g', 'f', 'e', 'd', 'b']],
    ['_limit=4&_sort=oldest', ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'z']],
    ['_limit=1&_sort=oldest&exclude_id=b', ['a', 'c', 'd', 'e', 'f', 'g', 'h', 'z']],
    ['_limit=2&in_ids=a,c,e,z,none', ['z', 'e', 'c', 'a']],
    [`_limit=2&in_ids=z,a,b,c,${manyIds.join(',')}`, ['z', 'c', 'b', 'a']],
  ])('yield each record once: %s', async (query, expected) => {
    const user = userWith(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
    const { last } = await lastOf(user, [putOf(user, 'z'), listOf(user, query)])
    const seen = idsOf(last.body)
    const sizes = [seen.length]
    let link: string | null = last.headers['Next-Page'] ?? null
    while (link !== null) {
      const page = await next(link, user)
      expect([page.status, page.headers.get('etag')]).toEqual([200, last.headers.ETag])
      seen.push(...idsOf(page.body))
      sizes.push(page.body.data.length)
      link = page.headers.get('next-page')
    }

    expect(seen).toEqual(expected)
    // What is listed counts, and not what was read for it.
    const limit = Number(/_limit=(\d)/.exec(query)![1])
    expect(sizes.slice(0, -1).every((size) => size === limit)).toBe(true)
  })

  it.each(['newest', 'oldest', 'index'])(
    'yield each of several written records once, or say so: %s',
    async (sort) => {
      const user = userWith(['m', 'n', 'o', 'p'])
      const writes = ['b', 'z', 'a', 'y'].map((id, index) => putOf(user, id, 10 * index))
      const { last } = await lastOf(user, [...writes, listOf(user, `_limit=3&_sort=${sort}`)])
      const seen = idsOf(last.body)
      let link: string | null = last.headers['Next-Page'] ?? null
      let isStale = false
      while (link !== null && !isStale) {
        const page = await next(link, user)
        isStale = page.status === 400
        if (isStale) expectStartAgain(page)
        else seen.push(...idsOf(page.body))
        link = page.headers.get('next-page')
      }

      // Records without a sortindex have no order that every storage shares.
      expect(isStale).toBe(sort === 'index')
      if (!isStale) expect(seen.toSorted()).toEqual(['a', 'b', 'm', 'n', 'o', 'p', 'y', 'z'])
    },
  )

  it('are 400 once another client has written', async () => {
    const user = userWith(['a', 'b', 'c', 'd'])
    const { last } = await lastOf(user, [putOf(user, 'z'), listOf(user, '_limit=2')])
    bridge.sandbox.write(user, 'history', [{ id: 'other', payload: 'x' }])

    expectStartAgain(await next(last.headers['Next-Page'], user))
  })

  it('are 400 if the batch itself has changed the collection after the list', async () => {
    const user = userWith(['a', 'b', 'c', 'd'])
    const { all } = await lastOf(user, [putOf(user, 'z'), listOf(user, '_limit=2'), putOf(user, 'y')])
    const list = all.body.responses[1]

    expect(idsOf(list.body)).toEqual(['z', 'd'])
    expectStartAgain(await next(list.headers['Next-Page'], user))
  })

  it('do not continue pages from before the write, however many records that would be', async () => {
    const user = userWith(['a', 'b', 'c', 'd', 'e'])
    const first = await bridge.ask(`${path}?_limit=1&_sort=oldest`, { as: user })
    const target = first.headers.get('next-page')!.slice(bridge.url.length)
    const writes = ['v', 'w', 'x', 'y'].map((id) => putOf(user, id))

    const { all } = await lastOf(user, [...writes, { path: target }])
    const response = all.body.responses.at(-1)

    expect(statuses(all)).toEqual([200, 200, 200, 200, 400])
    expectStartAgain({ ...response, headers: new Headers(response.headers) })
  })

  it('continue pages after a write without effect', async () => {
    const user = userWith(['a', 'b', 'c', 'd', 'e'])
    const first = await bridge.ask(`${path}?_limit=2&_sort=oldest`, { as: user })
    const target = first.headers.get('next-page')!.slice(bridge.url.length)
    const refused = { ...putOf(user, 'a'), headers: { 'If-None-Match': '*' } }

    const { all, last } = await lastOf(user, [refused, { path: target }])

    expect(statuses(all)).toEqual([412, 200])
    expect(idsOf(last.body)).toEqual(['c', 'd'])
  })
})

describe('section 3: HEAD of a list in a batch', () => {
  it('counts without reading records, however large they are, and sees earlier writes', async () => {
    const user = userWith(
      Array.from({ length: 25 }, (_, index) => `large${index}`),
      'x'.repeat(1_000_000),
    )
    const since = bridge.sandbox.write(user, 'history', [{ id: 'small', payload: 'x' }]) - 10
    const headOf = (query: string) => ({ ...listOf(user, query), method: 'HEAD' })
    const queries = [
      '',
      `_since=${since}`,
      'exclude_id=large1,z',
      'in_ids=large1,large2,z,none',
      '_limit=3',
      'in_ids=',
    ]
    bridge.sandbox.requests.storage.clear()

    const reads = await lastOf(user, queries.map(headOf))
    const written = await lastOf(user, [
      putOf(user, 'z'),
      { method: 'DELETE', path: `/buckets/${user.clientState}${path}/large1` },
      ...queries.map(headOf),
    ])

    const totals = ({ all }: typeof reads) =>
      all.body.responses.map(
        ({ headers }: { headers: Record<string, string> }) => headers['Total-Records'] ?? null,
      )
    expect(statuses(reads.all)).toEqual([200, 200, 200, 200, 200, 200])
    expect(totals(reads)).toEqual(['26', '1', '25', '2', null, '0'])
    expect(statuses(written.all)).toEqual([200, 204, 200, 200, 200, 200, 200, 200])
    expect(totals(written).slice(2)).toEqual(['26', '2', '25', '2', null, '0'])
    const asked = bridge.sandbox.requests.storage.entries.map(({ target }) => target)
    // The snapshot of the written record alone is full.
    expect(asked.filter((target) => target.includes('full=') && !target.includes('ids='))).toEqual([])
  })
})
