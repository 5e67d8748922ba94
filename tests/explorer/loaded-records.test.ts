import { describe, expect, it } from 'bun:test'
import type { SyncRecord } from '../../src/client/collection.ts'
import { ClientError } from '../../src/client/errors.ts'
import type { OpenedAccount } from '../../src/explorer/opened-account.ts'
import { LoadedRecords } from '../../src/explorer/loaded-records.ts'

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

describe('LoadedRecords', () => {
  it('keeps a record once, in its latest version', async () => {
    const loaded = new LoadedRecords(
      account(['history'], async (name, _, onRecords) => {
        onRecords(records(name, ['a', 'b']))
        onRecords(records(name, ['b', 'c'], 2))
      }),
    )

    await loaded.read(() => {})

    const held = loaded.records().map(({ stored }) => `${stored.id}${stored.last_modified}`)
    expect(held).toEqual(['a1', 'b2', 'c2'])
    expect([...loaded.incomplete()]).toEqual([])
  })

  it('reports which collections are still being read, and which could not be read completely', async () => {
    const hangs = Promise.withResolvers<void>()
    const loaded = new LoadedRecords(
      account(['forms', 'history', 'passwords'], async (name, _, onRecords) => {
        if (name === 'forms') throw new ClientError('The storage does not respond.')
        onRecords(records(name, ['a']))
        await hangs.promise
      }),
    )

    const reading = loaded.read(() => {})
    await Promise.resolve()
    const before = Object.fromEntries(loaded.incomplete())
    hangs.reject(new ClientError('The token has expired.', { field: 'token' }))
    const trouble = await reading.catch((error: ClientError) => error.field)
    const after = Object.fromEntries(loaded.incomplete())

    const [still, stopped] = ['It was still being read.', 'Reading was stopped.']
    expect(before).toMatchObject({ history: still, passwords: still })
    expect(trouble).toBe('token')
    expect(after).toEqual({ forms: 'The storage does not respond.', history: stopped, passwords: stopped })
    expect(loaded.isReading()).toBe(false)
    expect(loaded.records().map(({ stored }) => stored.id)).toEqual(['a', 'a'])
  })
})
