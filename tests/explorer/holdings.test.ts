import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../src/client/collection.ts'
import { ClientError } from '../../src/client/errors.ts'
import type { OpenedAccount } from '../../src/explorer/account.ts'
import { Holdings } from '../../src/explorer/holdings.ts'

function records(collection: string, ids: string[], last_modified = 1): SyncRecord[] {
  return ids.map((id) => {
    const stored = { id, last_modified }
    return { collection, stored, clear: { id }, problem: null }
  })
}

function account(collections: string[], read: OpenedAccount['read']): OpenedAccount {
  const never = () => Promise.reject(new Error('not called'))
  return { collections, read, writable: new Set(), edit: never, undo: never }
}

describe('Holdings', () => {
  it('keeps a record once, in its latest version', async () => {
    const holdings = new Holdings(
      account(['history'], async (name, _, onRecords) => {
        onRecords(records(name, ['a', 'b']))
        onRecords(records(name, ['b', 'c'], 2))
      }),
    )

    await holdings.read(() => {})

    const held = holdings.records().map(({ stored }) => `${stored.id}${stored.last_modified}`)
    expect(held).toEqual(['a1', 'b2', 'c2'])
    expect([...holdings.incomplete()]).toEqual([])
  })

  it('reports which collections are still being read, and which could not be read completely', async () => {
    const hangs = Promise.withResolvers<void>()
    const holdings = new Holdings(
      account(['forms', 'history', 'passwords'], async (name, _, onRecords) => {
        if (name === 'forms') throw new ClientError('The storage does not respond.')
        onRecords(records(name, ['a']))
        await hangs.promise
      }),
    )

    const reading = holdings.read(() => {})
    await Promise.resolve()
    const before = Object.fromEntries(holdings.incomplete())
    hangs.reject(new ClientError('The token has expired.', { field: 'token' }))
    const trouble = await reading.catch((error: ClientError) => error.field)
    const after = Object.fromEntries(holdings.incomplete())

    const [still, stopped] = ['It was still being read.', 'Reading was stopped.']
    expect(before).toMatchObject({ history: still, passwords: still })
    expect(trouble).toBe('token')
    expect(after).toEqual({ forms: 'The storage does not respond.', history: stopped, passwords: stopped })
    expect(holdings.isReading()).toBe(false)
    expect(holdings.records().map(({ stored }) => stored.id)).toEqual(['a', 'a'])
  })
})
