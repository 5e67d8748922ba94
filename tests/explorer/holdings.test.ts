import { describe, expect, it } from 'bun:test'
import type { Account, Entry } from '../../src/explorer/account.ts'
import { Trouble } from '../../src/explorer/credentials.ts'
import { Holdings } from '../../src/explorer/holdings.ts'

function entries(collection: string, ids: string[], last_modified = 1): Entry[] {
  return ids.map((id) => {
    const wire = { id, last_modified }
    return { collection, path: `/${id}`, wire, clear: { id }, problem: null }
  })
}

const ids = (from: number, count: number) => Array.from({ length: count }, (_, index) => `${from + index}`)

function account(collections: string[], read: Account['read']): Account {
  return { collections, read }
}

describe('Holdings', () => {
  it('has a record once, as it came last', async () => {
    const holdings = new Holdings(
      account(['history'], async (name, _, onEntries) => {
        onEntries(entries(name, ['a', 'b']))
        onEntries(entries(name, ['b', 'c'], 2))
      }),
    )

    await holdings.read(() => {})

    const held = holdings.entries().map(({ wire }) => `${wire.id}${wire.last_modified}`)
    expect(held).toEqual(['a1', 'b2', 'c2'])
    expect([...holdings.incomplete()]).toEqual([])
  })

  it('says of what is being read that it is incomplete, and of what could not be read to its end', async () => {
    const hangs = Promise.withResolvers<void>()
    const holdings = new Holdings(
      account(['forms', 'history', 'passwords'], async (name, _, onEntries) => {
        if (name === 'forms') throw new Trouble('The storage does not answer.')
        onEntries(entries(name, ['a']))
        await hangs.promise
      }),
    )

    const reading = holdings.read(() => {})
    await Promise.resolve()
    const before = Object.fromEntries(holdings.incomplete())
    hangs.reject(new Trouble('The token has expired.', 'token'))
    const trouble = await reading.catch((error: Trouble) => error.field)
    const after = Object.fromEntries(holdings.incomplete())

    const [still, stopped] = ['It was still being read.', 'The reading stopped before its end.']
    expect(before).toMatchObject({ history: still, passwords: still })
    expect(trouble).toBe('token')
    expect(after).toEqual({ forms: 'The storage does not answer.', history: stopped, passwords: stopped })
    expect(holdings.isReading()).toBe(false)
    expect(holdings.entries().map(({ wire }) => wire.id)).toEqual(['a', 'a'])
  })

  it('calls back when there is twice as much, and at the end', async () => {
    const sizes: number[] = []
    const holdings = new Holdings(
      account(['history'], async (name, _, onEntries) => {
        for (let page = 0; page < 100; page++) onEntries(entries(name, ids(page * 10, 10)))
      }),
    )

    await holdings.read(() => sizes.push(holdings.entries().length))

    expect(sizes).toEqual([10, 20, 40, 80, 160, 320, 640, 1000])
  })
})
